//! Numbers of the kernel's interface, under the kernel's names.

/// Message types are offset by this: the nf_tables subsystem of nfnetlink.
pub(crate) const NFNL_SUBSYS_NFTABLES: u16 = 10;
pub(crate) const NFNLGRP_NFTABLES: u32 = 7;
pub(crate) const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
pub(crate) const NFNL_MSG_BATCH_END: u16 = 0x11;
pub(crate) const NFNL_BATCH_GENID: u16 = 1;

pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_REQUEST: u16 = 0x1;
pub(crate) const NLM_F_ACK: u16 = 0x4;
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// On an error: the answer does not repeat the whole request.
pub(crate) const NLM_F_CAPPED: u16 = 0x100;
/// On an error: attributes follow that tell more.
pub(crate) const NLM_F_ACK_TLVS: u16 = 0x200;
pub(crate) const NLMSGERR_ATTR_MSG: u16 = 1;
pub(crate) const NLMSGERR_ATTR_OFFS: u16 = 2;
pub(crate) const NETLINK_CAP_ACK: i32 = 10;
pub(crate) const NETLINK_EXT_ACK: i32 = 11;

pub(crate) const NFT_MSG_NEWTABLE: u16 = 0;
pub(crate) const NFT_MSG_GETTABLE: u16 = 1;
pub(crate) const NFT_MSG_DELTABLE: u16 = 2;
pub(crate) const NFT_MSG_NEWCHAIN: u16 = 3;
pub(crate) const NFT_MSG_GETCHAIN: u16 = 4;
pub(crate) const NFT_MSG_DELCHAIN: u16 = 5;
pub(crate) const NFT_MSG_NEWRULE: u16 = 6;
pub(crate) const NFT_MSG_GETRULE: u16 = 7;
pub(crate) const NFT_MSG_DELRULE: u16 = 8;
pub(crate) const NFT_MSG_NEWSET: u16 = 9;
pub(crate) const NFT_MSG_GETSET: u16 = 10;
pub(crate) const NFT_MSG_DELSET: u16 = 11;
pub(crate) const NFT_MSG_NEWSETELEM: u16 = 12;
pub(crate) const NFT_MSG_GETSETELEM: u16 = 13;
pub(crate) const NFT_MSG_DELSETELEM: u16 = 14;
pub(crate) const NFT_MSG_NEWGEN: u16 = 15;
pub(crate) const NFT_MSG_GETGEN: u16 = 16;
pub(crate) const NFT_MSG_NEWOBJ: u16 = 18;
pub(crate) const NFT_MSG_GETOBJ: u16 = 19;
pub(crate) const NFT_MSG_DELOBJ: u16 = 20;
pub(crate) const NFT_MSG_NEWFLOWTABLE: u16 = 22;
pub(crate) const NFT_MSG_GETFLOWTABLE: u16 = 23;
pub(crate) const NFT_MSG_DELFLOWTABLE: u16 = 24;

pub(crate) const NFTA_LIST_ELEM: u16 = 1;

pub(crate) const NFTA_GEN_ID: u16 = 1;
pub(crate) const NFTA_GEN_PROC_PID: u16 = 2;
pub(crate) const NFTA_GEN_PROC_NAME: u16 = 3;

pub(crate) const NFTA_TABLE_NAME: u16 = 1;
pub(crate) const NFTA_TABLE_FLAGS: u16 = 2;
pub(crate) const NFTA_TABLE_HANDLE: u16 = 4;
pub(crate) const NFTA_TABLE_USERDATA: u16 = 6;
pub(crate) const NFTA_TABLE_OWNER: u16 = 7;

pub(crate) const NFTA_CHAIN_TABLE: u16 = 1;
pub(crate) const NFTA_CHAIN_HANDLE: u16 = 2;
pub(crate) const NFTA_CHAIN_NAME: u16 = 3;
pub(crate) const NFTA_CHAIN_HOOK: u16 = 4;
pub(crate) const NFTA_CHAIN_POLICY: u16 = 5;
pub(crate) const NFTA_CHAIN_TYPE: u16 = 7;
pub(crate) const NFTA_CHAIN_FLAGS: u16 = 10;
pub(crate) const NFTA_CHAIN_USERDATA: u16 = 12;
pub(crate) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(crate) const NFTA_HOOK_PRIORITY: u16 = 2;
/// The kernel sets this flag on every chain with a hook.
pub(crate) const NFT_CHAIN_BASE: u32 = 1;

