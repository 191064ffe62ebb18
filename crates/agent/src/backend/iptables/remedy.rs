//! What to do about the complaints of the iptables programs that have one known cause.

use masq::cidr::Family;

/// The remedy for a complaint, if it is a known one.
pub fn remedy(complaint: &str, family: Family) -> Option<String> {
    let table = match family {
        Family::Ipv4 => "ip nat",
        Family::Ipv6 => "ip6 nat",
    };
    let is_base_chain = complaint.contains("CHAIN_USER_ADD failed (File exists)");
    if is_base_chain {
        let chain = chain_of(complaint, "CHAIN_USER_ADD failed (File exists): chain ").unwrap_or("of the agent");
        return Some(format!(
            "somebody made the chain {chain} of table {table} a base chain, which iptables cannot use; remove it with \
             `nft delete chain {table} {chain}`"
        ));
    }
    if complaint.contains("CHAIN_ADD failed (Operation not supported)") {
        return Some(format!(
            "somebody made the chain POSTROUTING of table {table} anew with another type, hook or priority than iptables has \
             for it (nat, postrouting, 100); remove it with `nft 'flush chain {table} POSTROUTING; delete chain {table} POSTROUTING'`, \
             which removes its rules too, and iptables makes it right again"
        ));
    }
    let known = [
        (
            "can't open lock file",
            "the lock file has to be a regular file that the agent may open; in a pod, mount the node's /run/xtables.lock with \
             type FileOrCreate",
        ),
        (
            "Permission denied (you must be root)",
            "the agent needs CAP_NET_ADMIN, and for iptables-legacy CAP_NET_RAW too",
        ),
        (
            "Table does not exist",
            "the kernel lacks the nat table of iptables-legacy; load its module, or use iptables-nft",
        ),
    ];
    known.iter().find(|(text, _)| complaint.contains(text)).map(|(_, remedy)| (*remedy).to_owned())
}

fn chain_of<'c>(complaint: &'c str, before: &str) -> Option<&'c str> {
    complaint.split_once(before)?.1.lines().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_complaints_have_a_remedy_and_unknown_ones_none() {
        let base = "line 2: CHAIN_USER_ADD failed (File exists): chain C\nline 4: RULE_APPEND failed (Operation not supported)";
        assert!(remedy(base, Family::Ipv6).unwrap().contains("`nft delete chain ip6 nat C`"));
        let priority = "line 4: CHAIN_ADD failed (Operation not supported): chain POSTROUTING";
        assert!(remedy(priority, Family::Ipv4).unwrap().contains("delete chain ip nat POSTROUTING"));
        let directory = "Fatal: can't open lock file /run/xtables.lock: Is a directory";
        assert!(remedy(directory, Family::Ipv4).unwrap().contains("FileOrCreate"));
        assert_eq!(remedy("line 2 failed", Family::Ipv4), None);
    }
}
