//! Netlink messages and attributes as bytes: 4-byte alignment, nesting, lengths.

use crate::uapi::{NFNL_SUBSYS_NFTABLES, NFTA_DATA_VALUE};

/// Length of `struct nlmsghdr`.
pub(crate) const MESSAGE_HEADER: usize = 16;
/// Length of `struct nlmsghdr` and `struct nfgenmsg`, after which the attributes begin.
pub(crate) const NFNETLINK_HEADER: usize = 20;
const ATTRIBUTE_HEADER: usize = 4;
const NLA_F_NESTED: u16 = 0x8000;
const NLA_TYPE_MASK: u16 = 0x3fff;

/// Appends messages to a buffer. What does not fit into the format is remembered as a defect
/// instead of being cut or wrapped: ask [`Writer::defect`] before the bytes are used.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    defect: Option<&'static str>,
}

impl Writer {
    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What could not be written, if anything.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        self.defect
    }

    /// Remembers why these bytes must not be used.
    pub(crate) fn reject(&mut self, reason: &'static str) {
        self.defect.get_or_insert(reason);
    }

    /// One netlink message with the header of nfnetlink.
    pub(crate) fn message(&mut self, header: Header, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&header.kind.to_ne_bytes());
        self.bytes.extend_from_slice(&header.flags.to_ne_bytes());
        self.bytes.extend_from_slice(&header.sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&[header.family, 0]);
        self.bytes.extend_from_slice(&header.resource.to_be_bytes());
        body(self);
        match u32::try_from(self.bytes.len() - start) {
            Ok(len) => self.bytes[start..start + 4].copy_from_slice(&len.to_ne_bytes()),
            Err(_) => self.reject("a message would be longer than 4 GiB"),
        }
    }

    /// One attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) {
        self.attribute(kind, |writer| writer.bytes.extend_from_slice(value));
    }

    /// One attribute of 1 byte.
    pub(crate) fn put_u8(&mut self, kind: u16, value: u8) {
        self.put(kind, &[value]);
    }

    /// One attribute of 4 bytes, big-endian as nf_tables wants all its numbers.
    pub(crate) fn put_u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_be_bytes());
    }

    /// One attribute of 8 bytes, big-endian.
    pub(crate) fn put_u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_be_bytes());
    }

    /// One string with the NUL that ends it.
    pub(crate) fn put_text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, |writer| {
            writer.text(text);
            writer.bytes.push(0);
        });
    }

    /// One string without a NUL, where nft sends it so.
    pub(crate) fn put_bare_text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, |writer| writer.text(text));
    }

    fn text(&mut self, text: &str) {
        if text.contains('\0') {
            self.reject("a name contains a NUL byte, where the kernel would cut it");
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// One attribute that holds attributes.
    pub(crate) fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        self.attribute(kind | NLA_F_NESTED, body);
    }

    /// One attribute that holds a value of a register (`struct nft_data`).
    pub(crate) fn put_value(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |writer| writer.put(NFTA_DATA_VALUE, value));
    }

    /// Bytes that are attributes already.
    pub(crate) fn put_raw(&mut self, attributes: &[u8]) {
        self.bytes.extend_from_slice(attributes);
    }

    fn attribute(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        body(self);
        // The length excludes the padding and has 16 bits: a longer one must not wrap.
        match u16::try_from(self.bytes.len() - start) {
            Ok(len) => self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes()),
            Err(_) => self.reject("an attribute would be longer than 65,535 bytes"),
        }
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }
}

/// Header of a message that is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// `nlmsg_type`.
    pub(crate) kind: u16,
    /// `nlmsg_flags`.
    pub(crate) flags: u16,
    /// `nlmsg_seq`.
    pub(crate) sequence: u32,
    /// `nfgen_family`.
    pub(crate) family: u8,
    /// `res_id`.
    pub(crate) resource: u16,
}

/// The type of a message of nf_tables.
pub(crate) const fn nftables(message: u16) -> u16 {
    NFNL_SUBSYS_NFTABLES << 8 | message
}

/// A message that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    /// `nlmsg_type`.
    pub(crate) kind: u16,
    /// `nlmsg_flags`.
    pub(crate) flags: u16,
    /// `nlmsg_seq`.
    pub(crate) sequence: u32,
    /// What follows the netlink header.
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// `nfgen_family` and `res_id`, and the attributes after them.
    pub(crate) fn nfnetlink(&self) -> Option<(u8, u16, Attributes<'a>)> {
        let (&[family, _, high, low], attributes) = self.payload.split_first_chunk()?;
        Some((family, u16::from_be_bytes([high, low]), Attributes(attributes)))
    }
}

/// The messages of a datagram; ends at the first that is not whole.
#[derive(Debug, Clone)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (header, _) = self.0.split_first_chunk::<MESSAGE_HEADER>()?;
        let &[l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = header;
        let len = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let payload = self.0.get(MESSAGE_HEADER..len)?;
        self.0 = self.0.get(aligned(len)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            payload,
        })
    }
}

/// Attributes side by side.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// Type and value of each; ends at the first that is not whole.
    pub(crate) fn iter(self) -> AttributeIter<'a> {
        AttributeIter(self.0)
    }

    /// The value of the first of this type.
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|&(found, _)| found == kind).map(|(_, value)| value)
    }

    /// The attributes inside the first of this type.
    pub(crate) fn nested(self, kind: u16) -> Option<Self> {
        self.get(kind).map(Self)
    }

    /// The value of a register inside the first of this type.
    pub(crate) fn value(self, kind: u16) -> Option<&'a [u8]> {
        let nested = self.nested(kind)?;
        nested.only(&[NFTA_DATA_VALUE]).then(|| nested.get(NFTA_DATA_VALUE))?
    }

    /// The 8-bit number of this type.
    pub(crate) fn u8(self, kind: u16) -> Option<u8> {
        let &[number] = self.get(kind)? else { return None };
        Some(number)
    }

    /// The 32-bit number of this type.
    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        self.get(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// The 64-bit number of this type.
    pub(crate) fn u64(self, kind: u16) -> Option<u64> {
        self.get(kind)?.try_into().ok().map(u64::from_be_bytes)
    }

    /// The string of this type, to its first NUL; what is not UTF-8 is replaced.
    pub(crate) fn text(self, kind: u16) -> Option<String> {
        let text = self.get(kind)?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// Whether these attributes are whole, each of one of these types, and no type comes twice:
    /// only then does reading them by type lose nothing.
    pub(crate) fn only(self, kinds: &[u16]) -> bool {
        let mut rest = self.iter();
        let mut seen = 0_u64;
        for (kind, _) in rest.by_ref() {
            let fresh = kind < 64 && seen & 1 << kind == 0;
            if !fresh || !kinds.contains(&kind) {
                return false;
            }
            seen |= 1 << kind;
        }
        rest.0.is_empty()
    }
}

/// Iterator over [`Attributes`]; what it could not take apart stays in it.
#[derive(Debug, Clone)]
pub(crate) struct AttributeIter<'a>(&'a [u8]);

impl<'a> Iterator for AttributeIter<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[l0, l1, k0, k1], _) = self.0.split_first_chunk::<ATTRIBUTE_HEADER>()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.0.get(ATTRIBUTE_HEADER..len)?;
        self.0 = self.0.get(aligned(len)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & NLA_TYPE_MASK, value))
    }
}

/// The next multiple of 4, at which everything in netlink begins.
const fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}
