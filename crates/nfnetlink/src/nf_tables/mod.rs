// SPDX-License-Identifier: Apache-2.0

//! The subsystem nf_tables (`net/netfilter/nf_tables_api.c`).
//!
//! | file | is |
//! | --- | --- |
//! | `table`, `chain`, `rule`, `set`, `element`, `object`, `flowtable` | messages about one kind of thing, both ways |
//! | `batch` | changes: one transaction |
//! | `get`, `answer` | answers to requests for one thing, and for all |
//! | `difference` | what came and went between two generations |
//! | `told` | notifications of changes that no message made |
//! | `delete` | deleting tables, chains and rules, with all that is in them |

mod answer;
mod batch;
pub(crate) mod chain;
mod connection_object;
mod delete;
pub(crate) mod difference;
pub(crate) mod element;
mod find;
pub(crate) mod flowtable;
mod generation;
mod get;
pub(crate) mod interval;
pub(crate) mod object;
pub(crate) mod rule;
pub(crate) mod set;
mod table;
mod told;
mod tunnel;
mod uses;

use penstock_ruleset::Generation;
use penstock_ruleset::reset::Reset;

pub use answer::{Dump, SUBSYSTEM, Stamp};
pub use batch::{Batch, Event};
pub use difference::difference;
pub use get::Get;
pub use object::tell_used_up;
pub use told::Told;

use crate::message::{Failure, Message, Writer};
use crate::process::Process;
use crate::uapi::nf_tables::*;

/// `NFNLGRP_NFTABLES`
pub const GROUP: u32 = 7;

/// Whether a message is one of those that make a batch.
pub fn is_change(number: u8) -> bool {
    matches!(
        number,
        NFT_MSG_NEWTABLE
            | NFT_MSG_DELTABLE
            | NFT_MSG_DESTROYTABLE
            | NFT_MSG_NEWCHAIN
            | NFT_MSG_DELCHAIN
            | NFT_MSG_DESTROYCHAIN
            | NFT_MSG_NEWRULE
            | NFT_MSG_DELRULE
            | NFT_MSG_DESTROYRULE
            | NFT_MSG_NEWSET
            | NFT_MSG_DELSET
            | NFT_MSG_DESTROYSET
            | NFT_MSG_NEWSETELEM
            | NFT_MSG_DELSETELEM
            | NFT_MSG_DESTROYSETELEM
            | NFT_MSG_NEWOBJ
            | NFT_MSG_DELOBJ
            | NFT_MSG_DESTROYOBJ
            | NFT_MSG_NEWFLOWTABLE
            | NFT_MSG_DELFLOWTABLE
            | NFT_MSG_DESTROYFLOWTABLE
    )
}

/// Whether a request sets to zero what it asks for.
pub fn is_reset(number: u8) -> bool {
    matches!(number, NFT_MSG_GETRULE_RESET | NFT_MSG_GETSETELEM_RESET | NFT_MSG_GETOBJ_RESET)
}

/// What a request shows of which packets change something: rules, elements or objects; nothing for
/// other requests, and for wrong ones.
pub fn named(message: &Message<'_>) -> Vec<Reset> {
    let m = message;
    let named = match message.number() {
        NFT_MSG_GETRULE | NFT_MSG_GETRULE_RESET => {
            m.attributes(rule::POLICY).and_then(|given| Ok(vec![rule::resets(m, &given)?]))
        }
        NFT_MSG_GETCHAIN => m.attributes(chain::POLICY).and_then(|given| chain::live(m, &given)),
        NFT_MSG_GETSETELEM | NFT_MSG_GETSETELEM_RESET => {
            m.attributes(element::POLICY).and_then(|given| Ok(vec![element::resets(m, &given)?]))
        }
        NFT_MSG_GETOBJ | NFT_MSG_GETOBJ_RESET => {
            m.attributes(object::POLICY).and_then(|given| object::resets(m, &given))
        }
        _ => return Vec::new(),
    };
    named.unwrap_or_default()
}

