// SPDX-License-Identifier: Apache-2.0

//! The subsystem cthelper (`net/netfilter/nfnetlink_cthelper.c`): helpers of connections that are
//! programs, which read packets from a queue.

use penstock_conntrack::{CLASSES as CLASSES_MAX, HELPER_DATA_MAX};
use penstock_ruleset::globals::{
    GlobalChange, HELPER_NAME_MAX, HelperKey, Named, NewHelper, NewHelperClass,
};
use penstock_ruleset::{Errno, Generation};

use crate::Backend;
use crate::ctnetlink::Outcome;
use crate::globals::{Answered, Request, change, change_all, name_of};
use crate::message::{
    Attribute, Attributes, Check, Failure, Message, NESTED, Pages, Policy, Writer, flags,
};
use crate::process::Process;

/// `NFNL_SUBSYS_CTHELPER`
pub const SUBSYSTEM: u8 = 9;
const NEW: u8 = 0;
const GET: u8 = 1;
const DELETE: u8 = 2;

const NFCTH_NAME: u16 = 1;
const NFCTH_TUPLE: u16 = 2;
const NFCTH_QUEUE_NUM: u16 = 3;
const NFCTH_POLICY: u16 = 4;
const NFCTH_PRIV_DATA_LEN: u16 = 5;
const NFCTH_STATUS: u16 = 6;

const NFCTH_TUPLE_L3PROTONUM: u16 = 1;
const NFCTH_TUPLE_L4PROTONUM: u16 = 2;

const NFCTH_POLICY_SET_NUM: u16 = 1;
const NFCTH_POLICY_SET: u16 = 2;

const NFCTH_POLICY_NAME: u16 = 1;
const NFCTH_POLICY_EXPECT_MAX: u16 = 2;
const NFCTH_POLICY_EXPECT_TIMEOUT: u16 = 3;

/// `NFCT_HELPER_STATUS_ENABLED`; `NFCT_HELPER_STATUS_DISABLED` is 0, and others change nothing.
const ENABLED: u32 = 1;

/// `nfnl_cthelper_policy`
const POLICY: Policy = &[
    (NFCTH_NAME, Check::NulString(HELPER_NAME_MAX)),
    (NFCTH_TUPLE, Check::Any),
    (NFCTH_QUEUE_NUM, Check::U32),
    (NFCTH_POLICY, Check::Any),
    (NFCTH_PRIV_DATA_LEN, Check::U32),
    (NFCTH_STATUS, Check::U32),
];
/// `nfnl_cthelper_tuple_pol`
const TUPLE: Policy = &[(NFCTH_TUPLE_L3PROTONUM, Check::U16), (NFCTH_TUPLE_L4PROTONUM, Check::U8)];
/// `nfnl_cthelper_expect_policy_set`
const CLASSES: Policy = &[
    (NFCTH_POLICY_SET_NUM, Check::U32),
    (NFCTH_POLICY_SET, Check::Nested),
    (NFCTH_POLICY_SET + 1, Check::Nested),
    (NFCTH_POLICY_SET + 2, Check::Nested),
    (NFCTH_POLICY_SET + 3, Check::Nested),
];
/// `nfnl_cthelper_expect_pol`
const CLASS: Policy = &[
    (NFCTH_POLICY_NAME, Check::NulString(HELPER_NAME_MAX)),
    (NFCTH_POLICY_EXPECT_MAX, Check::U32),
    (NFCTH_POLICY_EXPECT_TIMEOUT, Check::U32),
];

/// Whether a message changes helpers.
pub fn is_change(subsystem: u8, number: u8) -> bool {
    subsystem == SUBSYSTEM && number != GET
}

/// Carries out a request, and gives its answers.
///
/// # Errors
/// The kernel's; `EPERM` if the sender may change nothing, also for listings, as in the kernel.
pub fn run(request: &Request<'_>, from: &Process, backend: &mut dyn Backend) -> Answered {
    if !from.may_change {
        return Err(Errno::Eperm.into());
    }
    let message = &request.message;
    let given = message.attributes(POLICY)?;
    let done = (Outcome::Acknowledge, Vec::new());
    match message.number() {
        NEW => new(message, &given, from, backend).map(|()| done),
        GET => get(request, &given, &backend.generation()),
        DELETE => delete(&given, from, backend).map(|()| done),
        _ => Err(Failure::einval()),
    }
}

/// A nest without blame: what is missing in it is told of the whole message.
fn nest<'a>(of: Attribute<'a>, policy: Policy) -> Result<Attributes<'a>, Failure> {
    of.attributes(policy).map_err(Failure::blaming_nothing)
}

