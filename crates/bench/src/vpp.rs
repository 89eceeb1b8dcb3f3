// SPDX-License-Identifier: Apache-2.0

//! Ours beside a VPP that is given, by turns, with the same frames, networks and numbers of flows.
//!
//! VPP's packet generator replays a capture of the frames on its only thread, in vectors of 256. A
//! figure of VPP is the time of its nodes for a packet, as `show runtime time` has it, without
//! those of the generator and of the device that sends; VPP prints three digits. Ours includes the
//! frame's copy into and out of the packet path.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::forward::frames_to;
use crate::frames::{flow, flow_to};
use crate::programs::ours;
use crate::routes::Routes;
use crate::{Scale, Variant, encap, esp, flow as flows, forward};

/// Devices of VPP in place of `lan` and `wan`.
const DEVICES: &str = "\
create packet-generator interface pg0
create packet-generator interface pg1
set interface mac address pg0 02:00:00:00:00:02
set interface mac address pg1 02:00:00:00:00:01
set interface state pg0 up
set interface state pg1 up
";

/// The network of `penstock bench forward` and `flow`.
const NETWORK: &str = "\
set interface ip address pg0 198.18.0.1/24
set interface ip address pg1 198.19.0.1/16
ip neighbor pg0 198.18.0.7 02:00:00:00:00:a7
ip neighbor pg1 198.19.0.7 02:00:00:00:00:b7
ip route add 198.18.0.0/16 via 198.18.0.7 pg0
";

/// Connections that packets from `pg0` begin are kept.
const STATEFUL: &str = "\
set acl-plugin acl permit+reflect src 0.0.0.0/0 dst 0.0.0.0/0
set acl-plugin interface pg0 input acl 0
";

const MASQUERADE: &str = "\
nat44 plugin enable sessions 2000000
set interface nat44 in pg0 out pg1
nat44 add interface address pg1
";

/// Flows are known before anything else is asked.
const SESSIONS: &str = "\
sfdp tenant add 1 context 1
set sfdp services tenant 1 sfdp-l4-lifecycle ip4-lookup forward
set sfdp services tenant 1 sfdp-l4-lifecycle ip4-lookup reverse
set sfdp interface-input pg0 tenant 1
";

/// The network of `penstock bench encap`.
const TUNNELS: &str = "\
set interface ip address pg0 198.18.0.1/24
set interface ip address pg1 198.19.200.1/24
ip neighbor pg0 198.18.0.7 02:00:00:00:00:a7
ip neighbor pg1 198.19.200.7 02:00:00:00:00:b7
";
/// Servers in an IPIP tunnel to their router.
const TO_SERVERS: &str = "\
create ipip tunnel src 198.19.200.1 dst 198.19.200.7
set interface unnumbered ipip0 use pg1
set interface state ipip0 up
ip route add 198.19.0.0/24 via ipip0
";
/// Clients in an IPIP tunnel to their router.
const FROM_CLIENTS: &str = "\
create ipip tunnel src 198.18.0.1 dst 198.18.0.7
set interface unnumbered ipip0 use pg0
set interface state ipip0 up
ip route add 198.19.0.0/24 via 198.19.200.7 pg1
";

/// The network of `penstock bench esp`.
const ESP: &str = "\
set interface ip address pg0 198.18.0.1/24
set interface ip address pg1 198.19.0.1/24
ip neighbor pg0 198.18.0.7 02:00:00:00:00:a7
ip neighbor pg1 198.19.0.2 02:00:00:00:00:b7
create ipip tunnel src 198.19.0.1 dst 198.19.0.2
ipsec sa add 10 spi 1 esp crypto-alg aes-gcm-128 crypto-key 07070707070707070707070707070707 \
salt 0x07070707 use-esn
ipsec sa add 20 spi 2 esp crypto-alg aes-gcm-128 crypto-key 07070707070707070707070707070707 \
salt 0x07070707 inbound
ipsec tunnel protect ipip0 sa-in 20 sa-out 10
set interface unnumbered ipip0 use pg1
set interface state ipip0 up
ip route add 203.0.113.0/24 via ipip0
";

/// Packets of a measurement, or one pass over the frames if these are more.
const PACKETS: u64 = 200_000;