/// Takes one message of a batch.
///
/// # Errors
/// The kernel's, with the attribute to blame.
pub fn change(batch: &mut Batch<'_>, message: &Message<'_>) -> Result<(), Failure> {
    let m = message;
    let elements = matches!(
        message.number(),
        NFT_MSG_NEWSETELEM | NFT_MSG_DELSETELEM | NFT_MSG_DESTROYSETELEM
    );
    if !elements {
        // A rule must find the last interval of its set, after which it takes no more.
        element::close(batch)?;
    }
    let result = match message.number() {
        NFT_MSG_NEWTABLE => table::new(batch, m, &m.attributes(table::POLICY)?),
        NFT_MSG_DELTABLE => delete::table(batch, m, &m.attributes(table::POLICY)?, false),
        NFT_MSG_DESTROYTABLE => delete::table(batch, m, &m.attributes(table::POLICY)?, true),
        NFT_MSG_NEWCHAIN => chain::new(batch, m, &m.attributes(chain::POLICY)?),
        NFT_MSG_DELCHAIN => delete::chain(batch, m, &m.attributes(chain::POLICY)?, false),
        NFT_MSG_DESTROYCHAIN => delete::chain(batch, m, &m.attributes(chain::POLICY)?, true),
        NFT_MSG_NEWRULE => rule::new(batch, m, &m.attributes(rule::POLICY)?),
        NFT_MSG_DELRULE => delete::rule(batch, m, &m.attributes(rule::POLICY)?, false),
        NFT_MSG_DESTROYRULE => delete::rule(batch, m, &m.attributes(rule::POLICY)?, true),
        NFT_MSG_NEWSET => set::new(batch, m, &m.attributes(set::POLICY)?),
        NFT_MSG_DELSET => set::delete(batch, m, &m.attributes(set::POLICY)?, false),
        NFT_MSG_DESTROYSET => set::delete(batch, m, &m.attributes(set::POLICY)?, true),
        NFT_MSG_NEWSETELEM => element::new(batch, m, &m.attributes(element::POLICY)?),
        NFT_MSG_DELSETELEM => element::delete(batch, m, &m.attributes(element::POLICY)?, false),
        NFT_MSG_DESTROYSETELEM => element::delete(batch, m, &m.attributes(element::POLICY)?, true),
        NFT_MSG_NEWOBJ => object::new(batch, m, &m.attributes(object::POLICY)?),
        NFT_MSG_DELOBJ => object::delete(batch, m, &m.attributes(object::POLICY)?, false),
        NFT_MSG_DESTROYOBJ => object::delete(batch, m, &m.attributes(object::POLICY)?, true),
        NFT_MSG_NEWFLOWTABLE => flowtable::new(batch, m, &m.attributes(flowtable::POLICY)?),
        NFT_MSG_DELFLOWTABLE => {
            flowtable::delete(batch, m, &m.attributes(flowtable::POLICY)?, false)
        }
        NFT_MSG_DESTROYFLOWTABLE => {
            flowtable::delete(batch, m, &m.attributes(flowtable::POLICY)?, true)
        }
        _ => Err(Failure::einval()),
    };
    if elements {
        batch.had_elements();
    }
    result
}

/// Makes what the messages of a batch have left open.
///
/// # Errors
/// The ruleset's.
pub fn end(batch: &mut Batch<'_>) -> Result<(), Failure> {
    element::close(batch)
}

