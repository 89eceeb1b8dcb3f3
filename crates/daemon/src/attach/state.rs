// SPDX-License-Identifier: Apache-2.0

//! What is in the kernel: gates with the programs of the generation in force, those of the next
//! one, the half that nf_tables runs, and names by which it outlives the process.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_bpf::{LoadError, Program};
use penstock_ebpf::dispatch::Generations;
use penstock_ebpf::rules::Counters;
use penstock_net::Network;
use penstock_netlink::{Tracked, Tracking};
use penstock_print::show::status::LeftOut;
use penstock_ruleset::Table;
use penstock_ruleset::link::Linked;

use super::NotAttached;
use super::gate::Gate;
use super::kernel_half::KernelHalf;
use super::pins::Left;
use super::split::HookPlace;
use super::wanted::{Spot, Wanted};
use crate::log;
use crate::pins::Pins;

/// A program in the kernel, and what it counts.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) program: Program,
    pub(super) counters: Mutex<Counters>,
}

impl Loaded {
    /// The rules' counters have what it has counted.
    pub(super) fn collect(&self) {
        // A map that is there can be read.
        let _ = self.counters.lock().unwrap_or_else(PoisonError::into_inner).collect();
    }
}

/// Chains of a generation at their place.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) wanted: Wanted,
    pub(super) loaded: Arc<Loaded>,
}

impl Running {
    /// Whether it is the program that is wanted.
    fn does(&self, wanted: &Wanted) -> bool {
        self.wanted.spot == wanted.spot && self.wanted.compiled.is_same(&wanted.compiled)
    }

    /// Whether the program that is in force after this one may be followed by this one again.
    fn may_come_after(&self, now: &Running) -> bool {
        self.wanted.spot == now.wanted.spot
            && self.wanted.compiled.shares_sets_with(&now.wanted.compiled)
    }
}

/// What is in the kernel, and what is about to be.
#[derive(Debug)]
pub(super) struct State {
    pub(super) generations: Generations,
    pub(super) gates: Vec<Gate>,
    /// `None` until it is known.
    pub(super) net: Option<Arc<Network>>,
    /// The generation in force, its tables, and its programs.
    pub(super) linked: Arc<Linked>,
    pub(super) tables: Vec<Arc<Table>>,
    pub(super) running: Vec<Running>,
    /// Programs of the next generation.
    pub(super) next: Option<Vec<Running>>,
    /// What nf_tables runs of the generation in force and of the next one, and why.
    pub(super) moved: Vec<LeftOut>,
    pub(super) next_moved: Vec<LeftOut>,
    /// Tables of the next generation, and those for nf_tables.
    pub(super) next_tables: Vec<Arc<Table>>,
    pub(super) next_kernel: Vec<Arc<Table>>,
    /// What nf_tables runs, if it runs anything.
    pub(super) kernel: Option<KernelHalf>,
    /// Hooks and priorities where others stand, so that no program can.
    pub(super) busy: Vec<HookPlace>,
    /// Parts of the generation in force, and of the next one, that do not run.
    pub(super) left_out: Vec<LeftOut>,
    pub(super) next_left_out: Vec<LeftOut>,
    /// Programs of the generation before, which the next one may need again.
    pub(super) before: Vec<Running>,
    /// Connection tracking of the kernel, while rules read connections.
    pub(super) tracking: Option<Tracking>,
    /// Names by which gates outlive the process.
    pub(super) pins: Option<Pins>,
    /// Names that an earlier process has given, until a generation of this one is in force.
    pub(super) left: Option<Left>,
    /// The network has changed since the next generation was loaded.
    pub(super) stale: bool,
}

/// Why programs are not loaded.
pub(super) enum NotLoaded {
    /// Something else stands at a hook with the same priority.
    Busy(HookPlace, String),
    /// A sentence.
    Failed(String),
}

impl From<String> for NotLoaded {
    fn from(sentence: String) -> Self {
        NotLoaded::Failed(sentence)
    }
}

