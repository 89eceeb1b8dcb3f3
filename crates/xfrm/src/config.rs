// SPDX-License-Identifier: Apache-2.0

//! What `ip xfrm` lines say: states, policies and their templates, with the kernel's refusals
//! (`net/xfrm/xfrm_user.c`).

use std::net::IpAddr;

use crate::replay::MAX_WINDOW;
use crate::{Algorithms, Flow, Limits};

/// Transformations that a packet may have, one in the other (`XFRM_MAX_DEPTH`).
pub const DEPTH: usize = 6;

/// `XFRM_MODE_*`, those that there are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Between the IP header and what it carries.
    Transport,
    /// Around whole packets, with another IP header.
    Tunnel,
}

/// Where a policy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// To this host.
    In = 0,
    /// Out of this host, its own packets and those that it forwards.
    Out = 1,
    /// Through this host, as they came in.
    Forward = 2,
}

/// What a policy says about packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They pass, by way of the templates.
    #[default]
    Allow,
    /// They end.
    Block,
}

/// Whether a template may go unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// No.
    #[default]
    Required,
    /// If there is no state for it (`level use`).
    Use,
}

/// A value under a mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Value.
    pub value: u32,
    /// Bits that count.
    pub mask: u32,
}

impl Mark {
    /// Whether a packet mark fits.
    #[inline]
    pub fn matches(&self, mark: u32) -> bool {
        mark & self.mask == self.value
    }
}

/// Which packets (`struct xfrm_selector`). IPv4 addresses are in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// IPv6; `None` for both families.
    pub v6: Option<bool>,
    /// Source prefix: bits beyond the length are zero.
    pub source: (u128, u8),
    /// Destination prefix.
    pub destination: (u128, u8),
    /// Protocol, 0 for all.
    pub protocol: u8,
    /// Source port and its mask.
    pub sport: (u16, u16),
    /// Destination port and its mask.
    pub dport: (u16, u16),
    /// Device that the packet leaves by, 0 for all.
    pub device: u32,
}

fn in_prefix(address: u128, (prefix, len): (u128, u8), v6: bool) -> bool {
    let bits = if v6 { 128 } else { 32 };
    len == 0 || (address ^ prefix) >> (bits - u32::from(len).min(bits)) == 0
}

impl Selector {
    /// Whether a packet is one of those (`xfrm_selector_match()`), its family aside.
    pub fn matches(&self, flow: &Flow) -> bool {
        in_prefix(flow.daddr, self.destination, flow.v6)
            && in_prefix(flow.saddr, self.source, flow.v6)
            && (flow.dport ^ self.dport.0) & self.dport.1 == 0
            && (flow.sport ^ self.sport.0) & self.sport.1 == 0
            && (self.protocol == 0 || self.protocol == flow.protocol)
            && (self.device == 0 || self.device == flow.oif)
    }
}

/// ESP within UDP (RFC 3948). Ports are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Source port of packets that leave by this state.
    pub sport: u16,
    /// Destination port of packets that leave by this state.
    pub dport: u16,
}

/// `XFRM_STATE_*` and `XFRM_SA_XFLAG_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFlags {
    /// Congestion marks are not carried over, neither way.
    pub noecn: bool,
    /// The inner packet gets the outer one's DSCP when it comes out.
    pub decap_dscp: bool,
    /// The outer packet never has DF.
    pub nopmtudisc: bool,
    /// Only for packets that arrive.
    pub wildrecv: bool,
    /// Selectors say nothing about the family.
    pub af_unspec: bool,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The outer packet has DSCP 0.
    pub dont_encap_dscp: bool,
    /// Sequence numbers restart after the last one.
    pub oseq_may_wrap: bool,
}

/// A state as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct StateConfig {
    /// Source: of the outer header in tunnel mode.
    pub source: IpAddr,
    /// Destination, of the same family.
    pub destination: IpAddr,
    /// Security parameter index.
    pub spi: u32,
    /// Mode.
    pub mode: Mode,
    /// Number by which templates ask for it.
    pub reqid: u32,
    /// What is done.
    pub algorithms: Algorithms,
    /// Sequence numbers in the window of those that arrive, 0 for no check.
    pub window: u32,
    /// Highest sequence number that has arrived.
    pub seq: u64,
    /// Latest sequence number that has left.
    pub oseq: u64,
    /// Flags.
    pub flags: StateFlags,
    /// Which packets may go through it.
    pub selector: Selector,
    /// How long.
    pub limits: Limits,
    /// Within UDP.
    pub encapsulation: Option<Encapsulation>,
    /// Only packets with such a mark.
    pub mark: Mark,
    /// Packets that went through get this mark.
    pub output_mark: Mark,
    /// Only for packets that leave (`true`), or that arrive.
    pub out: Option<bool>,
}

/// A transformation that a policy asks for (`struct xfrm_tmpl`): ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Source of a tunnel; unspecified for one that suits.
    pub source: IpAddr,
    /// Destination of a tunnel.
    pub destination: IpAddr,
    /// SPI, 0 for any.
    pub spi: u32,
    /// Mode.
    pub mode: Mode,
    /// Number of the state, 0 for any.
    pub reqid: u32,
    /// Whether it may go unused.
    pub level: Level,
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Which packets. Its family is always there.
    pub selector: Selector,
    /// Where.
    pub direction: Direction,
    /// What.
    pub action: Action,
    /// Lower ones come first.
    pub priority: u32,
    /// Only packets with such a mark.
    pub mark: Mark,
    /// How long.
    pub limits: Limits,
    /// The transformations, the innermost first.
    pub templates: Vec<Template>,
}

