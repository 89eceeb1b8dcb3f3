// SPDX-License-Identifier: Apache-2.0

//! States and policies at work.

use std::net::IpAddr;

use crate::config::{Action, Config, DEPTH, Direction, Level, Mode};
use crate::esp::{Opened, Room};
use crate::policy::Policies;
use crate::secpath::SecPath;
use crate::state::State;
use crate::states::{StateId, States, address};
use crate::tunnel::Outer;
use crate::{Flow, Stat, Template};

/// The states that a packet is to go through, the innermost first; none for one that passes as it
/// is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bundle {
    states: [StateId; DEPTH],
    len: u8,
}

impl Bundle {
    /// The states.
    #[inline]
    pub fn states(&self) -> &[StateId] {
        self.states.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn push(&mut self, state: StateId) {
        if let Some(place) = self.states.get_mut(usize::from(self.len)) {
            *place = state;
            self.len += 1;
        }
    }

    /// With other numbers of the states. `None` if one has none.
    pub fn renumbered(&self, number: impl Fn(StateId) -> Option<StateId>) -> Option<Bundle> {
        let mut bundle = Bundle::default();
        for &state in self.states() {
            bundle.push(number(state)?);
        }
        Some(bundle)
    }

    /// What is left after the first `n`.
    pub fn rest(&self, n: usize) -> Bundle {
        let mut rest = Bundle::default();
        for &state in self.states().iter().skip(n) {
            rest.push(state);
        }
        rest
    }
}

/// States and policies at work. One worker uses it at a time.
#[derive(Debug)]
pub struct Xfrm {
    states: States,
    policies: [Policies; 3],
    defaults: [Action; 3],
    /// UDP ports that ESP arrives at.
    ports: Vec<u16>,
    started: bool,
}

impl Xfrm {
    /// From a configuration. `salt` returns unpredictable numbers: initialization vectors depend on
    /// them, so that a state that restarts its count with the same key does not repeat them.
    pub fn new(config: &Config, mut salt: impl FnMut() -> u128) -> Self {
        let mut states = States::default();
        let mut ports = Vec::new();
        for state in config.states() {
            if let Some(encapsulation) = state.encapsulation {
                ports.push(if state.out == Some(true) {
                    encapsulation.sport
                } else {
                    encapsulation.dport
                });
                ports.push(encapsulation.sport);
            }
            // Keys were looked at when the algorithms were made.
            if let Some(state) = State::new(state.clone(), salt()) {
                states.push(state);
            }
        }
        ports.sort_unstable();
        ports.dedup();
        let of = |direction| Policies::new(config.policies(), direction);
        let policies = [of(Direction::In), of(Direction::Out), of(Direction::Forward)];
        Xfrm { states, policies, defaults: config.defaults, ports, started: false }
    }

    /// This with another configuration: states that it has as they were continue, others begin.
    /// Gives the new number of each old one that is still there, too.
    pub fn follow(
        self,
        config: &Config,
        salt: impl FnMut() -> u128,
    ) -> (Self, impl Fn(StateId) -> Option<StateId>) {
        let mut next = Xfrm::new(config, salt);
        let moved: Vec<_> =
            self.states.into_all().map(|state| next.states.replace_same(state)).collect();
        (next, move |id: StateId| moved.get(id.0 as usize).copied().flatten())
    }

    /// Lifetimes begin with the first packet of all.
    #[inline]
    pub fn start(&mut self, now: u64) {
        if !self.started {
            self.started = true;
            for state in self.states.all_mut() {
                state.set_added(now);
            }
            for policies in &mut self.policies {
                policies.set_added(now);
            }
        }
    }

    /// All states.
    pub fn states(&self) -> &[State] {
        self.states.all()
    }

    /// A state.
    pub fn state(&self, id: StateId) -> &State {
        self.states.get(id)
    }

