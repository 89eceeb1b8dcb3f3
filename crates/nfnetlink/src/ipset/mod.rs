// SPDX-License-Identifier: Apache-2.0

//! The subsystem ipset (`net/netfilter/ipset/ip_set_core.c`).
//!
//! | file | is |
//! | --- | --- |
//! | `read` | what messages say of sets and elements, in values |
//! | `write` | what is told of them |

mod read;
mod write;

use penstock_ipset::{Code, Family, Kind, Listed, Refused, Reply, Request};

use crate::message::{
    Attributes, Check, Failure, HEADERS, Message, NESTED, Pages, Policy, Writer, acknowledge, flags,
};
use crate::uapi::ipset::*;

/// `NFNL_SUBSYS_IPSET`
pub const SUBSYSTEM: u8 = 6;
/// Elements that are asked for at once.
const TOGETHER: u32 = 4096;

/// Sets that requests read and change.
pub trait IpSetTable {
    /// Carries out a request.
    ///
    /// # Errors
    /// Those of [`penstock_ipset::IpSets::ask`], and whatever keeps the sets from being reached.
    fn ask(&mut self, request: Request) -> Result<Reply, Refused>;
}

/// Attributes of messages.
const POLICY: Policy = &[
    (IPSET_ATTR_PROTOCOL, Check::U8),
    (IPSET_ATTR_SETNAME, Check::NulString(IPSET_NAME_MAX)),
    (IPSET_ATTR_TYPENAME, Check::NulString(IPSET_NAME_MAX)),
    (IPSET_ATTR_REVISION, Check::U8),
    (IPSET_ATTR_FAMILY, Check::U8),
    (IPSET_ATTR_FLAGS, Check::U32),
    (IPSET_ATTR_DATA, Check::Nested),
    (IPSET_ATTR_ADT, Check::Nested),
    (IPSET_ATTR_LINENO, Check::U32),
];

/// Attributes of a request for a set by its number.
const INDEX_POLICY: Policy = &[(IPSET_ATTR_PROTOCOL, Check::U8), (IPSET_ATTR_INDEX, Check::U16)];

/// Whether a message of the subsystem changes sets.
pub fn is_change(subsystem: u8, number: u8) -> bool {
    subsystem == SUBSYSTEM
        && matches!(
            number,
            IPSET_CMD_CREATE
                | IPSET_CMD_DESTROY
                | IPSET_CMD_FLUSH
                | IPSET_CMD_RENAME
                | IPSET_CMD_SWAP
                | IPSET_CMD_ADD
                | IPSET_CMD_DEL
        )
}

/// What a request comes to.
#[derive(Debug)]
pub struct Answered {
    /// For the sender.
    pub datagrams: Vec<Vec<u8>>,
    /// They end the request: there is no acknowledgement.
    pub whole: bool,
}

impl Answered {
    fn acknowledged(datagrams: Vec<Vec<u8>>) -> Self {
        Answered { datagrams, whole: false }
    }
}

fn failure(code: Code) -> Failure {
    Failure { errno: code.0, at: None, text: None }
}

fn protocol() -> Failure {
    failure(Code::PROTOCOL)
}

/// Whom answers go to.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The sender's port id.
    pub port: u32,
    /// Longest datagram of a dump, in bytes.
    pub limit: usize,
}

