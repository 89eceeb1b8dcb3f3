// SPDX-License-Identifier: Apache-2.0

//! Tables of the kernel's nf_tables: which there are, and their removal
//! (`<linux/netfilter/nf_tables.h>`).

use std::io;

use crate::message::{Message, put};
use crate::socket::Socket;

/// Bytes of `struct nfgenmsg`.
const HEAD: usize = 4;

/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`
pub(crate) const BEGIN: u16 = 16;
pub(crate) const END: u16 = 17;
/// `NFNL_SUBSYS_NFTABLES`
pub(crate) const SUBSYSTEM: u16 = 10;
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const GET_CHAIN: u16 = SUBSYSTEM << 8 | 4;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const ACK: u16 = 4;

/// A table: its family (`NFPROTO_*`) and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// `NFPROTO_*`
    pub family: u8,
    /// Its name.
    pub name: String,
}

pub(crate) fn head(family: u8, resource: u16) -> Vec<u8> {
    let [high, low] = resource.to_be_bytes();
    vec![family, 0, high, low]
}

/// The tables of the network namespace.
///
/// # Errors
/// Those of netlink: the kernel may have no nf_tables.
pub fn tables() -> io::Result<Vec<Table>> {
    let mut socket = Socket::open(libc::NETLINK_NETFILTER, 0)?;
    let all = socket.dump(GET_TABLE, &head(0, 0))?;
    let table = |message: &Message| {
        let family = *message.body.first()?;
        Some(Table { family, name: message.attributes(HEAD).text(NFTA_TABLE_NAME)?.to_owned() })
    };
    Ok(all.iter().filter_map(table).collect())
}

/// A base chain: one that packets enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseChain {
    /// `NFPROTO_*`
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
}

/// The base chains of the network namespace.
///
/// # Errors
/// Those of netlink: the kernel may have no nf_tables.
pub fn base_chains() -> io::Result<Vec<BaseChain>> {
    let mut socket = Socket::open(libc::NETLINK_NETFILTER, 0)?;
    let all = socket.dump(GET_CHAIN, &head(0, 0))?;
    let chain = |message: &Message| {
        let attributes = message.attributes(HEAD);
        attributes.get(NFTA_CHAIN_HOOK)?;
        Some(BaseChain {
            family: *message.body.first()?,
            table: attributes.text(NFTA_CHAIN_TABLE)?.to_owned(),
            name: attributes.text(NFTA_CHAIN_NAME)?.to_owned(),
        })
    };
    Ok(all.iter().filter_map(chain).collect())
}

/// The word of nft(8) for a family.
pub fn family_name(family: u8) -> &'static str {
    match i32::from(family) {
        libc::NFPROTO_INET => "inet",
        libc::NFPROTO_IPV4 => "ip",
        libc::NFPROTO_IPV6 => "ip6",
        libc::NFPROTO_ARP => "arp",
        libc::NFPROTO_BRIDGE => "bridge",
        libc::NFPROTO_NETDEV => "netdev",
        _ => "?",
    }
}

/// Removes a table with all that is in it.
///
/// # Errors
/// Those of netlink: `ENOENT` if it is not there.
pub fn remove_table(table: &Table) -> io::Result<()> {
    let mut socket = Socket::open(libc::NETLINK_NETFILTER, 0)?;
    let mut body = head(table.family, 0);
    put(&mut body, NFTA_TABLE_NAME, &[table.name.as_bytes(), &[0]].concat());
    let message = |kind, flags, sequence, body| Message { kind, flags: flags | 1, sequence, body };
    socket.transact(&[
        message(BEGIN, 0, 1, head(0, SUBSYSTEM)),
        message(DELETE_TABLE, ACK, 2, body),
        message(END, 0, 3, head(0, SUBSYSTEM)),
    ])
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tables_are_listed_and_removed() {
        // SAFETY: no pointers; it concerns this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("skipped: no rights to make a network namespace");
            return;
        }
        let nft = Command::new("nft")
            .arg("table ip a { chain c { accept; }; }; table inet b { }")
            .status();
        if !nft.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no nft, or no nf_tables in the kernel");
            return;
        }
        let table = |family, name: &str| Table { family, name: name.to_owned() };
        let (a, b) = (table(libc::NFPROTO_IPV4 as u8, "a"), table(libc::NFPROTO_INET as u8, "b"));
        assert_eq!(tables().expect("tables"), [a.clone(), b.clone()]);
        assert_eq!(base_chains().expect("chains"), []);
        remove_table(&a).expect("removed");
        assert_eq!(tables().expect("tables"), [b]);
        assert_eq!(remove_table(&a).map_err(|e| e.raw_os_error()), Err(Some(libc::ENOENT)));
    }
}
