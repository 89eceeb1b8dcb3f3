// SPDX-License-Identifier: Apache-2.0

//! Forwarding through AF_XDP sockets in user space: `penstock up` against Open vSwitch and DPDK's
//! testpmd on the same devices.
//!
//! The measured forwarder has its own processor and more frames than it can forward: they are
//! generated on another processor. What counts is the time of its process, with all kernel work on
//! its behalf (sending, and reception at the next device), and of the kernel's thread for deferred
//! work there. The others are stopped meanwhile, since they poll.
//!
//! Open vSwitch changes addresses and TTL by one flow of OpenFlow, testpmd changes addresses
//! (`--forward-mode=mac`) and looks at nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::generator::{Frames, Generator};
use super::lab::{self, Bounds, Lab, run};
use super::live::{FLOWTABLE, Stream};
use super::process::{Process, up};
use super::{FLOWS, Result, STATEFUL};
use crate::Variant;
use crate::programs::installed;

/// Packets of a call.
const PACKETS: u64 = 1 << 17;

/// Frames per system call: more than are forwarded during the call. Between two calls the kernel
/// waits for some milliseconds.
const AT_ONCE: u32 = 1 << 20;

/// How long between two looks at how many have arrived.
const PAUSE: Duration = Duration::from_millis(1);

/// After this nothing more is expected of a call: some process has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// All variants. What it makes is gone when they are.
///
/// # Errors
/// A sentence that says which rights or tools are missing.
pub(crate) fn variants() -> Result<Vec<Variant>> {
    const OVS: &str = "ovs-afxdp-10k";
    let bounds = Rc::new(Bounds::new()?);
    let mut all = Vec::new();
    for (name, start) in [
        (OVS, open_vswitch as fn(&Lab) -> Result<Vec<Process>>),
        ("testpmd-afxdp-10k", |lab| Ok(vec![testpmd(lab)?])),
        ("penstock-afxdp-ct-10k", |lab| Ok(vec![up(lab, "xdp", STATEFUL)?])),
        ("penstock-afxdp-10k", |lab| Ok(vec![up(lab, "xdp", FLOWTABLE)?])),
    ] {
        let own = name.starts_with("penstock");
        let lab = Lab::new(&bounds)?;
        lab.ends_poll()?;
        let forwarders = match start(&lab) {
            Ok(forwarders) => forwarders,
            Err(what) if !own => {
                eprintln!("penstock bench peers: without {name}: {what}");
                continue;
            }
            Err(what) => return Err(what),
        };
        let mut stream =
            Saturated::new(lab, forwarders, own).map_err(|what| format!("{name}: {what}"))?;
        let clocks: Vec<_> = stream.forwarders.iter().map(Process::clock).collect();
        let deferred = bounds.clone();
        let made = Variant::new(name, PACKETS, move || stream.pass(PACKETS))
            .by_others(move || deferred.deferred() + clocks.iter().map(|clock| clock.time()).sum());
        all.push(if name == OVS { made } else { made.against(OVS) });
    }
    bounds.elsewhere()?;
    Ok(all)
}

/// More frames than the forwarder of a lab can take.
struct Saturated {
    // Both before the namespace.
    forwarders: Vec<Process>,
    generator: Generator,
    lab: Lab,
}

impl Saturated {
    /// Checks that frames arrive, with connections also the replies, and leaves the forwarder
    /// stopped.
    fn new(mut lab: Lab, forwarders: Vec<Process>, connections: bool) -> Result<Self> {
        if connections {
            let mut stream = Stream::new(lab)?;
            stream.establish()?;
            lab = stream.into_lab();
        }
        let generator = Generator::new(&lab, "a0", FLOWS, Frames::Change, false)?;
        let mut made = Saturated { forwarders, generator, lab };
        made.try_pass(PACKETS)?;
        Ok(made)
    }

    /// Lets it run until so many packets have been forwarded.
    fn pass(&mut self, packets: u64) {
        // What does not arrive makes the figure worse.
        let _ = self.try_pass(packets);
    }