fn need<'a>(given: &Attributes<'a>, kind: u16) -> Result<Attribute<'a>, Failure> {
    given.need(kind).map_err(Failure::blaming_nothing)
}

/// Address family and transport protocol (`nfnl_cthelper_parse_tuple()`).
fn read_tuple(tuple: Attribute<'_>) -> Result<(u16, u8), Failure> {
    let given = nest(tuple, TUPLE)?;
    let family = need(&given, NFCTH_TUPLE_L3PROTONUM)?.be16();
    Ok((family, need(&given, NFCTH_TUPLE_L4PROTONUM)?.u8()))
}

/// `nfnl_cthelper_expect_policy()`
fn read_class(class: Attribute<'_>) -> Result<NewHelperClass, Failure> {
    let given = nest(class, CLASS)?;
    let name = name_of(need(&given, NFCTH_POLICY_NAME)?)?;
    let max = need(&given, NFCTH_POLICY_EXPECT_MAX)?.be32();
    let timeout = need(&given, NFCTH_POLICY_EXPECT_TIMEOUT)?.be32();
    // NF_CT_EXPECT_MAX_CNT
    let max = u8::try_from(max).map_err(|_| Failure::einval())?;
    Ok(NewHelperClass { name, max, timeout })
}

/// The classes of a new helper (`nfnl_cthelper_parse_expect_policy()`), or the new ones of one that
/// is there, which keep their number and names (`nfnl_cthelper_update_policy()`).
fn read_classes(
    classes: Attribute<'_>,
    there: Option<&[NewHelperClass]>,
) -> Result<Vec<NewHelperClass>, Failure> {
    let given = nest(classes, CLASSES)?;
    let number = need(&given, NFCTH_POLICY_SET_NUM)?.be32() as usize;
    if number == 0 {
        return Err(Failure::einval());
    }
    match there {
        None if number > CLASSES_MAX => return Err(Errno::Eoverflow.into()),
        Some(there) if number != there.len() => return Err(Errno::Ebusy.into()),
        _ => {}
    }
    let mut all = Vec::new();
    for (i, kind) in (NFCTH_POLICY_SET..).take(number).enumerate() {
        let class = read_class(need(&given, kind)?)?;
        let old = there.and_then(|there| there.get(i));
        if old.is_some_and(|old| old.name != class.name) {
            return Err(Errno::Ebusy.into());
        }
        all.push(class);
    }
    Ok(all)
}

/// `nfnl_cthelper_new()`
fn new(
    message: &Message<'_>,
    given: &Attributes<'_>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    let (name, tuple) = (need(given, NFCTH_NAME)?, need(given, NFCTH_TUPLE)?);
    let (l3proto, l4proto) = read_tuple(tuple)?;
    let key = HelperKey { name: name_of(name)?, l3proto, l4proto };
    let generation = backend.generation();
    let mut helper = match generation.globals.helper(&key) {
        None => created(key, given)?,
        Some(_) if message.header.has(flags::EXCL) => return Err(Errno::Eexist.into()),
        Some(there) => updated(&there.config, given)?,
    };
    if let Some(queue) = given.be32(NFCTH_QUEUE_NUM) {
        helper.queue = queue;
    }
    if let Some(status @ (0 | ENABLED)) = given.be32(NFCTH_STATUS) {
        helper.enabled = status == ENABLED;
    }
    change(GlobalChange::SetHelper(helper), from, backend)
}

/// `nfnl_cthelper_create()`
fn created(key: HelperKey, given: &Attributes<'_>) -> Result<NewHelper, Failure> {
    let classes = need(given, NFCTH_POLICY)?;
    let data_len = need(given, NFCTH_PRIV_DATA_LEN)?.be32();
    let classes = read_classes(classes, None)?;
    let data_len = u8::try_from(data_len).ok().filter(|len| usize::from(*len) <= HELPER_DATA_MAX);
    let data_len = data_len.ok_or(Failure::from(Errno::Enomem))?;
    Ok(NewHelper { key, queue: 0, enabled: false, data_len, classes })
}

/// `nfnl_cthelper_update()`
fn updated(there: &NewHelper, given: &Attributes<'_>) -> Result<NewHelper, Failure> {
    if given.be32(NFCTH_PRIV_DATA_LEN).is_some_and(|len| len != there.data_len.into()) {
        return Err(Errno::Ebusy.into());
    }
    let classes = match given.get(NFCTH_POLICY) {
        Some(classes) => read_classes(classes, Some(&there.classes))?,
        None => there.classes.clone(),
    };
    Ok(NewHelper { classes, ..there.clone() })
}

