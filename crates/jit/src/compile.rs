// SPDX-License-Identifier: Apache-2.0

//! Hook lists as functions.

use std::any::Any;
use std::sync::Arc;

use penstock_packet::{Packet, layout};
use penstock_program::image::ChainIndex;
use penstock_program::{Family, Image, Outcome};

use crate::CompileError;
use crate::analysis::policy_counter;
use crate::asm::{Asm, Block, Function, Is, Session, Value, Width};
use crate::chain::{Chains, Program, SHARED_PARAMETERS};
use crate::compiled::{Burst, Compiled, EgressPrecheck, Frames, Functions, OnePacket};
use crate::each::{Each, Order};
use crate::host::Helpers;
use crate::list::{Bursts, Entry, List, Options};
use crate::lower;
use crate::lowering_ctx::{Facts, Finish, Inputs, LoweringCtx, Windows};
use crate::outcome::{self, ACCEPTED};
use crate::perf;
use crate::profile::Profile;
use penstock_program::op::Parts;

pub(crate) const ETH_P_IP: u16 = 0x0800;
pub(crate) const ETH_P_IPV6: u16 = 0x86dd;

/// Whether code can be made for this machine.
///
/// # Errors
/// Why not.
pub fn supported() -> Result<(), CompileError> {
    Session::new(false).map(drop)
}

/// Makes code for hook lists. List and entry numbers are those of `lists`.
///
/// # Errors
/// No code can be made for this machine, or there is no memory for it.
pub fn compile<I>(
    image: Arc<I>,
    lists: &[List],
    helpers: &'static Helpers,
    options: Options,
) -> Result<Compiled, CompileError>
where
    I: AsRef<Image> + Any + Send + Sync,
{
    // Which chains are better asked is known only then.
    (*image).as_ref().build_lookups();
    let mut session = Session::new(options.verify)?;
    let mut compiler = ListCompiler {
        program: Program::new((*image).as_ref()),
        helpers,
        interpreted: 0,
        calls: 0,
        indirect: options.indirect,
        profile: options.profile.then(|| {
            let entries = |(n, list): (usize, &List)| {
                let stages =
                    (0..).zip(list.entries.clone()).filter(|(_, entry)| *entry == Entry::Stage);
                stages.map(|(entry, _)| (n, entry)).collect::<Vec<_>>()
            };
            let stages = lists.iter().enumerate().flat_map(entries).collect();
            Box::new(Profile::new((*image).as_ref().rules.len(), stages))
        }),
    };
    let mut functions = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        let one = compiler.list(&mut session, number, list, false)?;
        let without_host = compiler.calls == 0;
        let starts_with_lookup = compiler.starts_with_lookup(list);
        let order = if list.frames { compiler.takes_frames(list) } else { None };
        let order = order.filter(|order| without_host || *order == Order::OneAfterTheOther);
        let frames = order.map(|order| compiler.frames(&mut session, list, order)).transpose()?;
        let (frames, dynamic_sets) = frames.flatten().unzip();
        let dynamic_sets = dynamic_sets.unwrap_or_default();
        let egress_precheck = (list.egress_precheck && !options.no_precheck)
            .then(|| compiler.egress_precheck(&mut session, list))
            .transpose()?
            .flatten();
        let burst = match list.bursts {
            Bursts::Never => false,
            Bursts::WhenSafe => frames.is_none() && compiler.burst_safe(list, without_host),
            Bursts::Always => true,
        };
        let burst = burst.then(|| compiler.list(&mut session, number, list, true)).transpose()?;
        let others = (burst, frames, egress_precheck);
        functions.push((one, others, dynamic_sets, without_host, starts_with_lookup));
    }
    compiler.shared(&mut session)?;
    let (interpreted, profile) = (compiler.interpreted, compiler.profile);
    let tables = compiler.program.tables;
    let code = session.finish()?;
    if options.perf_map {
        perf::write_map(&code, (*image).as_ref())
            .map_err(|e| CompileError::Code(format!("the map for perf: {e}")))?;
    }
    let address = |function: Function| {
        code.address(function).ok_or_else(|| CompileError::Code("a function is missing".into()))
    };
    let mut lists = Vec::new();
    for (one, others, dynamic_sets, without_host, starts_with_lookup) in functions {
        let (burst, frames, egress_precheck) = others;
        let one = address(one)?;
        let made = [burst, frames, egress_precheck].map(|made| made.map(address).transpose());
        let [burst, frames, egress_precheck] = made;
        let (burst, frames, egress_precheck) = (burst?, frames?, egress_precheck?);
        // SAFETY: `ListCompiler` has defined these functions with the host's C convention: `one`
        // has three parameters, `burst` and `frames` five, `egress_precheck` two, all of them 64
        // bits wide and the results too.
        lists.push(unsafe {
            Functions {
                one: std::mem::transmute::<*const u8, OnePacket>(one),
                burst: burst.map(|burst| std::mem::transmute::<*const u8, Burst>(burst)),
                frames: frames.map(|frames| std::mem::transmute::<*const u8, Frames>(frames)),
                egress_precheck: egress_precheck
                    .map(|made| std::mem::transmute::<*const u8, EgressPrecheck>(made)),
                dynamic_sets,
                without_host,
                starts_with_lookup,
            }
        });
    }
    Ok(Compiled { code, lists, interpreted, profile, helpers, _tables: tables, _image: image })
}