    fn try_pass(&mut self, packets: u64) -> Result<()> {
        self.forwarders.iter().for_each(|process| process.stop(false));
        let wanted = self.lab.arrived("b0")? + packets;
        let end = Instant::now() + PATIENCE;
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let sender = scope.spawn(|| -> Result<()> {
                while !done.load(Relaxed) {
                    self.generator.send(AT_ONCE)?;
                }
                Ok(())
            });
            let mut arrived = Ok(0);
            while Instant::now() < end && !sender.is_finished() {
                thread::sleep(PAUSE);
                arrived = self.lab.arrived("b0");
                if arrived.as_ref().is_ok_and(|arrived| *arrived < wanted) {
                    continue;
                }
                break;
            }
            // Frames from now on are not counted.
            self.forwarders.iter().for_each(|process| process.stop(true));
            done.store(true, Relaxed);
            sender.join().unwrap_or_else(|_| Err("a thread ended early".into()))?;
            if arrived? >= wanted { Ok(()) } else { Err("frames do not arrive".into()) }
        })
    }
}

/// Files of a process, gone when this is dropped.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Open vSwitch with its datapath in user space. Its database is the first process.
fn open_vswitch(lab: &Lab) -> Result<Vec<Process>> {
    for program in ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl"] {
        installed(program)?;
    }
    let files = Directory(std::env::temp_dir().join(lab.name()));
    fs::create_dir_all(&files.0).map_err(|e| format!("{}: {e}", files.0.display()))?;
    let file = |name: &str| files.0.join(name).display().to_string();
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    run("ovsdb-tool", &["create", &file("db"), schema], "")?;
    let socket = file("db.sock");
    let remote = format!("unix:{socket}");
    let start = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(args)
            .arg(format!("--unixctl={}", file(&format!("{program}.ctl"))))
            .arg("-vconsole:err");
        command.env("OVS_RUNDIR", &files.0);
        Process::start(lab, &command)
    };
    let mut database = start("ovsdb-server", &[&file("db"), &format!("--remote=p{remote}")])?;
    database.wait(|| Path::new(&socket).exists())?;
    let vsctl =
        |args: &[&str]| run("ovs-vsctl", &[&[&*format!("--db={remote}")], args].concat(), "");
    vsctl(&["--no-wait", "init"])?;
    let threads = format!("other_config:pmd-cpu-mask={:#x}", 1u64 << lab.processor());
    vsctl(&["--no-wait", "set", "Open_vSwitch", ".", &threads])?;
    vsctl(&["--no-wait", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"])?;
    let mut switch = start("ovs-vswitchd", &[&remote, "--disable-system"])?;
    let bridge = file("br0.mgmt");
    switch.wait(|| Path::new(&bridge).exists())?;
    for port in ["r0", "r1"] {
        vsctl(&[
            "add-port",
            "br0",
            port,
            "--",
            "set",
            "interface",
            port,
            "type=afxdp",
            "options:n_rxq=1",
            "options:xdp-mode=native",
        ])?;
    }
    let actions = format!(
        "in_port=r0,ip,actions=mod_dl_src:{},mod_dl_dst:{},dec_ttl,output:r1",
        mac(lab::R1),
        mac(lab::BEHIND)
    );
    run("ovs-ofctl", &["add-flow", &format!("unix:{bridge}"), &actions], "")?;
    // Sockets and threads are made after it has answered.
    thread::sleep(Duration::from_secs(1));
    Ok(vec![database, switch])
}

/// DPDK's own forwarder with its driver for AF_XDP. It uses no huge pages, which a machine may not
/// have.
fn testpmd(lab: &Lab) -> Result<Process> {
    installed("dpdk-testpmd")?;
    let cpu = lab.processor();
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-huge", "-m", "512", "--no-pci", "--lcores", &format!("0@{cpu},1@{cpu}")]);
    command.args([&format!("--file-prefix={}", lab.name()), "--vdev=net_af_xdp0,iface=r0"]);
    command.args(["--vdev=net_af_xdp1,iface=r1", "--", "--forward-mode=mac", "--auto-start"]);
    command.args([&format!("--eth-peer=1,{}", mac(lab::BEHIND)), "--total-num-mbufs=32768"]);
    let mut process = Process::start(lab, &command)?;
    let mut waited = 0;
    process.wait(|| {
        waited += 1;
        waited > 60
    })?;
    Ok(process)
}
