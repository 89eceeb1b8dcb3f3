// SPDX-License-Identifier: Apache-2.0

//! A ruleset twice: once in the kernel, once in the interpreter. Both get the same commands, frames
//! and times, and list the same.

use fastrand::Rng;
use penstock_bpf::{Next, Program, tcx, xdp};
use penstock_ebpf::rules::{
    Compiled, Counters, Device, Entry, Job, NotOffloadable, Place, SharedStates, compile,
};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_packet::Packet;
use penstock_program::env::Interface;
use penstock_program::{Family, Hook, Outcome, run};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::program::MockEnv;
use penstock_wire::ethernet::Mac;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// How far the packet clock is ahead of the kernel's.
const AHEAD: u64 = 1_700_000_000_123_456_789;

/// A command; what is printed, also of one that is refused.
pub fn nft(ruleset: &mut Ruleset, text: &str, now: u64) -> Result<String, String> {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, now);
    if outcome.ok { Ok(outcome.stdout) } else { Err(outcome.stderr) }
}

fn device() -> Device {
    let mut name = [0; 16];
    name[..3].copy_from_slice(b"lan");
    Device { index: 1, mac: MAC, interface: Interface { name, kind: [0; 16], arphrd: 1, group: 0 } }
}

fn entries(linked: &Linked) -> Vec<Entry> {
    let mut bases: Vec<_> = linked.bases.iter().filter(|b| b.base.hook == Hook::Ingress).collect();
    bases.sort_by_key(|b| b.base.priority);
    bases.iter().map(|b| Entry::Netdev(b.chain)).collect()
}

/// The program of a ruleset's chains at ingress, in XDP.
#[allow(dead_code)]
pub fn compiled(ruleset: &Ruleset, states: &SharedStates) -> Result<Compiled, NotOffloadable> {
    compiled_at(Place::Xdp(&device()), ruleset, states)
}

/// The program of a ruleset's chains at ingress, at tcx.
#[allow(dead_code)]
pub fn compiled_at_tcx(
    ruleset: &Ruleset,
    states: &SharedStates,
) -> Result<Compiled, NotOffloadable> {
    compiled_at(Place::TcxIngress(&device()), ruleset, states)
}

fn compiled_at(
    place: Place<'_>,
    ruleset: &Ruleset,
    states: &SharedStates,
) -> Result<Compiled, NotOffloadable> {
    compiled_linked(place, &Linked::new(&ruleset.generation()).unwrap(), states)
}

fn compiled_linked(
    place: Place<'_>,
    linked: &Linked,
    states: &SharedStates,
) -> Result<Compiled, NotOffloadable> {
    let entries = entries(linked);
    compile(Job {
        image: &linked.image,
        entries: &entries,
        place,
        next: &Next::Pass,
        shared: Some(states),
        routes: None,
    })
}

/// The two.
pub struct Pair {
    pub kernel: Ruleset,
    pub interpreter: Ruleset,
    pub states: SharedStates,
    pub now: u64,
    linked: Linked,
    /// Of the kernel's ruleset.
    attached: Linked,
    running: Running,
    /// The program of the generation before.
    before: Option<Running>,
    /// Programs that were loaded.
    pub loaded: usize,
    /// At tcx, in place of XDP.
    tcx: bool,
}

/// A program, and what it was made from.
struct Running {
    compiled: Compiled,
    program: Program,
    counters: Counters,
}

impl Pair {
    /// Both begin with this text, in XDP.
    #[allow(dead_code)]
    pub fn new(text: &str) -> Self {
        Pair::at(text, false)
    }

    /// Both begin with this text, at tcx.
    #[allow(dead_code)]
    pub fn at_tcx(text: &str) -> Self {
        Pair::at(text, true)
    }

    fn at(text: &str, tcx: bool) -> Self {
        let now = AHEAD + 5_000_000_000;
        let states = SharedStates::with_given_time().unwrap();
        states.set_time(now.wrapping_sub(AHEAD));
        states.sync(now).unwrap();
        let [kernel, interpreter] = [(); 2].map(|()| {
            let mut ruleset = Ruleset::default();
            nft(&mut ruleset, text, now).unwrap_or_else(|e| panic!("{text}\n{e}"));
            ruleset
        });
        let linked = Linked::new(&interpreter.generation()).unwrap();
        let attached = Linked::new(&kernel.generation()).unwrap();
        let running = load(compile_at(tcx, &attached, &states, text), text);
        states.stage([&running.compiled], now).unwrap();
        states.settle(&attached.image);
        // The kernel gets the elements of sets that packets change.
        states.sync(now).unwrap();
        let (before, loaded) = (None, 1);
        Pair { kernel, interpreter, states, now, linked, attached, running, before, loaded, tcx }
    }

    /// Gives both a command; what the kernel's prints. The next generation takes the place of the
    /// present one.
    #[allow(dead_code)]
    pub fn command(&mut self, text: &str) -> String {
        self.collect();
        let ours = nft(&mut self.kernel, text, self.now);
        assert_eq!(ours, nft(&mut self.interpreter, text, self.now), "{text}");
        self.linked = Linked::new(&self.interpreter.generation()).unwrap();
        self.attached = self.attached.next(&self.kernel.generation()).unwrap();
        let compiled = compile_at(self.tcx, &self.attached, &self.states, text);
        self.states.stage([&compiled], self.now).unwrap();
        if !compiled.is_same(&self.running.compiled) {
            let before = self.before.take().filter(|before| compiled.is_same(&before.compiled));
            let next = before.unwrap_or_else(|| {
                self.loaded += 1;
                load(compiled, text)
            });
            self.before = Some(std::mem::replace(&mut self.running, next));
        }
        self.states.settle(&self.attached.image);
        self.states.release();
        self.collect();
        ours.unwrap_or_else(|e| e)
    }

