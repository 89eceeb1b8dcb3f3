// SPDX-License-Identifier: Apache-2.0

//! Words of ip-link(8) about links of all types.

use crate::kind::Loopback;
use crate::lines::{self, Words, unknown};
use crate::{Link, Mac};

/// Words that `link add` and `link set` share.
#[derive(Default)]
pub(crate) struct LinkWords {
    pub(crate) name: Option<String>,
    pub(crate) lower: Option<String>,
    pub(crate) new_name: Option<String>,
    pub(crate) mac: Option<Mac>,
    pub(crate) broadcast: Option<Mac>,
    pub(crate) mtu: Option<u32>,
    pub(crate) index: Option<u32>,
    pub(crate) up: Option<bool>,
    pub(crate) arp: Option<bool>,
    pub(crate) promiscuous: Option<bool>,
    pub(crate) all_multicast: Option<bool>,
    pub(crate) multicast: Option<bool>,
    pub(crate) group: Option<u32>,
    pub(crate) generate: Option<bool>,
    pub(crate) alias: Option<String>,
    pub(crate) netns: bool,
    /// The bridge, `None` within for `nomaster`.
    pub(crate) master: Option<Option<String>>,
}

impl LinkWords {
    /// Reads until the end or the word `type`, which it leaves; `true` if it stopped there.
    pub(crate) fn read(&mut self, w: &mut Words<'_>, adding: bool) -> Result<bool, String> {
        loop {
            if w.peek() == Some("type") {
                return Ok(true);
            }
            let Some(word) = w.next() else { return Ok(false) };
            match word {
                "name" if adding => self.name = Some(w.value()?.to_owned()),
                "name" => self.new_name = Some(w.value()?.to_owned()),
                "dev" => self.name = Some(w.value()?.to_owned()),
                "link" if adding => self.lower = Some(w.value()?.to_owned()),
                "address" | "addr" => self.mac = Some(w.mac()?),
                "broadcast" | "brd" => self.broadcast = Some(w.mac()?),
                "mtu" => self.mtu = Some(w.number()?),
                "index" if adding => self.index = Some(w.number()?),
                "txqueuelen" | "qlen" | "txqlen" | "numtxqueues" | "numrxqueues"
                | "gso_max_size" | "gso_max_segs" | "gso_ipv4_max_size" | "gro_max_size"
                | "gro_ipv4_max_size" => {
                    w.number::<u32>()?;
                }
                "up" => self.up = Some(true),
                "down" => self.up = Some(false),
                "arp" => self.arp = Some(w.on_off()?),
                "promisc" => self.promiscuous = Some(w.on_off()?),
                "allmulticast" => self.all_multicast = Some(w.on_off()?),
                "multicast" => self.multicast = Some(w.on_off()?),
                "carrier" if w.peek() == Some("on") => {
                    w.on_off()?;
                }
                "group" => {
                    self.group = Some(match w.value()? {
                        "default" => 0,
                        n => lines::number(n).ok_or_else(|| format!("\"{n}\" is not a group"))?,
                    })
                }
                "addrgenmode" => {
                    self.generate = Some(match w.value()? {
                        "none" => false,
                        "eui64" => true,
                        m @ ("stable_secret" | "random") => {
                            return Err(format!("\"addrgenmode {m}\" is not supported"));
                        }
                        m => return Err(unknown(m)),
                    })
                }
                "alias" => self.alias = Some(w.value()?.to_owned()),
                "netns" => {
                    w.value()?;
                    self.netns = true;
                }
                "master" => self.master = Some(Some(w.value()?.to_owned())),
                "nomaster" if !adding => self.master = Some(None),
                "vrf" | "xdp" | "xdpgeneric" | "xdpdrv" | "xdpoffload" | "vf" | "carrier"
                | "protodown" | "dynamic" | "trailers" | "operstate" | "state" | "mode"
                | "macaddr" | "altname" | "property" => {
                    return Err(format!("\"{word}\" is not supported yet"));
                }
                name if self.name.is_none() && !name.starts_with('-') => {
                    self.name = Some(name.to_owned())
                }
                other => return Err(unknown(other)),
            }
        }
    }

    /// A link with this name as the words say, with a kind that the caller replaces.
    pub(crate) fn link(&self, name: &str) -> Link {
        Link {
            index: self.index.unwrap_or(0),
            name: name.into(),
            kind: Loopback.into(),
            port: None,
            mac: self.mac.unwrap_or_default(),
            mac_inherited: false,
            broadcast: self.broadcast.unwrap_or(Mac::BROADCAST),
            mtu: self.mtu.unwrap_or(1500),
            up: false,
            arp: self.arp.unwrap_or(true),
            promiscuous: self.promiscuous.unwrap_or(false),
            all_multicast: self.all_multicast.unwrap_or(false),
            multicast: self.multicast.unwrap_or(true),
            group: self.group.unwrap_or(0),
            addrgenmode: self.generate.unwrap_or(true),
            alias: None,
            addresses4: Vec::new(),
            addresses6: Vec::new(),
            conf: Default::default(),
        }
    }

    /// For links without link addresses.
    pub(crate) fn refuse_ethernet(&self) -> Result<(), String> {
        if self.mac.is_some() || self.broadcast.is_some() {
            return Err("Operation not supported: the device has no link address".into());
        }
        Ok(())
    }
}
