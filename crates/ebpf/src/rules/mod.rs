// SPDX-License-Identifier: Apache-2.0

//! Stateless chains at ingress of a device, as one XDP or tcx program.
//!
//! What rules mean is said by the interpreter (`penstock_program::interp`); this translates it to
//! BPF, or refuses ([`NotOffloadable`]). The program has two parts. The first finds the headers as
//! the path does (the outermost VLAN tag counts as taken out of the frame) and puts each field that
//! rules ask for into its place in the stack frame, with a bit that says whether the packet has it.
//! The second is the chains, which see nothing but these places: so the kernel's verifier has one
//! state to follow at each rule, and a field is loaded once however many rules ask for it.

mod answer;
mod answer_send;
mod answer_sum;
mod bridge;
mod chain;
mod clocks;
mod constants;
mod counters;
mod ct;
mod ct_field;
mod ct_lookup;
mod ct_tuple;
mod dynset;
mod extension;
mod exthdr_field;
mod fib;
mod find;
mod frame;
mod hash;
mod kernel;
mod live;
mod log;
mod long;
mod lower;
mod masks;
mod meta;
mod pieces;
mod place;
mod plan;
mod prologue;
mod reasons;
mod records;
mod reject;
mod routes;
mod rt;
mod rt_field;
mod search;
mod set;
mod shared;
mod shared_sets;
mod sites;
mod skb;
mod stateful;
mod tags;
mod tails;
mod tcp_option;
mod trace;
mod walk;
mod words;

use std::fmt;
use std::sync::Arc;

use penstock_program::env::Interface;
use penstock_program::image::{ChainIndex, Image, RuleIndex};
use penstock_wire::ethernet::Mac;

pub use counters::Counters;
pub use kernel::learn_kernel;
use penstock_bpf::Next;
use penstock_bpf::asm::{Asm, AsmError, Code, Label};
use penstock_bpf::{LoadError, Program, ProgramKind};
pub use place::{BridgeHook, Place};
pub use records::{Captured, Record, Records};
pub use routes::{Answer, Question, Routes};
pub use shared::SharedStates;
pub use sites::{Event, Quota, Site, Verdict};
pub use trace::{trace_entrance, traces};

/// A base chain of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A chain of a netdev table.
    Netdev(ChainIndex),
    /// A chain of an inet table: it sees IP only, and malformed IP packets are dropped before it
    /// (`nft_do_chain_inet_ingress()`).
    Inet(ChainIndex),
    /// A chain of an ip, ip6 or inet table at a netfilter hook.
    Ip(ChainIndex),
    /// A chain of a bridge table.
    Bridge(ChainIndex),
}

impl Entry {
    fn chain(self) -> ChainIndex {
        match self {
            Entry::Netdev(chain) | Entry::Inet(chain) | Entry::Ip(chain) | Entry::Bridge(chain) => {
                chain
            }
        }
    }
}

/// The device of the packets that the program sees. It must be rebuilt when one of these changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Index.
    pub index: u32,
    /// Link address, of an Ethernet device.
    pub mac: Mac,
    /// Name, kind, type and group.
    pub interface: Interface,
}

/// What a program is made of.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The generation.
    pub image: &'a Image,
    /// Base chains of the hook, in order of their priorities: all, or those at the beginning that
    /// can be offloaded.
    pub entries: &'a [Entry],
    /// Where the program runs.
    pub place: Place<'a>,
    /// What follows for packets that are accepted.
    pub next: &'a Next,
    /// Where states are that programs share; without it, rules with such states are refused.
    pub shared: Option<&'a SharedStates>,
    /// What `fib` is told; without it, rules with it are refused.
    pub routes: Option<&'a dyn Routes>,
}

/// Why chains run in user space only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOffloadable {
    /// The rule; `None` where it is all of them together.
    pub rule: Option<RuleIndex>,
    /// Its table, chain and handle, as `nft -a` names them.
    pub place: Option<String>,
    /// Why.
    pub reason: String,
}

impl NotOffloadable {
    fn all(reason: impl Into<String>) -> Self {
        NotOffloadable { rule: None, place: None, reason: reason.into() }
    }

    fn rule(image: &Image, rule: RuleIndex, reason: impl Into<String>) -> Self {
        let place = image.place(rule).map(|(family, table, chain, handle)| {
            format!("table {} {table} chain {chain} handle {handle}", family.name())
        });
        NotOffloadable { rule: Some(rule), place, reason: reason.into() }
    }
}

impl fmt::Display for NotOffloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for NotOffloadable {}

impl From<AsmError> for NotOffloadable {
    fn from(error: AsmError) -> Self {
        NotOffloadable::all(error.to_string())
    }
}

/// Instructions at most: the verifier looks at a million.
const MOST: usize = 200_000;

/// Maps of a program at most (`MAX_USED_MAPS`).
const MOST_MAPS: usize = 64;

/// Chains as a program that is not loaded yet.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program.
    pub code: Code,
    kind: ProgramKind,
    counters: Counters,
    live: Vec<live::Use>,
    /// What its records are about.
    sites: Vec<Arc<Site>>,
}

