// SPDX-License-Identifier: Apache-2.0

//! The kernel's side: a namespace that is configured by `net.ip` as a router, and one behind it
//! where its wires end.

use std::io;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::links::{no_offload, wait_until_ready};
use crate::listeners::Listeners;
use crate::namespace::Namespace;
use crate::pppoe::{self, Session};
use crate::scenario::{Outcome, Scenario, devices, only_counters, pause, without_delivery};
use crate::sockets::{Host, Log, Wire, esp_in_udp};
use crate::tools::{Programs, Tools, run};

/// The port at which ESP in UDP arrives (RFC 3948).
pub const ESP_IN_UDP: u16 = 4500;

/// nflog group of the harness.
const GROUP: u16 = 7;

/// A table that is last in input, so that a packet counts as delivered and the host does not answer
/// it. It is there from the beginning and stays: at equal priority, a chain registered later runs
/// first, and connections must be confirmed before. Packets that tunnels or IPsec of `net.ip` lines
/// take come after `input`: they pass, and what is in them is delivered. ICMP errors are delivered
/// and pass, too: the host heeds them, and answers none. What the host announces of its multicast
/// groups when its devices come up is not sent, so nobody has to wait for its end.
fn delivery(net: &str) -> String {
    let mut pass = String::new();
    if ["ipip", "sit", "ip6tnl"].iter().any(|kind| !links_of_type(net, kind).is_empty()) {
        pass += "\t\tmeta l4proto { 4, 41 } accept\n";
    }
    if has_ipsec(net) {
        pass += "\t\tmeta l4proto 50 accept\n";
    }
    if takes_udp(net) {
        pass += &format!("\t\tudp dport {ESP_IN_UDP} accept\n");
    }
    format!(
        "
table inet penstock-delivery {{
	chain input {{
		type filter hook input priority 2147483647; policy drop;
{pass}		log group {GROUP} queue-threshold 1
		icmp type {{ destination-unreachable, time-exceeded }} accept
		icmpv6 type {{ 1, 2, 3, 4 }} accept
	}}
}}
table ip6 penstock-delivery {{
	chain output {{
		type filter hook output priority -2147483648; policy accept;
		icmpv6 type mld2-listener-report drop
	}}
}}
table arp penstock-delivery {{
	chain input {{
		type filter hook input priority 2147483647; policy drop;
	}}
}}
"
    )
}

/// Whether `net.ip` lines have states or policies of IPsec.
fn has_ipsec(net: &str) -> bool {
    net.lines().any(|line| line.starts_with("xfrm "))
}

/// Whether states of `net.ip` lines are for ESP in UDP.
pub fn takes_udp(net: &str) -> bool {
    net.contains("encap espinudp")
}

/// Shows whether the kernel has flowtables.
const FLOWTABLE: &str =
    "table inet t { flowtable f { hook ingress priority 0; devices = { lo }; }; }";

/// A kernel router and the far ends of its wires.
pub struct Router {
    net: String,
    /// The harness's own tables.
    delivery: String,
    /// Fragments may wait in it for others, addresses be learned, numbers be used: a later scenario
    /// must not meet them.
    spent: bool,
    /// Tables may be in force besides the harness's own.
    may_have_tables: bool,
    /// Held, not used: their devices are gone with them.
    _sessions: Vec<Session>,
    /// Held, not used: the kernel takes ESP from them.
    _esp_in_udp: Option<[UdpSocket; 2]>,
    pub router: Namespace,
    /// Held, not used: the far ends are gone with it.
    _beyond: Namespace,
    wires: Vec<(String, Wire)>,
    /// Raw sending on the router's own devices.
    raw: Vec<(String, Wire)>,
    host: Host,
    log: Log,
    tools: Arc<dyn Tools>,
}

/// Why there is no router.
#[derive(Debug)]
pub enum Unavailable {
    /// Not on this machine: a reason for the user.
    Skip(String),
    /// It should have worked.
    Failed(String),
}