pub(crate) const NFTA_RULE_TABLE: u16 = 1;
pub(crate) const NFTA_RULE_CHAIN: u16 = 2;
pub(crate) const NFTA_RULE_HANDLE: u16 = 3;
pub(crate) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(crate) const NFTA_RULE_POSITION: u16 = 6;
pub(crate) const NFTA_RULE_USERDATA: u16 = 7;
/// User data is private to programs; this is the type nft and iptables-nft give a comment.
pub(crate) const NFTNL_UDATA_RULE_COMMENT: u8 = 0;

pub(crate) const NFTA_SET_TABLE: u16 = 1;
pub(crate) const NFTA_SET_NAME: u16 = 2;
pub(crate) const NFTA_SET_FLAGS: u16 = 3;
pub(crate) const NFTA_SET_KEY_TYPE: u16 = 4;
pub(crate) const NFTA_SET_KEY_LEN: u16 = 5;
pub(crate) const NFTA_SET_DATA_TYPE: u16 = 6;
pub(crate) const NFTA_SET_DATA_LEN: u16 = 7;
pub(crate) const NFTA_SET_POLICY: u16 = 8;
pub(crate) const NFTA_SET_DESC: u16 = 9;
pub(crate) const NFTA_SET_ID: u16 = 10;
pub(crate) const NFTA_SET_TIMEOUT: u16 = 11;
pub(crate) const NFTA_SET_GC_INTERVAL: u16 = 12;
pub(crate) const NFTA_SET_USERDATA: u16 = 13;
pub(crate) const NFTA_SET_OBJ_TYPE: u16 = 15;
pub(crate) const NFTA_SET_HANDLE: u16 = 16;
pub(crate) const NFTA_SET_EXPR: u16 = 17;
pub(crate) const NFTA_SET_EXPRESSIONS: u16 = 18;
pub(crate) const NFTA_SET_DESC_SIZE: u16 = 1;
pub(crate) const NFTA_SET_DESC_CONCAT: u16 = 2;
pub(crate) const NFTA_SET_FIELD_LEN: u16 = 1;
/// nft's user data of a set: the byte order of its keys.
pub(crate) const NFTNL_UDATA_SET_KEYBYTEORDER: u8 = 0;
/// Keys of one byte have none.
pub(crate) const BYTEORDER_INVALID: u32 = 0;
pub(crate) const BYTEORDER_HOST_ENDIAN: u32 = 1;
pub(crate) const BYTEORDER_BIG_ENDIAN: u32 = 2;

pub(crate) const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
pub(crate) const NFTA_SET_ELEM_LIST_SET: u16 = 2;
pub(crate) const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
pub(crate) const NFTA_SET_ELEM_KEY: u16 = 1;
pub(crate) const NFTA_SET_ELEM_FLAGS: u16 = 3;
pub(crate) const NFTA_SET_ELEM_USERDATA: u16 = 6;
pub(crate) const NFTA_SET_ELEM_EXPR: u16 = 7;
pub(crate) const NFTA_SET_ELEM_KEY_END: u16 = 10;
pub(crate) const NFTA_SET_ELEM_EXPRESSIONS: u16 = 11;
pub(crate) const NFT_SET_ELEM_INTERVAL_END: u32 = 1;
pub(crate) const NFT_SET_ELEM_CATCHALL: u32 = 2;
/// nft's user data of an element: flags, and the flag for a start without an end.
pub(crate) const NFTNL_UDATA_SET_ELEM_FLAGS: u8 = 1;
pub(crate) const NFTNL_SET_ELEM_F_INTERVAL_OPEN: u32 = 1;

pub(crate) const NFTA_OBJ_TABLE: u16 = 1;
pub(crate) const NFTA_OBJ_NAME: u16 = 2;
pub(crate) const NFTA_OBJ_TYPE: u16 = 3;
pub(crate) const NFTA_OBJ_DATA: u16 = 4;
pub(crate) const NFT_OBJECT_COUNTER: u32 = 1;

pub(crate) const NFTA_FLOWTABLE_TABLE: u16 = 1;
pub(crate) const NFTA_FLOWTABLE_NAME: u16 = 2;

pub(crate) const NFTA_DATA_VALUE: u16 = 1;
pub(crate) const NFTA_DATA_VERDICT: u16 = 2;
pub(crate) const NFTA_VERDICT_CODE: u16 = 1;
pub(crate) const NFTA_VERDICT_CHAIN: u16 = 2;
pub(crate) const NF_DROP: i32 = 0;
pub(crate) const NF_ACCEPT: i32 = 1;
pub(crate) const NFT_CONTINUE: i32 = -1;
pub(crate) const NFT_JUMP: i32 = -3;
pub(crate) const NFT_GOTO: i32 = -4;
pub(crate) const NFT_RETURN: i32 = -5;

