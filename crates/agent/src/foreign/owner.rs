//! Who probably made a rule, by the names of its table and chain, its comment and the links it names.

use std::fmt;

use super::condition::{LinkName, Question};
use super::{Action, Chain, Rule, Table};
use crate::backend::iptables::comment;

/// A program that is known to translate addresses on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// kube-proxy.
    KubeProxy,
    /// kubelet, with its own masquerading of kubenet.
    Kubelet,
    /// The CNI plugins bridge, ptp and their like, with `ipMasq`.
    CniBridge,
    /// The CNI plugin portmap.
    CniPortmap,
    /// flannel.
    Flannel,
    /// Calico.
    Calico,
    /// Cilium.
    Cilium,
    /// Antrea.
    Antrea,
    /// The CNI plugin of AWS VPCs.
    AwsVpcCni,
    /// kindnet.
    Kindnet,
    /// Docker.
    Docker,
    /// podman, by netavark.
    Netavark,
    /// firewalld.
    Firewalld,
    /// systemd-networkd.
    SystemdNetworkd,
    /// libvirt.
    Libvirt,
    /// Incus or LXD.
    Incus,
    /// Another ip-masq-agent: an older one, or one with another chain name.
    IpMasqAgent,
    /// Nobody known.
    Unknown,
}

impl Owner {
    /// Who probably made a rule. Comments tell more than names of chains, and those more than names of tables.
    pub fn of(table: &Table, chain: &Chain, rule: &Rule) -> Owner {
        let by_comment = || rule.comment.as_deref().and_then(by_comment);
        let by_target = || match &rule.action {
            Action::Jump(name) | Action::Goto(name) => by_chain(name),
            Action::Continue
            | Action::SetMark
            | Action::Masquerade
            | Action::Snat(_)
            | Action::Translate
            | Action::Notrack
            | Action::Accept
            | Action::Drop
            | Action::Return
            | Action::Opaque => None,
        };
        by_comment()
            .or_else(|| by_chain(&chain.name))
            .or_else(by_target)
            .or_else(|| by_table(&table.name))
            .or_else(|| rule.tests.iter().find_map(|test| by_question(&test.question)))
            .unwrap_or(Owner::Unknown)
    }
}

fn by_comment(text: &str) -> Option<Owner> {
    if comment::names_chain(text).is_some() || comment::is_of_a_generation(text) {
        return Some(Owner::IpMasqAgent);
    }
    let beginnings = [
        ("kubenet:", Owner::Kubelet),
        ("kubernetes ", Owner::KubeProxy),
        ("flanneld ", Owner::Flannel),
        ("cali:", Owner::Calico),
        ("cilium", Owner::Cilium),
        ("Antrea:", Owner::Antrea),
        ("AWS", Owner::AwsVpcCni),
        ("generated for Incus", Owner::Incus),
        ("generated for LXD", Owner::Incus),
        ("dnat name: ", Owner::CniPortmap),
        ("CNI portfwd", Owner::CniPortmap),
        // Of the bridge plugin: the name of the network and the container's id.
        ("name: \"", Owner::CniBridge),
    ];
    beginnings.iter().find(|(beginning, _)| text.starts_with(beginning)).map(|(_, owner)| *owner)
}

fn by_chain(name: &str) -> Option<Owner> {
    let beginnings = [
        ("KUBE-MARK-DROP", Owner::Kubelet),
        ("KUBE-KUBELET", Owner::Kubelet),
        ("KUBE-IPTABLES-HINT", Owner::Kubelet),
        ("KUBE-", Owner::KubeProxy),
        ("CNI-HOSTPORT", Owner::CniPortmap),
        ("CNI-DN-", Owner::CniPortmap),
        ("CNI-SN-", Owner::CniPortmap),
        ("CNI-", Owner::CniBridge),
        ("FLANNEL-", Owner::Flannel),
        ("cali-", Owner::Calico),
        ("CILIUM", Owner::Cilium),
        ("OLD_CILIUM", Owner::Cilium),
        ("ANTREA-", Owner::Antrea),
        ("AWS-", Owner::AwsVpcCni),
        ("KIND-MASQ", Owner::Kindnet),
        ("DOCKER", Owner::Docker),
        ("NETAVARK", Owner::Netavark),
        ("POSTROUTING_ZONES", Owner::Firewalld),
        ("POSTROUTING_direct", Owner::Firewalld),
        ("POST_", Owner::Firewalld),
        ("LIBVIRT_", Owner::Libvirt),
        ("IP-MASQ", Owner::IpMasqAgent),
        ("NON-MASQUERADE-DAEMON", Owner::IpMasqAgent),
    ];
    beginnings.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, owner)| *owner)
}

fn by_table(name: &str) -> Option<Owner> {
    let beginnings = [
        ("kube-proxy", Owner::KubeProxy),
        ("cni_hostport", Owner::CniPortmap),
        ("cni_plugins_masquerade", Owner::CniBridge),
        ("flannel-", Owner::Flannel),
        ("calico", Owner::Calico),
        ("antrea", Owner::Antrea),
        ("kindnet", Owner::Kindnet),
        ("kube-network-policies", Owner::Kindnet),
        ("docker-bridges", Owner::Docker),
        ("netavark", Owner::Netavark),
        ("firewalld", Owner::Firewalld),
        ("io.systemd.", Owner::SystemdNetworkd),
        ("libvirt_network", Owner::Libvirt),
        ("incus", Owner::Incus),
        ("lxd", Owner::Incus),
        ("ip-masq-agent", Owner::IpMasqAgent),
    ];
    beginnings.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, owner)| *owner)
}