impl From<io::Error> for Unavailable {
    fn from(e: io::Error) -> Unavailable {
        Unavailable::Failed(e.to_string())
    }
}

/// Whether this machine can compare with its kernel; otherwise why not.
pub fn available() -> Result<(), String> {
    for tool in ["ip", "nft"] {
        let found =
            Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_err() {
            return Err(format!("`{tool}` is not installed"));
        }
    }
    Namespace::new().map(drop).map_err(|e| format!("no network namespace ({e}); root can make one"))
}

/// The links of a type that `net.ip` lines make.
fn links_of_type(net: &str, kind: &str) -> Vec<String> {
    let words = net.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let made = words.filter(|w| {
        w.starts_with(&["link", "add"]) && w.windows(2).any(|pair| pair == ["type", kind])
    });
    let name = |w: Vec<&str>| {
        let named = w.windows(2).find(|pair| pair[0] == "name").map(|pair| pair[1]);
        Some((*named.as_ref().or(w.get(2))?).to_owned())
    };
    made.filter_map(name).collect()
}

/// Who carries out a line of `net.ip`.
#[derive(PartialEq)]
enum By {
    Ip,
    Bridge,
    Pppoe,
}

impl By {
    fn of(line: &str) -> By {
        match line {
            _ if line.starts_with("bridge ") => By::Bridge,
            _ if pppoe::is_line(line) => By::Pppoe,
            _ => By::Ip,
        }
    }
}

/// Carries out lines as `ip -batch` takes them, `bridge -batch` those that begin with `bridge`, and
/// sets up sessions, which end with what is appended to `sessions`. Gives what is printed, each
/// object in one line.
fn configure(net: &str, sessions: &mut Vec<Session>) -> Result<String, String> {
    let mut printed = String::new();
    let lines: Vec<&str> = net.lines().collect();
    for run_of_lines in lines.chunk_by(|a, b| By::of(a) == By::of(b)) {
        let by = By::of(run_of_lines[0]);
        let mut batch = String::new();
        for line in run_of_lines {
            batch += &match by {
                By::Ip => (*line).to_owned(),
                By::Bridge => line.replacen("bridge ", "", 1),
                By::Pppoe => {
                    let (session, rename) = pppoe::set_up(line)?;
                    sessions.push(session);
                    rename
                }
            };
            batch += "\n";
        }
        let tool = if by == By::Bridge { "bridge" } else { "ip" };
        printed += &run(tool, &["-o", "-batch", "-"], &batch)?;
    }
    Ok(printed)
}

/// Sets a value under `/proc/sys/net` of the present namespace, if this kernel has it.
fn sysctl(name: &str, value: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/{name}"), value);
}

/// Sets a value by its name as sysctl(8) has it, and gives what it was.
fn swap_sysctl(name: &str, value: u32) -> io::Result<u32> {
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    let before = std::fs::read_to_string(&file)?;
    std::fs::write(&file, value.to_string())?;
    before.trim().parse().map_err(|_| io::Error::other(format!("{name} is {before}")))
}

/// Sysctls of a router that is silent of its own, answers each error, and sends nothing at random.
fn set_sysctls() {
    for (name, value) in [
        ("ipv4/ip_forward", "1"),
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv4/icmp_ratemask", "0"),
        ("ipv4/icmp_msgs_per_sec", "1000000"),
        ("ipv4/icmp_msgs_burst", "1000000"),
        ("ipv6/icmp/ratelimit", "0"),
        ("ipv6/auto_flowlabels", "0"),
        ("ipv6/conf/all/forwarding", "1"),
    ] {
        sysctl(name, value);
    }
    for conf in ["all", "default"] {
        sysctl(&format!("ipv4/conf/{conf}/rp_filter"), "0");
        for (name, value) in [
            ("addr_gen_mode", "1"),
            ("accept_dad", "0"),
            ("dad_transmits", "0"),
            ("accept_ra", "0"),
        ] {
            sysctl(&format!("ipv6/conf/{conf}/{name}"), value);
        }
    }
    // Frames on bridges are to pass bridge hooks only (br_netfilter).
    for name in ["iptables", "ip6tables", "arptables"] {
        sysctl(&format!("bridge/bridge-nf-call-{name}"), "0");
    }
}

