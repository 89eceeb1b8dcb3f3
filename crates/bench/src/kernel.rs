// SPDX-License-Identifier: Apache-2.0

//! The kernel's own packet path on this machine, and what we put into it: drop and forwarding over
//! veth.
//!
//! Each variant has its own network namespace with everything that a frame passes:
//!
//! ```text
//! generator -> a0 = r0 (rules, programs) -> r1 = b0 (end)
//! ```
//!
//! Frames are made in the kernel (`BPF_PROG_TEST_RUN` with live frames) and go through all of it on
//! one processor, in the caller's system call or in the thread that the kernel has for what it puts
//! off. A figure is the time of both on the processor, making the frame included. A packet counts
//! when it has arrived at the last device.

pub(crate) mod attached;
mod generator;
mod lab;
pub(crate) mod live;
pub(crate) mod netfilter;
pub(crate) mod peers;
mod process;
pub(crate) mod seeds;

use std::rc::Rc;

use penstock_bpf::{AttachPoint, Mode, Next, Program, xdp};
use penstock_ebpf::flow::{FlowHalf, Flows, Site};
use penstock_ebpf::rules::{Device, Entry, Job, Place, compile};
use penstock_flowtable::{Arrival, Key, Xmit};
use penstock_ruleset::link::Linked;
use penstock_wire::ethernet::Mac;

use crate::Variant;
use crate::router::ruleset;
use generator::{Frames, Generator};
use lab::{Bounds, Lab};

/// Packets of a call.
const PACKETS: u64 = 8192;

/// Number of flows of the variants with many flows.
const FLOWS: u16 = 10_000;

/// What is wrong, for the user.
type Result<T> = std::result::Result<T, String>;

/// Rules on the way of the frames, as nft reads them.
struct Rules {
    one: &'static str,
    set: String,
    ranges: String,
}

fn rules() -> Rules {
    let ports: String = (0..384).map(|n| format!("{}, ", 9 + 2 * n)).collect();
    let ranges: String = (0..12).map(|n| format!("{}-{}, ", 5 + 100 * n, 45 + 100 * n)).collect();
    Rules {
        one: "udp dport 9 drop",
        set: format!("udp dport {{ {ports} }} drop"),
        ranges: format!("udp dport {{ {ranges} }} drop"),
    }
}

fn ingress(rules: &str) -> String {
    format!(
        "table netdev t {{ chain c {{ type filter hook ingress device r0 priority 0;\n{rules}\n}}\n}}\n"
    )
}

fn raw(rules: &str) -> String {
    format!("table ip t {{ chain c {{ type filter hook prerouting priority raw;\n{rules}\n}}\n}}\n")
}

const STATEFUL: &str = "table ip t { chain c { type filter hook forward priority 0;
    ct state established,related accept; }; }\n";
const MASQUERADE: &str = "table ip t { chain c { type nat hook postrouting priority 100;
    oifname \"r1\" masquerade; }; }\n";