/// So long a command and a pass may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What one VPP does.
struct Task {
    name: &'static str,
    /// Commands, one a line.
    commands: String,
    frames: Vec<Vec<u8>>,
    /// Where frames come in, and where they leave.
    devices: [&'static str; 2],
    /// Before each measurement, so that each frame begins a connection.
    forget: Option<&'static str>,
}

/// A directory of its own, gone when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("penstock-{name}-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Directory(path)),
            Err(e) => Err(format!("{}: {e}", path.display())),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A failure cannot be handled here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Large pages that the system has set aside. A VPP sets some aside for its buffers, and leaves
/// them.
struct LargePages(Option<String>);

impl LargePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn now() -> Self {
        LargePages(std::fs::read_to_string(Self::FILE).ok())
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // A failure cannot be handled here.
            let _ = std::fs::write(Self::FILE, before);
        }
    }
}

/// A running VPP.
struct Vpp {
    child: Child,
    /// Its end reads commands, and writes what it says to them, as to a terminal.
    commands: UnixStream,
    said: BufReader<UnixStream>,
    task: Task,
    directory: Directory,
    /// What names of its shared memory begin with.
    segment: String,
    _large_pages: Rc<LargePages>,
}

impl Vpp {
    fn new(program: &Path, large_pages: &Rc<LargePages>, task: Task) -> Result<Self, String> {
        let directory = Directory::new(task.name)?;
        let (commands, its) = UnixStream::pair().map_err(|e| e.to_string())?;
        commands.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        let at = |file: &str| directory.0.join(file).display().to_string();
        let segment = format!("penstock-{}-{}", task.name, std::process::id());
        let mut command = Command::new(program);
        command
            .args(["unix", "{", "nodaemon", "interactive", "nobanner", "nosyslog"])
            .args(["cli-line-mode", "cli-no-pager", "runtime-dir", &at("run"), "}"])
            .args(["api-segment", "{", "prefix", &segment, "}"])
            .args(["statseg", "{", "size", "2G", "socket-name", &at("stats.sock"), "}"])
            .args(["memory", "{", "main-heap-size", "3G", "}"])
            .args(["acl-plugin", "{", "connection", "count", "max", "2000000", "}"])
            .args(["sfdp", "{", "sessions-log2", "17", "}"])
            .stdin(OwnedFd::from(its))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|e| format!("{}: {e}", program.display()))?;
        let said = BufReader::new(commands.try_clone().map_err(|e| e.to_string())?);
        let _large_pages = large_pages.clone();
        let mut this = Vpp { child, commands, said, task, directory, segment, _large_pages };
        this.prepare()?;
        Ok(this)
    }

    /// Has it do the task's commands, and read the frames.
    fn prepare(&mut self) -> Result<(), String> {
        let directory = &self.directory.0;
        let (script, replayed) = (directory.join("commands"), directory.join("frames.pcap"));
        let file = capture(&self.task.frames);
        let text = format!("{DEVICES}{}", self.task.commands);
        for (path, bytes) in [(&script, text.as_bytes()), (&replayed, &file)] {
            std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        self.must(&format!("exec {}", script.display()))?;
        let [source, _] = self.task.devices;
        self.must(&format!(
            "packet-generator new {{ name frames pcap {} source {source} limit 1 }}",
            replayed.display()
        ))
    }

    /// What it says to a command.
    fn ask(&mut self, line: &str) -> Result<String, String> {
        // A null byte ends what it says to all that it has read at once.
        let mut said = Vec::new();
        let read = self
            .commands
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| self.said.read_until(0, &mut said))
            .map_err(|e| format!("{line}: {e}"))?;
        match read {
            0 => Err(format!("{line}: it ended")),
            _ => Ok(String::from_utf8_lossy(&said).replace('\0', "")),
        }
    }

    /// Has it do a command that says nothing if all is well.
    fn must(&mut self, line: &str) -> Result<(), String> {
        let said = self.ask(line)?;
        let wrong = said.lines().find(|said| {
            let said = said.trim();
            // What was made.
            !said.is_empty() && !["pg0", "pg1", "ipip0", "ACL index:0"].contains(&said)
        });
        wrong.map_or(Ok(()), |said| Err(format!("{line}: {said}")))
    }

    /// Nanoseconds of a packet, over so many of them.
    fn pass(&mut self, packets: u64) -> Result<f64, String> {
        if let Some(forget) = self.task.forget {
            self.ask(forget)?;
        }
        self.must(&format!("packet-generator configure frames limit {packets}"))?;
        self.must("clear runtime")?;
        self.must("packet-generator enable-stream frames")?;
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.ask("show packet-generator")?;
            if generated(&shown) == Some(packets) {
                break;
            }
            if Instant::now() > end {
                return Err(format!("{}: packets do not get through", self.task.name));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let shown = self.ask("show runtime time")?;
        let (ns, sent) = nodes(&shown, self.task.devices[1]);
        match sent == packets {
            true => Ok(ns / packets as f64),
            false => Err(format!("{}: {sent} of {packets} packets are sent", self.task.name)),
        }
    }

    /// Lets it run, or stops it: one that waits for work looks for it all the time.
    fn signal(&self, signal: i32) {
        // SAFETY: the process is a child that has not been waited for, so the number is its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    fn measure(&mut self) -> f64 {
        let frames = self.task.frames.len() as u64;
        let passes = if self.task.forget.is_some() { 1 } else { PACKETS.div_ceil(frames) };
        self.signal(libc::SIGCONT);
        let ns = self.pass(passes * frames);
        self.signal(libc::SIGSTOP);
        ns.unwrap_or(f64::NAN)
    }
}

