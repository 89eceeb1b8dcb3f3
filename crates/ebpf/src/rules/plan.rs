// SPDX-License-Identifier: Apache-2.0

//! What chains need, found out before a line is written; what has no translation is refused here.

use std::collections::{HashMap, HashSet};

use penstock_program::expr::{MetaKey, PayloadBase};
use penstock_program::image::{
    ChainIndex, Image, LinkedData, LinkedValue, LinkedVerdict, RuleIndex, Stateful,
};
use penstock_program::interp::JUMP_STACK;
use penstock_program::op::{Info, Load, Op};
use penstock_sets::Set;

use super::counters::{Counters, MOST};
use super::exthdr_field::{Extension, TcpOption};
use super::frame::{Base, Field, Slot, Slots};
use super::live::{self, Named};
use super::long::{Have, LongChains};
use super::meta::{self, Source};
use super::{Entry, Job, NotOffloadable, Place, StateRef, log, stateful, trace};
use super::{ct, dynset, extension, fib, hash, reasons, reject, rt, tcp_option};
use penstock_bpf::ProgramKind;

/// `ARPHRD_*` of devices with Ethernet frames: Ethernet and loopback.
const ETHERNET: [u16; 2] = [1, 772];

/// Where a tag stands in a link header.
const TAG_AT: u16 = 12;

/// What the chains of a job need.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) slots: Slots,
    pub(super) transport: bool,
    /// The packet's length is asked for or counted.
    pub(super) length: bool,
    /// The time is asked for.
    pub(super) time: bool,
    /// Bit of [`PRESENT`](super::frame::PRESENT) that says whether the connection has been looked
    /// up, at a device if it is asked for.
    pub(super) looked_up: Option<u8>,
    /// Packets may be traced.
    pub(super) traces: bool,
    /// Chains that are searched.
    pub(super) long: LongChains,
    counters: Counters,
}

impl Plan {
    pub(super) fn new(job: &Job<'_>, long: usize) -> Result<Self, NotOffloadable> {
        let mut survey = Survey {
            job,
            slots: Slots::default(),
            states: Vec::new(),
            known: HashSet::new(),
            named: Named::of(job.image),
            depths: HashMap::new(),
            long,
            levels: HashMap::new(),
            length: false,
            time: false,
            traces: false,
        };
        survey.events();
        let all = |reason: &str| NotOffloadable::all(reason);
        if let Some(device) = job.place.device().filter(|d| !ETHERNET.contains(&d.interface.arphrd))
        {
            let kind = device.interface.arphrd;
            return Err(all(&format!("a device without Ethernet frames (ARPHRD type {kind})")));
        }
        let fits = |entry: &Entry| match job.place {
            Place::Netfilter(_) => matches!(entry, Entry::Ip(_)),
            Place::Bridge(..) => matches!(entry, Entry::Bridge(_)),
            _ => matches!(entry, Entry::Netdev(_) | Entry::Inet(_)),
        };
        let at_hook = matches!(job.place, Place::Netfilter(_));
        if !job.entries.iter().all(fits) {
            return Err(all("a chain of another kind of hook"));
        }
        let mut transport = false;
        for entry in job.entries {
            let inet = matches!(entry, Entry::Inet(_));
            if inet {
                transport = true;
                survey.slots.add(Field::Protocol).map_err(all)?;
                survey.slots.add(Field::L4Proto).map_err(all)?;
            }
            survey.chain(entry.chain(), inet)?;
            let chain = job.image.chain(entry.chain());
            if let Some(state) = chain.and_then(|c| c.policy_counter.as_ref()) {
                survey.state(state).map_err(|reason| all(&reason))?;
            }
        }
        let transport = transport || survey.slots.need_transport();
        let length = survey.length
            || !survey.states.is_empty()
            || survey.slots.find(Field::Length).is_some();
        let from = survey.places();
        let Survey { states, mut slots, time, traces, .. } = survey;
        let looks_up = !at_hook && !slots.connection().is_empty();
        let looked_up = looks_up.then(|| slots.take_bit()).transpose().map_err(all)?;
        let counters = Counters::new(states);
        let have = Have { job, slots: &slots, counters: &counters, least: long, traces };
        let long = LongChains::new(have, from);
        Ok(Plan { counters, slots, transport, length, time, looked_up, traces, long })
    }

    /// Whether something is asked for that is in a network header or after it.
    pub(super) fn headers(&self) -> bool {
        let network = |slot: Slot| match slot.field {
            Field::Bytes { base, .. } => base >= Base::Network,
            Field::Extension(_) => true,
            _ => false,
        };
        self.transport || self.slots.iter().any(network)
    }

    /// The counters, nothing counted.
    pub(super) fn counters(&self) -> Counters {
        self.counters.clone()
    }

    pub(super) fn counters_ref(&self) -> &Counters {
        &self.counters
    }
}