pub(crate) const NFTA_EXPR_NAME: u16 = 1;
pub(crate) const NFTA_EXPR_DATA: u16 = 2;
pub(crate) const NFTA_META_DREG: u16 = 1;
pub(crate) const NFTA_META_KEY: u16 = 2;
pub(crate) const NFTA_META_SREG: u16 = 3;
pub(crate) const NFTA_CT_DREG: u16 = 1;
pub(crate) const NFTA_CT_KEY: u16 = 2;
pub(crate) const NFTA_CT_DIRECTION: u16 = 3;
pub(crate) const NFTA_PAYLOAD_DREG: u16 = 1;
pub(crate) const NFTA_PAYLOAD_BASE: u16 = 2;
pub(crate) const NFTA_PAYLOAD_OFFSET: u16 = 3;
pub(crate) const NFTA_PAYLOAD_LEN: u16 = 4;
pub(crate) const NFTA_FIB_DREG: u16 = 1;
pub(crate) const NFTA_FIB_RESULT: u16 = 2;
pub(crate) const NFTA_FIB_FLAGS: u16 = 3;
pub(crate) const NFTA_CMP_SREG: u16 = 1;
pub(crate) const NFTA_CMP_OP: u16 = 2;
pub(crate) const NFTA_CMP_DATA: u16 = 3;
pub(crate) const NFTA_RANGE_SREG: u16 = 1;
pub(crate) const NFTA_RANGE_OP: u16 = 2;
pub(crate) const NFTA_RANGE_FROM_DATA: u16 = 3;
pub(crate) const NFTA_RANGE_TO_DATA: u16 = 4;
pub(crate) const NFTA_LOOKUP_SET: u16 = 1;
pub(crate) const NFTA_LOOKUP_SREG: u16 = 2;
pub(crate) const NFTA_LOOKUP_SET_ID: u16 = 4;
pub(crate) const NFTA_LOOKUP_FLAGS: u16 = 5;
pub(crate) const NFT_LOOKUP_F_INV: u32 = 1;
pub(crate) const NFTA_BITWISE_SREG: u16 = 1;
pub(crate) const NFTA_BITWISE_DREG: u16 = 2;
pub(crate) const NFTA_BITWISE_LEN: u16 = 3;
pub(crate) const NFTA_BITWISE_MASK: u16 = 4;
pub(crate) const NFTA_BITWISE_XOR: u16 = 5;
pub(crate) const NFTA_BITWISE_OP: u16 = 6;
pub(crate) const NFT_BITWISE_MASK_XOR: u32 = 0;
pub(crate) const NFTA_BYTEORDER_SREG: u16 = 1;
pub(crate) const NFTA_BYTEORDER_DREG: u16 = 2;
pub(crate) const NFTA_BYTEORDER_OP: u16 = 3;
pub(crate) const NFTA_BYTEORDER_LEN: u16 = 4;
pub(crate) const NFTA_BYTEORDER_SIZE: u16 = 5;
pub(crate) const NFTA_NG_DREG: u16 = 1;
pub(crate) const NFTA_NG_MODULUS: u16 = 2;
pub(crate) const NFTA_NG_TYPE: u16 = 3;
pub(crate) const NFTA_NG_OFFSET: u16 = 4;
pub(crate) const NFTA_IMMEDIATE_DREG: u16 = 1;
pub(crate) const NFTA_IMMEDIATE_DATA: u16 = 2;
pub(crate) const NFTA_COUNTER_BYTES: u16 = 1;
pub(crate) const NFTA_COUNTER_PACKETS: u16 = 2;
pub(crate) const NFTA_COUNTER_PAD: u16 = 3;
pub(crate) const NFTA_OBJREF_IMM_TYPE: u16 = 1;
pub(crate) const NFTA_OBJREF_IMM_NAME: u16 = 2;
pub(crate) const NFTA_MASQ_FLAGS: u16 = 1;
pub(crate) const NFTA_MASQ_REG_PROTO_MIN: u16 = 2;
pub(crate) const NFTA_MASQ_REG_PROTO_MAX: u16 = 3;
pub(crate) const NFTA_NAT_TYPE: u16 = 1;
pub(crate) const NFTA_NAT_FAMILY: u16 = 2;
pub(crate) const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
pub(crate) const NFTA_NAT_REG_ADDR_MAX: u16 = 4;
pub(crate) const NFTA_NAT_REG_PROTO_MIN: u16 = 5;
pub(crate) const NFTA_NAT_REG_PROTO_MAX: u16 = 6;
pub(crate) const NFTA_NAT_FLAGS: u16 = 7;
pub(crate) const NF_NAT_RANGE_MAP_IPS: u32 = 1;
pub(crate) const NF_NAT_RANGE_PROTO_SPECIFIED: u32 = 2;