impl Drop for Vpp {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for what in ["global_vm", "vpe-api"] {
            let _ = std::fs::remove_file(format!("/dev/shm/{}-{what}", self.segment));
        }
    }
}

/// A capture as VPP reads it: pcap with microseconds.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    const MAGIC: u32 = 0xa1b2_c3d4;
    const ETHERNET: u32 = 1;
    let mut file = Vec::new();
    // The version is 2.4, in two halves.
    for word in [MAGIC, 2 | 4 << 16, 0, 0, u16::MAX.into(), ETHERNET] {
        file.extend(word.to_ne_bytes());
    }
    for frame in frames {
        let len = frame.len() as u32;
        for word in [0, 0, len, len] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Packets that the only stream has sent, of `show packet-generator`: the number after its state.
fn generated(shown: &str) -> Option<u64> {
    let line = shown.lines().find(|line| line.starts_with("frames"))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

/// Nanoseconds that nodes have taken, of `show runtime time`, and the packets that a device sent.
fn nodes(shown: &str, device: &str) -> (f64, u64) {
    let (mut ns, mut sent) = (0.0, 0);
    for line in shown.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, .., vectors, _suspends, each, _per_call] = words[..] else { continue };
        let (Ok(vectors), Ok(each)) = (vectors.parse::<u64>(), each.parse::<f64>()) else {
            continue;
        };
        if name.strip_suffix("-tx") == Some(device) {
            sent += vectors;
        } else if name != "pg-input" {
            ns += vectors as f64 * each;
        }
    }
    (ns, sent)
}

/// VPP's commands for lines of `ip -batch` that [`Routes`] makes.
fn routes(lines: &str) -> String {
    let mut out = String::new();
    for line in lines.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let written = match words[..] {
            ["neigh", "add", address, "lladdr", mac, "dev", _] => {
                writeln!(out, "ip neighbor pg1 {address} {mac}")
            }
            ["route", "add", prefix, "via", gateway] => {
                writeln!(out, "ip route add {prefix} via {gateway} pg1")
            }
            _ => Ok(()),
        };
        written.expect("a string");
    }
    out
}

fn tasks(scale: Scale) -> Vec<Task> {
    let through = ["pg0", "pg1"];
    let many: Vec<_> = (0..scale.count(10_000)).map(|n| flow(n, 9)).collect();
    let task = |name, more: &str, frames: &[Vec<u8>]| Task {
        name,
        commands: format!("{NETWORK}{more}"),
        frames: frames.to_vec(),
        devices: through,
        forget: None,
    };
    let mut all = vec![
        task("vpp-plain-10k", "", &many),
        task("vpp-ct-10k", STATEFUL, &many),
        task("vpp-masquerade-10k", MASQUERADE, &many),
        task("vpp-flow-10k", SESSIONS, &many),
    ];
    let most: Vec<_> = (0..scale.count(1_000_000)).map(|n| flow(n, 9)).collect();
    all.push(task("vpp-ct-1m", STATEFUL, &most));
    let to = |n: u32| flow_to(n, [203, 0, 113, n as u8], 9);
    let new: Vec<_> = (0..scale.count(1_000_000)).map(to).collect();
    let server = "ip route add 203.0.113.0/24 via 198.19.0.7 pg1\n";
    for (name, rules, forget) in [
        ("vpp-ct-fresh", STATEFUL, "clear acl-plugin sessions"),
        ("vpp-masquerade-fresh", MASQUERADE, "clear nat44 ed sessions"),
    ] {
        let task = task(name, &format!("{server}{rules}"), &new);
        all.push(Task { forget: Some(forget), ..task });
    }
    for (name, count, next_hops, destinations) in [
        ("vpp-plain-10k-dst", 100, 100, 10_000),
        ("vpp-plain-100k-routes", 100_000, 256, 10_000),
        ("vpp-plain-1m-routes", 1_000_000, 256, 100_000),
    ] {
        let table = Routes::new(scale.count(count), next_hops, false);
        let frames = frames_to(&table.destinations(scale.count(destinations)), false);
        all.push(task(name, &routes(&table.lines), &frames));
    }
    let tunnel = |name, commands: &[&str], frames: &[Vec<u8>], devices| Task {
        name,
        commands: commands.concat(),
        frames: frames.to_vec(),
        devices,
        forget: None,
    };
    let inside: Vec<_> = many.iter().map(|frame| encap::in_ipip(frame)).collect();
    let back = ["pg1", "pg0"];
    all.push(tunnel("vpp-ipip-out", &[TUNNELS, TO_SERVERS], &many, through));
    all.push(tunnel("vpp-ipip-in", &[TUNNELS, FROM_CLIENTS], &inside, through));
    all.push(tunnel("vpp-esp-1400", &[ESP], &esp::outgoing(), through));
    all.push(tunnel("vpp-esp-in-1400", &[ESP], &esp::incoming(), back));
    all
}

