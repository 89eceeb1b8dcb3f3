// SPDX-License-Identifier: Apache-2.0

//! `reject` at ingress of devices (`nft_reject_netdev.c`): a function turns the packet into the
//! answer and sends it back by its device. What is not answered is dropped.
//!
//! ```text
//! before        [ link | IP ..................... ]
//! error         [ link | IP | ICMP | IP ... ]       a quote: the beginning of the packet stays
//! reset         [ link | IP | TCP ]                 in the place of the segment's header
//! ```
//!
//! The verifier looks at the function once, however many rules call it.

use penstock_bpf::asm::{Alu, Reg, Reg::*, Width};
use penstock_bpf::{ProgramKind, tcx, xdp};
use penstock_program::expr::{Reject, RejectType};

use super::answer::{Answer, HOW, MEMORY, RESET};
use super::chain::Rule;
use super::frame::*;
use super::kernel::{Kernel, NetPath};
use super::sites::Verdict;
use super::{Compiler, Device, Place};

/// Whether a place has `reject`. The error is why not.
pub(super) fn check(place: Place<'_>) -> Result<(), String> {
    let why = match place {
        Place::Xdp(_) | Place::TcxIngress(_) => {
            let kernel = Kernel::running()?;
            return match (&kernel.net, &kernel.answers) {
                (Some(_), Some(_)) => Ok(()),
                _ => Err(format!(
                    "{}, since the running kernel does not say which hop limits answers have",
                    place.no_code("reject")
                )),
            };
        }
        Place::XdpGeneric(_) => {
            "since a packet may be a super-packet there, or have an unfinished checksum, and an \
             answer made of it would be cut or changed on its way out"
        }
        Place::TcxEgress(_) => "where nf_tables has none",
        Place::Bridge(..) => "since its answer would not be one of the bridge",
        Place::Netfilter(_) => "since the kernel lets programs there send nothing",
    };
    Err(format!("{}, {why}", place.no_code("reject")))
}

impl Compiler<'_> {
    /// Answers, and drops the packet.
    pub(super) fn reject(&mut self, reject: &Reject, rule: &Rule) -> Result<(), String> {
        self.trace_rule(Verdict::Drop, rule)?;
        self.trace_end();
        let kind = if reject.kind == RejectType::TcpRst { RESET } else { 0 };
        let [v4, v6] = [false, true].map(|v6| i32::from(reject.icmp_code(v6)));
        let function = *self.answer.get_or_insert_with(|| self.asm.label());
        let asm = &mut self.asm;
        asm.store(Width::W, R10, SCRATCH + HOW, kind | v4 << 8 | v6 << 16);
        asm.mov(R1, CONTEXT);
        asm.mov(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(SCRATCH));
        asm.call_global(function, MEMORY);
        asm.exit();
        Ok(())
    }

    /// The function: context, and the place of registers and of bytes in the caller's frame, to the
    /// program's verdict.
    pub(super) fn answer_function(&mut self) {
        let Some(function) = self.answer else { return };
        let Ok(kernel) = Kernel::running() else { return };
        let (Some(_), Some(known)) = (&kernel.net, &kernel.answers) else { return };
        let kind = self.job.place.kind();
        let is_veth = |device: &Device| device.interface.kind.starts_with(b"veth\0");
        let redirects = self.job.place.device().is_some_and(is_veth);
        let [none, v4, v6, send] = [(); 4].map(|()| self.asm.label());
        self.asm.bind(function);
        Answer { asm: &mut self.asm, kernel, known, kind, none, redirects }.link(v4, v6);
        for (here, is_v6) in [(v4, false), (v6, true)] {
            self.asm.bind(here);
            self.hop_limit(kernel, is_v6);
            let mut answer = Answer { asm: &mut self.asm, kernel, known, kind, none, redirects };
            answer.network(is_v6, send);
        }
        self.asm.bind(send);
        Answer { asm: &mut self.asm, kernel, known, kind, none, redirects }.send();
        self.asm.bind(none);
        self.asm.exit_with(match kind {
            ProgramKind::Xdp => xdp::DROP,
            _ => tcx::DROP,
        });
    }

    /// R8 = the hop limit of answers: that of the namespace (`net.ipv4.ip_default_ttl`,
    /// `net.ipv6.conf.all.hop_limit`).
    fn hop_limit(&mut self, kernel: &Kernel, v6: bool) {
        let (Some(net), Some(known)) = (&kernel.net, &kernel.answers) else { return };
        self.network_namespace(kernel, net, R6);
        let asm = &mut self.asm;
        if !v6 {
            asm.load(Width::B, R8, R0, known.ttl);
            return;
        }
        asm.load(Width::D, R1, R0, known.devconf);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        asm.load(Width::W, R8, R0, known.hop_limit);
    }

    /// R0 = the network namespace (`struct net`) of the packet of a context, at a device.
    pub(super) fn network_namespace(&mut self, kernel: &Kernel, net: &NetPath, context: Reg) {
        self.asm.mov(R1, context);
        self.asm.call_kfunc(kernel.of_context);
        let path: &[i16] = match self.job.place.kind() {
            ProgramKind::Xdp => &[net.rxq, net.rxq_dev, net.dev_net],
            _ => &[kernel.skb.dev, net.dev_net],
        };
        for at in path {
            self.asm.load(Width::D, R1, R0, *at);
            self.asm.mov(R2, 0);
            self.asm.call_kfunc(kernel.cast);
        }
    }
}
