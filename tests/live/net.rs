// SPDX-License-Identifier: Apache-2.0

//! Three network namespaces, and the dataplane in the middle one.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Networks at a time: they share two processors, but many tests do little but wait.
const AT_ONCE: usize = 6;

/// How many there are.
static THERE: Mutex<usize> = Mutex::new(0);
static GONE: Condvar = Condvar::new();

/// The permission to have one.
struct Permit;

impl Permit {
    fn wait() -> Permit {
        let there = THERE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut there = GONE
            .wait_while(there, |there| *there >= AT_ONCE)
            .unwrap_or_else(PoisonError::into_inner);
        *there += 1;
        Permit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *THERE.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        GONE.notify_one();
    }
}

/// A – R – B. R routes between 198.18.0.0/24 and 198.18.1.0/24, 2001:db8::/64 and 2001:db8:1::/64.
pub struct Net {
    pub a: String,
    pub r: String,
    pub b: String,
    pub directory: PathBuf,
    dataplane: Option<Child>,
    children: Vec<Child>,
    /// Namespaces besides the three.
    others: Vec<String>,
    _permit: Permit,
}

/// A number that the environment may set.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// The program that is tested: `PENSTOCK_PROGRAM`, else the one that was built with the tests.
pub fn program() -> String {
    std::env::var("PENSTOCK_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_penstock").to_owned())
}