/// Configures the present namespace by `ip -batch` lines, and moves the other ends of its wires to
/// another namespace, where they get the wires' names and come up.
/// The sessions of PPPoE among them end with what is given.
fn connect(net: &str, devices: &[String], beyond: &Namespace) -> Result<Vec<Session>, Unavailable> {
    let mut sessions = vec![];
    let links = configure(&format!("{net}link show type veth\n"), &mut sessions).map_err(|e| {
        if e.contains("Unknown device type") || e.contains("Operation not supported") {
            let line = e.lines().next_back().unwrap_or_default();
            Unavailable::Skip(format!("this kernel lacks a device type ({})", line.trim()))
        } else {
            Unavailable::Failed(e)
        }
    })?;
    let mut batch = String::new();
    for device in devices {
        let peer = links
            .lines()
            .filter_map(|l| l.split_whitespace().nth(1)?.trim_end_matches(':').split_once('@'))
            .find(|(name, _)| name == device)
            .ok_or_else(|| Unavailable::Failed(format!("no {device} in:\n{links}")))?
            .1;
        let path = beyond.path();
        batch += &format!("link set {peer} netns {path} name {device} arp off mtu 65535 up\n");
    }
    configure(&batch, &mut sessions).map_err(Unavailable::Failed)?;
    Ok(sessions)
}

/// Whether this kernel has flowtables.
fn has_flowtables() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| run("nft", &["-c", "-f", "-"], FLOWTABLE).is_ok())
}

impl Router {
    /// Builds a router from `ip -batch` lines.
    pub fn new(net: &str) -> Result<Router, Unavailable> {
        Router::with(net, Arc::new(Programs))
    }

    /// Builds a router from `ip -batch` lines, whose rules these tools load and list.
    pub fn with(net: &str, tools: Arc<dyn Tools>) -> Result<Router, Unavailable> {
        let (router, beyond) = (Namespace::new()?, Namespace::new()?);
        // One CPU: softirqs then run in the order of what caused them, whatever the device.
        // SAFETY: the set is a local that outlives the call; 0 is the calling thread.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
        beyond.enter()?;
        sysctl("ipv6/conf/default/disable_ipv6", "1");
        router.enter()?;
        set_sysctls();
        let delivery = delivery(net);
        tools.nft(&delivery).map_err(Unavailable::Failed)?;
        let devices = devices(net);
        let sessions = connect(net, &devices, &beyond)?;
        wait_until_ready(&devices)?;
        beyond.enter()?;
        let mut wires = vec![];
        for device in &devices {
            no_offload(device)?;
            wires.push((device.clone(), Wire::open(device, true)?));
        }
        router.enter()?;
        // This waits for what the kernel does when a link is ready, too.
        devices.iter().try_for_each(|device| no_offload(device))?;
        let log = Log::open(GROUP)?;
        let host = Host::open()?;
        let esp_in_udp = takes_udp(net).then(|| esp_in_udp(ESP_IN_UDP)).transpose()?;
        let stacked = [links_of_type(net, "bridge"), links_of_type(net, "vlan")].concat();
        let senders = devices.iter().cloned().chain(stacked);
        let raw = senders
            .filter_map(|d| {
                let wire = Wire::open(&d, false).ok()?;
                Some((d, wire))
            })
            .collect();
        Ok(Router {
            net: net.into(),
            delivery,
            spent: false,
            may_have_tables: false,
            _sessions: sessions,
            _esp_in_udp: esp_in_udp,
            router,
            _beyond: beyond,
            wires,
            raw,
            host,
            log,
            tools,
        })
    }