/// Rules right in POSTROUTING often tell no more than the bridge that they are for.
fn by_question(question: &Question) -> Option<Owner> {
    let (Question::Input(link) | Question::Output(link)) = question else { return None };
    let (LinkName::Name(name) | LinkName::Prefix(name)) = link else { return None };
    let is_docker_network = |id: &str| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.as_str() {
        "docker0" | "docker_gwbridge" => Some(Owner::Docker),
        "cni0" | "cbr0" => Some(Owner::CniBridge),
        "virbr0" => Some(Owner::Libvirt),
        "incusbr0" | "lxdbr0" => Some(Owner::Incus),
        other if other.strip_prefix("br-").is_some_and(is_docker_network) => Some(Owner::Docker),
        _ => None,
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Owner::KubeProxy => "kube-proxy",
            Owner::Kubelet => "kubelet",
            Owner::CniBridge => "CNI bridge",
            Owner::CniPortmap => "CNI portmap",
            Owner::Flannel => "flannel",
            Owner::Calico => "Calico",
            Owner::Cilium => "Cilium",
            Owner::Antrea => "Antrea",
            Owner::AwsVpcCni => "AWS VPC CNI",
            Owner::Kindnet => "kindnet",
            Owner::Docker => "Docker",
            Owner::Netavark => "podman",
            Owner::Firewalld => "firewalld",
            Owner::SystemdNetworkd => "systemd-networkd",
            Owner::Libvirt => "libvirt",
            Owner::Incus => "Incus or LXD",
            Owner::IpMasqAgent => "another ip-masq-agent",
            Owner::Unknown => "an unknown program",
        })
    }
}

#[cfg(test)]
mod tests {
    use masq::cidr::Family;

    use super::*;
    use crate::backend::iptables::save::Observed;
    use crate::foreign::{ProtocolFamily, Stack, read};

    fn owner(line: &str) -> Owner {
        let observed = Observed::parse(&format!("*nat\n-A {line}\nCOMMIT\n"));
        let table = read::legacy_table(Family::Ipv4, "nat", &observed);
        let chain = table.chains.iter().find(|chain| !chain.rules.is_empty()).unwrap();
        Owner::of(&table, chain, &chain.rules[0])
    }

    #[test]
    fn rules_are_told_by_comment_chain_and_link() {
        for (line, expected) in [
            ("KUBE-POSTROUTING -j MASQUERADE", Owner::KubeProxy),
            ("POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING", Owner::KubeProxy),
            (
                "POSTROUTING ! -d 10.0.0.0/8 -m comment --comment \"kubenet: SNAT for outbound traffic from cluster\" -j MASQUERADE",
                Owner::Kubelet,
            ),
            ("CNI-2e91a8f7c5e3b5e4a5c1d2f3 ! -d 224.0.0.0/4 -j MASQUERADE", Owner::CniBridge),
            ("CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE", Owner::CniPortmap),
            ("FLANNEL-POSTRTG -m comment --comment \"flanneld masq\" -j RETURN", Owner::Flannel),
            ("cali-nat-outgoing -m comment --comment \"cali:flqWnvo8yq4ULQLa\" -j MASQUERADE", Owner::Calico),
            ("CILIUM_POST_nat -j MASQUERADE", Owner::Cilium),
            ("POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE", Owner::Docker),
            ("POSTROUTING -s 172.18.0.0/16 ! -o br-0123456789ab -j MASQUERADE", Owner::Docker),
            ("NETAVARK-HOSTPORT-MASQ -j MASQUERADE", Owner::Netavark),
            ("LIBVIRT_PRT -s 192.168.122.0/24 -j MASQUERADE", Owner::Libvirt),
            (
                "IP-MASQ -m comment --comment \"ip-masq: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE",
                Owner::IpMasqAgent,
            ),
            ("POSTROUTING -s 10.0.0.0/8 ! -o br-mine -j MASQUERADE", Owner::Unknown),
        ] {
            assert_eq!(owner(line), expected, "{line}");
        }
    }

    #[test]
    fn tables_of_one_program_are_told_by_their_names() {
        for (name, expected) in [
            ("kube-proxy", Owner::KubeProxy),
            ("flannel-ipv4", Owner::Flannel),
            ("firewalld", Owner::Firewalld),
            ("io.systemd.nat", Owner::SystemdNetworkd),
            ("incus", Owner::Incus),
            ("netavark", Owner::Netavark),
            ("mine", Owner::Unknown),
        ] {
            let rule = Rule {
                tests: Vec::new(),
                action: Action::Masquerade,
                text: String::new(),
                comment: None,
                is_ours: false,
            };
            let chain = Chain { name: "post".to_owned(), base: None, rules: Vec::new(), is_ours: false };
            let table = Table::new(Stack::Nft, ProtocolFamily::Inet, name, Vec::new());
            assert_eq!(Owner::of(&table, &chain, &rule), expected, "{name}");
        }
    }
}