/// Runs a line of the shell, and gives what it prints.
pub fn sh(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program; its output is kept until it is stopped. It does not outlive the test, even one that
/// fails.
pub struct Reading {
    child: Child,
}

impl Reading {
    /// Kills it, and gives what it has said.
    pub fn stop(mut self) -> String {
        let _ = self.child.kill();
        self.read()
    }

    /// Asks it to end, and gives what it has said.
    pub fn end(mut self) -> String {
        sh(&format!("kill {}", self.child.id()));
        self.read()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> String {
        self.read()
    }

    fn read(&mut self) -> String {
        let mut said = String::new();
        if let Some(out) = &mut self.child.stdout {
            let _ = out.read_to_string(&mut said);
        }
        let _ = self.child.wait();
        said
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Nothing happens to one that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until processes have ended.
fn wait_gone(processes: &str) {
    let end = Instant::now() + Duration::from_secs(5);
    let there = |process: &str| std::path::Path::new(&format!("/proc/{process}/root/.")).exists();
    while processes.split_whitespace().any(there) {
        assert!(Instant::now() < end, "{processes} are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Net {
    /// Makes it. `None` without the rights.
    pub fn new() -> Option<Net> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let permit = Permit::wait();
        let name = format!("live{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let probe = Command::new("ip").args(["netns", "add", &format!("{name}a")]).output();
        if !probe.is_ok_and(|p| p.status.success()) {
            eprintln!("skipped: no rights to make network namespaces");
            return None;
        }
        let directory = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&directory).unwrap();
        let net = Net {
            a: format!("{name}a"),
            r: format!("{name}r"),
            b: format!("{name}b"),
            directory,
            dataplane: None,
            children: Vec::new(),
            others: Vec::new(),
            _permit: permit,
        };
        let (a, r, b) = (&net.a, &net.r, &net.b);
        sh(&format!(
            "ip netns add {r}; ip netns add {b}; for n in {a} {r} {b}; do ip -n $n link set lo up; done"
        ));
        for (end, n, far, port, subnet) in [(a, "a0", "0a", "r0", "0"), (b, "b0", "0b", "r1", "1")]
        {
            sh(&format!(
                "set -e
                 ip -n {end} link add {n} address 02:00:00:00:{far}:00 type veth peer name {port} netns {r} address 02:00:00:00:00:{far}
                 ip -n {end} addr add 198.18.{subnet}.2/24 dev {n}
                 ip -n {end} addr add 2001:db8:{subnet}::2/64 dev {n} nodad
                 ip -n {end} link set {n} up
                 ip -n {r} addr add 198.18.{subnet}.1/24 dev {port}
                 ip -n {r} addr add 2001:db8:{subnet}::1/64 dev {port} nodad
                 ip -n {r} link set {port} up
                 ip -n {end} route add default via 198.18.{subnet}.1
                 ip -n {end} route add default via 2001:db8:{subnet}::1"
            ));
        }
        net.ok(r, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        net.until("the kernel forwards", |net| net.run(&net.a, "ping -c 1 -W 1 2001:db8:1::2").0);
        Some(net)
    }

    /// A line of the shell in a namespace. `$PENSTOCK` is the program.
    pub fn command(&self, namespace: &str, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "sh", "-c", line]);
        command.env("PENSTOCK", program());
        command
    }

    /// Runs it; whether it went well, and what it said on both outputs.
    pub fn run(&self, namespace: &str, line: &str) -> (bool, String) {
        let output = self.command(namespace, line).stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Runs it; it must go well. What it said on standard output.
    pub fn ok(&self, namespace: &str, line: &str) -> String {
        let output = self.command(namespace, line).stdin(Stdio::null()).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{line}: {out}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        out
    }

    /// Waits until something holds, for ten seconds.
    pub fn until(&self, what: &str, holds: impl Fn(&Net) -> bool) {
        self.until_within(10, what, holds);
    }

    /// Waits until something holds, for so many seconds.
    pub fn until_within(&self, seconds: u64, what: &str, holds: impl Fn(&Net) -> bool) {
        let end = Instant::now() + Duration::from_secs(seconds);
        while !holds(self) {
            assert!(Instant::now() < end, "not within {seconds} seconds: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether a program is there; says what is skipped if not.
    pub fn has(&self, program: &str) -> bool {
        let there = self.run(&self.r, &format!("command -v {program}")).0;
        if !there {
            eprintln!("skipped: {program} is not installed");
        }
        there
    }

    /// Makes another namespace, which goes with the others.
    pub fn another(&mut self) -> String {
        let name = format!("{}{}", self.r, self.others.len());
        sh(&format!("ip netns add {name}; ip -n {name} link set lo up"));
        self.others.push(name.clone());
        name
    }

    /// Puts the router's devices into a bridge; `false`, and said, if the kernel has none.
    pub fn bridge(&self) -> bool {
        if !self.run(&self.r, "ip link add br0 type bridge").0 {
            eprintln!("skipped: this kernel has no bridges");
            return false;
        }
        self.ok(
            &self.r,
            "set -e
             for d in r0 r1; do ip addr flush dev $d; ip link set $d master br0; done
             ip link set br0 up",
        );
        true
    }

    /// The namespace `a`, `r` or `b`.
    pub fn namespace(&self, which: char) -> &str {
        match which {
            'a' => &self.a,
            'r' => &self.r,
            _ => &self.b,
        }
    }

    /// Starts a program in `a`, `r` or `b` that runs until the end.
    pub fn spawn_in(&mut self, which: char, line: &str) {
        let namespace = self.namespace(which).to_owned();
        let mut command = self.command(&namespace, &format!("exec {line}"));
        self.children.push(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
    }

    /// Starts iperf3 on B.
    pub fn serve_iperf(&mut self) {
        self.spawn_in('b', "iperf3 -s");
        self.until("iperf3 listens", |net| net.run(&net.b, "ss -lnt | grep -q :5201").0);
    }

    /// Starts a program and keeps its output.
    pub fn spawn_reading(&self, namespace: &str, line: &str) -> Reading {
        let line = if line.starts_with("exec") { line.to_owned() } else { format!("exec {line}") };
        let mut command = self.command(namespace, &line);
        Reading { child: command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap() }
    }

    /// Starts a program with its output in a file.
    pub fn spawn_in_file(&self, namespace: &str, line: &str, file: &std::path::Path) -> Reading {
        let line = if line.starts_with("exec") { line.to_owned() } else { format!("exec {line}") };
        let out = std::fs::File::options().create(true).append(true).open(file).unwrap();
        out.set_len(0).unwrap();
        let mut command = self.command(namespace, &line);
        Reading {
            child: command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().unwrap(),
        }
    }

    /// Starts the dataplane, and waits until it answers. It has as many workers as the environment
    /// says, unless they are given. A system call that a thread's filter does not have ends it.
    pub fn up(&mut self, args: &str) {
        self.up_after("", args);
    }

    /// Starts the dataplane as [`Net::up`] does, in a shell that has run a line before.
    pub fn up_after(&mut self, line: &str, args: &str) {
        let log = std::fs::File::create(self.directory.join("log")).unwrap();
        let workers = match args.contains("--workers") {
            true => String::new(),
            false => format!("--workers {}", setting("PENSTOCK_LIVE_WORKERS", 1)),
        };
        let mut command = self.command(
            &self.r,
            &format!("{line}\nexec $PENSTOCK up --seccomp kill {args} {workers}"),
        );
        self.dataplane = Some(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        self.until_within(30, "the dataplane runs", |net| net.run(&net.r, "$PENSTOCK show").0);
    }

    /// Attaches a ruleset to the router's kernel, and waits until it is in force.
    pub fn attach(&mut self, args: &str) {
        let log = std::fs::File::create(self.directory.join("log")).unwrap();
        let line = format!("exec $PENSTOCK attach --seccomp kill {args}");
        let mut command = self.command(&self.r, &line);
        self.dataplane = Some(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        self.until_within(30, "the ruleset is attached", |net| net.run(&net.r, "$PENSTOCK show").0);
    }

    /// Takes the attached ruleset away.
    pub fn detach(&mut self) {
        self.ok(&self.r, "$PENSTOCK detach");
        self.ended();
    }

    /// Ends the dataplane in order.
    pub fn down(&mut self) {
        self.ok(&self.r, "$PENSTOCK down");
        self.ended();
    }

    /// Waits for a program that was stopped elsewhere.
    pub fn ended(&mut self) {
        let status = self.dataplane.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Waits for a program that was stopped elsewhere, with any exit status.
    pub fn ended_somehow(&mut self) {
        self.dataplane.take().unwrap().wait().unwrap();
    }

    /// What the dataplane has logged since it was started.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Bytes of memory of the dataplane that are in use.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The process of the dataplane.
    pub fn pid(&self) -> u32 {
        self.dataplane.as_ref().unwrap().id()
    }

    /// Kills the dataplane.
    pub fn kill(&mut self) {
        let mut child = self.dataplane.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Kills the dataplane and its guardian, neither of which learns of the other's end.
    pub fn kill_both(&mut self) {
        let mut child = self.dataplane.take().unwrap();
        let children =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        // While it is stopped, it cannot learn of anything.
        sh(&format!("kill -STOP {children}; kill -KILL {} {children}", child.id()));
        child.wait().unwrap();
        wait_gone(&children);
    }

    /// Loads rules into the dataplane.
    pub fn nft(&self, rules: &str) {
        let file = self.directory.join("rules.nft");
        std::fs::write(&file, rules).unwrap();
        self.ok(&self.r, &format!("$PENSTOCK nft -f {}", file.display()));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the dataplane's log:\n{}", self.log());
        }
        if let Some(mut child) = self.dataplane.take() {
            let _ = self.command(&self.r, "$PENSTOCK down").output();
            let _ = child.kill();
            let _ = child.wait();
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for namespace in [&self.a, &self.r, &self.b].into_iter().chain(&self.others) {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
