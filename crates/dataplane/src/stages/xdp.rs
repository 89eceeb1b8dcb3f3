// SPDX-License-Identifier: Apache-2.0

//! Programs of XDP: frames meet them before everything else (`bpf_prog_run_generic_xdp()`,
//! `xdp_do_redirect()`).

use penstock_ebpfvm::{Context as ProgramContext, Counts, Redirect};
use penstock_packet::{Frame, Meta, Packet};
use penstock_wire::ethernet;

use crate::bpf::{BpfAttachment, XDP};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::burst::Packets;
use crate::worker::Worker;

/// Verdicts (`enum xdp_action`).
const DROP: u32 = 1;
const PASS: u32 = 2;
const TX: u32 = 3;
const REDIRECT: u32 = 4;

/// What becomes of a frame.
pub(crate) enum Met {
    /// It passes as it is.
    Unchanged,
    /// It passes with other bytes.
    Changed(Vec<u8>),
    /// That was all.
    Ended,
}

impl<S: Sink> Worker<'_, S> {
    /// A frame meets the program of the device that it arrives on.
    pub(crate) fn xdp(&mut self, frame: &Frame<'_>, packet: &mut Packet) -> Met {
        let attached = self.state.bpf.xdp.get(frame.device as usize).cloned().flatten();
        let Some(attached) = attached.filter(|_| {
            self.net.link(frame.device).is_some_and(|link| link.up && link.has_link_header())
        }) else {
            return Met::Unchanged;
        };
        let mut context = self.state.bpf.take(XDP);
        if let ProgramContext::Xdp(xdp) = &mut *context {
            (xdp.ingress, xdp.queue) = (frame.device, 0);
            xdp.packet.set(frame.bytes);
        }
        let BpfAttachment { program, label, counts, .. } = &*attached;
        let verdict = self.run_program(program, (label, counts), &mut context, frame.time);
        let bytes = context.packet().bytes();
        let met = match verdict {
            Some(PASS) => {
                Counts::count(&counts.passed);
                if *bytes == *frame.bytes {
                    Met::Unchanged
                } else {
                    let mut changed = self.bytes();
                    changed.extend_from_slice(bytes);
                    Met::Changed(changed)
                }
            }
            Some(TX) => {
                Counts::count(&counts.transmitted);
                self.state.counters.received += 1;
                self.xdp_transmit(frame, frame.device, bytes);
                Met::Ended
            }
            Some(REDIRECT) => {
                self.state.counters.received += 1;
                match self.xdp_redirect(&attached, frame, &context) {
                    Ok(()) => _ = Counts::count(&counts.redirected),
                    Err(reason) => self.xdp_drop(reason, frame, packet),
                }
                Met::Ended
            }
            other => {
                self.state.counters.received += 1;
                let (counter, reason) = match other {
                    None => (None, DropReason::BpfFault),
                    Some(DROP) => (Some(&counts.dropped), DropReason::Xdp),
                    Some(_) => (Some(&counts.aborted), DropReason::XdpAborted),
                };
                counter.map(Counts::count);
                self.xdp_drop(reason, frame, packet);
                Met::Ended
            }
        };
        self.state.bpf.give_back(XDP, context);
        met
    }

    /// One frame, which first meets the program of its device.
    pub(crate) fn receive_by_xdp(&mut self, frame: &Frame<'_>, packets: &mut Packets) {
        match self.xdp(frame, &mut packets.one) {
            Met::Ended => {}
            Met::Unchanged => self.receive_burst(&[*frame], packets),
            Met::Changed(bytes) => {
                self.receive_burst(&[Frame { bytes: &bytes, ..*frame }], packets);
                self.give_back(bytes);
            }
        }
    }

    fn xdp_drop(&mut self, reason: DropReason, frame: &Frame<'_>, packet: &mut Packet) {
        packet.load(frame.bytes, ethernet::LEN);
        (packet.meta.iif, packet.meta.time) = (frame.device, frame.time);
        self.drop(reason, packet);
    }

    /// Sends a frame by devices, straight to their wires.
    fn xdp_redirect(
        &mut self,
        attached: &BpfAttachment,
        frame: &Frame<'_>,
        context: &ProgramContext,
    ) -> Result<(), DropReason> {
        let counts = &attached.counts;
        let ProgramContext::Xdp(xdp) = context else { return Err(DropReason::XdpAborted) };
        let Some(to) = xdp.redirect else {
            // The verdict alone, without a helper that says where.
            Counts::count(&counts.aborted);
            return Err(DropReason::XdpAborted);
        };
        let mut sent = 0;
        for device in self.redirect_targets(attached, frame.device, to) {
            sent += u64::from(self.xdp_transmit(frame, device, context.packet().bytes()));
        }
        if sent == 0 {
            Counts::count(&counts.nowhere);
            return Err(DropReason::XdpRedirect);
        }
        self.state.counters.originated += sent - 1;
        Ok(())
    }

    fn redirect_targets(&self, attached: &BpfAttachment, from: u32, to: Redirect) -> Vec<u32> {
        let Some(map) = to.broadcast else { return vec![to.device] };
        let machine = attached.program.instance().lock();
        let device = |value: &[u8]| value.first_chunk().map(|v| u32::from_le_bytes(*v));
        let mut devices: Vec<u32> = machine.map(map).map_or_else(Vec::new, |map| {
            map.elements().filter_map(|(_, value)| device(value)).collect()
        });
        devices.retain(|device| *device != 0 && !(to.exclude_ingress && *device == from));
        devices
    }

    /// Whether there is such a wire.
    fn xdp_transmit(&mut self, frame: &Frame<'_>, device: u32, bytes: &[u8]) -> bool {
        let Some(link) = self.net.link(device).filter(|link| link.is_wire() && link.up) else {
            return false;
        };
        let meta = Meta { time: frame.time, oif: link.index, ..Meta::default() };
        self.state.counters.transmitted += 1;
        self.sink.transmit(link, bytes, &meta);
        true
    }
}
