//! What people see of the config language: places, warnings, errors, and the union of several files.
#![expect(clippy::unwrap_used, reason = "a config that is not read as expected fails the test")]

use std::time::Duration;

use masq::config::{Config, Flags, Origin, Parsed, Rejected, Source};
use masq::diagnostic::{Diagnostic, DiagnosticKind};

fn source(name: &str, text: &str) -> Source {
    Source { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
}

fn parse(text: &str) -> Result<Parsed, Rejected> {
    Config::parse(&[source("f", text)], &Flags::default())
}

fn texts(config: &Config) -> Vec<&str> {
    config.non_masquerade_cidrs.iter().map(|listed| listed.text.as_str()).collect()
}

fn kinds(diagnostics: &[Diagnostic]) -> Vec<DiagnosticKind> {
    diagnostics.iter().map(|diagnostic| diagnostic.kind).collect()
}

fn place(diagnostic: &Diagnostic) -> (usize, usize) {
    let place = diagnostic.place.as_ref().unwrap();
    (place.line, place.column)
}

#[test]
fn without_a_file_the_defaults_hold() {
    let parsed = Config::parse(&[], &Flags::default()).unwrap();
    assert_eq!(parsed.config, Config::default_for(&Flags::default()));
    assert_eq!(texts(&parsed.config), ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]);
    assert!(parsed.warnings.is_empty());
}