/// What rules read of connections.
fn tracked(linked: &Linked) -> Tracked {
    let needs = &linked.needs;
    Tracked { ip: needs.conntrack.ip, ip6: needs.conntrack.ip6, accounting: needs.accounting }
}

impl State {
    /// What rules read of connections is tracked, of the generation in force and of the next one.
    /// The error is a sentence.
    pub(super) fn track(&mut self, linked: &Linked) -> Result<(), String> {
        let (now, next) = (tracked(&self.linked), tracked(linked));
        let both = Tracked {
            ip: now.ip || next.ip,
            ip6: now.ip6 || next.ip6,
            accounting: now.accounting || next.accounting,
        };
        self.set_tracked(both).map_err(|e| format!("the kernel does not track connections: {e}"))
    }

    fn set_tracked(&mut self, tracked: Tracked) -> io::Result<()> {
        match &mut self.tracking {
            Some(tracking) => tracking.set(tracked)?,
            None if tracked.any() => {
                self.tracking = Some(Tracking::begin(tracked, self.pins.is_some())?);
            }
            None => {}
        }
        Ok(())
    }

    /// Says what does not run from now on.
    pub(super) fn leave_out(&mut self, left_out: Vec<LeftOut>) {
        for part in left_out.iter().filter(|part| !self.left_out.contains(part)) {
            log(format_args!("NOT attached: {part}"));
        }
        self.left_out = left_out;
    }

    /// Whether all that is wanted runs, and nothing else.
    pub(super) fn is_running(&self, wanted: &[Wanted]) -> bool {
        self.running.len() == wanted.len()
            && wanted.iter().all(|wanted| self.program_of(wanted).is_some())
    }

    /// The program that runs and does what is wanted.
    fn program_of(&self, wanted: &Wanted) -> Option<Arc<Loaded>> {
        let same = |running: &&Running| running.does(wanted);
        self.running.iter().find(same).map(|running| running.loaded.clone())
    }

    /// A program that did what is wanted, and runs no longer.
    fn program_before(&self, wanted: &Wanted) -> Option<Arc<Loaded>> {
        let same = |running: &&Running| running.does(wanted);
        self.before.iter().find(same).map(|running| running.loaded.clone())
    }

