//! The plan, held against tables built by hand: no kernel here, for what the kernel makes of it is tested with a kernel.

use masq::config::{Config, Flags, Source};
use masq::policy::Policy;

use super::*;

fn desired(flags: &Flags, text: &str) -> Desired {
    let source = Source { name: "config".to_owned(), bytes: text.into() };
    Desired::new(&Policy::new(&Config::parse(&[source], flags).unwrap().config), false)
}

fn defaults() -> Desired {
    desired(&Flags::default(), "")
}

/// The table as a kernel would show it that holds exactly the desired one: with handles.
fn in_kernel(desired: &Desired) -> Observed {
    let mut observed = Observed::holding(desired);
    for (handle, rule) in (1..).zip(&mut observed.rules) {
        rule.handle = Some(handle);
    }
    observed.chains[0].handle = Some(1);
    observed.sets[0].set.handle = Some(2);
    observed
}

fn said(plan: &Plan) -> String {
    plan.changes().iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
}

fn transactions(plan: &Plan) -> usize {
    plan.transactions().count()
}

#[test]
fn a_kernel_that_holds_the_policy_is_in_sync_and_gets_no_transaction() {
    for flags in [
        Flags::default(),
        Flags { enable_ipv6: true, to_ports: "1-9,20,30-39".parse().unwrap(), random_fully: false, ..Flags::default() },
    ] {
        let desired = desired(&flags, "nonMasqueradeCIDRs: []\n");
        let plan = Plan::new(&desired, &in_kernel(&desired));
        assert!(plan.is_in_sync());
        assert_eq!(transactions(&plan), 0);
    }
}

#[test]
fn a_missing_table_takes_two_transactions_and_the_sets_come_first() {
    let plan = Plan::new(&defaults(), &Observed::default());
    assert_eq!(said(&plan), "table missing");
    let texts: Vec<String> = plan.transactions().map(Batch::to_string).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("exempt-ipv4") && texts[0].contains("10.0.0.0") && !texts[0].contains("masquerade\n"));
    assert!(texts[1].contains("masquerade") && !texts[1].contains("10.0.0.0"));
}

#[test]
fn one_more_cidr_is_one_element_in_one_transaction() {
    let plan = Plan::new(
        &desired(&Flags::default(), "nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10]\n"),
        &in_kernel(&defaults()),
    );
    assert_eq!(said(&plan), "set exempt-ipv4: 1 elements missing, 0 unwanted");
    let texts: Vec<String> = plan.transactions().map(Batch::to_string).collect();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("100.64.0.0") && !texts[0].contains("172.16.0.0"), "{}", texts[0]);
}

#[test]
fn a_cidr_inside_another_changes_nothing_in_the_kernel() {
    let plan = Plan::new(
        &desired(&Flags::default(), "nonMasqueradeCIDRs: [192.168.0.0/16, 10.0.0.0/8, 10.1.0.0/16, 172.16.0.0/12]\n"),
        &in_kernel(&defaults()),
    );
    assert!(plan.is_in_sync());
}

#[test]
fn a_change_of_one_family_leaves_the_other_ones_set_alone() {
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    let before = desired(&flags, "nonMasqueradeCIDRs: [10.0.0.0/8, 'fd00::/8']\n");
    let after = desired(&flags, "nonMasqueradeCIDRs: [10.0.0.0/8, 'fc00::/7']\n");
    let plan = Plan::new(&after, &in_kernel(&before));
    assert!(said(&plan).starts_with("set exempt-ipv6"));
    assert!(plan.transactions().all(|batch| !batch.to_string().contains("ipv4")));
}

#[test]
fn ipv6_switched_on_fills_its_set_one_transaction_before_the_rules_read_it() {
    let plan = Plan::new(&desired(&Flags { enable_ipv6: true, ..Flags::default() }, ""), &in_kernel(&defaults()));
    let texts: Vec<String> = plan.transactions().map(Batch::to_string).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("exempt-ipv6") && !texts[0].contains("rule"), "{}", texts[0]);
    assert!(texts[1].contains("rule"), "{}", texts[1]);
}

#[test]
fn ipv6_switched_off_removes_its_set_one_transaction_after_the_rules() {
    let with = desired(&Flags { enable_ipv6: true, ..Flags::default() }, "");
    let plan = Plan::new(&defaults(), &in_kernel(&with));
    let texts: Vec<String> = plan.transactions().map(Batch::to_string).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("rule") && !texts[0].contains("delete set"), "{}", texts[0]);
    assert!(texts[1].contains("delete set") && texts[1].contains("exempt-ipv6"), "{}", texts[1]);
}

#[test]
fn port_ranges_move_the_chain_before_srcnat() {
    let flags = Flags { to_ports: "1024-29999,32768-65535".parse().unwrap(), ..Flags::default() };
    let plan = Plan::new(&desired(&flags, ""), &in_kernel(&defaults()));
    assert!(plan.changes().contains(&Change::ReplaceChain));
    let last = plan.transactions().last().unwrap().to_string();
    assert!(last.contains("priority 95") || last.contains("priority srcnat - 5"), "{last}");
}

