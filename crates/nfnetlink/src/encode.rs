//! Values to netlink messages.

/// The user data that nft gives a set whose keys have this type.
pub(crate) fn set_userdata(_key_type: u32) -> Vec<u8> {
    Vec::new()
}