    /// Puts rules in force instead of those before, forgets all connections, and gives what nft
    /// says with these options, of which `--debug=netlink` ends it by its own assertion for
    /// some rules. The error is nft's.
    pub fn load(&mut self, rules: &str, options: &[&str]) -> Result<String, String> {
        let e = |e: io::Error| e.to_string();
        self.router.enter().map_err(e)?;
        self.clear()?;
        self.may_have_tables = true;
        let said = match options {
            [] => self.tools.nft(rules)?,
            _ => run("nft", &[options, &["-f", "-"]].concat(), rules)?,
        };
        self.log.forget_connections().map_err(e)?;
        self.collect(&mut Outcome::default()).map_err(e)?;
        Ok(said)
    }

    /// Moves the calling thread to where the router is.
    #[allow(dead_code)]
    pub fn enter(&self) -> io::Result<()> {
        self.router.enter()
    }

    /// Checks a ruleset on an empty one. The error is nft's.
    // For the filetests.
    #[allow(dead_code)]
    pub fn check(&self, rules: &str) -> Result<String, String> {
        self.router.enter().map_err(|e| e.to_string())?;
        // Names of other tables would be among what nft proposes.
        run("nft", &["flush", "ruleset"], "")?;
        let checked = run("nft", &["-c", "-f", "-"], rules);
        run("nft", &["-f", "-"], &self.delivery)?;
        checked
    }

    /// Sends a frame from a device's far end, from the host (`host`), or on a device of the host
    /// (`host:DEVICE`).
    pub fn send(&self, source: &str, bytes: &[u8]) -> Result<(), String> {
        match source.strip_prefix("host") {
            Some("") => self.host.send(bytes),
            Some(device) if device.starts_with(':') => {
                if let Some((_, wire)) = self.raw.iter().find(|(d, _)| *d == device[1..]) {
                    // Dropped by an egress rule, or too long: the outcome shows it.
                    let _ = wire.send(bytes);
                }
            }
            _ => {
                let (_, wire) = self
                    .wires
                    .iter()
                    .find(|(d, _)| d == source)
                    .ok_or_else(|| format!("no device {source} in net.ip"))?;
                wire.send(bytes)
                    .map_err(|e| format!("{source}: a frame of {} bytes: {e}", bytes.len()))?;
            }
        }
        Ok(())
    }

    /// Sends one frame under the rules in force, and returns its immediate results. The filetests
    /// work packet by packet.
    #[allow(dead_code)]
    pub fn send_one(&mut self, source: &str, bytes: &[u8]) -> Result<Outcome, String> {
        self.send(source, bytes)?;
        let mut outcome = Outcome::default();
        for wait in [0, 300, 3000] {
            std::thread::sleep(Duration::from_micros(wait));
            self.collect(&mut outcome).map_err(|e| e.to_string())?;
            if !outcome.delivered.is_empty()
                || outcome.sent.values().any(|frames| !frames.is_empty())
            {
                break;
            }
        }
        Ok(outcome)
    }

    /// The rules in force with their counters, as nft lists them.
    pub fn listing(&self) -> Result<String, String> {
        Ok(without_delivery(&self.tools.nft("list ruleset")?))
    }