/// All variants, ready to run. What it makes is gone when they are.
///
/// # Errors
/// A sentence that says which rights or tools are missing.
pub(crate) fn variants() -> Result<Vec<Variant>> {
    let bounds = Rc::new(Bounds::new()?);
    let Rules { one, set, ranges } = rules();
    let mut all = Vec::new();
    let dropping = |rules: Option<String>| -> Result<Lab> {
        let lab = Lab::new(&bounds)?;
        rules.map_or(Ok(()), |rules| lab.nft(&rules))?;
        Ok(lab)
    };
    let mut variant =
        |name: &str, against: Option<&'static str>, lab: Lab, flows: u16, end: &'static str| {
            all.push(sending(&bounds, name, against, lab, flows, end)?);
            Ok::<_, String>(())
        };
    const DROP: Option<&str> = Some("nft-ingress");
    variant("nft-ingress", None, dropping(Some(ingress(one)))?, 1, "r0")?;
    variant("nft-ingress-set384", DROP, dropping(Some(ingress(&set)))?, 1, "r0")?;
    variant("nft-ingress-ranges12", DROP, dropping(Some(ingress(&ranges)))?, 1, "r0")?;
    variant("nft-raw", DROP, dropping(Some(raw(one)))?, 1, "r0")?;
    let iptables = dropping(None)?;
    match iptables.iptables("-t raw -A PREROUTING -p udp --dport 9 -j DROP") {
        Ok(()) => variant("iptables-raw", DROP, iptables, 1, "r0")?,
        Err(what) => eprintln!("penstock bench kernel: without iptables-raw: {what}"),
    }
    variant("xdp-drop", DROP, with_program(dropping(None)?, "r0", &bare_drop()?)?, 1, "r0")?;
    for (name, rules) in
        [("xdp-rule", one), ("xdp-rule-set384", &set), ("xdp-rule-ranges12", &ranges)]
    {
        variant(name, DROP, offloaded(dropping(None)?, &ingress(rules))?, 1, "r0")?;
    }

    let chain = ingress(one).replace("priority 0;", "priority 0; flags offload;");
    let mut lab = dropping(None)?;
    lab.up("xdp", &chain)?;
    variant("up-xdp-rule", DROP, lab, 1, "r0.port")?;

    const FORWARD: Option<&str> = Some("forward-ct-10k");
    let stateful = answered(dropping(Some(STATEFUL.into()))?)?;
    variant("forward-ct-10k", None, stateful, FLOWS, "b0")?;
    variant("forward-10k", FORWARD, dropping(None)?, FLOWS, "b0")?;
    variant("forward-masquerade-10k", FORWARD, dropping(Some(MASQUERADE.into()))?, FLOWS, "b0")?;
    let end = |lab| with_program(lab, "b0", &bare_drop()?);
    variant("xdp-redirect", FORWARD, end(generator::redirecting(dropping(None)?)?)?, 1, "b0")?;
    let through = |place, count, translate| flows(dropping(None)?, place, count, translate);
    variant("xdp-flow-1", FORWARD, end(through(AttachPoint::Xdp, 1, false)?)?, 1, "b0")?;
    variant("xdp-flow-10k", FORWARD, end(through(AttachPoint::Xdp, FLOWS, false)?)?, FLOWS, "b0")?;
    variant(
        "xdp-flow-nat-10k",
        FORWARD,
        end(through(AttachPoint::Xdp, FLOWS, true)?)?,
        FLOWS,
        "b0",
    )?;
    variant("tcx-flow-10k", FORWARD, through(AttachPoint::Tcx, FLOWS, false)?, FLOWS, "b0")?;
    variant("tcx-flow-nat-10k", FORWARD, through(AttachPoint::Tcx, FLOWS, true)?, FLOWS, "b0")?;
    variant("up-xdp-flow-10k", FORWARD, live(dropping(None)?, "xdp", false)?, FLOWS, "b0")?;
    variant("up-xdp-flow-nat-10k", FORWARD, live(dropping(None)?, "xdp", true)?, FLOWS, "b0")?;
    variant("up-tcx-flow-10k", FORWARD, live(dropping(None)?, "packet", false)?, FLOWS, "b0")?;
    Ok(all)
}

/// A variant that sends frames of so many flows until they arrive at a device: those that reach b0
/// are changed on the way.
fn sending(
    bounds: &Rc<Bounds>,
    name: &str,
    against: Option<&'static str>,
    lab: Lab,
    flows: u16,
    end: &'static str,
) -> Result<Variant> {
    let frames = if end != "b0" { Frames::Stay } else { Frames::Change };
    let generator = Generator::new(&lab, "a0", flows, frames, false)?;
    sent_by(bounds, name, against, lab, generator, end)
}

/// A variant that sends the frames of a generator until they arrive at a device.
fn sent_by(
    bounds: &Rc<Bounds>,
    name: &str,
    against: Option<&'static str>,
    lab: Lab,
    generator: Generator,
    end: &'static str,
) -> Result<Variant> {
    let mut sender = Sender { generator, lab, end };
    sender.check().map_err(|what| format!("{name}: {what}"))?;
    let deferred = bounds.clone();
    let made = Variant::new(name, PACKETS, move || sender.send(PACKETS))
        .with_others(move || deferred.deferred());
    Ok(match against {
        Some(against) => made.against(against),
        None => made,
    })
}

/// A generator and where its frames arrive.
struct Sender {
    // Before the namespace.
    generator: Generator,
    lab: Lab,
    end: &'static str,
}

/// So often is it tried again when frames do not arrive.
const TRIES: u32 = 1000;

impl Sender {
    /// Sends until so many packets have arrived.
    fn send(&mut self, packets: u64) {
        // Lost frames lower the figure, and were reported before.
        let _ = self.try_send(packets);
    }

    fn try_send(&mut self, packets: u64) -> Result<()> {
        let wanted = self.lab.arrived(self.end)? + packets;
        let mut missing = packets;
        for _ in 0..TRIES {
            self.generator.send(missing as u32)?;
            // What is still on its way.
            std::thread::yield_now();
            missing = wanted.saturating_sub(self.lab.arrived(self.end)?);
            if missing == 0 {
                return Ok(());
            }
        }
        Err(format!("frames do not arrive at {}", self.end))
    }

