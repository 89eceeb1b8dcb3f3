// SPDX-License-Identifier: Apache-2.0

//! What stands at a place of the kernel.

use std::io;
use std::path::Path;

use penstock_bpf::{Link, LoadError, Mode, Order, Program, ProgramKind};
use penstock_ebpf::dispatch::{self, Generations};

use super::wanted::Spot;

/// A gate at its place. The place is as before when it is dropped.
#[derive(Debug)]
pub(super) struct Gate {
    spot: Spot,
    gate: dispatch::Gate,
    link: Link,
}

impl Spot {
    /// Attaches a program there; `before` is what stands before it ([`Spot::before`]).
    fn attach(self, program: &Program, before: Option<&Link>) -> io::Result<Link> {
        let first = before.map_or(Order::First, Order::After);
        match self {
            Spot::Xdp { device, generic: false } => program.attach(device, Mode::Native),
            Spot::Xdp { device, generic: true } => program.attach(device, Mode::Generic),
            Spot::TcxIngress { device } => program.attach_tcx(device, false, first),
            Spot::TcxEgress { device } => program.attach_tcx(device, true, first),
            Spot::BridgePrerouting { device } | Spot::BridgeGroups { device } => {
                program.attach_tcx(device, false, Order::Last)
            }
            Spot::BridgeInput { device } => program.attach_tcx(device, false, Order::First),
            Spot::BridgeForward { device } => program.attach_tcx(device, true, Order::First),
            Spot::Netfilter { hook, priority } => program.attach_netfilter(hook, priority, false),
        }
    }
}

impl Gate {
    /// Opens one at a place, for programs of a kind, after the gate of [`Spot::before`]. Packets
    /// continue until it has one.
    pub(super) fn open(
        spot: Spot,
        kind: ProgramKind,
        generations: &Generations,
        before: Option<&Gate>,
    ) -> Result<Self, LoadError> {
        let gate = dispatch::Gate::new()?;
        let before = before.map(|before| &before.link);
        let link = spot.attach(&gate.load(kind, generations)?, before)?;
        Ok(Gate { spot, gate, link })
    }

    /// One that an earlier process has left.
    pub(super) fn adopted(spot: Spot, gate: dispatch::Gate, link: Link) -> Self {
        Gate { spot, gate, link }
    }

    /// Gives its programs and its link names, by which they outlive the process.
    pub(super) fn pin(&self, programs: &Path, link: &Path) -> io::Result<()> {
        self.gate.pin(programs)?;
        self.link.pin(link)
    }

    /// Where it is.
    pub(super) fn spot(&self) -> Spot {
        self.spot
    }

    /// What packets meet here when the next generation is in force.
    pub(super) fn set_next(&self, generations: &Generations, program: &Program) -> io::Result<()> {
        self.gate.set_next(generations, program)
    }

    /// Packets continue here when the next generation is in force.
    pub(super) fn clear_next(&self, generations: &Generations) -> io::Result<()> {
        self.gate.clear_next(generations)
    }
}