/// Compiles hook lists to functions.
pub(crate) struct ListCompiler<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) helpers: &'static Helpers,
    /// Base chains that are left to the interpreter.
    interpreted: usize,
    pub(crate) profile: Option<Box<Profile>>,
    /// Calls in the list that was made last, for packets that are not traced.
    calls: usize,
    /// [`Options::indirect`].
    indirect: bool,
}

impl ListCompiler<'_> {
    fn list(
        &mut self,
        session: &mut Session,
        number: usize,
        list: &List,
        burst: bool,
    ) -> Result<Function, CompileError> {
        if list.entries.len() > outcome::ENTRIES || self.program.image.rules.len() > outcome::RULES
        {
            return Err(CompileError::Code(
                "there are more rules or entries than decisions can tell".into(),
            ));
        }
        let parameters = if burst { 5 } else { 3 };
        let function = session.declare(parameters)?;
        session.define(function, parameters, |asm, values| {
            if burst {
                self.burst(asm, values, number, list)
            } else {
                self.one(asm, values, number, list)
            }
        })??;
        Ok(function)
    }

    fn one(
        &mut self,
        asm: &mut Asm<'_>,
        values: &[Value],
        number: usize,
        list: &List,
    ) -> Result<(), CompileError> {
        let memory = asm.stack(64);
        let inputs = Inputs { packet: values[0], host: values[1], cells: values[2], memory };
        self.body(asm, inputs, (number, list), Finish::Return)
    }

    /// A loop over packets, with what [`ListCompiler::one`] makes inside.
    fn burst(
        &mut self,
        asm: &mut Asm<'_>,
        values: &[Value],
        number: usize,
        list: &List,
    ) -> Result<(), CompileError> {
        let [packets, count, host, cells, decisions] = *values else {
            return Err(CompileError::Code("a burst has five parameters".into()));
        };
        let memory = asm.stack(64);
        let each = Each::begin(asm, packets, count, size_of::<Packet>());
        let finish = Finish::Block(each.decided);
        let inputs = Inputs { packet: each.item, host, cells, memory };
        self.body(asm, inputs, (number, list), finish)?;
        each.end(asm, decisions, Order::Any);
        Ok(())
    }

    /// The chains and stages of a list for one packet.
    fn body(
        &mut self,
        asm: &mut Asm<'_>,
        inputs: Inputs,
        (list_number, list): (usize, &List),
        finish: Finish,
    ) -> Result<(), CompileError> {
        let packet = inputs.packet;
        let mut ctx = LoweringCtx::new(asm, self.program.image, self.helpers, inputs, finish);
        ctx.profile = self.profile_address();
        let mut errors = None;
        // Where traced packets go, entry by entry; they do not come back.
        let traced: Vec<Block> = list.entries.iter().map(|_| ctx.asm.cold_block()).collect();
        let passed = ctx.asm.block();
        let mut may_be_traced = true;
        let mut new_packet = true;
        for (n, entry) in list.entries.iter().enumerate() {
            let next = ctx.asm.block();
            let number = n as u16;
            ctx.known_entry = Some(number);
            ctx.entry = ctx.asm.long(n as u64);
            match *entry {
                Entry::Stage => {
                    if let Some(profile) = &self.profile {
                        ctx.tick(profile.number_of_stage(list_number, n));
                    }
                    call_stage(&mut ctx, number, next);
                    (may_be_traced, new_packet) = (true, true);
                }
                Entry::Chain { chain, .. } | Entry::InetIngress { chain } => {
                    if may_be_traced {
                        let nftrace = ctx.asm.load(Width::Byte, packet, layout::NFTRACE);
                        ctx.asm.leave_if(nftrace, traced[n]);
                    }
                    if new_packet {
                        let needs = self.needs(&list.entries[n..]);
                        ctx.windows = Windows::new(ctx.asm, packet, needs);
                        ctx.facts = Facts::default();
                    }
                    new_packet = false;
                    may_be_traced = self.program.analysis.summary(chain).traces;
                    match *entry {
                        Entry::Chain { family, .. } => {
                            self.chain(&mut ctx, chain, family, next, &mut errors)
                        }
                        Entry::InetIngress { .. } => {
                            for (ethertype, family) in
                                [(ETH_P_IP, Family::Ip), (ETH_P_IPV6, Family::Ip6)]
                            {
                                let (other, mine) = (ctx.asm.block(), ethertype);
                                ip_with_headers(&mut ctx, mine, number, other);
                                let mark = ctx.facts.mark();
                                self.chain(&mut ctx, chain, family, next, &mut errors);
                                ctx.facts.back_to(mark);
                                ctx.asm.at(other);
                            }
                            ctx.asm.jump(next);
                        }
                        Entry::Stage => {}
                    }
                }
            }
            ctx.asm.at(next);
        }
        ctx.asm.jump(passed);
        self.calls = ctx.asm.calls;
        entries_for_traced(&mut ctx, list, &traced, passed);
        ctx.asm.at(passed);
        let pass = ctx.asm.long(ACCEPTED);
        ctx.leave(pass);
        errors.map_or(Ok(()), Err)
    }

    /// Address of the profile, if code keeps one.
    fn profile_address(&self) -> Option<u64> {
        self.profile.as_deref().map(|p| std::ptr::from_ref(p).addr() as u64)
    }

    /// Whether the first entry of a list that was made is a chain that the interpreter runs for its
    /// lookup.
    fn starts_with_lookup(&self, list: &List) -> bool {
        let Some(Entry::Chain { chain, .. }) = list.entries.first() else { return false };
        self.program.looked_up.get(chain) == Some(&true)
    }

    /// Whether nobody can tell that packets passed the list before others were done with.
    /// `without_host`: it needs nothing from the host.
    fn burst_safe(&mut self, list: &List, without_host: bool) -> bool {
        list.entries.iter().all(|entry| match entry {
            Entry::Chain { chain, .. } => self.program.analysis.summary(*chain).burst_safe,
            // The family of who asks would be that of each packet.
            Entry::InetIngress { chain } => {
                without_host && self.program.analysis.summary(*chain).burst_safe
            }
            Entry::Stage => false,
        })
    }

    /// What chains look at up to the next stage.
    fn needs(&mut self, entries: &[Entry]) -> Parts {
        let mut needs = Parts::default();
        for entry in entries {
            match entry {
                Entry::Chain { chain, .. } | Entry::InetIngress { chain } => {
                    needs.add(self.program.analysis.summary(*chain).needs);
                }
                Entry::Stage => break,
            }
        }
        needs
    }

    /// A base chain; code continues at `next` if it lets the packet pass.
    pub(crate) fn chain(
        &mut self,
        ctx: &mut LoweringCtx<'_, '_>,
        chain: ChainIndex,
        family: Family,
        next: Block,
        errors: &mut Option<CompileError>,
    ) {
        if !self.program.analysis.summary(chain).compiles() {
            self.interpreted += 1;
            return interpret(ctx, chain, next);
        }
        ctx.family = family;
        let end = ctx.asm.block();
        let by_address = self.indirect && !self.program.analysis.summary(chain).traces;
        let mut chains = Chains::new(&mut self.program, ctx, errors);
        if by_address {
            chains.base_by_address(chain, end, next);
        } else {
            chains.base(chain, end, next);
        }
        chains.finish();
        ctx.asm.at(end);
        if let Some(state) = policy_counter(ctx.image, chain) {
            lower::count(ctx, state);
        }
        policy(ctx, chain, next);
    }

    /// The functions of chains that were called, and of those that they call.
    fn shared(&mut self, session: &mut Session) -> Result<(), CompileError> {
        while let Some(shared) = self.program.missing.pop() {
            let Some(&function) = self.program.shared.get(&shared) else { continue };
            let (chain, family) = shared;
            session.define(function, SHARED_PARAMETERS, |asm, values| {
                let memory = asm.stack(64);
                let needs = self.program.analysis.summary(chain).needs;
                let windows = Windows::new(asm, values[0], needs);
                let inputs =
                    Inputs { packet: values[0], host: values[1], cells: values[2], memory };
                let (image, profile) = (self.program.image, self.profile_address());
                let mut ctx = LoweringCtx::new(asm, image, self.helpers, inputs, Finish::Return);
                ctx.entry = values[3];
                ctx.family = family;
                ctx.windows = windows;
                ctx.profile = profile;
                let mut errors = None;
                let end = ctx.asm.block();
                let mut chains = Chains::new(&mut self.program, &mut ctx, &mut errors);
                chains.shared(chain, end);
                chains.finish();
                ctx.asm.at(end);
                let ended = ctx.asm.long(outcome::ENDED);
                ctx.leave(ended);
                errors.map_or(Ok(()), Err)
            })??;
        }
        Ok(())
    }
}

