//! nf_tables over netlink: batches, sets, rules, dumps and the generation monitor, as typed values.
