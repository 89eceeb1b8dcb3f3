// SPDX-License-Identifier: Apache-2.0

//! What frames of a device pass that take the [fast path](super::fast_path).

use penstock_jit as jit;
use penstock_net::Mac;
use penstock_packet::Frame;

use crate::hooks::FamilyHooks;
use crate::pending_frames::PendingFrames;
use crate::plain_frame;
use crate::sink::Sink;
use crate::worker::Worker;

/// What frames of a device pass that take the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath<'a> {
    pub(crate) device: u32,
    pub(crate) address: Mac,
    /// The address as [`PlainFrame`] has it.
    pub(crate) receiver: u64,
    /// There are rules at ingress: only frames that have passed them go this way.
    pub(crate) filtered: bool,
    /// No hook sees packets of IPv4 before egress, and nothing else does.
    pub(crate) plain: bool,
    /// Connections may remember the way of their packets.
    pub(crate) remembers: bool,
    /// The hooks of IPv4, and those of IPv6, unless that is off on the device.
    v4: &'a FamilyHooks,
    pub(crate) v6: Option<&'a FamilyHooks>,
    /// About egress of the device by which the last packet left: the next ones mostly leave there,
    /// too. Of IPv4 only.
    pub(crate) egress_precheck: Option<EgressPrecheck<'a>>,
}

impl<'a> FastPath<'a> {
    /// The hooks of a family.
    #[inline(always)]
    pub(crate) fn hooks(&self, v6: bool) -> Option<&'a FamilyHooks> {
        if v6 { self.v6 } else { Some(self.v4) }
    }

    /// Whether headers say of packets of IPv4 that they pass egress of a device
    /// ([`ParsedFrame::egress_prechecked`](super::prefetcher::ParsedFrame::egress_prechecked)).
    #[inline(always)]
    pub(crate) fn prechecks_egress(&self, device: u32) -> bool {
        self.egress_precheck.is_some_and(|precheck| precheck.device == device)
    }
}

/// Code that says of frames whether their packets will pass a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EgressPrecheck<'a> {
    code: &'a jit::Compiled,
    list: usize,
    /// The device, at egress of which it is.
    device: u32,
}

impl EgressPrecheck<'_> {
    /// Those of some plain frames of a burst of which it is known that they pass.
    #[inline]
    pub(crate) fn pass(&self, frames: &[Frame<'_>], asked: PendingFrames) -> PendingFrames {
        PendingFrames::of_bits(self.code.egress_precheck(self.list, frames, asked.bits()))
    }
}

impl<'a, S: Sink> Worker<'a, S> {
    /// The fast path from a device; `None` if something else sees its frames on their way in, or
    /// they may become anything other than IP packets.
    pub(crate) fn fast_path_of(&self, device: u32) -> Option<FastPath<'a>> {
        let state = &*self.state;
        let watched = self.filtered(device) || state.ipsec.is_some() || state.trace_all;
        let watched = watched || state.taps.has(device);
        let hooks = self.hooks;
        if !self.fast_path || watched {
            return None;
        }
        let link = self.net.link(device).filter(|link| link.up && link.is_wire())?;
        if self.net.bridge_port(device).is_some() {
            return None;
        }
        let v4 = hooks.family(false);
        let forwards6 = link.mtu6().is_some() && link.conf.forwards6();
        let v6 = forwards6.then(|| hooks.family(true));
        let filtered = !hooks.ingress(device).is_empty();
        let egress_precheck = self.egress_precheck().filter(|_| v4.untouched);
        let (address, receiver) = (link.mac, plain_frame::receiver(link.mac.0));
        let plain = v4.empty && state.tc.is_none();
        // What is wrong with packets is told where they pass the hooks.
        let remembers = state.tc.is_none() && state.conntrack.settings().log_invalid == 0;
        Some(FastPath {
            egress_precheck,
            device,
            address,
            receiver,
            filtered,
            plain,
            remembers,
            v4,
            v6,
        })
    }

    /// Code that says what passes egress of the device by which the last packet left.
    fn egress_precheck(&self) -> Option<EgressPrecheck<'a>> {
        let device = self.state.forwarding.last_out;
        let list = self.hooks.egress(device).code?;
        let code = self.code.filter(|code| code.has_egress_precheck(list))?;
        Some(EgressPrecheck { code, list, device })
    }
}
