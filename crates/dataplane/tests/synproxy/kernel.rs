// SPDX-License-Identifier: Apache-2.0

//! Whole connections through the proxy here and in the kernel, by chance: what each side is sent
//! must be the same, with cookies and times of the proxy as zero. Needs root, `ip`, `nft` and
//! `python3`; is skipped with a message otherwise.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// Sends frames, and tells what comes out of either wire.
const INJECT: &str = r#"
import select, socket, sys, time
ends = {}
for d in ("wan", "lan"):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((d + "1", 0))
    ends[d] = s
print("ready", flush=True)
for line in sys.stdin:
    d, frame = line.split()
    ends[d].send(bytes.fromhex(frame))
    out, until = [], time.time() + 0.15
    while time.time() < until:
        for s in select.select(list(ends.values()), [], [], 0.02)[0]:
            frame, address = s.recvfrom(65535)
            if address[2] != 4 and frame[12:14] == b"\x08\x00" and frame[23] == 6:
                out.append(address[0][:-1] + ":" + frame.hex())
    print(" ".join(out), flush=True)
"#;

const RULES: &str = "table ip t {
	chain raw { type filter hook prerouting priority raw; tcp flags == syn notrack; }
	chain f {
		type filter hook forward priority 0;
		ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm
		ct state invalid,untracked drop
	}
}
";

/// A router of the kernel in namespaces, which end with it.
struct Kernel {
    names: [String; 2],
    injector: Child,
    from: BufReader<ChildStdout>,
}

fn run(program: &str, args: &str) -> Result<(), String> {
    let output = Command::new(program).args(args.split_whitespace()).output();
    let output = output.map_err(|e| e.to_string())?;
    let error = || Err(format!("{program} {args}: {}", String::from_utf8_lossy(&output.stderr)));
    if output.status.success() { Ok(()) } else { error() }
}

impl Kernel {
    fn new() -> Result<Kernel, String> {
        let names = ["r", "s"].map(|side| format!("penstock-proxy-{}-{side}", std::process::id()));
        let made = Self::build(&names);
        if made.is_err() {
            names.iter().for_each(|name| drop(run("ip", &format!("netns del {name}"))));
        }
        let mut injector = made?;
        let from = BufReader::new(injector.stdout.take().ok_or("no output")?);
        let mut kernel = Kernel { names, injector, from };
        kernel.line()?;
        Ok(kernel)
    }