    /// Loads what is wanted, unless it is there, and puts it where gates find it when it is in
    /// force. The error is a sentence; nothing has changed for packets then.
    pub(super) fn load(&mut self, wanted: Vec<Wanted>) -> Result<(), NotLoaded> {
        self.forget();
        let mut next = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let known = self.program_of(&wanted).or_else(|| self.program_before(&wanted));
            let loaded = match known {
                Some(loaded) => loaded,
                None => {
                    let place = &wanted.place;
                    let loaded = wanted.compiled.load("penstock_chains");
                    let (program, counters) =
                        loaded.map_err(|e| format!("{place} cannot run its chains: {e}"))?;
                    Arc::new(Loaded { program, counters: Mutex::new(counters) })
                }
            };
            next.push(Running { wanted, loaded });
        }
        let placed = next.iter().try_for_each(|running| {
            self.place(running).map_err(|e| {
                let sentence = format!("{}: {e}", running.wanted.place);
                match (running.wanted.spot, e) {
                    (Spot::Netfilter { hook, priority }, e)
                        if e.error.raw_os_error() == Some(libc::EBUSY) =>
                    {
                        NotLoaded::Busy((hook, priority), sentence)
                    }
                    _ => NotLoaded::Failed(sentence),
                }
            })
        });
        self.next = Some(next);
        placed.inspect_err(|_| self.forget())
    }

    /// The half of nf_tables of the next generation is in force. With an error it is as before.
    pub(super) fn commit(&mut self) -> Result<(), NotAttached> {
        if self.next.is_none() {
            return Ok(());
        }
        match &mut self.kernel {
            Some(kernel) => kernel.commit(self.next_kernel.clone()),
            None => Ok(()),
        }
    }

    /// Puts a program of the next generation where its gate finds it.
    fn place(&mut self, running: &Running) -> Result<(), LoadError> {
        let spot = running.wanted.spot;
        let gate = match self.gates.iter().position(|gate| gate.spot() == spot) {
            Some(known) => self.gates.get(known),
            None => {
                let kind = running.loaded.program.kind();
                let before = self.gates.iter().find(|gate| spot.before() == Some(gate.spot()));
                let gate = Gate::open(spot, kind, &self.generations, before)?;
                if let Some(pins) = self.pins.as_ref().filter(|_| self.left.is_none()) {
                    pins.pin_gate(&gate)?;
                }
                self.gates.push(gate);
                self.gates.last()
            }
        };
        match gate {
            Some(gate) => Ok(gate.set_next(&self.generations, &running.loaded.program)?),
            None => Ok(()),
        }
    }

    /// The next generation is not to be in force.
    pub(super) fn forget(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.take_back();
        }
        if self.next.take().is_some() {
            self.clear_next();
            self.close_unused();
        }
        self.untrack();
    }

    /// Nothing is tracked but what rules in force read.
    fn untrack(&mut self) {
        if self.left.is_none() {
            // It can be changed as it was made.
            let _ = self.set_tracked(tracked(&self.linked));
        }
    }

    /// Gives all gates names, if they are to outlive the process.
    pub(super) fn pin(&self) -> io::Result<()> {
        let Some(pins) = &self.pins else { return Ok(()) };
        pins.pin_generations(&self.generations)?;
        self.gates.iter().try_for_each(|gate| pins.pin_gate(gate))
    }

    /// The next generation is in force; what only the one before needs goes. Whether there was one.
    pub(super) fn settle(&mut self) -> bool {
        let Some(next) = self.next.take() else { return false };
        let left_out = std::mem::take(&mut self.next_left_out);
        if let Err(e) = self.generations.switch() {
            // The map is there, and so is its only entry.
            log(format_args!("the generation cannot be put in force: {e}"));
            if let Some(kernel) = &mut self.kernel {
                kernel.take_back();
            }
            return false;
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.settle();
        }
        self.leave_out(left_out);
        self.moved = std::mem::take(&mut self.next_moved);
        self.tables = std::mem::take(&mut self.next_tables);
        let mut gone = std::mem::replace(&mut self.running, next);
        // No packet is in a program of before any more.
        self.generations.wait();
        self.clear_next();
        let State { running, before, .. } = self;
        gone.retain(|gone| !running.iter().any(|now| Arc::ptr_eq(&now.loaded, &gone.loaded)));
        gone.iter().for_each(|gone| gone.loaded.collect());
        before.retain(|old| !gone.iter().any(|gone| gone.wanted.spot == old.wanted.spot));
        before.append(&mut gone);
        before.retain(|old| running.iter().any(|now| old.may_come_after(now)));
        self.untrack();
        if let Some(left) = self.left.take() {
            left.unpin();
            if let Err(e) = self.pin() {
                log(format_args!("chains end with this process: {e}"));
            }
        }
        self.close_unused();
        true
    }

    /// No gate has a program of another generation than that in force.
    fn clear_next(&self) {
        for gate in &self.gates {
            if let Err(e) = gate.clear_next(&self.generations) {
                log(format_args!("{:?}: {e}", gate.spot()));
            }
        }
    }

    /// Gates are only where something runs.
    fn close_unused(&mut self) {
        // What an earlier process has left stays until something is in its place.
        if self.left.is_some() {
            return;
        }
        let State { gates, running, pins, .. } = self;
        let spots: Vec<Spot> = running.iter().map(|running| running.wanted.spot).collect();
        gates.retain(|gate| {
            let used = spots.contains(&gate.spot());
            if let Some(pins) = pins.as_ref().filter(|_| !used) {
                pins.unpin_gate(gate.spot());
            }
            used
        });
    }
}
