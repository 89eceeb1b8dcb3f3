// SPDX-License-Identifier: Apache-2.0

//! Connection tracking of the kernel, wanted by tables of its nf_tables
//! (`nft_ct_get_init()` in net/netfilter/nft_ct.c): it tracks while some rule reads connections,
//! whether packets meet the rule or not.

use std::io;

use crate::message::{Message, put};
use crate::nftables::{BEGIN, END, SUBSYSTEM, Table, head, remove_table, tables};
use crate::socket::Socket;

const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
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
/// `NFT_REG_1`, `NFT_CT_STATE`, `NFT_CT_BYTES`
const REGISTER: u32 = 1;
const STATE: u32 = 0;
const BYTES: u32 = 15;
/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLM_F_CREATE`, `NLM_F_APPEND`
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// What each table and its chain are called.
const NAME: &[u8] = b"penstock-tracking\0";

/// What is wanted of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tracked {
    /// Connections of IPv4.
    pub ip: bool,
    /// Connections of IPv6.
    pub ip6: bool,
    /// Their packets and bytes are counted. That stays when it is not wanted any more, as with
    /// rules of nf_tables.
    pub accounting: bool,
}

impl Tracked {
    /// Whether anything is tracked.
    pub fn any(self) -> bool {
        self.ip || self.ip6
    }

    fn families(self) -> impl Iterator<Item = u8> {
        let wanted = [(self.ip, libc::NFPROTO_IPV4), (self.ip6, libc::NFPROTO_IPV6)];
        wanted.into_iter().filter_map(|(wanted, family)| wanted.then_some(family as u8))
    }
}

/// The kernel tracks connections while this is there.
#[derive(Debug)]
pub struct Tracking {
    /// It owns the tables, unless they are to stay.
    socket: Option<Socket>,
    tracked: Tracked,
}

fn table(family: u8) -> Table {
    let name = String::from_utf8_lossy(NAME).trim_end_matches('\0').to_owned();
    Table { family, name }
}

/// An attribute with others in it (`NLA_F_NESTED`).
fn nest(to: &mut Vec<u8>, kind: u16, inside: &[u8]) {
    put(to, kind | 1 << 15, inside);
}

/// The expression that asks for a key of connections, in a list.
fn ct(to: &mut Vec<u8>, key: u32) {
    let (mut ct, mut expression) = (Vec::new(), Vec::new());
    put(&mut ct, NFTA_CT_DREG, &REGISTER.to_be_bytes());
    put(&mut ct, NFTA_CT_KEY, &key.to_be_bytes());
    put(&mut expression, NFTA_EXPR_NAME, b"ct\0");
    nest(&mut expression, NFTA_EXPR_DATA, &ct);
    nest(to, NFTA_LIST_ELEM, &expression);
}

/// The messages that make a table: their type, flags and body.
fn new_table(family: u8, accounting: bool, flags: u32) -> [(u16, u16, Vec<u8>); 3] {
    let mut table = head(family, 0);
    put(&mut table, NFTA_TABLE_NAME, NAME);
    put(&mut table, NFTA_TABLE_FLAGS, &flags.to_be_bytes());
    let mut chain = head(family, 0);
    put(&mut chain, NFTA_CHAIN_TABLE, NAME);
    put(&mut chain, NFTA_CHAIN_NAME, NAME);
    let mut expressions = Vec::new();
    ct(&mut expressions, STATE);
    if accounting {
        ct(&mut expressions, BYTES);
    }
    let mut rule = head(family, 0);
    put(&mut rule, NFTA_RULE_TABLE, NAME);
    put(&mut rule, NFTA_RULE_CHAIN, NAME);
    nest(&mut rule, NFTA_RULE_EXPRESSIONS, &expressions);
    [(NEW_TABLE, CREATE, table), (NEW_CHAIN, CREATE, chain), (NEW_RULE, CREATE | APPEND, rule)]
}

impl Tracking {
    /// Begins in the network namespace of the thread, or continues with what stays. With `stays`
    /// connections are tracked until [`Tracking::remove`] is called, and not only until the end of
    /// the process.
    ///
    /// # Errors
    /// Those of netlink: the kernel has no nf_tables, or no connection tracking.
    pub fn begin(tracked: Tracked, stays: bool) -> io::Result<Self> {
        let mut tracking = match Self::left()? {
            Some(left) => left,
            None => {
                let socket = if stays { None } else { Some(open()?) };
                Tracking { socket, tracked: Tracked::default() }
            }
        };
        tracking.set(tracked)?;
        Ok(tracking)
    }

    /// What is tracked from now on; in between, what is wanted before and after is tracked.
    ///
    /// # Errors
    /// Those of netlink; then nothing has changed.
    pub fn set(&mut self, tracked: Tracked) -> io::Result<()> {
        if tracked == self.tracked {
            return Ok(());
        }
        let (flags, mut once) = match self.stays() {
            true => (0, Some(open()?)),
            false => (OWNER, None),
        };
        let removed = self.tracked.families().map(|family| {
            let mut table = head(family, 0);
            put(&mut table, NFTA_TABLE_NAME, NAME);
            (DELETE_TABLE, 0, table)
        });
        let made = tracked.families().flat_map(|f| new_table(f, tracked.accounting, flags));
        let mut all: Vec<_> = removed.chain(made).collect();
        if let Some((_, flags, _)) = all.last_mut() {
            // An error about any of them takes the place of the answer.
            *flags |= ACK;
        }
        all.insert(0, (BEGIN, 0, head(0, SUBSYSTEM)));
        all.push((END, 0, head(0, SUBSYSTEM)));
        let messages: Vec<_> = (1..)
            .zip(all)
            .map(|(sequence, (kind, flags, body))| Message {
                kind,
                flags: flags | REQUEST,
                sequence,
                body,
            })
            .collect();
        if let Some(socket) = once.as_mut().or(self.socket.as_mut()) {
            socket.transact(&messages)?;
        }
        self.tracked = tracked;
        Ok(())
    }

    /// What an earlier process has begun that stays.
    ///
    /// # Errors
    /// Those of netlink: the kernel has no nf_tables.
    pub fn left() -> io::Result<Option<Self>> {
        let tables = tables()?;
        let [ip, ip6] =
            [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6].map(|f| tables.contains(&table(f as u8)));
        // Whether it counts is not seen.
        let tracked = Tracked { ip, ip6, accounting: false };
        Ok(tracked.any().then_some(Tracking { socket: None, tracked }))
    }

    /// Whether it stays after the end of the process.
    pub fn stays(&self) -> bool {
        self.socket.is_none()
    }

    /// Ends what stays, whoever began it.
    ///
    /// # Errors
    /// Those of netlink; none if there is nothing.
    pub fn remove() -> io::Result<()> {
        for family in [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6] {
            match remove_table(&table(family as u8)) {
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

fn open() -> io::Result<Socket> {
    Socket::open(libc::NETLINK_NETFILTER, 0)
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
        let [ip, ip6] = [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6].map(|f| table(f as u8));
        let both = Tracked { ip: true, ip6: true, accounting: false };
        let one = Tracked { ip: true, ip6: false, accounting: true };
        let acct = || std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_acct");
        let mut own = Tracking::begin(both, false).expect("tables");
        assert_eq!(tables().expect("tables"), [ip.clone(), ip6.clone()]);
        own.set(one).expect("a table");
        assert_eq!(tables().expect("tables"), std::slice::from_ref(&ip));
        assert_eq!(acct().expect("a setting").trim(), "1");
        own.set(both).expect("tables");
        drop(own);
        // A process that another test begins holds the socket for a moment.
        for _ in 0..500 {
            if tables().expect("tables").is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(tables().expect("tables"), []);
        drop(Tracking::begin(one, true).expect("a table"));
        assert!(Tracking::begin(both, true).expect("the same table").stays());
        assert_eq!(tables().expect("tables"), [ip, ip6]);
        Tracking::remove().expect("removed");
        Tracking::remove().expect("nothing to remove");
        assert_eq!(tables().expect("tables"), []);
    }
}