#[test]
fn random_fully_switched_off_replaces_the_rules_and_keeps_the_counters() {
    let plan = Plan::new(&desired(&Flags { random_fully: false, ..Flags::default() }, ""), &in_kernel(&defaults()));
    assert_eq!(said(&plan), "other rules in chain postrouting");
    assert!(plan.transactions().all(|batch| !batch.to_string().contains("add counter")));
}

#[test]
fn a_catch_all_element_is_flushed_away() {
    let desired = defaults();
    let mut observed = in_kernel(&desired);
    observed.sets[0].elements.catch_all = true;
    let plan = Plan::new(&desired, &observed);
    assert_eq!(said(&plan), "set exempt-ipv4: 0 elements missing, 1 unwanted");
    assert!(plan.transactions().any(|batch| batch.to_string().contains("flush set")));
}

/// Here and not with a kernel, for not every kernel has flow tables.
#[test]
fn a_strangers_flowtable_is_removed() {
    let desired = defaults();
    let mut observed = in_kernel(&desired);
    observed.flowtables.push(nfnetlink::Flowtable { name: "theirs".to_owned() });
    let plan = Plan::new(&desired, &observed);
    assert_eq!(said(&plan), "flowtable theirs does not belong there");
    let texts: String = plan.transactions().map(Batch::to_string).collect();
    assert!(texts.contains("delete flowtable inet ip-masq-agent theirs"), "{texts}");
}

#[test]
fn a_rebuilt_table_goes_on_counting_where_it_was() {
    let desired = defaults();
    let mut observed = in_kernel(&desired);
    observed.counters[0].packets = 42;
    observed.sets[0].set.key_len = 2;
    let plan = Plan::new(&desired, &observed);
    assert!(said(&plan).starts_with("table to be rebuilt"));
    let texts: String = plan.transactions().map(Batch::to_string).collect();
    assert!(texts.contains("packets 42"), "{texts}");
}

#[test]
fn what_an_earlier_run_left_is_adopted_as_it_is() {
    let desired = desired(&Flags { enable_ipv6: true, to_ports: "7".parse().unwrap(), ..Flags::default() }, "");
    let adopted = in_kernel(&desired).adopt().unwrap();
    assert!(Plan::new(&adopted, &in_kernel(&desired)).is_in_sync());
    assert!(!Plan::new(&adopted, &Observed::default()).is_in_sync());
}

#[test]
fn a_table_that_treats_no_packet_is_nothing_to_adopt() {
    let holding = in_kernel(&defaults());
    let change = |change: fn(&mut Observed)| {
        let mut observed = holding.clone();
        change(&mut observed);
        observed.adopt()
    };
    assert_eq!(Observed::default().adopt(), None);
    assert_eq!(change(|observed| observed.rules.clear()), None);
    assert_eq!(change(|observed| observed.rules.truncate(2)), None, "nothing masquerades");
    assert_eq!(change(|observed| observed.chains[0].base = None), None);
    assert_eq!(change(|observed| observed.chains[0].base.as_mut().unwrap().hook = 0), None);
    assert_eq!(change(|observed| observed.chains[0].base.as_mut().unwrap().kind = "filter".to_owned()), None);
    assert_eq!(change(|observed| observed.table.as_mut().unwrap().flags = TableFlags::DORMANT), None);
}

#[test]
fn a_table_that_could_not_be_put_back_is_not_adopted() {
    let jump = nfnetlink::Expr::Verdict(nfnetlink::expr::Verdict::Jump("theirs".to_owned()));
    let unknown = nfnetlink::Expr::Unknown { name: "xfrm".to_owned(), attributes: vec![] };
    let lookup =
        nfnetlink::Expr::Lookup { sreg: nfnetlink::expr::Register::R1, set: "theirs".to_owned(), invert: false };
    for expression in [jump, unknown, lookup] {
        let mut observed = in_kernel(&defaults());
        observed.rules[0].expressions.push(expression);
        assert_eq!(observed.adopt(), None);
    }
}

#[test]
fn a_rebuild_is_one_transaction_so_that_a_refusal_leaves_what_is_there() {
    let desired = defaults();
    let plan = Plan::rebuild(&desired, &in_kernel(&desired), "test".to_owned());
    assert_eq!(transactions(&plan), 1);
}

#[test]
fn without_ipv6_only_ipv4_is_left() {
    let with = desired(&Flags { enable_ipv6: true, to_ports: "1-9".parse().unwrap(), ..Flags::default() }, "");
    let without = desired(&Flags { to_ports: "1-9".parse().unwrap(), ..Flags::default() }, "");
    assert_eq!(with.without_ipv6(), Some(without.clone()));
    assert_eq!(without.without_ipv6(), None);
}