    /// Checks that every frame that should be forwarded arrives, and no other.
    fn check(&mut self) -> Result<()> {
        let behind = self.lab.arrived("b0")?;
        self.try_send(PACKETS)?;
        match self.end != "b0" && self.lab.arrived("b0")? != behind {
            true => Err("frames are not dropped".into()),
            false => Ok(()),
        }
    }
}

/// What answers, so that connections are established.
fn answered(lab: Lab) -> Result<Lab> {
    let mut there = Generator::new(&lab, "a0", FLOWS, Frames::Change, false)?;
    let mut back = Generator::new(&lab, "b0", FLOWS, Frames::Change, true)?;
    there.send(u32::from(FLOWS))?;
    back.send(u32::from(FLOWS))?;
    Ok(lab)
}

/// A flowtable for devices in `penstock up`, with all its flows.
fn live(lab: Lab, driver: &str, translate: bool) -> Result<Lab> {
    let ends = bare_drop()?;
    let mut lab = with_program(with_program(lab, "a0", &ends)?, "b0", &ends)?;
    let masquerade = if translate { MASQUERADE } else { "" };
    lab.up(
        driver,
        &format!(
            "table ip f {{ flowtable f {{ hook ingress priority 0; devices = {{ r0, r1 }}; flags offload; }}
             chain c {{ type filter hook forward priority 0; flow add @f; }}; }}
             {masquerade}"
        ),
    )?;
    let mut there = Generator::new(&lab, "a0", FLOWS, Frames::Change, false)?;
    let mut back = Generator::new(&lab, "b0", FLOWS, Frames::Change, true)?;
    let mut flows = 0;
    for _ in 0..TRIES {
        // Not more at once than wait for user space.
        for _ in 0..u32::from(FLOWS).div_ceil(AT_ONCE) {
            there.send(AT_ONCE)?;
            if !translate {
                back.send(AT_ONCE)?;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        flows = lab.offloaded_flows()?;
        if flows == usize::from(FLOWS) {
            return Ok(lab);
        }
    }
    Err(format!("only {flows} of {FLOWS} flows are forwarded by devices"))
}

/// Frames that fit into what user space receives to.
const AT_ONCE: u32 = 1000;

fn bare_drop() -> Result<Program> {
    let mut asm = penstock_bpf::asm::Asm::new();
    asm.exit_with(xdp::DROP);
    lab::load("bench_drop", asm)
}

fn with_program(mut lab: Lab, device: &'static str, program: &Program) -> Result<Lab> {
    lab.attach(device, program, Mode::Native)?;
    Ok(lab)
}

/// The rules as a program in the place of the rules.
fn offloaded(lab: Lab, rules: &str) -> Result<Lab> {
    let linked = Linked::new(&ruleset(rules).generation()).map_err(|e| e.to_string())?;
    let entries: Vec<_> = linked.bases.iter().map(|base| Entry::Netdev(base.chain)).collect();
    let interface =
        penstock_program::env::Interface { name: [0; 16], kind: [0; 16], arphrd: 1, group: 0 };
    let device = Device { index: lab.index("r0")?, mac: Mac(lab::R0), interface };
    let job = Job {
        image: &linked.image,
        entries: &entries,
        place: Place::Xdp(&device),
        next: &Next::Pass,
        shared: None,
        routes: None,
    };
    let compiled = compile(job).map_err(|e| e.to_string())?;
    let (program, _) = compiled.load("bench_rules").map_err(|e| e.to_string())?;
    with_program(lab, "r0", &program)
}

/// Flows from r0 to r1 in a map, with their source translated or as they are.
fn flows(lab: Lab, place: AttachPoint, count: u16, translate: bool) -> Result<Lab> {
    let flows = Flows::new(1 << 20);
    let code = flows.program(&Site::new(place, Next::Pass)).map_err(|e| e.to_string())?;
    let program = Program::load(place, "bench_flows", &code).map_err(|e| e.to_string())?;
    let arrival = Arrival::on(lab.index("r0")?);
    let xmit = Xmit::neighbour(lab.index("r1")?, lab::BEHIND, lab::R1, 1500);
    lab.inside(|| {
        for n in 0..count {
            let key = |address, port| Key::v4(address, [198, 19, 0, 7], [port, 9], 17);
            let from = key([198, 18, 0, 7], generator::FIRST_PORT + n);
            let to = if translate { key([198, 19, 0, 1], 20_000 + n) } else { from };
            let half = FlowHalf { key: &from, arrival: &arrival, to: &to, xmit: &xmit };
            flows.add(&half, 0).map_err(|e| e.to_string())?;
        }
        Ok(())
    })?;
    with_program(lab, "r0", &program)
}