impl Compiled {
    /// Whether both look into the same maps of sets that clients change: then the next program may
    /// be equal to this one, which has been in force before `other`.
    pub fn shares_sets_with(&self, other: &Compiled) -> bool {
        let is_of_other =
            |used: &live::Use| other.live.iter().any(|other| Arc::ptr_eq(&used.live, &other.live));
        self.live.iter().any(is_of_other)
    }

    /// Whether the program of `other` can stay in place: its code is equal, and its counters and
    /// the sets in maps are these.
    pub fn is_same(&self, other: &Compiled) -> bool {
        self.kind == other.kind
            && self.code.is_same(&other.code)
            && self.counters.are_same(&other.counters)
            && shared_sets::are_same(&self.code, &other.code)
    }

    /// What the program's records are about; none if it tells nothing.
    pub fn sites(&self) -> &[Arc<Site>] {
        &self.sites
    }

    /// Loads the program. What it counts is added to the rules' counters by [`Counters::collect`].
    ///
    /// # Errors
    /// See [`Program::load`]. A program that is too complex for the verifier is `E2BIG`.
    pub fn load(&self, name: &str) -> Result<(Program, Counters), LoadError> {
        Ok((Program::load(self.kind, name, &self.code)?, self.counters.clone()))
    }
}

/// Makes the program of the chains of a place.
///
/// # Errors
/// The first rule that has no translation, or what is wrong with all of them.
pub fn compile(job: Job<'_>) -> Result<Compiled, NotOffloadable> {
    compile_with(job, long::LONG)
}

/// [`compile`], where chains of at least `long` rules are searched: for tests and measurements.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(job: Job<'_>, long: usize) -> Result<Compiled, NotOffloadable> {
    let kernel = match job.place {
        Place::Netfilter(_) => Some(kernel::Kernel::running().map_err(NotOffloadable::all)?),
        Place::Xdp(_)
        | Place::XdpGeneric(_)
        | Place::TcxIngress(_)
        | Place::TcxEgress(_)
        | Place::Bridge(..) => None,
    };
    let plan = plan::Plan::new(&job, long)?;
    if let (Place::TcxEgress(_), true) = (job.place, plan.headers()) {
        learn_kernel().map_err(NotOffloadable::all)?;
    }
    if let Place::Bridge(hook, _) = job.place {
        bridge::check(hook, job.image).map_err(NotOffloadable::all)?;
    }
    let counters = plan.counters();
    let mut asm = Asm::new();
    let (done, drop) = (asm.label(), asm.label());
    let mut compiler = Compiler {
        job,
        plan,
        asm,
        blocks: chain::Blocks::default(),
        done,
        drop,
        kernel,
        later_fragments: false,
        walk: None,
        take: None,
        look_up: None,
        options: None,
        extensions: None,
        constants: constants::Constants::default(),
        named: live::Named::of(job.image),
        live_uses: Vec::new(),
        record: None,
        step: None,
        answer: None,
        of_flow: None,
        sites: Vec::new(),
    };
    compiler.prologue();
    compiler.ends();
    compiler.chains()?;
    let Compiler { asm, live_uses: live, sites, .. } = compiler;
    let code = asm.finish()?;
    if code.used_maps().len() > MOST_MAPS {
        return Err(NotOffloadable::all(format!("the rules need more than {MOST_MAPS} BPF maps")));
    }
    Ok(Compiled { code, kind: job.place.kind(), counters, live, sites })
}

/// A program in the making.
struct Compiler<'a> {
    job: Job<'a>,
    plan: plan::Plan,
    asm: Asm,
    blocks: chain::Blocks,
    /// Where packets continue that are accepted.
    done: Label,
    /// Where packets go that are dropped.
    drop: Label,
    /// The running kernel, for a netfilter hook.
    kernel: Option<&'static kernel::Kernel>,
    /// Whether bytes are loaded that count also in later fragments.
    later_fragments: bool,
    /// The function that walks over extension headers, if something needs it.
    walk: Option<Label>,
    /// The function that takes tokens of limits, if something needs it.
    take: Option<Label>,
    /// The function that looks the connection up, if something needs it.
    look_up: Option<Label>,
    /// The function that looks at options of TCP, if something needs it.
    options: Option<Label>,
    /// The function that looks at extension headers, if something needs it.
    extensions: Option<Label>,
    /// Maps that are only read.
    constants: constants::Constants,
    /// Which sets clients may change.
    named: live::Named,
    /// Sets in maps that stay when elements change.
    live_uses: Vec<live::Use>,
    /// The function that tells of a packet, if something needs it.
    record: Option<Label>,
    /// The function that tells of a step, if something needs it.
    step: Option<Label>,
    /// The function that answers a packet which is rejected, if something needs it.
    answer: Option<Label>,
    /// The function that hashes the flow, if something needs it.
    of_flow: Option<Label>,
    sites: Vec<Arc<Site>>,
}

impl Compiler<'_> {
    fn check_size(&self) -> Result<(), NotOffloadable> {
        if self.asm.len() > MOST {
            return Err(NotOffloadable::all(format!(
                "the program would have more than {MOST} instructions"
            )));
        }
        Ok(())
    }
}

/// A state, by itself: rules that share an object share its counter.
type StateRef = Arc<penstock_program::State>;
