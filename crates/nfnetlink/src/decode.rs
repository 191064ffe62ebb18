//! Netlink messages to values.
