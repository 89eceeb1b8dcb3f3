// SPDX-License-Identifier: Apache-2.0

//! Whole connections through the proxy here and in the kernel, by chance, in both families and with
//! NAT: what each side is sent must be the same, with cookies and times of the proxy as zero. Needs
//! root, `ip`, `nft` and `python3`; is skipped with a message otherwise.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;

use super::*;

/// Sends frames, and tells what comes out of either wire. Checksums of IPv6 are left to the device:
/// of others the kernel's proxy asks whether they are right for IPv4.
const INJECT: &str = r#"
import select, socket, struct, sys, time
ends, senders = {}, {}
for d in ("wan", "lan"):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((d + "1", 0))
    ends[d] = s
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    # PACKET_VNET_HDR
    s.setsockopt(263, 15, 1)
    s.bind((d + "1", 0))
    senders[d] = s
def unfinished(frame):
    pseudo = frame[22:54] + struct.pack("!II", len(frame) - 54, 6)
    s = sum(struct.unpack("!20H", pseudo))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    # VIRTIO_NET_HDR_F_NEEDS_CSUM
    header = struct.pack("=BBHHHH", 1, 0, 0, 0, 54, 16)
    return header + frame[:70] + struct.pack("!H", s) + frame[72:]
print("ready", flush=True)
for line in sys.stdin:
    d, frame = line.split()
    frame = bytes.fromhex(frame)
    senders[d].send(unfinished(frame) if frame[12] == 0x86 else bytes(10) + frame)
    out, until = [], time.time() + 0.15
    while time.time() < until:
        for s in select.select(list(ends.values()), [], [], 0.02)[0]:
            frame, address = s.recvfrom(65535)
            v4 = frame[12:14] == b"\x08\x00" and frame[23] == 6
            v6 = frame[12:14] == b"\x86\xdd" and frame[20] == 6
            if address[2] != 4 and (v4 or v6):
                out.append(address[0][:-1] + ":" + frame.hex())
    print(" ".join(out), flush=True)
"#;

/// Lets no device of the router send segments with a checksum to be finished by the next.
const FINISH: &str = r#"
import array, fcntl, socket, struct
s = socket.socket()
for d in (b"wan", b"lan"):
    # ETHTOOL_STXCSUM, by SIOCETHTOOL
    value = array.array("I", [0x17, 0])
    fcntl.ioctl(s, 0x8946, struct.pack("16sP16x", d, value.buffer_info()[0]))
"#;

