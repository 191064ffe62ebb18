//! The comments by which rules are recognised as this agent's, of today and of every earlier generation.

/// The comment of a rule that exempts a block.
pub const EXEMPT: &str = "ip-masq-agent: local traffic is not subject to MASQUERADE";

/// The comment of a rule that masquerades.
pub const MASQUERADE: &str = "ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)";

/// The comment of the jump to `chain`.
pub fn jump(chain: &str) -> String {
    format!("{}{chain}{JUMP_END}", JUMP_BEGINNINGS[0])
}

/// What comes before the chain's name in the comment of a jump; the first is today's.
const JUMP_BEGINNINGS: [&str; 3] = [
    "ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ",
    "ip-masq: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ",
    "non-masquerade-daemon: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ",
];

const JUMP_END: &str = " chain";

/// The comments that rules in a chain of an earlier generation bear: of the agent up to v2.0.0, of the daemon it grew out of, and of
/// the start-up script of cloud nodes.
const EARLIER: [&str; 6] = [
    "ip-masq-agent: cluster-local traffic should not be subject to MASQUERADE",
    "ip-masq-agent: outbound traffic should be subject to MASQUERADE (this match must come after cluster-local CIDR matches)",
    "non-masquerade-daemon: cluster-local traffic should not be subject to MASQUERADE",
    "non-masquerade-daemon: outbound traffic should be subject to MASQUERADE (this match must come after cluster-local CIDR matches)",
    "ip-masq: local traffic is not subject to MASQUERADE",
    "ip-masq: outbound traffic is subject to MASQUERADE (must be last in chain)",
];

/// The chain that a jump's comment names, if it is the comment of a jump of any generation.
///
/// Some generations put literal quotes around it.
pub fn names_chain(comment: &str) -> Option<&str> {
    let plain = unquote(comment);
    let rest = JUMP_BEGINNINGS.iter().find_map(|beginning| plain.strip_prefix(beginning))?;
    rest.strip_suffix(JUMP_END)
}

/// Whether a rule inside a chain bears the comment of any generation.
pub fn is_of_a_generation(comment: &str) -> bool {
    let plain = unquote(comment);
    plain == EXEMPT || plain == MASQUERADE || EARLIER.contains(&plain) || is_reserved_range(plain)
}

/// `ip-masq: RFC 1918 reserved range is not subject to MASQUERADE`, with any number.
fn is_reserved_range(comment: &str) -> bool {
    let number = comment
        .strip_prefix("ip-masq: RFC ")
        .and_then(|rest| rest.strip_suffix(" reserved range is not subject to MASQUERADE"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unquote(comment: &str) -> &str {
    comment.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jumps_comment_names_its_chain_with_or_without_quotes() {
        assert_eq!(names_chain(&jump("MY-MASQ")), Some("MY-MASQ"));
        assert_eq!(names_chain(&format!("\"{}\"", jump("MY-MASQ"))), Some("MY-MASQ"));
        let script =
            "ip-masq: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom IP-MASQ chain";
        assert_eq!(names_chain(script), Some("IP-MASQ"));
        assert_eq!(names_chain("kubernetes postrouting rules"), None);
    }

    #[test]
    fn rules_of_every_generation_are_recognised_and_strangers_are_not() {
        for comment in EARLIER.iter().chain(&[EXEMPT, MASQUERADE]) {
            assert!(is_of_a_generation(comment), "{comment}");
        }
        assert!(is_of_a_generation("ip-masq: RFC 1918 reserved range is not subject to MASQUERADE"));
        for comment in
            ["", "ip-masq-agent", "ip-masq: RFC  reserved range is not subject to MASQUERADE", "kubenet: SNAT"]
        {
            assert!(!is_of_a_generation(comment), "{comment}");
        }
    }
}