/// States and policies as configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(crate) states: Vec<StateConfig>,
    pub(crate) policies: Vec<Policy>,
    /// What holds where no policy says anything: in, out, forward.
    pub(crate) defaults: [Action; 3],
    /// Another stack has the states: it is to have packets that are to go through them.
    pub(crate) by_host: bool,
}

const EXISTS: &str = "File exists";
const NO_STATE: &str = "No such process";
const NO_POLICY: &str = "No such file or directory";

impl Config {
    /// Policies, in their order, and defaults (in, out, forward) of a stack that carries them out
    /// itself: it has the states, and is to have packets that policy wants to go through some.
    pub fn of_host(policies: Vec<Policy>, defaults: [Action; 3]) -> Config {
        let by_host = !policies.is_empty() || defaults.contains(&Action::Block);
        Config { states: Vec::new(), policies, defaults, by_host }
    }

    /// Whether another stack has the states.
    pub fn is_by_host(&self) -> bool {
        self.by_host
    }

    /// Whether there is nothing: packets need not ask.
    pub fn is_empty(&self) -> bool {
        *self == Config::default()
    }

    /// The states.
    pub fn states(&self) -> &[StateConfig] {
        &self.states
    }

    /// The policies.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    fn state(&self, destination: IpAddr, spi: u32, mark: Mark) -> Option<usize> {
        self.states
            .iter()
            .position(|s| s.destination == destination && s.spi == spi && s.mark == mark)
    }

    /// Adds a state, or puts it in the place of the one with its address, SPI and mark.
    ///
    /// # Errors
    /// The kernel's words.
    pub fn add_state(&mut self, state: StateConfig, update: bool) -> Result<(), String> {
        if state.source.is_ipv6() != state.destination.is_ipv6() {
            return Err("source and destination are of different families".into());
        }
        if state.window > MAX_WINDOW {
            return Err(format!("\"replay-window\" is {MAX_WINDOW} at most"));
        }
        if state.flags.esn && state.window == 0 && state.out != Some(true) {
            return Err("\"flag esn\" needs a \"replay-window\"".into());
        }
        if !state.flags.esn && (state.seq > u32::MAX.into() || state.oseq > u32::MAX.into()) {
            return Err("the high half of sequence numbers needs \"flag esn\"".into());
        }
        match (self.state(state.destination, state.spi, state.mark), update) {
            (Some(_), false) => return Err(EXISTS.into()),
            (None, true) => return Err(NO_STATE.into()),
            (Some(at), true) => self.states[at] = state,
            (None, false) => self.states.push(state),
        }
        Ok(())
    }

    /// Removes a state.
    ///
    /// # Errors
    /// It is not there.
    pub fn delete_state(
        &mut self,
        destination: IpAddr,
        spi: u32,
        mark: Mark,
    ) -> Result<(), String> {
        let at = self.state(destination, spi, mark).ok_or(NO_STATE)?;
        self.states.remove(at);
        Ok(())
    }

    /// Removes all states.
    pub fn flush_states(&mut self) {
        self.states.clear();
    }

    fn policy(&self, direction: Direction, selector: &Selector, mark: Mark) -> Option<usize> {
        let same =
            |p: &Policy| p.direction == direction && p.selector == *selector && p.mark == mark;
        self.policies.iter().position(same)
    }

    /// Adds a policy, or puts it in the place of the one with its direction, selector and mark.
    ///
    /// # Errors
    /// The kernel's words.
    pub fn add_policy(&mut self, policy: Policy, update: bool) -> Result<(), String> {
        if policy.templates.len() > DEPTH {
            return Err("Numerical result out of range".into());
        }
        let mut family = policy.selector.v6 == Some(true);
        for template in &policy.templates {
            let v6 = template.destination.is_ipv6();
            if template.source.is_ipv6() != v6 {
                return Err("a template has addresses of different families".into());
            }
            // validate_tmpl()
            let optional = template.level == Level::Use;
            match template.mode {
                Mode::Tunnel if optional && policy.direction == Direction::Out => {
                    return Err("Mode in optional template not allowed in outbound policy".into());
                }
                Mode::Transport if v6 != family => {
                    return Err("Mode in template doesn't support a family change".into());
                }
                Mode::Tunnel | Mode::Transport => {}
            }
            family = v6;
        }
        match (self.policy(policy.direction, &policy.selector, policy.mark), update) {
            (Some(_), false) => return Err(EXISTS.into()),
            // The new one comes after others of its priority.
            (Some(at), true) => {
                self.policies.remove(at);
                self.policies.push(policy);
            }
            (None, _) => self.policies.push(policy),
        }
        Ok(())
    }

    /// Removes a policy.
    ///
    /// # Errors
    /// It is not there.
    pub fn delete_policy(
        &mut self,
        direction: Direction,
        selector: &Selector,
        mark: Mark,
    ) -> Result<(), String> {
        let at = self.policy(direction, selector, mark).ok_or(NO_POLICY)?;
        self.policies.remove(at);
        Ok(())
    }

    /// Removes all policies.
    pub fn flush_policies(&mut self) {
        self.policies.clear();
    }

    /// What holds where no policy says anything (`ip xfrm policy setdefault`).
    pub fn set_default(&mut self, direction: Direction, action: Action) {
        self.defaults[direction as usize] = action;
    }
}