/// What the two ends are, and as whom each appears to the other.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    client: &'static str,
    server: &'static str,
    /// Whom the client speaks to.
    called: (&'static str, u16),
    /// Whom the server speaks to; the client's port is known if it is no other.
    seen: (&'static str, Option<u16>),
    /// Rules of NAT in `output` and `postrouting`.
    nat: [&'static str; 2],
}

/// Stands for the port that the server sees: another one for each connection, since the kernel
/// remembers those before.
const PORT: u16 = 7000;

const PLAIN: Case = Case {
    name: "IPv4",
    client: CLIENT,
    server: SERVER,
    called: (SERVER, 80),
    seen: (CLIENT, None),
    nat: ["", ""],
};
const PLAIN6: Case = Case {
    name: "IPv6",
    client: "2001:db8::7",
    server: "2001:db8:1::7",
    called: ("2001:db8:1::7", 80),
    seen: ("2001:db8::7", None),
    nat: ["", ""],
};

const CASES: [Case; 10] = [
    PLAIN,
    PLAIN6,
    Case {
        name: "masquerade",
        seen: ("198.18.1.1", None),
        nat: ["", "oifname lan masquerade"],
        ..PLAIN
    },
    Case {
        name: "masquerade in IPv6",
        seen: ("2001:db8:1::1", None),
        nat: ["", "oifname lan masquerade"],
        ..PLAIN6
    },
    Case {
        name: "snat",
        seen: ("198.18.1.99", Some(PORT)),
        nat: ["", "oifname lan meta l4proto tcp snat ip to 198.18.1.99:PORT"],
        ..PLAIN
    },
    Case {
        name: "snat in IPv6",
        seen: ("2001:db8:1::99", Some(PORT)),
        nat: ["", "oifname lan meta l4proto tcp snat ip6 to [2001:db8:1::99]:PORT"],
        ..PLAIN6
    },
    Case {
        name: "dnat",
        called: ("198.18.1.9", 81),
        nat: ["tcp dport 81 dnat ip to 198.18.1.7:80", ""],
        ..PLAIN
    },
    Case {
        name: "dnat in IPv6",
        called: ("2001:db8:1::9", 81),
        nat: ["tcp dport 81 dnat ip6 to [2001:db8:1::7]:80", ""],
        ..PLAIN6
    },
    Case {
        name: "dnat and masquerade",
        called: ("198.18.1.9", 81),
        seen: ("198.18.1.1", None),
        nat: ["tcp dport 81 dnat ip to 198.18.1.7:80", "oifname lan masquerade"],
        ..PLAIN
    },
    Case {
        name: "dnat and snat in IPv6",
        called: ("2001:db8:1::9", 81),
        seen: ("2001:db8:1::99", Some(PORT)),
        nat: [
            "tcp dport 81 dnat ip6 to [2001:db8:1::7]:80",
            "oifname lan meta l4proto tcp snat ip6 to [2001:db8:1::99]:PORT",
        ],
        ..PLAIN6
    },
];

impl Case {
    /// The case with another port that the server sees.
    fn at(self, port: u16) -> Case {
        Case { seen: (self.seen.0, self.seen.1.map(|_| port)), ..self }
    }

    fn rules(&self) -> String {
        let port = self.seen.1.unwrap_or(PORT).to_string();
        let [output, postrouting] = self.nat.map(|line| line.replace("PORT", &port));
        format!(
            "table inet t {{
	chain raw {{ type filter hook prerouting priority raw; tcp flags == syn notrack; }}
	chain f {{
		type filter hook forward priority 0;
		ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm
		ct state invalid,untracked drop
	}}
	chain o {{ type nat hook output priority -100; {output}; }}
	chain p {{ type nat hook postrouting priority 100; {postrouting}; }}
}}
"
        )
    }

    /// The dataplane with these rules.
    fn path(&self) -> Dataplane {
        let net = format!(
            "{NET}neigh add 198.18.1.9 lladdr 02:00:00:00:00:b7 dev lan\n\
             neigh add 2001:db8:1::9 lladdr 02:00:00:00:00:b7 dev lan\n"
        );
        let net = penstock_net::Network::from_batch("net.ip", &net).unwrap();
        let mut settings = Settings::unlimited();
        settings.conntrack.tcp_loose = false;
        let mut path = Dataplane::new(Arc::new(net), settings);
        let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
        let mut ruleset = Ruleset::default();
        let outcome = session.run(Origin::CommandLine, self.rules(), &mut ruleset, START);
        assert!(outcome.ok, "{}", outcome.stderr);
        path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap()));
        path
    }

    /// A frame of the client, or of the server.
    fn frame(&self, there: bool, tcp: Tcp) -> Frame {
        let (from, to) = match there {
            true => (self.client, self.called.0),
            false => (self.server, self.seen.0),
        };
        let link = if there { from_wan() } else { from_lan() };
        match self.client.contains(':') {
            true => link / Ipv6::new(from, to) / tcp,
            false => link / Ipv4::new(from, to) / tcp,
        }
    }
}

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
    fn new(number: usize) -> Result<Kernel, String> {
        let id = std::process::id();
        let names = ["r", "s"].map(|side| format!("penstock-proxy-{id}-{number}-{side}"));
        let made = Self::build(&names);
        if made.is_err() {
            names.iter().for_each(|name| drop(run("ip", &format!("netns del {name}"))));
        }
        let mut injector = made?;
        let from = BufReader::new(injector.stdout.take().ok_or("no output")?);
        let mut kernel = Kernel { names, injector, from };
        kernel.line()?;
        // IPv6 needs some time.
        kernel.load(&PLAIN6.rules());
        let syn = PLAIN6.frame(true, Tcp::new(9, 80).syn()).build();
        assert!((0..100).any(|_| !kernel.send("wan", &syn).is_empty()), "no answer by IPv6");
        Ok(kernel)
    }

    fn build([router, side]: &[String; 2]) -> Result<Child, String> {
        for name in [router, side] {
            run("ip", &format!("netns add {name}"))?;
        }
        for (d, net, six, far) in [("wan", 0, "", "a7"), ("lan", 1, ":1", "b7")] {
            let station = format!("lladdr 02:00:00:00:00:{far} dev {d} nud permanent");
            for line in [
                format!("-n {router} link add {d} type veth peer name {d}1 netns {side}"),
                format!("-n {router} link set {d} address 02:00:00:00:00:0{} up", net + 1),
                format!("-n {side} link set {d}1 up"),
                format!("-n {router} addr add 198.18.{net}.1/24 dev {d}"),
                format!("-n {router} addr add 2001:db8{six}::1/64 dev {d} nodad"),
                format!("-n {router} neigh add 198.18.{net}.7 {station}"),
                format!("-n {router} neigh add 198.18.{net}.9 {station}"),
                format!("-n {router} neigh add 2001:db8{six}::7 {station}"),
                format!("-n {router} neigh add 2001:db8{six}::9 {station}"),
                format!("netns exec {router} sysctl -qw net.ipv4.conf.{d}.rp_filter=0"),
            ] {
                run("ip", &line)?;
            }
        }
        for setting in [
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.ip_forward=1",
            "net.ipv6.conf.all.forwarding=1",
            "net.netfilter.nf_conntrack_tcp_loose=0",
        ] {
            run("ip", &format!("netns exec {router} sysctl -qw {setting}"))?;
        }
        let python = |namespace, program| {
            let mut python = Command::new("ip");
            python.args(["netns", "exec", namespace, "python3", "-c", program]);
            python
        };
        match python(router, FINISH).status() {
            Ok(status) if status.success() => {}
            _ => return Err("python3 does not run".into()),
        }
        python(side, INJECT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())
    }

    /// Loads rules in place of those that are there.
    fn load(&self, rules: &str) {
        let mut nft = Command::new("ip")
            .args(["netns", "exec", &self.names[0], "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!("flush ruleset\n{rules}");
        nft.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "nft refuses {rules}");
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
    fn frame(&self, case: &Case, port: u16, told: Told) -> Frame {
        let (sport, dport) = match self.there {
            true => (port, case.called.1),
            false => (80, case.seen.1.unwrap_or(port)),
        };
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
        let frame = case.frame(self.there, tcp);
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
    let seed = penstock_testkit::seed();
    let rounds = penstock_testkit::rounds(2 * CASES.len()) as u64;
    // The kernel's side mostly waits.
    const SIDES: usize = 4;
    std::thread::scope(|scope| {
        for side in 0..SIDES {
            scope.spawn(move || {
                let mut kernel = match Kernel::new(side) {
                    Ok(kernel) => kernel,
                    Err(why) => {
                        eprintln!("left out: no comparison with the kernel ({})", why.trim());
                        return;
                    }
                };
                for seed in (seed..seed + rounds).skip(side).step_by(SIDES) {
                    compare(&mut kernel, seed);
                }
            });
        }
    });
}

/// A connection of one of the cases, by the seed.
fn compare(kernel: &mut Kernel, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let case = CASES[(seed % CASES.len() as u64) as usize].at(PORT + (seed % 2000) as u16);
    kernel.load(&case.rules());
    let mut path = case.path();
    let port = 10_000 + (seed % 30_000) as u16;
    let (mut theirs, mut ours, mut told) = (Told::default(), Told::default(), String::new());
    for (n, step) in story(&mut rng).iter().enumerate() {
        let device = if step.there { "wan" } else { "lan" };
        let k = kernel.send(device, &step.frame(&case, port, theirs).build());
        let time = START + n as u64 * 200_000_000;
        let mut o = send(&mut path, device, step.frame(&case, port, ours), time);
        o.sort_by(|a, b| a.device.cmp(&b.device));
        let mut k: Vec<_> = k.into_iter().map(|s| plain(s, &mut theirs)).collect();
        let mut o: Vec<_> = o.into_iter().map(|s| plain(s, &mut ours)).collect();
        if step.first && !step.there {
            // The kernel shifts the time that it echoes to the server twice.
            let to_server = |s: &&mut Segment| s.device == "lan" && s.options.len() == 12;
            k.iter_mut().chain(&mut o).filter(to_server).for_each(|s| s.options[8..].fill(0));
        }
        told += &format!("{step:?}\n   {o:?}\n");
        let name = case.name;
        assert_eq!(o, k, "{name}, seed {seed}, step {n}, here and in the kernel:\n{told}");
    }
}
