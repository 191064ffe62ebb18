//! Which names iptables takes for a chain of ours.

/// The longest name in bytes that iptables takes.
const MAX_LEN: usize = 28;

/// Chains that the kernel brings along in one table or another.
const BUILT_IN_CHAINS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// Targets of iptables and ip6tables: `-j NAME` would mean them instead of a chain of that name.
const TARGETS: &str = "\
    ACCEPT ACCOUNT AUDIT CHAOS CHECKSUM CLASSIFY CLUSTERIP CONNMARK CONNSECMARK CT DELUDE DHCPMAC DNAT DNPT DROP DSCP \
    ECHO ECN ERROR HL HMARK IDLETIMER LED LOG MARK MASQUERADE MIRROR NETMAP NFLOG NFQUEUE NOTRACK QUEUE RATEEST RAWNAT \
    REDIRECT REJECT RETURN SAME SECMARK SET SNAT SNPT SYNPROXY TARPIT TCPMSS TCPOPTSTRIP TEE TOS TPROXY TRACE TTL ULOG \
    standard";

/// Checks a `--masq-chain` before any backend sees it.
///
/// # Errors
/// The sentence that tells what is wrong with the name and what to do.
pub(super) fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the name is empty; leave the flag out for IP-MASQ-AGENT".to_owned());
    }
    if name.len() > MAX_LEN {
        return Err(format!("it has {} bytes and iptables takes at most {MAX_LEN}; choose a shorter name", name.len()));
    }
    if let Some(first @ ('-' | '!')) = name.chars().next() {
        return Err(format!("iptables takes no chain name that starts with {first}; choose another name"));
    }
    // A quote would end the comment in the text that iptables-restore reads, and the jump would lead to an empty chain.
    if let Some(bad) = name.chars().find(|c| c.is_ascii_whitespace() || c.is_control() || matches!(c, '"' | '\'')) {
        return Err(format!("iptables cannot have {bad:?} in a chain's name; write letters, digits, - and _"));
    }
    if BUILT_IN_CHAINS.contains(&name) {
        return Err(
            "it is one of the kernel's own chains, whose rules are not ours to replace; choose another name".to_owned()
        );
    }
    if TARGETS.split(' ').any(|target| target == name) {
        return Err("it is the name of an iptables target and cannot be a chain's; choose another name".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_use_and_odd_but_possible_names_pass() {
        for name in ["IP-MASQ-AGENT", "IP-MASQ", "A", "Ä", "a=b", "accept", "a-!", "KUBE-POSTROUTING"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        assert!(check(&"C".repeat(28)).is_ok());
    }

    #[test]
    fn names_that_no_kernel_would_take_are_refused() {
        for name in
            ["", "A B", "A\nB", "A\tB", "A\"B", "A'B", "-A", "!A", "A\x07", "POSTROUTING", "MASQUERADE", "ACCEPT"]
        {
            assert!(check(name).is_err(), "{name:?}");
        }
        assert!(check(&"C".repeat(29)).unwrap_err().contains("29 bytes"));
        assert!(check(&"Ä".repeat(15)).unwrap_err().contains("30 bytes"));
    }
}
