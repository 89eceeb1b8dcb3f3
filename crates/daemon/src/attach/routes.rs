// SPDX-License-Identifier: Apache-2.0

//! What the kernel's routing tables say to `fib` of attached rules.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_dataplane::fib;
use penstock_ebpf::rules::{Answer, Question, Routes};
use penstock_net::address6::needs_device;
use penstock_net::{Flow4, Flow6, LOOPBACK, Link, Network, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};
use penstock_program::env::FibQuery;

/// Ranges of addresses at most, and answers for devices.
const MOST: usize = 1 << 18;
const MOST_OF_DEVICES: usize = 1 << 20;

/// No device has this index.
const NO_DEVICE: u32 = u32::MAX;

/// The network that the kernel has now, and what it has said: programs of several places ask the
/// same.
#[derive(Debug)]
pub(super) struct HostRoutes<'a> {
    net: &'a Network,
    said: RefCell<HashMap<Question, Result<Vec<Answer>, String>>>,
}

impl Routes for HostRoutes<'_> {
    fn answers(&self, question: Question) -> Result<Vec<Answer>, String> {
        if let Some(known) = self.said.borrow().get(&question) {
            return known.clone();
        }
        let answers = self.look_up(question);
        self.said.borrow_mut().insert(question, answers.clone());
        answers
    }

    fn names(&self) -> Vec<(u32, [u8; 16])> {
        let named = |link: &Link| {
            let mut name = [0; 16];
            name.iter_mut().zip(link.name.bytes()).for_each(|(to, byte)| *to = byte);
            (link.index, name)
        };
        self.net.links().iter().map(named).collect()
    }
}

impl<'a> HostRoutes<'a> {
    /// Nothing was asked yet.
    pub(super) fn new(net: &'a Network) -> Self {
        HostRoutes { net, said: RefCell::default() }
    }

    /// The answers for all addresses, in ascending ranges.
    fn look_up(&self, question: Question) -> Result<Vec<Answer>, String> {
        self.check(question)?;
        let starts: Vec<u128> = match question.v6 {
            true => self.starts6().into_iter().collect(),
            false => self.starts4().into_iter().collect(),
        };
        if starts.len() > MOST {
            return Err(format!("`fib` has BPF code for at most {MOST} ranges of routes"));
        }
        let most = if question.v6 { u128::MAX } else { u32::MAX.into() };
        let owners = self.owners();
        let mut all = Vec::with_capacity(starts.len());
        let mut by_devices = 0;
        for (i, first) in starts.iter().enumerate() {
            let last = starts.get(i + 1).map_or(most, |next| next - 1);
            let (other, by) = match question.device {
                Some(device) => (self.ask(question, *first, device)?, Vec::new()),
                None => {
                    let other = self.ask(question, *first, NO_DEVICE)?;
                    let devices = self.devices(question, *first, &owners);
                    let answers =
                        devices.into_iter().map(|d| Ok((d, self.ask(question, *first, d)?)));
                    let mut by = answers.collect::<Result<Vec<_>, String>>()?;
                    by.retain(|(_, answer)| *answer != other);
                    (other, by)
                }
            };
            by_devices += by.len();
            if by_devices > MOST_OF_DEVICES {
                return Err("the host has too many routes and devices for `fib`".into());
            }
            all.push(Answer { first: *first, last, by, other });
        }
        Ok(all)
    }

    /// Whether an answer depends on the address and the device only. The error is why it does not.
    fn check(&self, question: Question) -> Result<(), String> {
        let plain = match (question.v6, question.kind) {
            // The local table says it.
            (false, true) => true,
            (false, false) => self.net.is_plain4(),
            (true, _) => self.net.is_plain6(),
        };
        if plain {
            return Ok(());
        }
        Err("`fib` has BPF code only on a host without policy rules, VRFs, and routes for a TOS"
            .into())
    }

