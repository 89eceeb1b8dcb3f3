// SPDX-License-Identifier: Apache-2.0

//! A ruleset that the kernel runs: its chains are BPF programs at hooks and devices of the kernel,
//! and this process only changes and lists them.
//!
//! ```text
//! hook or device -> gate -> program of the generation in force
//! ```
//!
//! A gate stands at each place where chains run. It passes packets to the program of the generation
//! in force, whose number all gates read in one map: so a generation is in force everywhere at once.
//!
//! | file | is |
//! | --- | --- |
//! | [`wanted`] | what a generation wants where, as programs that are not loaded |
//! | [`split`] | which chains the kernel's nf_tables runs |
//! | [`kernel_half`] | these chains in nf_tables |
//! | [`gate`] | what stands at a place |
//! | [`pins`] | gates that outlive the process |
//! | [`records`] | what programs tell: logs, traces |
//! | [`routes`] | what the routing tables say to `fib` |
//! | [`drivers`] | which drivers run XDP programs |

mod drivers;
mod gate;
mod kernel_half;
mod pins;
mod records;
mod routes;
mod split;
mod wanted;

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use penstock_bpf::{LoadError, Program};
use penstock_ebpf::dispatch::Generations;
use penstock_ebpf::rules::{Counters, SharedStates, learn_kernel};
use penstock_net::Network;
use penstock_netlink::{Tracked, Tracking};
use penstock_print::show::status::{AttachedPlace, LeftOut};
use penstock_ruleset::Table;
use penstock_ruleset::link::{CannotOffload, Linked};

use crate::config::AttachConfig;
use crate::log;
use crate::pins::{Pins, remove_left};
use crate::requests::workers::Workers;
use drivers::Drivers;
use gate::Gate;
use kernel_half::KernelHalf;
pub(crate) use kernel_half::remove_left_tables;
use pins::Left;
pub(crate) use pins::is_left;
use split::{HookPlace, Split, Taken};
use wanted::{Spot, Wanted, Wishes};

/// A program in the kernel, and what it counts.
#[derive(Debug)]
struct Loaded {
    program: Program,
    counters: Mutex<Counters>,
}

impl Loaded {
    /// The rules' counters have what it has counted.
    fn collect(&self) {
        // A map that is there can be read.
        let _ = self.counters.lock().unwrap_or_else(PoisonError::into_inner).collect();
    }
}

