//! Netlink messages and attributes as bytes.