/// Answers a request for one thing.
///
/// # Errors
/// The kernel's, with the attribute to blame.
pub fn get(get: &mut Get<'_>, message: &Message<'_>, process: &Process) -> Result<(), Failure> {
    let m = message;
    match message.number() {
        NFT_MSG_GETTABLE => table::get(get, m, &m.attributes(table::POLICY)?),
        NFT_MSG_GETCHAIN => chain::get(get, m, &m.attributes(chain::POLICY)?),
        NFT_MSG_GETRULE => rule::get(get, m, &m.attributes(rule::POLICY)?, false),
        NFT_MSG_GETRULE_RESET => rule::get(get, m, &m.attributes(rule::POLICY)?, true),
        NFT_MSG_GETSET => set::get(get, m, &m.attributes(set::POLICY)?),
        NFT_MSG_GETSETELEM => element::get(get, m, &m.attributes(element::POLICY)?, false),
        NFT_MSG_GETSETELEM_RESET => element::get(get, m, &m.attributes(element::POLICY)?, true),
        NFT_MSG_GETOBJ => object::get(get, m, &m.attributes(object::POLICY)?, false),
        NFT_MSG_GETOBJ_RESET => object::get(get, m, &m.attributes(object::POLICY)?, true),
        NFT_MSG_GETFLOWTABLE => flowtable::get(get, m, &m.attributes(flowtable::POLICY)?),
        NFT_MSG_GETGEN => {
            let stamp = get.stamp;
            generation::fill(&mut get.answer, stamp, process);
            Ok(())
        }
        _ => Err(Failure::einval()),
    }
}

/// Whether a request can ask for all of something.
pub fn can_dump(number: u8) -> bool {
    matches!(
        number,
        NFT_MSG_GETTABLE
            | NFT_MSG_GETCHAIN
            | NFT_MSG_GETRULE
            | NFT_MSG_GETRULE_RESET
            | NFT_MSG_GETSET
            | NFT_MSG_GETSETELEM
            | NFT_MSG_GETSETELEM_RESET
            | NFT_MSG_GETOBJ
            | NFT_MSG_GETOBJ_RESET
            | NFT_MSG_GETFLOWTABLE
    )
}

/// Answers a dump request, and returns what must be reset afterwards.
///
/// # Errors
/// The kernel's, with the attribute to blame.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    mut dump: Dump,
    now: u64,
) -> Result<(Vec<Vec<u8>>, Vec<Reset>), Failure> {
    let m = message;
    let mut resets = Vec::new();
    match message.number() {
        NFT_MSG_GETTABLE => {
            table::dump(generation, m, &m.attributes(table::POLICY)?, &mut dump)?;
        }
        NFT_MSG_GETCHAIN => {
            chain::dump(generation, m, &m.attributes(chain::POLICY)?, &mut dump)?;
        }
        number @ (NFT_MSG_GETRULE | NFT_MSG_GETRULE_RESET) => {
            let given = m.attributes(rule::POLICY)?;
            rule::dump(generation, m, &given, &mut dump, now)?;
            if number == NFT_MSG_GETRULE_RESET {
                resets.push(rule::resets(m, &given)?);
            }
        }
        NFT_MSG_GETSET => set::dump(generation, m, &m.attributes(set::POLICY)?, &mut dump)?,
        number @ (NFT_MSG_GETSETELEM | NFT_MSG_GETSETELEM_RESET) => {
            let given = m.attributes(element::POLICY)?;
            element::dump(generation, m, &given, &mut dump, now)?;
            if number == NFT_MSG_GETSETELEM_RESET {
                resets.push(element::resets(m, &given)?);
            }
            return Ok((dump.finish_here(), resets));
        }
        number @ (NFT_MSG_GETOBJ | NFT_MSG_GETOBJ_RESET) => {
            let given = m.attributes(object::POLICY)?;
            object::dump(generation, m, &given, &mut dump, now)?;
            if number == NFT_MSG_GETOBJ_RESET {
                resets = object::resets(m, &given)?;
            }
        }
        NFT_MSG_GETFLOWTABLE => {
            flowtable::dump(generation, m, &m.attributes(flowtable::POLICY)?, &mut dump)?;
        }
        _ => return Err(Failure::einval()),
    }
    Ok((dump.finish(), resets))
}

/// The last notification of a batch.
pub fn new_generation(stamp: Stamp, process: &Process) -> Vec<u8> {
    let mut to = Writer::default();
    generation::fill(&mut to, stamp, process);
    to.finish()
}
