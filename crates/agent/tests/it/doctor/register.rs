//! The register of findings: where each is shown to be made, and where it is shown not to be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A finding, the test that builds its situation, and the test that builds its harmless twin; the same one where it builds both.
struct Row(&'static str, &'static str, &'static str);

const REGISTER: &[Row] = &[
    Row(
        "not-in-force",
        "todays_rules_of_the_other_backend_break_the_policy",
        "a_node_in_order_has_nothing_to_report_and_is_not_changed",
    ),
    Row(
        "exempt-but-translated",
        "an_old_kubelets_rule_masquerades_what_it_does_not_know",
        "rules_that_spare_what_is_exempt_or_have_a_network_of_their_own_are_no_conflict",
    ),
    Row(
        "masqueraded-beside",
        "a_plugin_before_us_takes_the_choice_of_ports_from_us",
        "a_plugin_that_masquerades_before_us_what_we_would_is_a_note_and_behind_us_it_is_nothing",
    ),
    Row(
        "other-generation",
        "rules_of_another_generation_break_the_policy",
        "a_strangers_chain_that_is_jumped_to_is_no_other_generation",
    ),
    Row(
        "stacks-split",
        "rules_in_both_stacks_are_told_and_rules_in_one_are_not",
        "rules_in_both_stacks_are_told_and_rules_in_one_are_not",
    ),
    Row(
        "pods-not-exempt",
        "pods_outside_of_the_list_are_told_and_pods_inside_or_other_links_are_not",
        "pods_outside_of_the_list_are_told_and_pods_inside_or_other_links_are_not",
    ),
    Row(
        "tunnel-translated",
        "a_tunnel_whose_packets_leave_from_another_port_is_a_warning",
        "tunnels_whose_peers_do_not_mind_and_other_sockets_are_no_finding",
    ),
    Row(
        "node-ports",
        "ports_that_overlap_node_ports_are_told_and_ports_around_them_are_not",
        "ports_that_overlap_node_ports_are_told_and_ports_around_them_are_not",
    ),
    Row(
        "reserved-ports",
        "ports_that_are_reserved_are_told_and_others_are_not",
        "ports_that_are_reserved_are_told_and_others_are_not",
    ),
    Row(
        "conntrack-nearly-full",
        "a_connection_table_is_told_when_it_is_nearly_full_and_not_before",
        "a_connection_table_is_told_when_it_is_nearly_full_and_not_before",
    ),
    Row(
        "snat-ports-nearly-used-up",
        "status_tells_of_a_destination_with_few_ports_left_and_of_none_with_enough",
        "status_tells_of_a_destination_with_few_ports_left_and_of_none_with_enough",
    ),
    Row(
        "random-fully-unavailable",
        "random_ports_that_iptables_is_too_old_for_are_told",
        "random_ports_that_iptables_is_too_old_for_are_told",
    ),
    Row("untracked", "untracked_packets_are_a_note", "raw_rules_that_keep_no_packet_untracked_are_no_finding"),
    Row(
        "lock-unusable",
        "a_lock_file_that_cannot_be_used_is_told",
        "a_lock_file_that_is_there_or_can_be_made_is_no_finding",
    ),
    Row(
        "lock-private",
        "a_lock_file_of_the_containers_own_is_told",
        "a_lock_file_that_is_mounted_from_the_node_is_no_finding",
    ),
];

/// The texts of all Rust files in and below a folder of this crate.
fn texts(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut ahead = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// The ids that the doctor and `status` write into findings.
fn made() -> BTreeSet<String> {
    let is_the_doctors = |path: &Path| {
        let path = path.to_str().unwrap();
        path.contains("/src/doctor") || path.contains("/src/tools/status")
    };
    let sources = texts("src").into_iter().filter(|(path, _)| is_the_doctors(path));
    let ids = |text: &str| {
        text.split("id: \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    sources.flat_map(|(_, text)| ids(&text)).collect()
}

#[test]
fn every_finding_has_a_test_of_its_situation_and_one_of_its_harmless_twin() {
    let tests: String = texts("tests/it").into_iter().map(|(_, text)| text).collect();
    let body = |name: &str| {
        let start = format!("#[test]\nfn {name}() {{\n");
        let (_, rest) = tests.split_once(&start).unwrap_or_else(|| panic!("there is no test {name}"));
        rest.split_once("\n}\n").unwrap().0
    };
    for Row(id, situation, twin) in REGISTER {
        assert!(body(situation).contains(id), "{situation} does not name {id}");
        body(twin);
    }
    let registered: BTreeSet<String> = REGISTER.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(made(), registered, "findings that the doctor makes, and the register of their tests");
}

#[test]
fn every_finding_is_explained_to_people() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md");
    let text = fs::read_to_string(page).unwrap();
    let explained =
        text.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect::<BTreeSet<_>>();
    let missing: Vec<String> = made().into_iter().filter(|id| !explained.contains(id)).collect();
    assert!(missing.is_empty(), "not in docs/findings.md: {missing:?}");
}
