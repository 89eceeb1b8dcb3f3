// SPDX-License-Identifier: Apache-2.0

//! A router of the real kernel in separate namespaces, through which frames are sent one by one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Sends frames into one side and tells with which DSCP they come out of the other.
const INJECT: &str = r#"
import socket, sys, time, select
ends = {}
for d in "ab":
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((d + "1", 0))
    ends[d] = s
print("ready", flush=True)
for line in sys.stdin:
    d, frame = line.split()
    frame = bytes.fromhex(frame)
    out = ends["b" if d == "a" else "a"]
    for s in ends.values():
        while select.select([s], [], [], 0)[0]:
            s.recv(65535)
    v6 = frame[12:14] == b"\x86\xdd"
    where = slice(22, 54) if v6 else slice(26, 34)
    ends[d].send(frame)
    got, until = "-", time.time() + 0.3
    while time.time() < until and got == "-":
        if not select.select([out], [], [], 0.05)[0]:
            continue
        back, address = out.recvfrom(65535)
        if address[2] != 4 and back[12:14] == frame[12:14] and back[where] == frame[where]:
            tos = (back[14] & 15) << 4 | back[15] >> 4 if v6 else back[15]
            got = str(tos >> 2)
    print(got, flush=True)
"#;

/// Tells what the kernel says of packets: what stands before each in its log, for each line that
/// asks.
const LISTEN: &str = r#"
import socket, struct, sys, select
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.bind((0, 0))
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)
def ask(family, group, kind, value):
    attribute = struct.pack("=HH", 4 + len(value), kind) + value
    attribute += bytes(-len(attribute) % 4)
    body = struct.pack("=BBH", family, 0, socket.htons(group)) + attribute
    s.send(struct.pack("=IHHII", 16 + len(body), 4 << 8 | 1, 5, 1, 0) + body)
    if struct.unpack_from("=i", s.recv(65535), 16)[0]:
        sys.exit("the log is not to be had")
for family in (2, 10):
    ask(family, 0, 1, b"\x04")
    ask(family, 0, 1, b"\x03")
ask(0, 0, 1, b"\x01")
ask(0, 0, 2, struct.pack(">IBx", 65535, 2))
ask(0, 0, 4, struct.pack(">I", 1))
ask(0, 0, 5, struct.pack(">I", 1))
print("ready", flush=True)
for line in sys.stdin:
    said = []
    while select.select([s], [], [], 0)[0]:
        rest = s.recv(65535)
        while len(rest) >= 20:
            length, kind = struct.unpack_from("=IH", rest)
            message, at = rest[:length] if kind == 4 << 8 else b"", 20
            while at + 4 <= len(message):
                size, kind = struct.unpack_from("=HH", message, at)
                if kind & 0x7fff == 10:
                    said.append(message[at + 4:at + size].rstrip(b"\0 \n").decode())
                at += max(size + 3 & ~3, 4)
            rest = rest[max(length + 3 & ~3, 16):]
    print("|".join(said), flush=True)
"#;

