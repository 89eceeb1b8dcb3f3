// SPDX-License-Identifier: Apache-2.0

//! All states, found by address and SPI on the way in, and by a template on the way out
//! (`xfrm_state_lookup()`, `xfrm_state_find()`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::state::State;
use crate::{Flow, Template};
use penstock_wire::quick::QuickMap;

/// Number of a state, valid for the [`Xfrm`](crate::Xfrm) that gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StateId(pub(crate) u32);

/// An address as flows have it.
pub(crate) fn number(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(a) => (false, u128::from(u32::from(a))),
        IpAddr::V6(a) => (true, u128::from(a)),
    }
}

/// And back.
pub(crate) fn address(v6: bool, number: u128) -> IpAddr {
    if v6 { Ipv6Addr::from(number).into() } else { Ipv4Addr::from(number as u32).into() }
}

#[derive(Debug, Default)]
pub(crate) struct States {
    all: Vec<State>,
    by_spi: QuickMap<u32, Vec<u32>>,
    by_destination: QuickMap<(bool, u128), Vec<u32>>,
}

impl States {
    pub(crate) fn push(&mut self, state: State) {
        let id = self.all.len() as u32;
        self.by_spi.entry(state.config.spi).or_default().push(id);
        self.by_destination.entry(number(state.config.destination)).or_default().push(id);
        self.all.push(state);
    }

    pub(crate) fn into_all(self) -> impl Iterator<Item = State> {
        self.all.into_iter()
    }

    /// Puts a state in place of the one with the same configuration, if there is one: its number.
    pub(crate) fn replace_same(&mut self, state: State) -> Option<StateId> {
        for &id in self.by_spi.get(&state.config.spi)? {
            if let Some(place) = self.all.get_mut(id as usize)
                && place.config == state.config
            {
                *place = state;
                return Some(StateId(id));
            }
        }
        None
    }

    pub(crate) fn all(&self) -> &[State] {
        &self.all
    }

    pub(crate) fn all_mut(&mut self) -> &mut [State] {
        &mut self.all
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "numbers of states come from here, and no state ever goes"
    )]
    pub(crate) fn get(&self, id: StateId) -> &State {
        &self.all[id.0 as usize]
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "numbers of states come from here, and no state ever goes"
    )]
    pub(crate) fn get_mut(&mut self, id: StateId) -> &mut State {
        &mut self.all[id.0 as usize]
    }

    /// The state of a packet that arrived.
    #[inline]
    pub(crate) fn find(
        &mut self,
        destination: IpAddr,
        spi: u32,
        mark: u32,
        now: u64,
    ) -> Option<StateId> {
        for &id in self.by_spi.get(&spi)? {
            let state = self.all.get_mut(id as usize)?;
            if state.config.destination == destination
                && state.config.mark.matches(mark)
                && state.is_there(now)
            {
                return Some(StateId(id));
            }
        }
        None
    }

    /// The state for a template on the way from `source` to `destination`: one that is not about to
    /// end before one that is, then the latest (`xfrm_state_look_at()`); one for any source where
    /// there is no other.
    pub(crate) fn choose(
        &mut self,
        template: &Template,
        source: IpAddr,
        destination: IpAddr,
        flow: &Flow,
        now: u64,
    ) -> Option<StateId> {
        let mut best: Option<(bool, bool, u32)> = None;
        for &id in self.by_destination.get(&number(destination))? {
            let state = self.all.get_mut(id as usize)?;
            let config = &state.config;
            let any = config.source.is_unspecified();
            let fits = (any || config.source == source)
                && config.reqid == template.reqid
                && config.mode == template.mode
                && (template.spi == 0 || template.spi == config.spi)
                && config.mark.matches(flow.mark)
                && !config.flags.wildrecv;
            if fits && state.is_there(now) && state.carries(flow) {
                let rank = (!any, !state.is_dying(), id);
                best = best.max(Some(rank));
            }
        }
        best.map(|(.., id)| StateId(id))
    }
}