/// Goes on if the packet is of a protocol, to `other` if it is not; without valid headers it ends
/// here.
fn ip_with_headers(ctx: &mut LoweringCtx<'_, '_>, ethertype: u16, entry: u16, other: Block) {
    let protocol = ctx.asm.load(Width::Half, ctx.packet, layout::PROTOCOL);
    let is = ctx.asm.is_number(protocol, Is::Equal, ethertype.into());
    ctx.asm.leave_unless(is, other);
    let has = ctx.asm.load(Width::Byte, ctx.packet, layout::HAS_TRANSPORT);
    let (bad, good) = (ctx.asm.cold_block(), ctx.asm.block());
    ctx.asm.branch(has, good, bad);
    ctx.asm.at(bad);
    let value = ctx.asm.long(outcome::bad_header(entry));
    ctx.leave(value);
    ctx.asm.at(good);
}

/// Has the host run a stage that is no chain ([`Host::stage`](crate::Host::stage)).
fn call_stage(ctx: &mut LoweringCtx<'_, '_>, entry: u16, next: Block) {
    let answer = ctx.asm.call_address(ctx.helpers.stage, &[ctx.packet, ctx.host, ctx.entry]);
    let ends = ctx.asm.block();
    ctx.asm.branch(answer, ends, next);
    ctx.asm.at(ends);
    let high = ctx.asm.shift_left(answer, outcome::RULE_SHIFT);
    let low = ctx.asm.long(outcome::stage(entry));
    let value = ctx.asm.or(high, low);
    ctx.leave(value);
}

