// SPDX-License-Identifier: Apache-2.0

//! The error numbers of `ip_set_core.c` and the types: those of the system, and ipset's own
//! (`enum ipset_errno` in `linux/netfilter/ipset/ip_set.h` and the headers of the types).

use serde::{Deserialize, Serialize};

/// A positive error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code(pub i32);

#[expect(missing_docs, reason = "the kernel's names, without IPSET_ERR_")]
impl Code {
    pub const EPERM: Code = Code(1);
    pub const ENOENT: Code = Code(2);
    pub const EIO: Code = Code(5);
    pub const ENOMEM: Code = Code(12);
    pub const EBUSY: Code = Code(16);
    pub const EEXIST: Code = Code(17);
    pub const EINVAL: Code = Code(22);
    pub const ERANGE: Code = Code(34);

    pub const PROTOCOL: Code = Code(4097);
    pub const FIND_TYPE: Code = Code(4098);
    pub const MAX_SETS: Code = Code(4099);
    pub const BUSY: Code = Code(4100);
    pub const EXIST_SETNAME2: Code = Code(4101);
    pub const TYPE_MISMATCH: Code = Code(4102);
    pub const EXIST: Code = Code(4103);
    pub const INVALID_CIDR: Code = Code(4104);
    pub const INVALID_NETMASK: Code = Code(4105);
    pub const INVALID_FAMILY: Code = Code(4106);
    pub const TIMEOUT: Code = Code(4107);
    pub const REFERENCED: Code = Code(4108);
    pub const COUNTER: Code = Code(4111);
    pub const COMMENT: Code = Code(4112);
    pub const INVALID_MARKMASK: Code = Code(4113);
    pub const SKBINFO: Code = Code(4114);
    pub const BITMASK_NETMASK_EXCL: Code = Code(4115);

    pub const BITMAP_RANGE: Code = Code(4352);
    pub const BITMAP_RANGE_SIZE: Code = Code(4353);

    pub const HASH_FULL: Code = Code(4352);
    pub const HASH_ELEM: Code = Code(4353);
    pub const INVALID_PROTO: Code = Code(4354);
    pub const MISSING_PROTO: Code = Code(4355);
    pub const HASH_RANGE_UNSUPPORTED: Code = Code(4356);
    pub const HASH_RANGE: Code = Code(4357);

    pub const LIST_NAME: Code = Code(4352);
    pub const LIST_LOOP: Code = Code(4353);
    pub const LIST_BEFORE: Code = Code(4354);
    pub const LIST_NAMEREF: Code = Code(4355);
    pub const LIST_REF_EXIST: Code = Code(4357);
}