struct Survey<'a> {
    job: &'a Job<'a>,
    slots: Slots,
    states: Vec<StateRef>,
    /// Their addresses.
    known: HashSet<usize>,
    /// Sets that clients may change.
    named: Named,
    /// Calls beneath a chain; `None` while it is being looked at.
    depths: HashMap<(ChainIndex, bool), Option<usize>>,
    /// Rules from which on a chain is long.
    long: usize,
    /// Long chains on the way down from a chain, with it.
    levels: HashMap<(ChainIndex, bool), i16>,
    /// Bytes are counted in shared states.
    length: bool,
    /// The time is asked for.
    time: bool,
    /// Packets may be traced.
    traces: bool,
}

impl Survey<'_> {
    /// Finds out whether there are steps to tell of, which have a place of their own.
    fn events(&mut self) {
        let Job { image, place, shared, .. } = *self.job;
        let quota = |op: &Op| stateful::told_quota(op).is_some();
        // Nothing is traced before packets have a `struct sk_buff`.
        let tells = !matches!(place, Place::Bridge(..)) && place.kind() != ProgramKind::Xdp;
        self.traces = shared.is_some() && tells && trace::traces(image);
        if self.traces || shared.is_some() && image.ops.iter().any(quota) {
            self.slots.keep_event();
        }
    }

    /// Checks a chain and all that it calls; returns the call depth.
    fn chain(&mut self, chain: ChainIndex, inet: bool) -> Result<usize, NotOffloadable> {
        match self.depths.get(&(chain, inet)) {
            Some(Some(depth)) => return Ok(*depth),
            Some(None) => return Err(NotOffloadable::all("chains go to each other in a circle")),
            None => {}
        }
        self.depths.insert((chain, inet), None);
        let image: &Image = self.job.image;
        let (mut depth, mut level) = (0, 0);
        let rules = image.chain(chain).map_or(0..0, |c| c.first..c.end);
        for rule in rules.map(RuleIndex) {
            let refuse = |reason: String| NotOffloadable::rule(image, rule, reason);
            let mut written = 0_u16;
            for op in image.ops_at(rule) {
                let info = op.info();
                if info.reads & !written != 0 {
                    return Err(refuse("a register is read that the rule has not written".into()));
                }
                written |= info.writes | ct::writes(self.job.place, op);
                self.op(op, &info, inet).map_err(refuse)?;
                for (target, call) in op.targets() {
                    depth = depth.max(self.chain(target, inet)? + usize::from(call));
                    level = level.max(self.levels.get(&(target, inet)).copied().unwrap_or(0));
                }
            }
        }
        if depth > JUMP_STACK {
            return Err(NotOffloadable::all("chains call each other too deep"));
        }
        self.depths.insert((chain, inet), Some(depth));
        self.levels.insert((chain, inet), level + i16::from(self.is_long(chain)));
        Ok(depth)
    }

    fn is_long(&self, chain: ChainIndex) -> bool {
        let chain = self.job.image.chain(chain);
        chain.is_some_and(|c| (c.end - c.first) as usize >= self.long.max(1))
    }

    /// The long chains, in order, and where in the stack frame each keeps where it is: those that
    /// call each other have different places. None, if there is no room for that.
    fn places(&mut self) -> Vec<((ChainIndex, bool), i16)> {
        let mut all: Vec<_> = self.levels.iter().map(|(chain, level)| (*chain, *level)).collect();
        all.retain(|((chain, _), _)| self.is_long(*chain));
        all.sort_unstable();
        let most = all.iter().map(|(_, level)| *level).max().unwrap_or(0);
        match self.slots.keep_words(most) {
            Some(first) => all.into_iter().map(|(c, level)| (c, first + (level - 1) * 8)).collect(),
            None => Vec::new(),
        }
    }

    fn field(&mut self, base: PayloadBase, len: u8, offset: u16) -> Result<(), String> {
        if offset > 1024 {
            return Err("loads bytes too far after a header".into());
        }
        if len == 0 {
            return Err("loads no bytes".into());
        }
        let base = Base::of(base, len, offset).ok_or("loads from inside a tunnel")?;
        if base == Base::Link
            && self.job.place.kind() == ProgramKind::Netfilter
            && offset + u16::from(len) > TAG_AT
        {
            return Err(format!(
                "a load after the link addresses has no BPF code at {}, since a tag may be out of band",
                self.job.place
            ));
        }
        Ok(self.slots.add(Field::Bytes { base, offset, len })?)
    }

    fn state(&mut self, state: &StateRef) -> Result<(), String> {
        if !matches!(**state, penstock_program::State::Counter(_)) {
            return Err("a counter in a set that packets change".into());
        }
        if self.known.insert(std::sync::Arc::as_ptr(state).addr()) {
            self.states.push(state.clone());
        }
        if self.states.len() > MOST {
            return Err(format!("there are more than {MOST} counters"));
        }
        Ok(())
    }

    /// Notes what the code of an operation needs. The error is why there is none.
    fn op(&mut self, op: &Op, info: &Info, inet: bool) -> Result<(), String> {
        if matches!(op, Op::Log(_)) && self.job.shared.is_some() {
            return log::check(self.job.place);
        }
        if matches!(op, Op::Reject(_)) && self.job.shared.is_some() {
            return reject::check(self.job.place);
        }
        if let Op::MetaSet { key, .. } = op {
            if *key == MetaKey::NfTrace && self.traces {
                return log::check(self.job.place);
            }
            return match meta::settable(self.job.place, *key) {
                Some(_) => Ok(()),
                None => Err(self.job.place.no_code(format_args!("meta {key} set"))),
            };
        }
        if let Some(set) = dynset::set_of(op).filter(|_| self.job.shared.is_some()) {
            dynset::check(self.job.place, op, set)?;
            (self.length, self.time) = (true, true);
            return Ok(self.slots.keep_row()?);
        }
        if stateful::state_of(op).is_some() && self.job.shared.is_some() {
            self.length |= stateful::counts_bytes(op);
            self.time |= stateful::asks_for_time(op);
            return Ok(());
        }
        if let Op::CtState { .. } | Op::Ct { .. } = op {
            if let Some(field) = ct::field(self.job, op)? {
                self.slots.add(Field::Ct(field))?;
            }
            return Ok(());
        }
        if let Op::Rt { .. } = op {
            if let Some(field) = rt::field(self.job, op)? {
                self.slots.add(field)?;
            }
            return Ok(());
        }
        if let Some(extension) = Extension::of(op) {
            self.slots.add(Field::Extension(extension))?;
            return extension::check(&self.slots);
        }
        if let Some(option) = TcpOption::of(op) {
            tcp_option::check(&self.slots)?;
            return Ok(self.slots.add(Field::TcpOption(option))?);
        }
        if fib::plan(self.job, op, &mut self.slots)? {
            return Ok(());
        }
        if let Some(what) = info.not_offloaded {
            let said = self.job.place.no_code(what);
            return Err(match reasons::why(self.job.place, op) {
                Some(why) => format!("{said}, {why}"),
                None => said,
            });
        }
        let hashes = matches!(op, Op::Jhash { .. } | Op::Symhash { .. });
        if cfg!(target_endian = "big") && hashes {
            return Err("hashes have no BPF code on a big-endian machine".into());
        }
        if matches!(op, Op::Symhash { .. }) {
            for field in hash::OF_FLOW {
                self.slots.add(field)?;
            }
        }
        if let Some(set) = op.fixed_set() {
            let live = matches!(op, Op::Lookup { .. })
                && self.job.shared.is_some()
                && self.named.get(set).is_some()
                && live::suits(set);
            self.elements(set, live)?;
            self.time |= live && set.description().timeout;
        }
        if let Some(load) = op.header_load() {
            self.field(load.base, load.len, load.offset)?;
        }
        if let Some(state) = op.counter() {
            self.state(state)?;
        }
        if let Op::Meta { key, .. } = op {
            self.meta(*key, inet)?;
        }
        if let Op::Lookup { set, load, .. } = op {
            lookup(set, *load, self.job.place)?;
        }
        if let Op::ObjectMap { set, .. } = op {
            self.objects(set)?;
        }
        Ok(())
    }

    fn meta(&mut self, key: MetaKey, inet: bool) -> Result<(), String> {
        match meta::source(self.job.place, key, inet)? {
            Source::Field(field) => Ok(self.slots.add(field)?),
            Source::Constant(_) | Source::Absent | Source::Random | Source::Processor => Ok(()),
        }
    }

    fn objects(&mut self, set: &Set<LinkedValue>) -> Result<(), String> {
        for element in set.iter_unordered() {
            match &element.value.data {
                LinkedData::Object(Stateful::Counter(state)) => self.state(state)?,
                _ => return Err("objects in maps have BPF code only if they are counters".into()),
            }
        }
        Ok(())
    }

    /// What counts for all sets. Only elements of a `live` one may expire.
    fn elements(&mut self, set: &Set<LinkedValue>, live: bool) -> Result<(), String> {
        if !live && set.may_expire() && set.iter_unordered().any(|e| e.expires_at.is_some()) {
            return Err("elements of the set expire".into());
        }
        if set.is_presence_only() {
            return Ok(());
        }
        for element in set.iter_unordered() {
            match &*element.value.statements {
                [] => {}
                [Stateful::Counter(state)] => self.state(state)?,
                _ => {
                    return Err("elements of the set have statements other than one counter".into());
                }
            }
        }
        Ok(())
    }
}

/// Whether a set holds what lookups load of it. The error is why there is no code.
fn lookup(set: &Set<LinkedValue>, load: Load, place: Place<'_>) -> Result<(), String> {
    if load == Load::Nothing {
        return Ok(());
    }
    for element in set.iter_unordered() {
        match (load, &element.value.data) {
            (Load::Verdict, LinkedData::Verdict(LinkedVerdict::Queue { .. })) => {
                return Err(place.no_code("queue"));
            }
            (Load::Nothing, _)
            | (Load::Verdict, LinkedData::Verdict(_))
            | (Load::Bytes { .. }, LinkedData::Value(_) | LinkedData::Long(_)) => {}
            _ => return Err("a map holds something else than it says".into()),
        }
    }
    Ok(())
}