/// A base chain, by the interpreter, which counts what its policy decides on.
fn interpret(ctx: &mut LoweringCtx<'_, '_>, chain: ChainIndex, next: Block) {
    let image = ctx.asm.long(std::ptr::from_ref(ctx.image).addr() as u64);
    let number = ctx.asm.long(chain.0.into());
    let arguments = [ctx.packet, ctx.host, image, number, ctx.entry];
    let answer = ctx.asm.call_address(ctx.helpers.interpret, &arguments);
    let accepted = ctx.asm.is_number(answer, Is::Equal, ACCEPTED);
    ctx.asm.leave_if(accepted, next);
    let end = ctx.asm.block();
    let policy_decides = ctx.asm.is_number(answer, Is::Equal, outcome::pack(Outcome::Policy));
    ctx.asm.leave_if(policy_decides, end);
    ctx.decide_value(answer);
    ctx.asm.at(end);
    policy(ctx, chain, next);
}

/// The entries of a list for packets that are traced: the interpreter runs its chains. `traced` are
/// where that begins, entry by entry.
fn entries_for_traced(ctx: &mut LoweringCtx<'_, '_>, list: &List, traced: &[Block], passed: Block) {
    for (n, entry) in list.entries.iter().enumerate() {
        let next = traced.get(n + 1).copied().unwrap_or(passed);
        ctx.asm.at(traced[n]);
        ctx.known_entry = Some(n as u16);
        ctx.entry = ctx.asm.long(n as u64);
        match *entry {
            Entry::Stage => call_stage(ctx, n as u16, next),
            Entry::Chain { chain, .. } => interpret(ctx, chain, next),
            Entry::InetIngress { chain } => {
                for ethertype in [ETH_P_IP, ETH_P_IPV6] {
                    let other = ctx.asm.block();
                    ip_with_headers(ctx, ethertype, n as u16, other);
                    interpret(ctx, chain, next);
                    ctx.asm.at(other);
                }
                ctx.asm.jump(next);
            }
        }
    }
}

fn policy(ctx: &mut LoweringCtx<'_, '_>, chain: ChainIndex, next: Block) {
    ctx.asm.mark(0);
    if ctx.image.chain(chain).and_then(|c| c.policy_accept).unwrap_or(true) {
        ctx.asm.jump(next);
    } else {
        ctx.decide(outcome::pack(Outcome::Policy));
    }
}