    /// Loads the rules, sends the frames, and tells what came of it. The error is nft's.
    ///
    /// `expected` is what another side says: only if it is not seen at once, more time is given.
    pub fn run(
        &mut self,
        scenario: &Scenario,
        expected: Option<&Outcome>,
    ) -> Result<Outcome, String> {
        let e = |e: io::Error| e.to_string();
        // The thread may have been elsewhere.
        self.router.enter().map_err(e)?;
        if self.spent {
            *self = Router::with(&self.net.clone(), self.tools.clone())
                .map_err(|e| format!("{e:?}"))?;
        }
        // What bridges and paths learned would be known in the next one, and states of IPsec count
        // packets.
        self.spent = scenario.has_fragments()
            || scenario.has_errors()
            || !links_of_type(&self.net, "bridge").is_empty()
            || has_ipsec(&self.net);
        // Rules that ask for it switch it on, and it stays on.
        sysctl("netfilter/nf_conntrack_acct", "0");
        let without_flowtables = scenario.has_flowtable() && !has_flowtables();
        let rules = match without_flowtables {
            true => scenario.rules_without_flowtables(),
            false => scenario.all_rules(),
        };
        self.load(&rules, &[])?;
        if !scenario.commands.is_empty() {
            run("sh", &["-ec", &scenario.commands], "")?;
            self.log.forget_connections().map_err(e)?;
            self.collect(&mut Outcome::default()).map_err(e)?;
        }
        let before = scenario.sysctls.iter().map(|(name, value)| swap_sysctl(name, *value));
        let before: Vec<_> = before.collect::<io::Result<_>>().map_err(e)?;
        if !scenario.tc.is_empty() {
            run("tc", &["-batch", "-"], &scenario.tc)?;
        }
        let mut listeners = Listeners::open(&scenario.services, self.tools.clone())?;
        for (source, bytes) in &scenario.frames {
            match pause(source, bytes) {
                Some(time) => std::thread::sleep(time),
                None => self.send(source, bytes)?,
            }
            listeners.serve().map_err(e)?;
        }
        listeners.finish().map_err(e)?;
        let mut outcome = Outcome { without_flowtables, ..Outcome::default() };
        let deadline = Instant::now() + Duration::from_millis(300);
        loop {
            self.collect(&mut outcome).map_err(e)?;
            listeners.serve().map_err(e)?;
            let complete = expected.is_some_and(|x| {
                outcome.delivered.len() >= x.delivered.len()
                    && x.sent
                        .iter()
                        .all(|(d, f)| outcome.sent.get(d).map_or(0, Vec::len) >= f.len())
            });
            if complete || Instant::now() > deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        outcome.told = listeners.told().clone();
        if scenario.tracks() {
            outcome.connections = self.tools.connections();
        }
        drop(listeners);
        for ((name, _), value) in scenario.sysctls.iter().zip(before) {
            swap_sysctl(name, value).map_err(e)?;
        }
        if !scenario.unlisted.is_empty() {
            self.tools.nft(&scenario.unlisted)?;
        }
        if scenario.saved {
            let net = run(env!("CARGO_BIN_EXE_penstock"), &["net", "save", "--keys"], "")?;
            let is_ipsec = |line: &&str| line.contains("xfrm ");
            let lines = net.lines().filter(is_ipsec).map(|line| format!("{line}\n"));
            outcome.saved = Some(lines.collect());
        }
        outcome.listing = self.listing()?;
        if !scenario.commands.is_empty() {
            outcome.listing = only_counters(&outcome.listing);
        }
        self.collect(&mut outcome).map_err(e)?;
        if !scenario.tc.is_empty() {
            let gone = |device: &str| {
                ["clsact", "ingress", "root"]
                    .map(|parent| format!("qdisc del dev {device} {parent}\n"))
                    .concat()
            };
            let lines: String = self.wires.iter().map(|(device, _)| gone(device)).collect();
            // Not every device has all.
            let _ = run("tc", &["-force", "-batch", "-"], &lines);
        }
        Ok(outcome)
    }

    /// Takes all tables away but the harness's own.
    fn clear(&mut self) -> Result<(), String> {
        if self.may_have_tables {
            self.tools.nft(&format!("flush ruleset\n{}", self.delivery))?;
        }
        self.may_have_tables = false;
        Ok(())
    }

    /// Takes what has arrived.
    pub fn collect(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        for (device, wire) in &mut self.wires {
            let frames = outcome.sent.entry(device.clone()).or_default();
            while let Some(frame) = wire.receive()? {
                frames.push(frame);
            }
        }
        self.log.receive(&mut outcome.delivered)
    }
}