    /// Gives the kernel's a command that changes elements only; how long it took to compile the next
    /// generation, which has the programs of before, and to write it into the maps.
    #[allow(dead_code)]
    pub fn timed(&mut self, text: &str) -> std::time::Duration {
        nft(&mut self.kernel, text, self.now).unwrap_or_else(|e| panic!("{text}\n{e}"));
        self.attached = self.attached.next(&self.kernel.generation()).unwrap();
        let begun = std::time::Instant::now();
        let compiled = compile_at(self.tcx, &self.attached, &self.states, text);
        self.states.stage([&compiled], self.now).unwrap();
        let took = begun.elapsed();
        self.states.settle(&self.attached.image);
        self.running.compiled = compiled;
        took
    }

    pub fn collect(&mut self) {
        self.states.set_time(self.now.wrapping_sub(AHEAD));
        self.states.sync(self.now).unwrap();
        self.running.counters.collect().unwrap();
    }

    /// Both get a frame; whether it is accepted.
    pub fn frame(&mut self, frame: &[u8]) -> bool {
        self.states.set_time(self.now.wrapping_sub(AHEAD));
        let ran = self.running.program.run(frame, 0, 1).unwrap();
        let accepted = self.interpreted(frame);
        let passed = if self.tcx { ran.verdict != tcx::DROP } else { ran.verdict == xdp::PASS };
        if passed != accepted {
            self.collect();
            let list = |ruleset: &mut Ruleset| nft(ruleset, "list ruleset", self.now).unwrap();
            let (kernel, interpreter) = (list(&mut self.kernel), list(&mut self.interpreter));
            panic!(
                "accepted: {accepted}\n{:02x?}\nkernel {kernel}\ninterpreter {interpreter}",
                frame.get(..44)
            );
        }
        accepted
    }

    /// Both list the same; what.
    #[allow(dead_code)]
    pub fn listed(&mut self) -> String {
        self.listed_by(str::to_owned)
    }

    /// Both list the same, as far as `form` keeps it.
    #[allow(dead_code)]
    pub fn listed_by<F: PartialEq + std::fmt::Debug>(
        &mut self,
        form: impl Fn(&str) -> F,
    ) -> String {
        self.collect();
        let ours = nft(&mut self.kernel, "list ruleset", self.now).unwrap();
        let theirs = nft(&mut self.interpreter, "list ruleset", self.now).unwrap();
        assert_eq!(form(&ours), form(&theirs));
        ours
    }

    fn interpreted(&self, frame: &[u8]) -> bool {
        let mut packet = Packet::new();
        let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
        outside.interfaces.insert(1, device().interface);
        if !packet.receive_ethernet(frame, MAC) {
            return true;
        }
        (packet.meta.iif, packet.meta.time) = (1, self.now);
        if packet.untag().is_err() {
            return true;
        }
        packet.find_transport_checked();
        let image = &self.linked.image;
        entries(&self.linked).iter().all(|entry| {
            let Entry::Netdev(chain) = entry else { unreachable!("only these are made") };
            match run(image, *chain, &mut packet, &mut outside) {
                Outcome::Accept => true,
                Outcome::Policy => image.chain(*chain).unwrap().policy_accept != Some(false),
                _ => false,
            }
        })
    }
}

fn compile_at(tcx: bool, linked: &Linked, states: &SharedStates, text: &str) -> Compiled {
    let device = device();
    let place = if tcx { Place::TcxIngress(&device) } else { Place::Xdp(&device) };
    compiled_linked(place, linked, states).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn load(compiled: Compiled, text: &str) -> Running {
    let loaded = compiled.load("rules");
    let (program, counters) = loaded.unwrap_or_else(|e| panic!("{text}\n{e}\n{}", tail(&e.log)));
    Running { compiled, program, counters }
}

fn tail(log: &str) -> &str {
    let mut from = log.len().saturating_sub(6000);
    while !log.is_char_boundary(from) {
        from += 1;
    }
    &log[from..]
}

/// What happens next in a random run.
#[allow(dead_code)]
pub enum Step {
    /// A command was run, or a listing compared.
    Done,
    /// The frame is sent.
    Frame(Vec<u8>),
}

/// Runs random rulesets for so many steps each; `listed` compares both listings at the end. Frames
/// are dropped and accepted often enough.
#[allow(dead_code)]
pub fn random_runs(
    steps: usize,
    begin: impl Fn(&str) -> Pair,
    text: impl Fn(&mut Rng) -> String,
    step: impl Fn(&mut Pair, &mut Rng) -> Step,
    listed: impl Fn(&mut Pair),
) {
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    let mut verdicts = [0; 2];
    for round in 0..penstock_testkit::rounds(100) {
        let text = text(&mut rng);
        println!("seed {seed} round {round}\n{text}");
        let mut pair = begin(&text);
        for _ in 0..steps {
            if let Step::Frame(bytes) = step(&mut pair, &mut rng) {
                verdicts[usize::from(pair.frame(&bytes))] += 1;
            }
        }
        listed(&mut pair);
    }
    println!("{} dropped, {} accepted", verdicts[0], verdicts[1]);
    assert!(verdicts.iter().all(|n| *n > 100), "{verdicts:?}");
}
