// SPDX-License-Identifier: Apache-2.0

//! Peers that are told by the protocol of Penstock ([`crate::secure`]), in the section `Penstock`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::words::Words;
use crate::secure::PublicKey;

/// Peers at most.
const MOST: usize = 16;
/// The port of TCP, if the file says nothing: conntrackd's number of UDP.
const PORT: u16 = 3780;

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecurePeer {
    /// Where it listens, and where its connections come from (`Address`, `Port`).
    pub address: SocketAddr,
    /// Its public key (`PublicKey`).
    pub key: PublicKey,
}

/// All peers, and what this side is to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secure {
    /// Where this side listens, and what its connections come from (`Address`, `Port`).
    pub address: SocketAddr,
    /// The file of the private key (`PrivateKey`).
    pub private_key: PathBuf,
    /// Elements of sets that packets change are told (`Elements`).
    pub elements: bool,
    /// Peers; at least one.
    pub peers: Vec<SecurePeer>,
}

/// What the section says so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    address: Option<IpAddr>,
    port: Option<u16>,
    private_key: Option<PathBuf>,
    elements: Option<bool>,
    peers: Vec<(IpAddr, Option<u16>, PublicKey)>,
}

fn address(words: &mut Words<'_>) -> Result<IpAddr, String> {
    let address: IpAddr = words.value("an address")?;
    let usable = match address {
        IpAddr::V4(a) => !a.is_unspecified() && !a.is_multicast() && !a.is_broadcast(),
        IpAddr::V6(a) => !a.is_unspecified() && !a.is_multicast() && !a.is_unicast_link_local(),
    };
    if usable {
        return Ok(address);
    }
    Err(words.error(format_args!("{address} is no address of one host that all links know")))
}

fn port(words: &mut Words<'_>) -> Result<u16, String> {
    match words.value("a port")? {
        0 => Err(words.error("there is no port 0")),
        port => Ok(port),
    }
}

impl Reading {
    /// Reads a clause of the section; `false` if it is none of these.
    pub(super) fn clause(&mut self, words: &mut Words<'_>, clause: &str) -> Result<bool, String> {
        match clause {
            "Address" => self.address = Some(address(words)?),
            "Port" => self.port = Some(port(words)?),
            "PrivateKey" => self.private_key = Some(words.need("a file")?.into()),
            "Elements" => self.elements = Some(words.switch()?),
            "Peer" => self.peer(words)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn peer(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let begin = words.line();
        let (mut its_address, mut its_port, mut key) = (None, None, None);
        words.section(|words, clause| {
            match clause {
                "Address" => its_address = Some(address(words)?),
                "Port" => its_port = Some(port(words)?),
                "PublicKey" => {
                    let word = words.need("a key")?;
                    key = Some(word.parse::<PublicKey>().map_err(|e| words.error(e))?);
                }
                _ => return Err(words.error(format_args!("Peer has no clause `{clause}`"))),
            }
            Ok(())
        })?;
        let missing = |what: &str| format!("line {begin}: the peer has no {what}");
        let its_address = its_address.ok_or_else(|| missing("Address"))?;
        let key = key.ok_or_else(|| missing("PublicKey"))?;
        if self.peers.iter().any(|(_, _, other)| *other == key) {
            return Err(format!("line {begin}: another peer has this key"));
        }
        if self.peers.len() >= MOST {
            return Err(format!("line {begin}: there are more than {MOST} peers"));
        }
        self.peers.push((its_address, its_port, key));
        Ok(())
    }

    /// What it says; `None` without any of it.
    pub(super) fn complete(self) -> Result<Option<Secure>, String> {
        if self == Reading::default() {
            return Ok(None);
        }
        let missing = |what: &str| format!("the section Penstock has no {what}");
        let own = self.address.ok_or_else(|| missing("Address"))?;
        let port = self.port.unwrap_or(PORT);
        let private_key = self.private_key.ok_or_else(|| missing("PrivateKey"))?;
        if self.peers.is_empty() {
            return Err(missing("Peer"));
        }
        if let Some((address, ..)) = self.peers.iter().find(|(a, ..)| a.is_ipv4() != own.is_ipv4())
        {
            return Err(format!("{own} and {address} are of two families"));
        }
        let peer = |(address, its_port, key): (IpAddr, Option<u16>, _)| SecurePeer {
            address: (address, its_port.unwrap_or(port)).into(),
            key,
        };
        Ok(Some(Secure {
            address: (own, port).into(),
            private_key,
            elements: self.elements.unwrap_or(true),
            peers: self.peers.into_iter().map(peer).collect(),
        }))
    }
}