    fn ask(&self, question: Question, address: u128, device: u32) -> Result<u32, String> {
        let (daddr, saddr): (IpAddr, IpAddr) = match question.v6 {
            true => (Ipv6Addr::from(address).into(), Ipv6Addr::UNSPECIFIED.into()),
            false => (Ipv4Addr::from(address as u32).into(), Ipv4Addr::UNSPECIFIED.into()),
        };
        let query = FibQuery {
            daddr,
            saddr,
            tos: 0,
            mark: 0,
            iif: LOOPBACK,
            protocol: 0,
            device: question.limited.then_some(device),
        };
        if question.kind {
            return Ok(fib::kind(self.net, &query, device).into());
        }
        if question.v6 && !question.limited && self.has_several(address) {
            return Err("`fib` has no BPF code for an IPv6 route with several next hops".into());
        }
        Ok(fib::interface(self.net, &query, device).unwrap_or(0))
    }

    fn has_several(&self, daddr: u128) -> bool {
        let hit = self.net.route6(&Flow6 { daddr, iif: LOOPBACK, ..Flow6::default() });
        hit.is_ok_and(|hit| hit.route.nexthops.len() > 1)
    }

    /// Devices that the answer for an address may depend on.
    fn devices(
        &self,
        question: Question,
        address: u128,
        owners: &BTreeMap<u128, BTreeSet<u32>>,
    ) -> BTreeSet<u32> {
        let net = self.net;
        if !question.v6 {
            if !question.limited {
                return BTreeSet::new();
            }
            let flow = Flow4 { daddr: address as u32, iif: LOOPBACK, ..Flow4::default() };
            let hits =
                [net.route4(&flow).ok(), net.lookup4(TABLE_LOCAL, &flow).and_then(Result::ok)];
            let hops = hits.into_iter().flatten().flat_map(|hit| &hit.route.nexthops);
            return hops.map(|hop| hop.oif).collect();
        }
        if needs_device(address) {
            // Packets that the host sends may have no device yet.
            return net.links().iter().map(|link| link.index).chain([0]).collect();
        }
        if !question.limited {
            return BTreeSet::new();
        }
        let hit = net.route6(&Flow6 { daddr: address, iif: LOOPBACK, ..Flow6::default() });
        let hops = hit.iter().flat_map(|hit| &hit.route.nexthops).map(|hop| hop.oif);
        hops.chain(owners.get(&address).into_iter().flatten().copied()).collect()
    }

    /// The devices that have an IPv6 address.
    fn owners(&self) -> BTreeMap<u128, BTreeSet<u32>> {
        let mut all = BTreeMap::<_, BTreeSet<u32>>::new();
        for link in self.net.links() {
            for address in &link.addresses6 {
                all.entry(address.local).or_default().insert(link.index);
            }
        }
        all
    }

    /// First addresses of ranges of IPv4 of which the same is said.
    fn starts4(&self) -> BTreeSet<u128> {
        // Zero, groups and all ones mean something by themselves.
        let mut all: BTreeSet<u128> = [0, 1, 0xe000_0000, 0xf000_0000, 0xffff_ffff].into();
        for table in [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT] {
            all.extend(self.net.ranges4(table).into_iter().map(u128::from));
        }
        all
    }

    /// First addresses of ranges of IPv6 of which the same is said.
    fn starts6(&self) -> BTreeSet<u128> {
        // Loopback, link-local addresses and groups need a device.
        let mut all: BTreeSet<u128> = [0, 1, 2, 0xfe80 << 112, 0xfec0 << 112, 0xff << 120].into();
        // Groups of a link, whatever their flags are.
        for flags in 0..16 {
            let group = 0xff02 | flags << 4;
            all.extend([group << 112, (group + 1) << 112]);
        }
        for table in [TABLE_LOCAL, TABLE_MAIN] {
            all.extend(self.net.ranges6(table));
        }
        for address in self.owners().into_keys() {
            all.extend([Some(address), address.checked_add(1)].into_iter().flatten());
        }
        all
    }
}
