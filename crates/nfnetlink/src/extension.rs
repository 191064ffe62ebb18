//! Matches and targets of iptables inside rules of nf_tables, as iptables-nft puts them there.

use crate::expr::Expr;
use crate::wire::Attributes;

/// `NFTA_MATCH_NAME` and `NFTA_TARGET_NAME`.
const NAME: u16 = 1;
/// `NFTA_MATCH_REV` and `NFTA_TARGET_REV`.
const REVISION: u16 = 2;
/// `NFTA_MATCH_INFO` and `NFTA_TARGET_INFO`.
const PARAMETERS: u16 = 3;

/// A match or a target of iptables, which nf_tables carries without knowing what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Whether it is a condition or says what becomes of the packet.
    pub kind: ExtensionKind,
    /// Its name, such as `addrtype` or `MASQUERADE`.
    pub name: String,
    /// Which layout its parameters have.
    pub revision: u32,
    /// Its parameters: a C structure of the kernel's `linux/netfilter` headers, perhaps with padding behind it.
    pub parameters: &'a [u8],
}

/// What an [`Extension`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionKind {
    /// A condition.
    Match,
    /// What becomes of the packet.
    Target,
}

impl Extension<'_> {
    /// The parameters as text that ends at the first zero, which is what `struct xt_comment_info` holds.
    pub fn text(&self) -> String {
        let end = self.parameters.iter().position(|&byte| byte == 0).unwrap_or(self.parameters.len());
        String::from_utf8_lossy(&self.parameters[..end]).into_owned()
    }
}

impl Expr {
    /// The match or target of iptables that this expression carries, if it carries one.
    pub fn extension(&self) -> Option<Extension<'_>> {
        let Self::Unknown { name, attributes } = self else { return None };
        let kind = match name.as_str() {
            "match" => ExtensionKind::Match,
            "target" => ExtensionKind::Target,
            _ => return None,
        };
        let attributes = Attributes(attributes);
        Some(Extension {
            kind,
            name: attributes.text(NAME)?,
            revision: attributes.u32(REVISION)?,
            parameters: attributes.get(PARAMETERS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    fn carried(name: &str) -> Expr {
        let mut writer = Writer::default();
        writer.put_text(NAME, "addrtype");
        writer.put_u32(REVISION, 1);
        writer.put(PARAMETERS, &[0, 0, 4, 0]);
        Expr::Unknown { name: name.to_owned(), attributes: writer.into_bytes() }
    }

    #[test]
    fn matches_and_targets_are_told_apart_and_taken_out() {
        let expr = carried("match");
        let found = expr.extension().unwrap();
        assert_eq!((found.kind, found.name.as_str(), found.revision), (ExtensionKind::Match, "addrtype", 1));
        assert_eq!(found.parameters, [0, 0, 4, 0]);
        assert_eq!(found.text(), "");
        let text = Extension { parameters: b"why\0\0\0", ..found };
        assert_eq!(text.text(), "why");
        assert_eq!(carried("target").extension().unwrap().kind, ExtensionKind::Target);
    }

    #[test]
    fn other_expressions_and_broken_ones_carry_none() {
        assert_eq!(carried("log").extension(), None);
        assert_eq!(Expr::CounterRef("match".to_owned()).extension(), None);
        let broken = Expr::Unknown { name: "match".to_owned(), attributes: vec![5, 0, 1] };
        assert_eq!(broken.extension(), None);
    }
}