#[test]
fn every_listed_cidr_knows_its_line_and_column() {
    let parsed = parse("# é\nnonMasqueradeCIDRs:\r\n  - 10.0.0.0/8\r\n  - \"11.0.0.0/8\"\r\n").unwrap();
    let places: Vec<String> = parsed
        .config
        .non_masquerade_cidrs
        .iter()
        .map(|listed| match &listed.origin {
            Origin::File(place) => place.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(places, ["f:3:5", "f:4:5"]);
}

#[test]
fn places_in_json_are_counted_in_characters() {
    let rejected = parse("{\"é\": \"ü\", \"nonMasqueradeCIDRs\": [\"10.0.0.0/8\",\n \"ö\"]}").unwrap_err();
    assert_eq!(place(&rejected.errors[0]), (2, 2));
    assert_eq!(place(&rejected.warnings[0]), (1, 2));
}

#[test]
fn every_bad_element_is_told_in_one_look() {
    let rejected = parse("nonMasqueradeCIDRs:\n- 10.0.0.1/8\n- 11.0.0.0/8\n-\n- 7\n- fd00::/8\n").unwrap_err();
    let told: Vec<(DiagnosticKind, &str, (usize, usize))> =
        rejected.errors.iter().map(|error| (error.kind, error.path.as_str(), place(error))).collect();
    assert_eq!(
        told,
        [
            (DiagnosticKind::CidrUnaligned, "nonMasqueradeCIDRs[0]", (2, 3)),
            (DiagnosticKind::NullElement, "nonMasqueradeCIDRs[2]", (4, 2)),
            (DiagnosticKind::WrongType, "nonMasqueradeCIDRs[3]", (5, 3)),
            (DiagnosticKind::Ipv6Disabled, "nonMasqueradeCIDRs", (6, 3)),
        ]
    );
}

#[test]
fn findings_are_told_in_the_order_of_the_files() {
    let files = [
        source("a", "resyncInterval: x\nnonMasqueradeCIDRs: [10.0.0.0/8, y, z, 1]\nmasqLinkLocal: 5\nbar: 1\nbar: 2\n"),
        source("b", "cidrLimit: x\ncidrLimit: 5\nfoo: 1\n"),
    ];
    let rejected = Config::parse(&files, &Flags { resync_interval: Some(0), ..Flags::default() }).unwrap_err();
    let told: Vec<String> =
        rejected.errors.iter().map(|e| format!("{} {}", e.place.as_ref().unwrap(), e.path)).collect();
    assert_eq!(
        told,
        [
            "a:1:17 resyncInterval",
            "a:2:34 nonMasqueradeCIDRs[1]",
            "a:2:37 nonMasqueradeCIDRs[2]",
            "a:2:40 nonMasqueradeCIDRs[3]",
            "a:3:16 masqLinkLocal",
        ]
    );
    let told: Vec<Option<String>> =
        rejected.warnings.iter().map(|warning| warning.place.as_ref().map(ToString::to_string)).collect();
    let place = |text: &str| Some(text.to_owned());
    assert_eq!(told, [place("a:5:1"), place("b:1:1"), place("b:3:1"), None]);
}

#[test]
fn a_huge_value_or_key_is_told_by_its_beginning() {
    let long = "x".repeat(100_000);
    let rejected = parse(&format!("? {long}\n: 1\nnonMasqueradeCIDRs: [{long}]\n")).unwrap_err();
    for told in [&rejected.errors[0].value, &Some(rejected.warnings[0].path.clone())] {
        assert_eq!(told, &Some(format!("{}...", "x".repeat(200))));
    }
}

#[test]
fn an_error_is_one_line_with_place_value_reason_and_remedy() {
    let rejected = parse("nonMasqueradeCIDRs: [10.0.0.1/8]").unwrap_err();
    assert_eq!(
        rejected.errors[0].to_string(),
        "f:1:22: error: nonMasqueradeCIDRs[0] \"10.0.0.1/8\": 10.0.0.1 is not the first address of its block, 10.0.0.0; \
         write 10.0.0.0/8"
    );
}

#[test]
fn an_error_can_show_its_line_with_a_mark_below() {
    let text = "nonMasqueradeCIDRs:\n\t \n- 10.0.0.0/8 # 日本\n- 日本\n";
    let text = &text.replace("\t \n", "");
    let rejected = parse(text).unwrap_err();
    assert_eq!(
        rejected.errors[0].render_with_source(text.as_bytes()),
        "error: nonMasqueradeCIDRs[1] \"日本\": this is not a CIDR block\n --> f:3:3\n  |\n3 | - 日本\n  |   ^^^^\n  = write \
         ADDRESS/PREFIX, like 10.0.0.0/8 or fd00::/8\n"
    );
}

#[test]
fn a_huge_line_is_shown_around_the_place_only() {
    let text = format!("nonMasqueradeCIDRs: [{}x, {}]", "10.0.0.0/8, ".repeat(1000), "11.0.0.0/8, ".repeat(1000));
    let shown = parse(&text).unwrap_err().errors.last().unwrap().render_with_source(text.as_bytes());
    assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
    let (line, mark) = (shown.lines().nth(3).unwrap(), shown.lines().nth(4).unwrap());
    assert_eq!(&line[mark.find('^').unwrap()..][..1], "x", "{shown}");
}

#[test]
fn a_file_cannot_steer_the_terminal_or_add_a_log_line() {
    let text = "{\"nonMasqueradeCIDRs\": [\"\\u001b[31m\\nfake\\u202e\"], \"k\u{9b}1\\r\": 1}";
    let rejected = Config::parse(&[source("f\n\u{1b}", text)], &Flags::default()).unwrap_err();
    for diagnostic in rejected.errors.iter().chain(&rejected.warnings) {
        let line = diagnostic.to_string();
        let block = diagnostic.render_with_source(text.as_bytes());
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
        assert!(!block.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{block:?}");
        assert!(line.len() < 500);
    }
}

#[test]
fn a_place_outside_of_the_source_is_shown_without_a_line() {
    let rejected = parse("\n\n\ncidrLimit: x").unwrap_err();
    assert!(rejected.errors[0].render_with_source(b"").contains("f:4:12"));
}

#[test]
fn an_unknown_key_is_a_warning_with_a_guess_and_an_error_when_strict() {
    let parsed = parse("nonMasqueradeCIDR: []\n").unwrap();
    assert_eq!(
        parsed.warnings[0].to_string(),
        "f:1:1: warning: nonMasqueradeCIDR: this key is unknown and has no effect; did you mean nonMasqueradeCIDRs?"
    );
    let rejected = parsed.strict().unwrap_err();
    assert!(rejected.errors[0].to_string().starts_with("f:1:1: error: nonMasqueradeCIDR"));
    assert!(parse("cidrLimit: 5\n").unwrap().strict().is_ok());
}

#[test]
fn no_number_of_other_warnings_hides_an_unknown_key_from_strict() {
    let files = [source("a", &"cidrLimit: 5\n".repeat(50)), source("b", "cidrLimits: 5\n")];
    let rejected = Config::parse(&files, &Flags::default()).unwrap().strict().unwrap_err();
    assert_eq!(kinds(&rejected.errors), [DiagnosticKind::UnknownKey]);
}

#[test]
fn a_key_set_twice_is_warned_about_where_it_loses() {
    let parsed = parse("cidrLimit: 5\nmasqLinkLocal: true\ncidrLimit: 6\n").unwrap();
    assert_eq!(parsed.config.cidr_limit, 6);
    assert_eq!(kinds(&parsed.warnings), [DiagnosticKind::DuplicateKey]);
    assert_eq!(place(&parsed.warnings[0]), (1, 1));
    // Lower case sorts behind upper case, so the first line wins here.
    let parsed = parse("cidrlimit: 5\nCIDRLIMIT: 6\n").unwrap();
    assert_eq!(parsed.config.cidr_limit, 5);
    assert_eq!(place(&parsed.warnings[0]), (2, 1));
}

#[test]
fn ignored_documents_are_warned_about_only_if_they_say_something() {
    for (text, place_of_warning) in [
        ("cidrLimit: 5\n---\n# c\n---\n...\n", None),
        ("cidrLimit: 5\n---\n\ncidrLimit: 6\n", Some((4, 1))),
        ("cidrLimit: 5\n... {{{\n", Some((2, 4))),
        ("---\n---\ncidrLimit: 6\n", Some((3, 1))),
    ] {
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.warnings.first().map(place), place_of_warning, "{text:?}");
    }
}

#[test]
fn a_list_without_a_value_means_no_block_and_a_warning() {
    let parsed = parse("nonMasqueradeCIDRs:\ncidrLimit: 0\n").unwrap();
    assert!(parsed.config.non_masquerade_cidrs.is_empty());
    assert_eq!(kinds(&parsed.warnings), [DiagnosticKind::NullList]);
    assert!(parse("nonMasqueradeCIDRs: []\n").unwrap().warnings.is_empty());
}

#[test]
fn an_interval_below_a_second_is_a_second_from_file_and_flag_alike() {
    for text in ["resyncInterval: 999ms", "resyncInterval: -5s", "resyncInterval: '0'"] {
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.config.resync_interval, Duration::from_secs(1), "{text}");
        assert_eq!(kinds(&parsed.warnings), [DiagnosticKind::ShortInterval], "{text}");
    }
    let flags = Flags { resync_interval: Some(-3), ..Flags::default() };
    let parsed = Config::parse(&[], &flags).unwrap();
    assert_eq!(parsed.config.resync_interval, Duration::from_secs(1));
    assert_eq!(kinds(&parsed.warnings), [DiagnosticKind::ShortInterval]);
    let parsed = Config::parse(&[source("f", "resyncInterval: 5s")], &flags).unwrap();
    assert_eq!(parsed.config.resync_interval, Duration::from_secs(5));
    assert!(parsed.warnings.is_empty());
}

#[test]
fn ipv6_without_an_ipv6_block_and_a_block_of_everything_are_warned_about() {
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    assert_eq!(kinds(&Config::parse(&[], &flags).unwrap().warnings), [DiagnosticKind::NoIpv6Cidrs]);
    let parsed = Config::parse(&[source("f", "nonMasqueradeCIDRs: ['::/0', 0.0.0.0/0]")], &flags).unwrap();
    assert_eq!(kinds(&parsed.warnings), [DiagnosticKind::ExemptsAll, DiagnosticKind::ExemptsAll]);
}

#[test]
fn brackets_and_quotes_may_span_lines_without_indentation() {
    let parsed =
        parse("nonMasqueradeCIDRs: [\n10.0.0.0/8, # pods\n'11.0.0.0/8' # nodes\n]# end\nmasqLinkLocal:\ttrue\n")
            .unwrap();
    assert_eq!(texts(&parsed.config), ["10.0.0.0/8", "11.0.0.0/8"]);
    assert!(parsed.config.masq_link_local);
    assert!(parse("nonMasqueradeCIDRs: [\n10.0.0.0/8 # pods\n11.0.0.0/8\n]\n").is_err());
}

#[test]
fn an_escaped_backslash_does_not_keep_a_quote_open() {
    let text = "note: \"C:\\\\\" # share\nnonMasqueradeCIDRs:\n- 100.64.0.0/10\nother: \"x\"\nmore: {\na: 1\n}\n";
    assert_eq!(texts(&parse(text).unwrap().config), ["100.64.0.0/10"]);
    let text = "x: \"\\\\\"\nnonMasqueradeCIDRs: [\n100.64.0.0/10]\n";
    assert_eq!(texts(&parse(text).unwrap().config), ["100.64.0.0/10"]);
}

#[test]
fn lines_within_quotes_are_folded_as_yaml_folds_them_whatever_their_indentation() {
    let parsed = parse("nonMasqueradeCIDRs: [\n\"10.0.0.0\\\n/8\"]\nresyncInterval: \"1m\\\n30s\"\n").unwrap();
    assert_eq!(texts(&parsed.config), ["10.0.0.0/8"]);
    assert_eq!(parsed.config.resync_interval, Duration::from_secs(90));
}

#[test]
fn a_block_of_text_may_stand_beside_brackets_that_span_lines() {
    let parsed = parse("note: |\n  [ \"\nnonMasqueradeCIDRs: [\n10.0.0.0/8]\n").unwrap();
    assert_eq!(texts(&parsed.config), ["10.0.0.0/8"]);
}

/// Quotes and brackets mean nothing in the middle of a plain text, and the line behind them is one of its own.
#[test]
fn text_that_only_looks_like_quotes_or_brackets_is_not_indented() {
    assert!(parse("a: [\n1]\nb: c - \"d\ne\"\n").is_err());
    let parsed = parse("a: [\n1]\nb: c {\ne: f}\n").unwrap();
    assert_eq!(parsed.warnings.iter().map(place).collect::<Vec<_>>(), [(1, 1), (3, 1), (4, 1)]);
}

/// Measured on go-yaml 2.4.0.
#[test]
fn where_the_event_parser_differs_go_yaml_is_followed() {
    for taken in [
        "cidrLimit: 7\n\u{feff}key: 3",
        "k\u{feff}ey: 3",
        "key: 'x\ny'",
        "key: [a]# c",
        "key: !!bool 'n'# c",
        "key: [# c\n1]",
        "key: [\n\t1,\n\t2\n]",
        "--- {cidrLimit: 7}}",
        "cidrLimit: 7\n... {{{",
        "cidrLimit: .0_7e2",
        "key: !!float .0_55",
        "cidrLimit: 7\n%YAML 1.1\n---\n{{{",
        "key: &a-_9 x",
    ] {
        assert!(parse(taken).is_ok(), "{taken:?}: {:?}", parse(taken));
    }
    for refused in [
        "'a\nb': 1",
        "--- {a\nb: 1}",
        "--- {a\n: 1}",
        "key: &x[1]",
        "key: &a.b 1",
        "key: &a: 1",
        "key: [|a]",
        "key: x # c\n  y",
        "key: [x # c\n y]",
        "key: >\n\n  [\nx\n",
        "cidrLimit: 7\n%masqLinkLocal: true",
        "a: b\n\tc",
        "\t# c",
        "- a\n-\t- b",
        "...\na: 1",
        "%YAML 1.1\n%YAML 1.1\n---\na: 1",
    ] {
        assert!(parse(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn a_line_that_is_neither_key_nor_element_is_pointed_at_itself() {
    let rejected = parse("nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  -11.0.0.0/8\n\n").unwrap_err();
    assert_eq!(place(&rejected.errors[0]), (3, 3));
    assert!(rejected.errors[0].remedy.contains("blank behind the colon or the dash"));
}

#[test]
fn a_long_key_needs_its_question_mark() {
    let key = "k".repeat(1_100);
    assert!(parse(&format!("{key}: 1")).is_err());
    assert!(parse(&format!("--- {{{key}: 1}}")).is_err());
    assert!(parse(&format!("? {key}\n: 1")).is_ok());
}

#[test]
fn several_files_are_united_in_order_and_booleans_ored() {
    let files = [
        source("a", "nonMasqueradeCIDRs: [10.0.0.0/8, 11.0.0.0/8]\nmasqLinkLocal: false\ncidrLimit: 3\n"),
        source("b", "nonMasqueradeCIDRs: [12.0.0.0/8, 10.0.0.0/8]\nmasqLinkLocal: true\ncidrLimit: 3\n"),
        source("c", "# nothing\n"),
    ];
    let parsed = Config::parse(&files, &Flags::default()).unwrap();
    assert_eq!(texts(&parsed.config), ["10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"]);
    assert!(parsed.config.masq_link_local);
    assert_eq!(parsed.config.cidr_limit, 3);
}

#[test]
fn the_limit_counts_the_union() {
    let files = [
        source("a", "nonMasqueradeCIDRs: [10.0.0.0/8]\ncidrLimit: 1"),
        source("b", "nonMasqueradeCIDRs: [11.0.0.0/8]"),
    ];
    let rejected = Config::parse(&files, &Flags::default()).unwrap_err();
    assert_eq!(kinds(&rejected.errors), [DiagnosticKind::TooManyCidrs]);
}

#[test]
fn a_scalar_set_differently_in_two_files_names_both() {
    let files = [source("a", "resyncInterval: 5s"), source("b", "\nresyncInterval: 1m")];
    let rejected = Config::parse(&files, &Flags::default()).unwrap_err();
    assert_eq!(
        rejected.errors[0].to_string(),
        "b:2:17: error: resyncInterval \"1m0s\": a:1:17 sets it to 5s; set it in one file only, or to the same value"
    );
    let same = [source("a", "resyncInterval: 60s"), source("b", "resyncInterval: 1m")];
    assert!(Config::parse(&same, &Flags::default()).is_ok());
}

#[test]
fn several_files_without_a_list_mean_the_default_list() {
    let files = [source("a", "masqLinkLocal: true"), source("b", "")];
    assert_eq!(Config::parse(&files, &Flags::default()).unwrap().config.non_masquerade_cidrs.len(), 3);
}

#[test]
fn only_the_first_findings_are_kept_and_the_rest_counted() {
    let rejected = parse(&format!("nonMasqueradeCIDRs:\n{}cidrLimit: 100", "- x\n".repeat(50))).unwrap_err();
    assert_eq!(rejected.errors.len(), 21);
    assert_eq!(rejected.errors[20].to_string(), "error: 30 more are not shown; mend the first ones and look again");
}