const RULES: &str = "
table inet t {
    ct helper ftp { type \"ftp\" protocol tcp; }
    ct helper tftp { type \"tftp\" protocol udp; }
    ct helper irc { type \"irc\" protocol tcp; l3proto ip; }
    ct helper amanda { type \"amanda\" protocol udp; }
    ct helper sane { type \"sane\" protocol tcp; }
    ct helper pptp { type \"pptp\" protocol tcp; l3proto ip; }
    ct helper sip { type \"sip\" protocol udp; }
    ct helper sips { type \"sip\" protocol tcp; }
    chain prerouting {
        type filter hook prerouting priority -150
        tcp dport 21 ct helper set \"ftp\"
        udp dport 69 ct helper set \"tftp\"
        tcp dport 6667 ct helper set \"irc\"
        udp dport 10080 ct helper set \"amanda\"
        tcp dport 6566 ct helper set \"sane\"
        tcp dport 1723 ct helper set \"pptp\"
        udp dport 5060 ct helper set \"sip\"
        tcp dport 5060 ct helper set \"sips\"
    }
    chain forward {
        type filter hook forward priority 0
        ct state invalid ip dscp set 1
        ct state new ip dscp set 2
        ct state established ip dscp set 3
        ct state related ip dscp set 4
        ct state untracked ip dscp set 5
        ct state invalid ip6 dscp set 1
        ct state new ip6 dscp set 2
        ct state established ip6 dscp set 3
        ct state related ip6 dscp set 4
        ct state untracked ip6 dscp set 5
    }
}
";

/// Address of the host on side a.
pub const A: &str = "198.18.1.2";
/// Address of the host on side b.
pub const B: &str = "198.18.2.2";
/// IPv6 address of the host on side a.
pub const A6: &str = "2001:db8:1::2";
/// IPv6 address of the host on side b.
pub const B6: &str = "2001:db8:2::2";

/// The namespaces; they end with it.
pub struct Lab {
    router: String,
    side: String,
    injector: Python,
    listener: Python,
}

/// A program that answers each line with a line.
struct Python {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Python {
    /// Starts it in a namespace; it says when it is ready.
    fn start(namespace: &str, program: &str) -> Result<Self, String> {
        let mut child = Command::new("ip")
            .args(["netns", "exec", namespace, "python3", "-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let to = child.stdin.take().ok_or("no input")?;
        let from = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut python = Python { child, to, from };
        match python.line().as_str() {
            "ready" => Ok(python),
            _ => Err("sockets are not allowed".into()),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.to, "{question}").unwrap();
        self.line()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        Ok(text)
    } else {
        Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr)))
    }
}

fn ip(line: &str) -> Result<String, String> {
    run("ip", &line.split_whitespace().collect::<Vec<_>>())
}

impl Lab {
    /// Sets up, or says what is missing.
    pub fn new() -> Result<Self, String> {
        for (tool, arg) in [("ip", "-V"), ("nft", "-v"), ("conntrack", "-V"), ("python3", "-V")] {
            run(tool, &[arg])?;
        }
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let id = std::process::id();
        let (router, side) = (format!("conntrack-r{id}-{n}"), format!("conntrack-s{id}-{n}"));
        ip(&format!("netns add {router}"))?;
        let made = Self::build(&router, &side);
        if made.is_err() {
            let _ = ip(&format!("netns del {router}"));
            let _ = ip(&format!("netns del {side}"));
        }
        made
    }

    fn build(router: &str, side: &str) -> Result<Self, String> {
        ip(&format!("netns add {side}"))?;
        let sysctl = |what: &str| run("ip", &["netns", "exec", router, "sysctl", "-qw", what]);
        for (d, net) in [("a", 1), ("b", 2)] {
            for line in [
                format!(
                    "-n {router} link add {d}0 mtu 9000 type veth peer name {d}1 mtu 9000 netns {side}"
                ),
                format!("-n {router} link set {d}0 address 02:00:00:00:00:0{net} up"),
                format!("-n {side} link set {d}1 up"),
                format!("-n {router} addr add 198.18.{net}.1/24 dev {d}0"),
                format!("-n {router} -6 addr add 2001:db8:{net}::1/64 dev {d}0 nodad"),
                format!(
                    "-n {router} neigh add 198.18.{net}.2 lladdr 02:00:00:00:01:0{net} dev {d}0 nud permanent"
                ),
                format!(
                    "-n {router} neigh add 2001:db8:{net}::2 lladdr 02:00:00:00:01:0{net} dev {d}0 nud permanent"
                ),
            ] {
                ip(&line)?;
            }
            sysctl(&format!("net.ipv4.conf.{d}0.rp_filter=0"))?;
        }
        sysctl("net.ipv4.conf.all.rp_filter=0")?;
        sysctl("net.ipv4.ip_forward=1")?;
        sysctl("net.ipv6.conf.all.forwarding=1")?;
        load(router, RULES)?;
        sysctl("net.netfilter.nf_conntrack_log_invalid=255")?;
        let injector = Python::start(side, INJECT)?;
        let listener = Python::start(router, LISTEN)?;
        // A first packet brings both links up to speed, and shows that the way is open.
        let mut lab = Self { router: router.into(), side: side.into(), injector, listener };
        use penstock_testkit::build::*;
        for _ in 0..50 {
            let packet = (Ipv4::new(A, B) / Udp::new(9, 9)).build();
            if lab.send(true, &packet) != "lost" {
                lab.flush();
                lab.said();
                return Ok(lab);
            }
        }
        Err("packets do not come through".into())
    }

    /// Sets a sysctl below `net.netfilter.`.
    pub fn sysctl(&self, name: &str, value: u32) {
        let setting = format!("net.netfilter.{name}={value}");
        run("ip", &["netns", "exec", &self.router, "sysctl", "-qw", &setting]).unwrap();
    }

    /// Loads rules in addition to the usual ones.
    pub fn load(&self, rules: &str) {
        load(&self.router, rules).unwrap();
    }

    /// Forgets all connections.
    pub fn flush(&self) {
        run("ip", &["netns", "exec", &self.router, "conntrack", "-F"]).unwrap();
    }

    /// Sends an IP packet from side a or b; returns the state that rules saw.
    pub fn send(&mut self, from_a: bool, packet: &[u8]) -> &'static str {
        let v6 = packet[0] >> 4 == 6;
        let net = if from_a { 1 } else { 2 };
        let mut frame = vec![2, 0, 0, 0, 0, net, 2, 0, 0, 0, 1, net];
        frame.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
        frame.extend(packet);
        let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
        match self.injector.ask(&format!("{} {hex}", if from_a { 'a' } else { 'b' })).as_str() {
            "1" => "invalid",
            "2" => "new",
            "3" => "established",
            "4" => "related",
            "5" => "untracked",
            _ => "lost",
        }
    }

    /// What the kernel has said of invalid packets, and of those that helpers dropped, since it was
    /// asked last.
    pub fn said(&mut self) -> Vec<String> {
        let text = self.listener.ask("");
        text.split('|').filter(|line| line.starts_with("nf_ct_")).map(str::to_owned).collect()
    }

    /// `conntrack -L`, sorted.
    pub fn list(&self) -> Vec<String> {
        let text = run("ip", &["netns", "exec", &self.router, "conntrack", "-L"]).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// `conntrack -L expect`, sorted.
    pub fn list_expected(&self) -> Vec<String> {
        let text = self.conntrack("-L expect -f ipv4").unwrap()
            + &self.conntrack("-L expect -f ipv6").unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Runs `conntrack` with arguments.
    pub fn conntrack(&self, args: &str) -> Result<String, String> {
        let mut all = vec!["netns", "exec", &self.router, "conntrack"];
        all.extend(args.split_whitespace());
        run("ip", &all)
    }
}

/// Loads rules in a namespace.
fn load(namespace: &str, rules: &str) -> Result<(), String> {
    let mut nft = Command::new("ip")
        .args(["netns", "exec", namespace, "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let written = nft.stdin.take().ok_or("no input")?.write_all(rules.as_bytes());
    written.map_err(|e| e.to_string())?;
    match nft.wait().map_err(|e| e.to_string())?.success() {
        true => Ok(()),
        false => Err("nft refuses the rules".into()),
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.router));
        let _ = ip(&format!("netns del {}", self.side));
    }
}