    fn build([router, side]: &[String; 2]) -> Result<Child, String> {
        for name in [router, side] {
            run("ip", &format!("netns add {name}"))?;
        }
        for (d, net, far) in [("wan", 0, "a7"), ("lan", 1, "b7")] {
            for line in [
                format!("-n {router} link add {d} type veth peer name {d}1 netns {side}"),
                format!("-n {router} link set {d} address 02:00:00:00:00:0{} up", net + 1),
                format!("-n {side} link set {d}1 up"),
                format!("-n {router} addr add 198.18.{net}.1/24 dev {d}"),
                format!(
                    "-n {router} neigh add 198.18.{net}.7 lladdr 02:00:00:00:00:{far} dev {d} nud permanent"
                ),
                format!("netns exec {router} sysctl -qw net.ipv4.conf.{d}.rp_filter=0"),
            ] {
                run("ip", &line)?;
            }
        }
        for setting in [
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.ip_forward=1",
            "net.netfilter.nf_conntrack_tcp_loose=0",
        ] {
            run("ip", &format!("netns exec {router} sysctl -qw {setting}"))?;
        }
        let mut nft = Command::new("ip")
            .args(["netns", "exec", router, "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let written = nft.stdin.take().ok_or("no input")?.write_all(RULES.as_bytes());
        written.map_err(|e| e.to_string())?;
        if !nft.wait().map_err(|e| e.to_string())?.success() {
            return Err("nft refuses the rules".into());
        }
        Command::new("ip")
            .args(["netns", "exec", side, "python3", "-c", INJECT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.from.read_line(&mut line).map_err(|e| e.to_string())?;
        Ok(line)
    }

    fn send(&mut self, device: &str, frame: &[u8]) -> Vec<Segment> {
        let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
        let to = self.injector.stdin.as_mut().unwrap();
        writeln!(to, "{device} {hex}").and_then(|()| to.flush()).unwrap();
        let line = self.line().unwrap();
        let mut segments: Vec<_> = line
            .split_whitespace()
            .map(|frame| {
                let (device, hex) = frame.split_once(':').unwrap();
                let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
                segment(device, &bytes)
            })
            .collect();
        segments.sort_by(|a, b| a.device.cmp(&b.device));
        segments
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.injector.kill();
        let _ = self.injector.wait();
        self.names.iter().for_each(|name| drop(run("ip", &format!("netns del {name}"))));
    }
}

/// One side of the comparison: what its proxy told the client.
#[derive(Clone, Copy, Default)]
struct Told {
    cookie: u32,
    time: u32,
}

/// A segment with what is of chance as zero.
fn plain(mut s: Segment, told: &mut Told) -> Segment {
    if s.device == "wan" {
        if s.flags & 0x12 == 0x12 {
            told.cookie = s.seq;
        }
        // A connection that begins again is not shifted until the server answers.
        if s.seq.wrapping_sub(SERVER_ISN) > 100_000 || s.flags & 0x12 == 0x12 {
            s.seq = s.seq.wrapping_sub(told.cookie);
        }
    } else if s.flags & 2 != 0 {
        s.ack = s.ack.wrapping_sub(told.cookie);
    }
    let mut at = 0;
    while at < s.options.len() && s.options[at] != 0 {
        let (kind, len) = (s.options[at], s.options.get(at + 1).map_or(1, |l| usize::from(*l)));
        if kind == 1 {
            at += 1;
            continue;
        }
        if kind == 8 && len == 10 && at + 10 <= s.options.len() {
            let of_proxy = if s.device == "wan" { at + 2 } else { at + 6 };
            let field = &mut s.options[of_proxy..of_proxy + 4];
            let value = u32::from_be_bytes((&*field).try_into().unwrap());
            // To the server times are of the proxy in the first SYN only; later ones are shifted.
            let of_server = SERVER_TIMES.contains(&value);
            if s.device == "wan" && s.flags & 0x12 == 0x12 {
                told.time = value;
                field.copy_from_slice(&(value & 0x3f).to_be_bytes());
            } else if (s.device == "wan" || s.flags & 2 != 0) && !of_server {
                field.copy_from_slice(&value.wrapping_sub(told.time).to_be_bytes());
            }
        }
        at += len.max(2);
    }
    s
}

/// A step: from the client or not, its flags, numbers from the start of each side, bytes of data,
/// and what options it has.
#[derive(Clone, Debug)]
struct Step {
    there: bool,
    flags: u8,
    seq: u32,
    ack: u32,
    data: usize,
    window: u16,
    time: Option<(u32, u32)>,
    sack: Option<(u32, u32)>,
    first: bool,
}

impl Step {
    fn frame(&self, port: u16, told: Told) -> Frame {
        let (sport, dport) = if self.there { (port, 80) } else { (80, port) };
        let (own, other) = if self.there { (ISN, told.cookie) } else { (SERVER_ISN, ISN) };
        let mut tcp = Tcp::new(sport, dport)
            .flags(self.flags)
            .seq(own.wrapping_add(self.seq))
            .window(self.window);
        if self.flags & 0x10 != 0 {
            tcp = tcp.ack(other.wrapping_add(self.ack)).flags(self.flags);
        }
        if self.first {
            tcp = tcp.mss(1300).sack_permitted();
        }
        if let Some((value, echo)) = self.time {
            let echo = if self.there && !self.first { told.time.wrapping_add(echo) } else { echo };
            tcp = tcp.nop().nop().timestamp(value, echo);
        }
        if self.first {
            tcp = tcp.nop().window_scale(5);
        }
        if let Some((from, to)) = self.sack {
            let edges = [from, to].map(|edge| other.wrapping_add(edge).to_be_bytes()).concat();
            tcp = tcp.nop().nop().option(5, &edges);
        }
        let frame = if self.there { client(tcp) } else { server(tcp) };
        if self.data > 0 { frame / payload(vec![7; self.data]) } else { frame }
    }
}

/// What the server's clock says.
const SERVER_TIMES: std::ops::Range<u32> = 5_000_000..5_001_000;

fn story(rng: &mut fastrand::Rng) -> Vec<Step> {
    let timed = rng.bool();
    let time = |value, echo| timed.then_some((value, echo));
    let step = |there, flags, seq, ack| Step {
        there,
        flags,
        seq,
        ack,
        data: 0,
        window: 5000,
        time: None,
        sack: None,
        first: false,
    };
    let mut steps = vec![
        Step { first: true, time: time(77, 0), ..step(true, 2, 0, 0) },
        Step { time: time(78, 0), ..step(true, 0x10, 1, 1) },
        Step { first: true, time: time(5_000_000, 78), ..step(false, 0x12, 0, 1) },
    ];
    let mut next = [1u32, 1];
    for n in 0..rng.usize(4..14) as u32 {
        let there = rng.bool();
        let (own, other) = (usize::from(!there), usize::from(there));
        let flags = [0x10, 0x10, 0x18, 0x18, 0x18, 0x11, 0x14, 4][rng.usize(..8)];
        let data = if flags == 0x18 { rng.usize(1..200) } else { 0 };
        let back = if rng.u8(..5) == 0 { rng.u32(..50).min(next[own] - 1) } else { 0 };
        let sack = (flags == 0x10 && rng.bool()).then(|| (next[other] + 10, next[other] + 30));
        let clocks = if there { (80 + n, n) } else { (5_000_001 + n, 78 + n) };
        let mut s = Step {
            data,
            sack,
            time: time(clocks.0, clocks.1),
            ..step(there, flags, next[own] - back, next[other])
        };
        s.window = rng.u16(100..20_000);
        if back == 0 {
            next[own] += data as u32 + u32::from(flags & 1);
        }
        steps.push(s);
    }
    steps
}

#[test]
fn proxied_connections_are_as_in_the_kernel() {
    let mut kernel = match Kernel::new() {
        Ok(kernel) => kernel,
        Err(why) => return eprintln!("left out: no comparison with the kernel ({})", why.trim()),
    };
    let seed = penstock_testkit::seed();
    for seed in seed..seed + penstock_testkit::rounds(6) as u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut path = proxy(0xf);
        let port = 2000 + (seed % 30_000) as u16;
        let (mut theirs, mut ours, mut told) = (Told::default(), Told::default(), String::new());
        for (n, step) in story(&mut rng).iter().enumerate() {
            let device = if step.there { "wan" } else { "lan" };
            let k = kernel.send(device, &step.frame(port, theirs).build());
            let time = START + n as u64 * 200_000_000;
            let mut o = send(&mut path, device, step.frame(port, ours), time);
            o.sort_by(|a, b| a.device.cmp(&b.device));
            let mut k: Vec<_> = k.into_iter().map(|s| plain(s, &mut theirs)).collect();
            let mut o: Vec<_> = o.into_iter().map(|s| plain(s, &mut ours)).collect();
            if step.first && !step.there {
                // The kernel shifts the time that it echoes to the server twice.
                let to_server = |s: &&mut Segment| s.device == "lan" && s.options.len() == 12;
                k.iter_mut().chain(&mut o).filter(to_server).for_each(|s| s.options[8..].fill(0));
            }
            told += &format!("{step:?}\n   {o:?}\n");
            assert_eq!(o, k, "seed {seed}, step {n}, here and in the kernel:\n{told}");
        }
    }
}