/// Carries out a request.
///
/// # Errors
/// The system's, or ipset's own.
pub fn run(
    sets: &mut dyn IpSetTable,
    message: &Message<'_>,
    to: Asker,
) -> Result<Answered, Failure> {
    let number = message.number();
    let policy = if number == IPSET_CMD_GET_BYINDEX { INDEX_POLICY } else { POLICY };
    let given = message.attributes(policy).map_err(Failure::blaming_nothing)?;
    let version = given.get(IPSET_ATTR_PROTOCOL).map(|a| a.u8()).ok_or_else(protocol)?;
    let listing = matches!(number, IPSET_CMD_LIST | IPSET_CMD_SAVE);
    if number == IPSET_CMD_PROTOCOL {
        return Ok(Answered::acknowledged(vec![write::protocol(message, to.port)]));
    }
    let least = if listing { IPSET_PROTOCOL_MIN } else { IPSET_PROTOCOL };
    // Older clients are answered in all commands but those that came with the newest protocol.
    let newer = matches!(number, IPSET_CMD_GET_BYNAME | IPSET_CMD_GET_BYINDEX);
    let oldest = if newer { least } else { IPSET_PROTOCOL_MIN };
    if version < oldest || version > IPSET_PROTOCOL {
        return Err(protocol());
    }
    let name = |kind| given.get(kind).map(|a| a.text().map(Box::<str>::from)).transpose();
    let set_name = name(IPSET_ATTR_SETNAME)?;
    let need = |name: Option<Box<str>>| name.ok_or_else(protocol);
    let simple = match number {
        IPSET_CMD_CREATE => create(message, &given, need(set_name)?)?,
        IPSET_CMD_DESTROY => Request::Destroy(set_name),
        IPSET_CMD_FLUSH => Request::Flush(set_name),
        IPSET_CMD_RENAME => Request::Rename(need(set_name)?, need(name(IPSET_ATTR_SETNAME2)?)?),
        IPSET_CMD_SWAP => Request::Swap(need(set_name)?, need(name(IPSET_ATTR_SETNAME2)?)?),
        IPSET_CMD_TEST => {
            let data = given.get(IPSET_ATTR_DATA).ok_or_else(protocol)?;
            Request::Test(need(set_name)?, Box::new(read::element(&data)?.0))
        }
        IPSET_CMD_ADD | IPSET_CMD_DEL => {
            return change(sets, message, &given, need(set_name)?, to.port);
        }
        IPSET_CMD_LIST | IPSET_CMD_SAVE => return list(sets, message, &given, set_name, to),
        IPSET_CMD_HEADER | IPSET_CMD_GET_BYNAME => {
            let listed = one(sets, Request::List(Some(need(set_name)?)))?;
            let told = write::named(message, to.port, &listed, number == IPSET_CMD_HEADER);
            return Ok(Answered::acknowledged(vec![told]));
        }
        IPSET_CMD_GET_BYINDEX => {
            let index = given.get(IPSET_ATTR_INDEX).ok_or_else(protocol)?.be16();
            let listed = one(sets, Request::ByIndex(index))?;
            return Ok(Answered::acknowledged(vec![write::name(message, to.port, &listed)]));
        }
        IPSET_CMD_TYPE => {
            let (kind, family) = kind_of(&given)?;
            return Ok(Answered::acknowledged(vec![write::kind(message, to.port, kind, family)]));
        }
        _ => return Err(Failure::einval()),
    };
    sets.ask(simple).map_err(|refused| failure(refused.code))?;
    Ok(Answered::acknowledged(Vec::new()))
}

/// The type that a message names, and the family as a number.
fn kind_of(given: &Attributes<'_>) -> Result<(Kind, u8), Failure> {
    let name = given.get(IPSET_ATTR_TYPENAME).ok_or_else(protocol)?.text()?;
    let number = given.get(IPSET_ATTR_FAMILY).ok_or_else(protocol)?.u8();
    let missing = || failure(Code::FIND_TYPE);
    let family = Family::from_number(number).ok_or_else(missing)?;
    let kind = Kind::from_name(name).filter(|kind| kind.is_in(family)).ok_or_else(missing)?;
    Ok((kind, number))
}

fn create(
    message: &Message<'_>,
    given: &Attributes<'_>,
    name: Box<str>,
) -> Result<Request, Failure> {
    let revision = given.get(IPSET_ATTR_REVISION).ok_or_else(protocol)?.u8();
    let (kind, number) = kind_of(given)?;
    if revision > kind.newest_revision() {
        return Err(failure(Code::FIND_TYPE));
    }
    let family = Family::from_number(number).ok_or_else(protocol)?;
    let set = match given.get(IPSET_ATTR_DATA) {
        Some(data) => read::set(&data)?,
        None => Default::default(),
    };
    let exist = !message.header.has(flags::EXCL);
    Ok(Request::Create { name, kind, revision, family, given: Box::new(set), exist })
}

/// `IPSET_CMD_ADD`, `IPSET_CMD_DEL`: a refusal says the number of the line that the element came
/// from, if the message has one (`call_ad()`).
fn change(
    sets: &mut dyn IpSetTable,
    message: &Message<'_>,
    given: &Attributes<'_>,
    name: Box<str>,
    port: u32,
) -> Result<Answered, Failure> {
    let line = given.get(IPSET_ATTR_LINENO);
    let (mut elements, mut lines) = (Vec::new(), Vec::new());
    match (given.get(IPSET_ATTR_DATA), given.get(IPSET_ATTR_ADT)) {
        (Some(data), None) => {
            let (element, line) = read::element(&data)?;
            elements.push(element);
            lines.push(line);
        }
        (None, Some(list)) if line.is_some() => {
            for data in list.each() {
                if data.kind != IPSET_ATTR_DATA {
                    return Err(protocol());
                }
                let (element, line) = read::element(&data)?;
                elements.push(element);
                lines.push(line);
            }
        }
        _ => return Err(protocol()),
    }
    let exist = !message.header.has(flags::EXCL);
    let delete = message.number() == IPSET_CMD_DEL;
    let Err(refused) = sets.ask(Request::Change { name, delete, exist, elements }) else {
        return Ok(Answered::acknowledged(Vec::new()));
    };
    let wrong = failure(refused.code);
    let at = line.map(|line| line.value_at());
    let (Some(at), Some(line)) = (at, lines.get(refused.element).copied().flatten()) else {
        return Err(wrong);
    };
    if refused.code == Code::ENOENT {
        return Err(wrong);
    }
    let mut bytes = message.bytes.to_vec();
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&line);
    }
    let again = Message { header: message.header, bytes: &bytes };
    let datagrams = vec![acknowledge(&again, Some(&wrong), port, Default::default())];
    Ok(Answered { datagrams, whole: true })
}