/// Ours with those of the VPP that they are compared with.
pub(crate) fn variants(program: &Path, scale: Scale) -> Result<Vec<Variant>, String> {
    let large_pages = Rc::new(LargePages::now());
    let mut all = Vec::new();
    for task in tasks(scale) {
        let name = task.name;
        let mut vpp = Vpp::new(program, &large_pages, task)?;
        let first = vpp.task.frames.len() as u64;
        // Sessions begin, and a mistake shows.
        vpp.pass(first)?;
        vpp.signal(libc::SIGSTOP);
        all.push(Variant::measuring(name, move |_| vpp.measure()));
    }
    let forwarded = [
        ("plain-10k", "vpp-plain-10k"),
        ("plain-10k-dst", "vpp-plain-10k-dst"),
        ("plain-100k-routes", "vpp-plain-100k-routes"),
        ("plain-1m-routes", "vpp-plain-1m-routes"),
        ("ct-10k", "vpp-ct-10k"),
        ("ct-1m", "vpp-ct-1m"),
        ("masquerade-10k", "vpp-masquerade-10k"),
        ("ct-fresh", "vpp-ct-fresh"),
        ("masquerade-fresh", "vpp-masquerade-fresh"),
    ];
    all.extend(ours("forward", forward::variants(scale), &forwarded));
    // A million sessions of SFDP end VPP 26.10.
    let fast = [("fast-10k", "vpp-flow-10k")];
    all.extend(ours("flow", flows::variants(scale), &fast));
    let tunnels = [("ipip-out", "vpp-ipip-out"), ("ipip-in", "vpp-ipip-in")];
    all.extend(ours("encap", encap::variants(scale), &tunnels));
    let ciphers = [("fast-1400", "vpp-esp-1400"), ("fast-in-1400", "vpp-esp-in-1400")];
    all.extend(ours("esp", esp::variants(), &ciphers));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vpp_prints_is_read() {
        let streams = "Name               Enabled        Count     Parameters\n\
                       frames               No           1000      limit 1000, rate 0.00e0 pps\n";
        assert_eq!(generated(streams), Some(1000));
        assert_eq!(generated("no streams currently defined\n"), None);
        let runtime = [
            "Time .4, 10.000000 sec internal node vector rate 250.00 loops/sec 141780.28",
            "       Name        State   Calls  Vectors  Suspends  Packet-Time  Vectors/Call",
            "api-rx-from-ring \"any wait\"    0        0         1       1.27e6          0.00",
            "ethernet-input     active      4     1000         0        2.5e0        250.00",
            "ip4-lookup         active      4     1000         0       1.00e1        250.00",
            "pg-input         disabled      9     1000         0       9.00e2        111.11",
            "pg1-tx             active      4     1000         0       8.00e0        250.00",
        ];
        let runtime = runtime.join("\n");
        assert_eq!(nodes(&runtime, "pg1"), (12_500.0, 1000));
    }

    #[test]
    fn routes_are_those_of_penstock() {
        let lines = "neigh add 198.19.1.0 lladdr 02:00:00:01:00:00 dev wan\n\
                     route add 203.0.113.0/24 via 198.19.1.0\n";
        let commands = "ip neighbor pg1 198.19.1.0 02:00:00:01:00:00\n\
                        ip route add 203.0.113.0/24 via 198.19.1.0 pg1\n";
        assert_eq!(routes(lines), commands);
    }
}