/// Chains of a generation at their place.
#[derive(Debug)]
struct Running {
    wanted: Wanted,
    loaded: Arc<Loaded>,
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

#[derive(Debug)]
struct State {
    generations: Generations,
    gates: Vec<Gate>,
    /// `None` until it is known.
    net: Option<Arc<Network>>,
    /// The generation in force, its tables, and its programs.
    linked: Arc<Linked>,
    tables: Vec<Arc<Table>>,
    running: Vec<Running>,
    /// Programs of the next generation.
    next: Option<Vec<Running>>,
    /// What nf_tables runs of the generation in force and of the next one, and why.
    moved: Vec<LeftOut>,
    next_moved: Vec<LeftOut>,
    /// Tables of the next generation, and those for nf_tables.
    next_tables: Vec<Arc<Table>>,
    next_kernel: Vec<Arc<Table>>,
    /// What nf_tables runs, if it runs anything.
    kernel: Option<KernelHalf>,
    /// Hooks and priorities where others stand, so that no program can.
    busy: Vec<HookPlace>,
    /// Parts of the generation in force, and of the next one, that do not run.
    left_out: Vec<LeftOut>,
    next_left_out: Vec<LeftOut>,
    /// Programs of the generation before, which the next one may need again.
    before: Vec<Running>,
    /// Connection tracking of the kernel, while rules read connections.
    tracking: Option<Tracking>,
    /// Names by which gates outlive the process.
    pins: Option<Pins>,
    /// Names that an earlier process has given, until a generation of this one is in force.
    left: Option<Left>,
    /// The network has changed since the next generation was loaded.
    stale: bool,
}

/// What a generation wants.
struct Parts {
    programs: Vec<Wanted>,
    left_out: Vec<LeftOut>,
    /// What nf_tables runs, and why.
    moved: Vec<LeftOut>,
    /// The tables for nf_tables.
    kernel: Vec<Arc<Table>>,
}

/// Why programs are not loaded.
enum NotLoaded {
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

/// Why a generation is not loaded.
#[derive(Debug)]
pub(crate) enum NotAttached {
    /// A part of it has no code where it is to run.
    Cannot(CannotOffload),
    /// The kernel refuses; a sentence.
    Failed(String),
}

impl NotAttached {
    /// Why, in a sentence.
    fn sentence(&self) -> String {
        match self {
            NotAttached::Cannot(refused) => refused.to_string(),
            NotAttached::Failed(sentence) => sentence.clone(),
        }
    }
}

/// What the kernel runs.
pub(crate) struct Attached {
    config: AttachConfig,
    drivers: Drivers,
    /// States that all programs share, of all generations.
    shared: SharedStates,
    state: Mutex<State>,
    /// Who hears what programs tell.
    workers: Arc<Workers>,
    /// What programs tell is read.
    reads: Mutex<bool>,
    /// When elements of sets that have expired are looked for again.
    due: Mutex<Instant>,
}

impl Attached {
    /// Nothing yet, or what an earlier process has left, whose chains run until the first
    /// generation is in force. The error is a sentence.
    pub(crate) fn new(
        config: &AttachConfig,
        workers: Arc<Workers>,
        pins: impl FnOnce() -> Result<Option<Pins>, String>,
    ) -> Result<Arc<Self>, String> {
        let wrong = |e: io::Error| format!("BPF maps: {e}");
        let (generations, gates, left) = match pins::adopt() {
            Some((generations, gates, left)) => (generations, gates, Some(left)),
            None => (Generations::new().map_err(wrong)?, Vec::new(), None),
        };
        if !gates.is_empty() {
            log("the attached ruleset of an earlier process runs until this one's is in force");
        }
        // Without it there are no programs at hooks, which is said where one is asked for.
        let _ = learn_kernel();
        let pins = pins()?;
        let kernel = match KernelHalf::new(pins.is_some()) {
            Ok(kernel) => Some(kernel).filter(|kernel| config.with_kernel || kernel.has_left()),
            Err(e) if config.with_kernel => return Err(format!("nf_tables: {e}")),
            Err(_) => None,
        };
        let state = State {
            generations,
            gates,
            net: None,
            linked: Arc::default(),
            tables: Vec::new(),
            running: Vec::new(),
            next: None,
            moved: Vec::new(),
            next_moved: Vec::new(),
            next_tables: Vec::new(),
            next_kernel: Vec::new(),
            kernel,
            busy: Vec::new(),
            left_out: Vec::new(),
            next_left_out: Vec::new(),
            before: Vec::new(),
            tracking: Tracking::left().ok().flatten(),
            pins,
            left,
            stale: false,
        };
        if state.left.is_none() {
            state.pin().map_err(wrong)?;
        }
        let (config, drivers) = (config.clone(), Drivers::new());
        let shared = SharedStates::new().map_err(wrong)?;
        let (state, due) = (Mutex::new(state), Mutex::new(Instant::now()));
        let reads = Mutex::new(false);
        Ok(Arc::new(Attached { config, drivers, shared, state, workers, reads, due }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(
        &self,
        state: &State,
        net: &Network,
        (linked, tables): (&Linked, &[Arc<Table>]),
    ) -> Result<Parts, CannotOffload> {
        let Attached { config, drivers, shared, .. } = self;
        let mut taken = Taken::default();
        if let Some(kernel) = &state.kernel {
            taken.by(kernel.tables());
        }
        for place in &state.busy {
            let reason = "something else stands at that hook and priority";
            taken.places.insert(*place, reason.into());
        }
        let split = config.with_kernel.then(|| RefCell::new(Split::new(linked, tables, &taken)));
        let left_out = RefCell::default();
        let wishes = Wishes { config, net, linked, drivers, shared, left_out, split };
        let programs = wishes.all()?;
        let left_out = wishes.left_out.take();
        let (moved, kernel) = match &wishes.split {
            Some(split) => {
                let split = split.borrow();
                (split.reasons(), kernel_half::tables::with_only(tables, &split.keys()))
            }
            None => (Vec::new(), Vec::new()),
        };
        Ok(Parts { programs, left_out, moved, kernel })
    }

    /// Reads what programs tell from now on, if some do. The error is a sentence.
    fn read_records(&self, wanted: &[Wanted]) -> Result<(), String> {
        let tell = wanted.iter().any(|wanted| !wanted.compiled.sites().is_empty());
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        if tell && !*reads {
            let begun = records::begin(self.shared.records().clone(), self.workers.clone());
            begun.map_err(|e| format!("what programs tell cannot be read: {e}"))?;
            *reads = true;
        }
        Ok(())
    }

    /// Packets are traced only while somebody listens.
    pub(crate) fn listen_to_traces(&self, listens: bool) {
        let records = self.shared.records();
        if records.is_listened() != listens
            && let Err(e) = records.listen(listens)
        {
            log(format_args!("packets are not traced: {e}"));
        }
    }

    /// Whether the kernel can run a generation with these tables, as far as that is seen without
    /// loading programs.
    pub(crate) fn can_run(
        &self,
        linked: &Linked,
        tables: &[Arc<Table>],
    ) -> Result<(), NotAttached> {
        let mut state = self.lock();
        let Some(net) = state.net.clone() else { return Ok(()) };
        let parts = self.wanted(&state, &net, (linked, tables)).map_err(NotAttached::Cannot)?;
        match &mut state.kernel {
            Some(kernel) => kernel.check(&parts.kernel),
            None => Ok(()),
        }
    }

    /// Loads a generation with these tables that is about to be in force. Packets meet the one
    /// before until [`Attached::commit`] and [`Attached::settle`].
    pub(crate) fn prepare(
        &self,
        linked: &Linked,
        tables: &[Arc<Table>],
    ) -> Result<(), NotAttached> {
        let mut state = self.lock();
        let Some(net) = state.net.clone() else { return Ok(()) };
        let ready = self.load_all(&mut state, &net, (linked, tables));
        ready.and_then(|()| state.track(linked).map_err(NotAttached::Failed)).inspect_err(|_| {
            state.forget();
        })
    }

    /// Puts the half of nf_tables in force, of what was loaded last. With an error it is as before.
    pub(crate) fn commit(&self) -> Result<(), NotAttached> {
        self.lock().commit()
    }

    /// Loads programs of the next generation with these tables. Chains for whose place it turns out
    /// that something else stands there run in nf_tables, if that is wanted.
    fn load_all(
        &self,
        state: &mut State,
        net: &Network,
        (linked, tables): (&Linked, &[Arc<Table>]),
    ) -> Result<(), NotAttached> {
        state.busy.clear();
        loop {
            let parts = self.wanted(state, net, (linked, tables)).map_err(NotAttached::Cannot)?;
            match self.load(state, parts) {
                Ok(()) => {
                    state.next_tables = tables.to_vec();
                    return Ok(());
                }
                Err(NotLoaded::Busy(place, _))
                    if self.config.with_kernel && !state.busy.contains(&place) =>
                {
                    state.busy.push(place);
                }
                Err(NotLoaded::Busy(_, sentence) | NotLoaded::Failed(sentence)) => {
                    return Err(NotAttached::Failed(sentence));
                }
            }
        }
    }

    /// Loads programs of the next generation; sets have their elements from the beginning.
    fn load(&self, state: &mut State, parts: Parts) -> Result<(), NotLoaded> {
        self.read_records(&parts.programs)?;
        state.load(parts.programs)?;
        (state.next_left_out, state.next_moved) = (parts.left_out, parts.moved);
        state.next_kernel = parts.kernel;
        let now = crate::now();
        let programs = state.next.iter().flatten().map(|running| &running.wanted.compiled);
        let staged = self.shared.stage(programs, now).and_then(|()| self.shared.sync(now));
        Ok(staged.map_err(|e| format!("elements of sets cannot be added: {e}"))?)
    }

    /// What was loaded last is not to be in force.
    pub(crate) fn forget(&self) {
        self.lock().forget();
    }

    /// What was loaded last is in force, everywhere at once.
    pub(crate) fn settle(&self, linked: &Arc<Linked>) {
        let mut state = self.lock();
        state.linked = linked.clone();
        self.put_in_force(&mut state);
        let net = state.net.clone().filter(|_| std::mem::take(&mut state.stale));
        drop(state);
        if let Some(net) = net {
            self.set_network(&net);
        }
    }

    fn put_in_force(&self, state: &mut State) {
        if state.settle() {
            self.shared.settle(&state.linked.image);
            // What programs have changed of sets that nf_tables has now.
            self.sync();
            let sets = state.kernel.iter().flat_map(|kernel| kernel.tables());
            for set in sets.flat_map(|table| &table.sets).filter_map(|set| set.dynamic()) {
                self.shared.forget_set(set);
            }
        }
        self.shared.release();
    }

    /// States of rules have what programs have counted, and programs what was reset.
    pub(crate) fn collect(&self) {
        let mut state = self.lock();
        state.running.iter().for_each(|running| running.loaded.collect());
        if let Some(kernel) = &mut state.kernel
            && let Err(e) = kernel.collect()
        {
            log(format_args!("what nf_tables has counted cannot be read: {e}"));
        }
        drop(state);
        self.sync();
    }

    /// Brings states and sets that all programs share together with those of the ruleset.
    fn sync(&self) {
        if let Err(e) = self.shared.sync(crate::now()) {
            log(format_args!("what packets have changed in sets cannot be read: {e}"));
        }
    }

    /// Another network is in force: devices have come, gone or changed.
    pub(crate) fn set_network(&self, net: &Arc<Network>) {
        let mut state = self.lock();
        state.net = Some(net.clone());
        // What is about to be in force was loaded for the network before, and is seen to then.
        state.stale = state.next.is_some();
        if state.stale || state.linked.bases.is_empty() {
            return;
        }
        let (linked, tables) = (state.linked.clone(), state.tables.clone());
        let loaded = self.follow(&mut state, net, (&linked, &tables)).map_err(|e| e.sentence());
        match loaded {
            Ok(()) => self.put_in_force(&mut state),
            Err(e) => {
                state.forget();
                log(format_args!("what has changed of devices is not followed: {e}"));
            }
        }
    }

    /// Loads what the generation in force wants of another network, if that is something else.
    fn follow(
        &self,
        state: &mut State,
        net: &Network,
        (linked, tables): (&Linked, &[Arc<Table>]),
    ) -> Result<(), NotAttached> {
        let parts = self.wanted(state, net, (linked, tables)).map_err(NotAttached::Cannot)?;
        if state.is_running(&parts.programs) && state.moved == parts.moved {
            state.leave_out(parts.left_out);
            return Ok(());
        }
        self.load_all(state, net, (linked, tables))?;
        state.commit()
    }

    /// What is due from time to time.
    pub(crate) fn refresh(&self) {
        /// Part of a processor that it may take.
        const SHARE: u32 = 100;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        if *due <= begun {
            // Elements expire.
            self.sync();
            *due = begun + begun.elapsed() * SHARE;
        }
    }

    /// The kernel is to be as before when the process ends, also where its chains were to stay.
    pub(crate) fn leave_nothing(&self) {
        let mut state = self.lock();
        (state.pins, state.left) = (None, None);
    }

    /// The process ends.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        // Without a generation of its own it leaves what it has found.
        if state.pins.is_none() && state.left.is_none() {
            remove_left();
            if let Some(mut kernel) = state.kernel.take() {
                kernel.remove();
            }
            let _ = Tracking::remove();
            state.tracking = None;
            state.gates.clear();
            state.running.clear();
        }
    }

    /// Parts of the generation in force that do not run.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.lock().left_out.clone()
    }

    /// What nf_tables runs of the generation in force, and why.
    pub(crate) fn moved(&self) -> Vec<LeftOut> {
        self.lock().moved.clone()
    }

    /// Where chains run.
    pub(crate) fn status(&self) -> Vec<AttachedPlace> {
        let of = |running: &Running| AttachedPlace {
            place: running.wanted.place.clone(),
            chains: running.wanted.chains.clone(),
        };
        self.lock().running.iter().map(of).collect()
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
    fn track(&mut self, linked: &Linked) -> Result<(), String> {
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
    fn leave_out(&mut self, left_out: Vec<LeftOut>) {
        for part in left_out.iter().filter(|part| !self.left_out.contains(part)) {
            log(format_args!("NOT attached: {part}"));
        }
        self.left_out = left_out;
    }

    /// Whether all that is wanted runs, and nothing else.
    fn is_running(&self, wanted: &[Wanted]) -> bool {
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
    fn load(&mut self, wanted: Vec<Wanted>) -> Result<(), NotLoaded> {
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
    fn commit(&mut self) -> Result<(), NotAttached> {
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
                let gate = Gate::open(spot, kind, &self.generations)?;
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
    fn forget(&mut self) {
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
    fn pin(&self) -> io::Result<()> {
        let Some(pins) = &self.pins else { return Ok(()) };
        pins.pin_generations(&self.generations)?;
        self.gates.iter().try_for_each(|gate| pins.pin_gate(gate))
    }

    /// The next generation is in force; what only the one before needs goes. Whether there was one.
    fn settle(&mut self) -> bool {
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