fn sets_of(reply: Result<Reply, Refused>) -> Result<Vec<Listed>, Failure> {
    match reply {
        Ok(Reply::Sets(sets)) => Ok(sets),
        Ok(Reply::Done | Reply::Elements(..)) => Err(failure(Code::EIO)),
        Err(refused) => Err(failure(refused.code)),
    }
}

fn one(sets: &mut dyn IpSetTable, request: Request) -> Result<Listed, Failure> {
    sets_of(sets.ask(request))?.pop().ok_or_else(|| failure(Code::ENOENT))
}

/// `IPSET_CMD_LIST`, `IPSET_CMD_SAVE` (`ip_set_dump_do()`).
fn list(
    sets: &mut dyn IpSetTable,
    message: &Message<'_>,
    given: &Attributes<'_>,
    name: Option<Box<str>>,
    to: Asker,
) -> Result<Answered, Failure> {
    let asked = given.be32(IPSET_ATTR_FLAGS).unwrap_or(0);
    let version = given.get(IPSET_ATTR_PROTOCOL).map_or(0, |a| a.u8());
    let listed = sets_of(sets.ask(Request::List(name)))?;
    let mut pages = Pages::new(to.limit);
    let headers = |writer: &mut Writer, write: &dyn Fn(&mut Writer)| {
        let kind = u16::from(SUBSYSTEM) << 8 | u16::from(IPSET_CMD_LIST);
        let start = writer.begin(kind, flags::MULTI, message.header.sequence, to.port);
        writer.raw(&[Family::V4 as u8, 0, 0, 0]);
        writer.u8(IPSET_ATTR_PROTOCOL, version);
        write(writer);
        writer.end(start);
    };
    for set in &listed {
        if asked & IPSET_FLAG_LIST_SETNAME != 0 {
            pages.add(|w| {
                headers(w, &|w| {
                    w.string(IPSET_ATTR_SETNAME, &set.name);
                    if version > IPSET_PROTOCOL_MIN {
                        w.be16(IPSET_ATTR_INDEX, set.index);
                    }
                });
            });
            continue;
        }
        let of_set = |w: &mut Writer| write::set(w, set, version);
        if asked & IPSET_FLAG_LIST_HEADER != 0 {
            pages.add(|w| headers(w, &of_set));
            continue;
        }
        let mut next = Some(0);
        let mut first = true;
        while let Some(from) = next {
            let reply = sets.ask(Request::Elements(set.index, from, TOGETHER));
            let elements = match reply {
                Ok(Reply::Elements(elements, after)) => {
                    next = after;
                    elements
                }
                Ok(Reply::Done | Reply::Sets(_)) => return Err(failure(Code::EIO)),
                Err(refused) => return Err(failure(refused.code)),
            };
            let mut rest = elements.as_slice();
            while first || !rest.is_empty() {
                let (some, after) = rest.split_at(write::fitting(rest, set, to.limit));
                pages.add(|w| {
                    headers(w, &|w| {
                        match first {
                            true => of_set(w),
                            false => w.string(IPSET_ATTR_SETNAME, &set.name),
                        }
                        w.nest(IPSET_ATTR_ADT | NESTED, |w| {
                            some.iter().for_each(|told| write::element(w, set, told));
                        });
                    });
                });
                (first, rest) = (false, after);
            }
        }
    }
    let datagrams = pages.finish(message.header.sequence, to.port);
    Ok(Answered { datagrams, whole: true })
}

/// A request for the number of a set by its name, as a program would send it, or for the name by
/// the number: what `getsockopt(2)` with `SO_IP_SET` asks.
pub fn lookup(name: Option<&str>, index: u16) -> Vec<u8> {
    let mut to = Writer::default();
    let number = if name.is_some() { IPSET_CMD_GET_BYNAME } else { IPSET_CMD_GET_BYINDEX };
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(number);
    let start = to.begin(kind, flags::REQUEST, 0, 0);
    to.raw(&[Family::V4 as u8, 0, 0, 0]);
    to.u8(IPSET_ATTR_PROTOCOL, IPSET_PROTOCOL);
    match name {
        Some(name) => to.string(IPSET_ATTR_SETNAME, name),
        None => to.be16(IPSET_ATTR_INDEX, index),
    }
    to.end(start);
    to.finish()
}

/// What the answer to a [`lookup`] says: the number and family of the set, and its name, as far as
/// they are told; `None` if there is no such set.
pub fn looked_up(answer: &[u8]) -> Option<(u16, u8, String)> {
    let (message, _) = Message::first(answer)?;
    if message.subsystem() != SUBSYSTEM || message.bytes.len() < HEADERS {
        return None;
    }
    let given = message.attributes(&[]).ok()?;
    Some((
        given.get(IPSET_ATTR_INDEX).map_or(0, |a| a.be16()),
        given.get(IPSET_ATTR_FAMILY).map_or(0, |a| a.u8()),
        given.get(IPSET_ATTR_SETNAME).and_then(|a| a.text().ok()).unwrap_or_default().to_owned(),
    ))
}