    /// Whether datagrams to any UDP port may hold ESP.
    #[inline]
    pub fn takes_any_udp(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Whether datagrams to this UDP port may hold ESP.
    #[inline]
    pub fn takes_udp(&self, port: u16) -> bool {
        self.ports.binary_search(&port).is_ok()
    }

    /// Whether a direction has anything to say about packets that came through no state.
    #[inline]
    pub fn asks(&self, direction: Direction) -> bool {
        !self.policies_of(direction).is_empty() || self.default_of(direction) == Action::Block
    }

    fn policies_of(&self, direction: Direction) -> &Policies {
        let [inward, outward, forward] = &self.policies;
        match direction {
            Direction::In => inward,
            Direction::Out => outward,
            Direction::Forward => forward,
        }
    }

    fn default_of(&self, direction: Direction) -> Action {
        let [inward, outward, forward] = self.defaults;
        match direction {
            Direction::In => inward,
            Direction::Out => outward,
            Direction::Forward => forward,
        }
    }

    fn find_policy(&mut self, direction: Direction, flow: &Flow, now: u64) -> Option<u32> {
        let [inward, outward, forward] = &mut self.policies;
        let policies = match direction {
            Direction::In => inward,
            Direction::Out => outward,
            Direction::Forward => forward,
        };
        policies.find(flow, now)
    }

    /// What a packet that leaves has to go through (`xfrm_lookup()`). `source` finds the address of
    /// this host towards another one, for tunnels that name none.
    ///
    /// # Errors
    /// It must not leave.
    pub fn output(
        &mut self,
        flow: &Flow,
        now: u64,
        source: impl FnMut(IpAddr) -> Option<IpAddr>,
    ) -> Result<Bundle, Stat> {
        let Some(policy) = self.find_policy(Direction::Out, flow, now) else {
            return match self.default_of(Direction::Out) {
                Action::Allow => Ok(Bundle::default()),
                Action::Block => Err(Stat::OutPolBlock),
            };
        };
        let [_, outward, _] = &self.policies;
        let Some(policy) = outward.get(policy) else { return Ok(Bundle::default()) };
        match policy.action {
            Action::Block => Err(Stat::OutPolBlock),
            Action::Allow => resolve(&mut self.states, &policy.templates, flow, now, source),
        }
    }

    /// Whether a packet may continue that came in (`__xfrm_policy_check()`): what it came through
    /// must be what policy asks for. An ICMP error that is to be forwarded and that no policy knows
    /// is judged by `answered`, the flow of answers to the packet that it is about
    /// (`xfrm_in_fwd_icmp()`).
    ///
    /// # Errors
    /// It may not.
    pub fn check(
        &mut self,
        direction: Direction,
        flow: &Flow,
        answered: Option<&Flow>,
        path: &mut SecPath,
        now: u64,
    ) -> Result<(), Stat> {
        if path.states().iter().any(|&id| !self.states.get(id).config.selector.matches(flow)) {
            return Err(Stat::InStateMismatch);
        }
        let mut found = self.find_policy(direction, flow, now);
        if let (None, Direction::Forward, Some(answered)) = (found, direction, answered) {
            found = self.find_policy(direction, answered, now);
        }
        let Some(policy) = found else {
            let refused =
                self.default_of(direction) == Action::Block || path.has_tunnel(&self.states);
            return if refused { Err(Stat::InNoPols) } else { Ok(()) };
        };
        let Some(policy) = self.policies_of(direction).get(policy) else { return Ok(()) };
        match policy.action {
            Action::Block => Err(Stat::InPolBlock),
            Action::Allow if path.satisfies(&self.states, &policy.templates) => Ok(()),
            Action::Allow => Err(Stat::InTmplMismatch),
        }
    }

    /// The state of an ESP packet that arrived. `udp` if it came within UDP.
    ///
    /// # Errors
    /// There is none, or it is not for such packets.
    #[inline]
    pub fn find(
        &mut self,
        destination: IpAddr,
        spi: u32,
        mark: u32,
        udp: bool,
        now: u64,
    ) -> Result<StateId, Stat> {
        let id = self.states.find(destination, spi, mark, now).ok_or(Stat::InNoStates)?;
        let config = &self.states.get(id).config;
        if config.out == Some(true) {
            return Err(Stat::InStateDir);
        }
        if config.encapsulation.is_some() != udp {
            return Err(Stat::InStateMismatch);
        }
        Ok(id)
    }

    /// Whether there is a state, of either direction, for ESP to a destination.
    pub fn has_state(&mut self, destination: IpAddr, spi: u32, mark: u32, now: u64) -> bool {
        self.states.find(destination, spi, mark, now).is_some()
    }

    /// How long packets may be that fit into `outer` bytes when they have gone through a state.
    pub fn mtu(&self, id: StateId, outer: usize) -> usize {
        self.states.get(id).mtu(outer)
    }

    /// Room that a state needs for a packet, which begins with its IP header.
    ///
    /// # Errors
    /// The packet cannot go through it.
    #[inline]
    pub fn room(&self, id: StateId, packet: &[u8]) -> Result<Room, Stat> {
        self.states.get(id).room(packet).ok_or(Stat::OutStateMode)
    }

    /// A packet goes through a state: `network` is the packet with the [`Room`] before and after
    /// it, and begins with an IP header afterwards.
    ///
    /// # Errors
    /// The state is used up, or the packet does not fit.
    #[inline]
    pub fn seal(
        &mut self,
        id: StateId,
        network: &mut [u8],
        room: Room,
        outer: Outer,
        now: u64,
    ) -> Result<(), Stat> {
        self.states.get_mut(id).seal(network, room, outer, now)
    }

    /// A packet comes out of a state: `network` begins with an IP header, and has ESP at `esp_at`.
    /// `kept` are the bytes of its IP headers, which stay in transport mode, and where among them
    /// the type of what follows is.
    ///
    /// # Errors
    /// It is not what it should be. Its bytes may have changed.
    #[inline]
    pub fn open(
        &mut self,
        id: StateId,
        network: &mut [u8],
        esp_at: usize,
        kept: (usize, usize),
        now: u64,
    ) -> Result<Opened, Stat> {
        let state = self.states.get_mut(id);
        match state.open(network, esp_at, kept, now) {
            Ok(opened) => {
                state.take(&opened);
                Ok(opened)
            }
            Err(wrong) => Err(state.count(wrong)),
        }
    }

    /// Decrypts without any consequence but for the bytes: [`Xfrm::take`] follows if the packet is
    /// to have arrived. `None` if it is not what it should be.
    #[inline]
    pub fn try_open(
        &mut self,
        id: StateId,
        network: &mut [u8],
        esp_at: usize,
        kept: (usize, usize),
        now: u64,
    ) -> Option<Opened> {
        self.states.get_mut(id).open(network, esp_at, kept, now).ok()
    }

    /// Where what an ESP packet holds begins, if its ESP header is at `esp_at`.
    #[inline]
    pub fn text_at(&self, id: StateId, esp_at: usize) -> usize {
        self.states.get(id).text_at(esp_at)
    }

    /// A packet of [`Xfrm::try_open`] has arrived.
    #[inline]
    pub fn take(&mut self, id: StateId, opened: &Opened) {
        self.states.get_mut(id).take(opened);
    }

    /// Whether packets may leave by a state: it is there, and not used up.
    #[inline]
    pub fn is_usable(&mut self, id: StateId, now: u64) -> bool {
        self.states.get_mut(id).is_usable(now)
    }

    /// Mark that a packet has after a state.
    #[inline]
    pub fn mark(&self, id: StateId, mark: u32) -> u32 {
        let output = self.states.get(id).config.output_mark;
        mark & !output.mask | output.value & output.mask
    }
}

/// States for templates (`xfrm_tmpl_resolve_one()`).
fn resolve(
    states: &mut States,
    templates: &[Template],
    flow: &Flow,
    now: u64,
    mut source_for: impl FnMut(IpAddr) -> Option<IpAddr>,
) -> Result<Bundle, Stat> {
    let mut bundle = Bundle::default();
    let (mut source, mut destination) =
        (address(flow.v6, flow.saddr), address(flow.v6, flow.daddr));
    for template in templates {
        let (near, far) = match template.mode {
            Mode::Transport => (source, destination),
            Mode::Tunnel if template.source.is_unspecified() => {
                (source_for(template.destination).ok_or(Stat::OutBundleGen)?, template.destination)
            }
            Mode::Tunnel => (template.source, template.destination),
        };
        match states.choose(template, near, far, flow, now) {
            Some(id) if states.get(id).config.out == Some(false) => return Err(Stat::OutStateDir),
            Some(id) => {
                bundle.push(id);
                (source, destination) = (near, far);
            }
            None if template.level == Level::Use => {}
            None => return Err(Stat::OutNoStates),
        }
    }
    Ok(bundle)
}
