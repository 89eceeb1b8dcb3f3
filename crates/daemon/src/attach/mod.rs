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
//! | [`state`] | what is in the kernel, and what is about to be |
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
mod state;
mod wanted;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use penstock_ebpf::dispatch::Generations;
use penstock_ebpf::rules::{SharedStates, learn_kernel};
use penstock_net::Network;
use penstock_netlink::Tracking;
use penstock_print::show::status::{AttachedPlace, LeftOut};
use penstock_ruleset::Table;
use penstock_ruleset::link::{CannotOffload, Linked};

use crate::config::AttachConfig;
use crate::log;
use crate::pins::{Pins, remove_left};
use crate::requests::workers::Workers;
use drivers::Drivers;
use kernel_half::KernelHalf;
pub(crate) use kernel_half::remove_left_tables;
pub(crate) use pins::is_left;
use routes::HostRoutes;
use split::{Split, Taken};
use state::{NotLoaded, Running, State};
use wanted::{Wanted, Wishes};

/// What a generation wants.
struct Parts {
    programs: Vec<Wanted>,
    left_out: Vec<LeftOut>,
    /// What nf_tables runs, and why.
    moved: Vec<LeftOut>,
    /// The tables for nf_tables.
    kernel: Vec<Arc<Table>>,
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
        let routes = &HostRoutes::new(net);
        let not_plain = OnceCell::new();
        let wishes =
            Wishes { config, net, routes, linked, drivers, shared, left_out, not_plain, split };
        let programs = wishes.all()?;
        let left_out = wishes.left_out.take();
        let (moved, kernel) = match &wishes.split {
            Some(split) => {
                let split = split.borrow();
                (
                    split.reasons(),
                    kernel_half::tables::with_only(tables, &split.keys(), &split.leading_keys()),
                )
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
        state.busy.clear();
        let ready = self.load_all(&mut state, &net, (linked, tables), None);
        ready.and_then(|()| state.track(linked).map_err(NotAttached::Failed)).inspect_err(|_| {
            state.forget();
        })
    }

    /// Puts the half of nf_tables in force, of what was loaded last. With an error it is as before.
    pub(crate) fn commit(&self) -> Result<(), NotAttached> {
        self.lock().commit()
    }

    /// Loads programs of the next generation with these tables. Chains for whose place it turns out
    /// that something else stands there run in nf_tables, if that is wanted. What is wanted may be
    /// known already.
    fn load_all(
        &self,
        state: &mut State,
        net: &Network,
        (linked, tables): (&Linked, &[Arc<Table>]),
        mut known: Option<Parts>,
    ) -> Result<(), NotAttached> {
        loop {
            let parts = match known.take() {
                Some(parts) => parts,
                None => self.wanted(state, net, (linked, tables)).map_err(NotAttached::Cannot)?,
            };
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
        // Where something else stood before, nothing may stand by now.
        let known = state.busy.is_empty().then_some(parts);
        state.busy.clear();
        self.load_all(state, net, (linked, tables), known)?;
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
