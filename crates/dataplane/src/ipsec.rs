// SPDX-License-Identifier: Apache-2.0

//! IPsec as a worker remembers it: states and policies, what packets came through, and ways through
//! states.

use std::collections::HashMap;

use penstock_net::Network;
use penstock_packet::Packet;
use penstock_program::env::IpsecState;
use penstock_xfrm::{Bundle, Mode, SecPath, Stat, StateId, Xfrm};

use crate::reason::DropReason;
use crate::route::Route;

/// A way through states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bundled {
    pub(crate) states: Bundle,
    /// The way of the packet as it is.
    pub(crate) before: Route,
    /// The route of packets after the last state.
    pub(crate) after: Route,
}

/// Numbers that continue when a table is emptied, so that none is reused.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    first: u32,
    entries: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { first: 1, entries: Vec::new() }
    }
}

impl<T: Copy> Numbered<T> {
    pub(crate) fn add(&mut self, entry: T) -> u32 {
        self.entries.push(entry);
        self.first.wrapping_add(self.entries.len() as u32 - 1)
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<T> {
        self.entries.get(number.wrapping_sub(self.first) as usize).copied()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number.wrapping_sub(self.first) as usize)
    }

    pub(crate) fn clear(&mut self) {
        // Zero stands for none.
        self.first = self.first.wrapping_add(self.entries.len() as u32).max(1);
        self.entries.clear();
    }
}

/// States and policies of a worker, and what its packets have to do with them.
#[derive(Debug)]
pub(crate) struct Ipsec {
    pub(crate) xfrm: Xfrm,
    /// What the packets of a burst came through.
    pub(crate) secpaths: Numbered<SecPath>,
    /// Ways through states: there are about as many as states and routes. `None` for one without
    /// its state.
    pub(crate) bundles: Numbered<Option<Bundled>>,
    pub(crate) numbers: HashMap<Bundled, u32>,
    /// The host's stack carries policies out.
    pub(crate) by_host: bool,
}

/// Bundles that are kept before all are looked up again.
const WAYS: usize = 1 << 16;

impl Ipsec {
    /// `None` where the network says nothing about it. With a seed initialization vectors are the
    /// same each time.
    pub(crate) fn new(net: &Network, seed: Option<u64>) -> Option<Box<Self>> {
        let config = net.xfrm();
        if config.is_empty() {
            return None;
        }
        let xfrm = Xfrm::new(config, salts(seed));
        let (secpaths, bundles, numbers) =
            (Numbered::default(), Numbered::default(), HashMap::new());
        let by_host = config.is_by_host();
        Some(Box::new(Ipsec { xfrm, secpaths, bundles, numbers, by_host }))
    }

    /// Follows another state of the network: states that are as before continue, and ways keep
    /// their numbers.
    pub(crate) fn follow(self, net: &Network) -> Option<Box<Self>> {
        let Ipsec { xfrm, mut secpaths, mut bundles, .. } = self;
        let config = net.xfrm();
        if config.is_empty() {
            return None;
        }
        let (xfrm, moved) = xfrm.follow(config, salts(None));
        secpaths.clear();
        let mut numbers = HashMap::new();
        for (place, number) in bundles.entries.iter_mut().zip(0..) {
            let kept = place.and_then(|bundled| {
                Some(Bundled { states: bundled.states.renumbered(&moved)?, ..bundled })
            });
            *place = kept;
            numbers.extend(kept.map(|bundled| (bundled, bundles.first.wrapping_add(number))));
        }
        Some(Box::new(Ipsec { xfrm, secpaths, bundles, numbers, by_host: config.is_by_host() }))
    }

    /// What a packet came through.
    pub(crate) fn secpath(&self, packet: &Packet) -> SecPath {
        match packet.meta.secpath {
            0 => SecPath::default(),
            number => self.secpaths.get(number).unwrap_or_default(),
        }
    }

    /// Notes what a packet came through, and gives its number.
    pub(crate) fn note(&mut self, path: SecPath) -> u32 {
        self.secpaths.add(path)
    }

    /// What packets are known to have come through.
    pub(crate) fn secpath_count(&self) -> usize {
        self.secpaths.entries.len()
    }

    /// Clears the security paths of packets that have ended.
    pub(crate) fn clear_secpaths(&mut self) {
        self.secpaths.clear();
    }

    pub(crate) fn bundled(&self, to: &Route) -> Option<Bundled> {
        if to.bundle == 0 { None } else { self.bundles.get(to.bundle).flatten() }
    }

    /// The number of a way.
    pub(crate) fn number(&mut self, bundled: Bundled) -> u32 {
        if let Some(&number) = self.numbers.get(&bundled) {
            return number;
        }
        if self.numbers.len() >= WAYS {
            self.bundles.clear();
            self.numbers.clear();
        }
        let number = self.bundles.add(Some(bundled));
        self.numbers.insert(bundled, number);
        number
    }
}

/// Numbers for initialization vectors; with a seed they are the same each time.
fn salts(seed: Option<u64>) -> impl FnMut() -> u128 {
    let mut seeded = seed.map(fastrand::Rng::with_seed);
    move || match &mut seeded {
        Some(random) => random.u128(..),
        None => penstock_xfrm::random_salt(),
    }
}

/// Why a packet ends, in the path's words.
pub(crate) fn reason(stat: Stat) -> DropReason {
    match stat {
        Stat::InBuffer => DropReason::XfrmInBufferError,
        Stat::InHeader => DropReason::XfrmInHdrError,
        Stat::InNoStates => DropReason::XfrmInNoStates,
        Stat::InStateProto => DropReason::XfrmInStateProtoError,
        Stat::InStateMode => DropReason::XfrmInStateModeError,
        Stat::InStateSeq => DropReason::XfrmInStateSeqError,
        Stat::InStateExpired => DropReason::XfrmInStateExpired,
        Stat::InStateMismatch => DropReason::XfrmInStateMismatch,
        Stat::InStateDir => DropReason::XfrmInStateDirError,
        Stat::InTmplMismatch => DropReason::XfrmInTmplMismatch,
        Stat::InNoPols => DropReason::XfrmInNoPols,
        Stat::InPolBlock => DropReason::XfrmInPolBlock,
        Stat::OutBundleGen => DropReason::XfrmOutBundleGenError,
        Stat::OutNoStates => DropReason::XfrmOutNoStates,
        Stat::OutStateProto => DropReason::XfrmOutStateProtoError,
        Stat::OutStateMode => DropReason::XfrmOutStateModeError,
        Stat::OutStateSeq => DropReason::XfrmOutStateSeqError,
        Stat::OutStateExpired => DropReason::XfrmOutStateExpired,
        Stat::OutStateDir => DropReason::XfrmOutStateDirError,
        Stat::OutPolBlock => DropReason::XfrmOutPolBlock,
    }
}

/// A state as rules see it.
pub(crate) fn shown(xfrm: &Xfrm, id: StateId) -> IpsecState {
    let config = &xfrm.state(id).config;
    let tunnel = (config.mode == Mode::Tunnel).then_some((config.source, config.destination));
    IpsecState { reqid: config.reqid, spi: config.spi, tunnel }
}
