// SPDX-License-Identifier: Apache-2.0

//! Connection tracking of the kernel, wanted by a table of its nf_tables
//! (`nft_ct_get_init()` in net/netfilter/nft_ct.c): it tracks while some rule reads connections,
//! whether packets meet the rule or not.

use std::io;

use crate::message::{Message, put};
use crate::nftables::{BEGIN, END, SUBSYSTEM, Table, head, remove_table, tables};
use crate::socket::Socket;

const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
/// `NFT_TABLE_F_OWNER`: the table goes with the socket.
const OWNER: u32 = 2;
/// `NFT_REG_1`, `NFT_CT_STATE`
const REGISTER: u32 = 1;
const STATE: u32 = 0;
/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLM_F_CREATE`, `NLM_F_APPEND`
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// What the table and its chain are called.
const NAME: &[u8] = b"penstock-tracking\0";

/// The kernel tracks connections of IPv4 and IPv6 while this is there.
#[derive(Debug)]
pub struct Tracking {
    /// It owns the table, unless that is to stay.
    _socket: Option<Socket>,
    stays: bool,
}

fn table() -> Table {
    let name = String::from_utf8_lossy(NAME).trim_end_matches('\0').to_owned();
    Table { family: libc::NFPROTO_INET as u8, name }
}

/// An attribute with others in it (`NLA_F_NESTED`).
fn nest(to: &mut Vec<u8>, kind: u16, inside: &[u8]) {
    put(to, kind | 1 << 15, inside);
}

impl Tracking {
    /// Begins in the network namespace of the thread, or continues with what stays. With `stays` connections are tracked until
    /// [`Tracking::remove`] is called, and not only until the end of the process.
    ///
    /// # Errors
    /// Those of netlink: the kernel has no nf_tables, or no connection tracking.
    pub fn begin(stays: bool) -> io::Result<Self> {
        if let Some(left) = Self::left()? {
            return Ok(left);
        }
        let mut socket = Socket::open(libc::NETLINK_NETFILTER, 0)?;
        let family = libc::NFPROTO_INET as u8;
        let mut new_table = head(family, 0);
        put(&mut new_table, NFTA_TABLE_NAME, NAME);
        let flags = if stays { 0 } else { OWNER };
        put(&mut new_table, NFTA_TABLE_FLAGS, &flags.to_be_bytes());
        let mut chain = head(family, 0);
        put(&mut chain, NFTA_CHAIN_TABLE, NAME);
        put(&mut chain, NFTA_CHAIN_NAME, NAME);
        let mut state = Vec::new();
        put(&mut state, NFTA_CT_DREG, &REGISTER.to_be_bytes());
        put(&mut state, NFTA_CT_KEY, &STATE.to_be_bytes());
        let (mut expression, mut element) = (Vec::new(), Vec::new());
        put(&mut expression, NFTA_EXPR_NAME, b"ct\0");
        nest(&mut expression, NFTA_EXPR_DATA, &state);
        nest(&mut element, NFTA_LIST_ELEM, &expression);
        let mut rule = head(family, 0);
        put(&mut rule, NFTA_RULE_TABLE, NAME);
        put(&mut rule, NFTA_RULE_CHAIN, NAME);
        nest(&mut rule, NFTA_RULE_EXPRESSIONS, &element);
        let message =
            |kind, flags, sequence, body| Message { kind, flags: flags | REQUEST, sequence, body };
        // An error about any of them takes the place of the answer.
        socket.transact(&[
            message(BEGIN, 0, 1, head(0, SUBSYSTEM)),
            message(NEW_TABLE, CREATE, 2, new_table),
            message(NEW_CHAIN, CREATE, 3, chain),
            message(NEW_RULE, CREATE | APPEND | ACK, 4, rule),
            message(END, 0, 5, head(0, SUBSYSTEM)),
        ])?;
        Ok(Tracking { _socket: Some(socket), stays })
    }

    /// What an earlier process has begun that stays.
    ///
    /// # Errors
    /// Those of netlink: the kernel has no nf_tables.
    pub fn left() -> io::Result<Option<Self>> {
        let there = tables()?.contains(&table());
        Ok(there.then_some(Tracking { _socket: None, stays: true }))
    }

    /// Whether it stays after the end of the process.
    pub fn stays(&self) -> bool {
        self.stays
    }

    /// Ends what stays, whoever began it.
    ///
    /// # Errors
    /// Those of netlink; none if there is nothing.
    pub fn remove() -> io::Result<()> {
        match remove_table(&table()) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_goes_with_its_owner_or_stays() {
        // SAFETY: no pointers; it concerns this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("skipped: no rights to make a network namespace");
            return;
        }
        if let Err(e) = tables() {
            eprintln!("skipped: no nf_tables in the kernel: {e}");
            return;
        }
        let own = Tracking::begin(false).expect("a table");
        assert_eq!(tables().expect("tables"), [table()]);
        drop(own);
        assert_eq!(tables().expect("tables"), []);
        drop(Tracking::begin(true).expect("a table"));
        assert!(Tracking::begin(true).expect("the same table").stays());
        assert_eq!(tables().expect("tables"), [table()]);
        Tracking::remove().expect("removed");
        Tracking::remove().expect("nothing to remove");
        assert_eq!(tables().expect("tables"), []);
    }
}