/// Those that a message names: all, or those with its name and tuple, as far as it has them.
fn named<'g>(
    given: &Attributes<'_>,
    generation: &'g Generation,
) -> Result<Vec<&'g NewHelper>, Failure> {
    let name = given.get(NFCTH_NAME).map(name_of).transpose()?;
    let tuple = given.get(NFCTH_TUPLE).map(read_tuple).transpose()?;
    let is_named = |helper: &&NewHelper| {
        let HelperKey { name: its, l3proto, l4proto } = &helper.key;
        name.as_ref().is_none_or(|name| name == its)
            && tuple.is_none_or(|tuple| tuple == (*l3proto, *l4proto))
    };
    let all = generation.globals.helpers.iter().map(|helper| &helper.config);
    Ok(all.filter(is_named).collect())
}

/// The bucket that a helper is in (`helper_hash()`): listings have their order.
fn bucket(key: &HelperKey) -> u16 {
    const BUCKETS: u16 = 512;
    (key.l3proto << 8 | u16::from(key.l4proto)) % BUCKETS
}

/// `nfnl_cthelper_get()`, `nfnl_cthelper_dump_table()`
fn get(request: &Request<'_>, given: &Attributes<'_>, generation: &Generation) -> Answered {
    let Request { message, port, limit } = request;
    let mut shown = Pages::new(*limit);
    if message.header.flags & flags::DUMP != 0 {
        // The newest of a bucket first.
        let mut all: Vec<_> = generation.globals.helpers.iter().rev().collect();
        all.sort_by_key(|helper| bucket(&helper.config.key));
        for helper in all {
            shown.add(|to| fill(to, request, &helper.config));
        }
        return Ok((Outcome::Dumped, shown.finish(message.header.sequence, *port)));
    }
    let named = named(given, generation)?;
    let first = named.first().ok_or(Failure::from(Errno::Enoent))?;
    shown.add(|to| fill(to, request, first));
    Ok((Outcome::Acknowledge, shown.finish_without_end()))
}

/// `nfnl_cthelper_fill_info()`
fn fill(to: &mut Writer, request: &Request<'_>, helper: &NewHelper) {
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(NEW);
    let flags = if request.port != 0 { flags::MULTI } else { 0 };
    let start = to.begin(kind, flags, request.message.header.sequence, request.port);
    to.raw(&[0; 4]);
    to.string(NFCTH_NAME, &helper.key.name);
    to.be32(NFCTH_QUEUE_NUM, helper.queue);
    to.nest(NFCTH_TUPLE | NESTED, |to| {
        to.be16(NFCTH_TUPLE_L3PROTONUM, helper.key.l3proto);
        to.u8(NFCTH_TUPLE_L4PROTONUM, helper.key.l4proto);
    });
    to.nest(NFCTH_POLICY | NESTED, |to| {
        to.be32(NFCTH_POLICY_SET_NUM, helper.classes.len() as u32);
        for (kind, class) in (NFCTH_POLICY_SET..).zip(&helper.classes) {
            to.nest(kind | NESTED, |to| {
                to.string(NFCTH_POLICY_NAME, &class.name);
                to.be32(NFCTH_POLICY_EXPECT_MAX, class.max.into());
                to.be32(NFCTH_POLICY_EXPECT_TIMEOUT, class.timeout);
            });
        }
    });
    to.be32(NFCTH_PRIV_DATA_LEN, helper.data_len.into());
    to.be32(NFCTH_STATUS, if helper.enabled { ENABLED } else { 0 });
    to.end(start);
}

/// `nfnl_cthelper_del()`: those that nobody uses go, also where others stay.
fn delete(
    given: &Attributes<'_>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    let generation = backend.generation();
    let named = named(given, &generation)?;
    if named.is_empty() {
        // Where there are none at all, none is missing.
        return match generation.globals.helpers.is_empty() {
            true => Ok(()),
            false => Err(Errno::Enoent.into()),
        };
    }
    let is_used = |name: &str| generation.uses_of(Named::Helper(name)) > 0;
    let unused = named.iter().filter(|helper| !is_used(&helper.key.name));
    let changes: Vec<_> = unused.map(|h| GlobalChange::DeleteHelper(h.key.clone())).collect();
    let all = changes.len() == named.len();
    change_all(changes.into_iter(), from, backend)?;
    match all {
        true => Ok(()),
        false => Err(Errno::Ebusy.into()),
    }
}
