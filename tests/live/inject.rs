// SPDX-License-Identifier: Apache-2.0

//! Each system call of the dataplane fails once (`strace -e inject`), and it is killed at each of
//! those that change devices: it comes up or says why not, continues or ends, and leaves nothing
//! behind.
//!
//! `PENSTOCK_INJECT` says how many failures are tried: a number, drawn with `PENSTOCK_SEED`
//! (default 8), or `all`: of each call the first, the last, and as many between as [`EACH`] says;
//! or all of some calls, `write,shutdown`. strace counts the calls of each thread by itself, so
//! that the same failure may happen once in several of them. `PENSTOCK_INJECT_JOBS` are tried at
//! once, each in networks of its own (default 1).

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::net::{Net, setting};

/// Failures of one call that are tried by `PENSTOCK_INJECT=all`.
const EACH: u64 = 30;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls of which a failure says nothing: they cannot fail, or fail only where the program itself
/// is wrong; and those by which strace and the shell get there. `brk(2)` gives the break where it
/// fails, and no error, which strace cannot imitate.
const NEVER: [&str; 18] = [
    "arch_prctl",
    "brk",
    "close",
    "execve",
    "exit",
    "exit_group",
    "futex",
    "gettid",
    "munmap",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
];

/// Calls that get memory: without it there may be no words either, as where the loader finds no
/// room for a library.
const MEMORY: [&str; 4] = ["mmap", "mremap", "madvise", "mprotect"];

/// No error: the process that makes the call is killed then. What is done to devices is done by
/// `sendto` and `write`.
const KILL: &str = "SIGKILL";

/// What a call fails with: each of these words is tried.
fn errors(call: &str) -> &'static [&'static str] {
    match call {
        call if MEMORY.contains(&call) => &["ENOMEM"],
        "clone" | "clone3" | "fork" | "vfork" => &["EAGAIN", "ENOMEM"],
        "openat" | "open" | "socket" | "accept4" | "pipe2" | "eventfd2" | "epoll_create1"
        | "memfd_create" | "dup" => &["EMFILE", "EPERM"],
        "read" | "pread64" | "recvfrom" | "recvmsg" | "recvmmsg" => &["EINTR", "EIO"],
        "write" | "pwrite64" => &["EINTR", "EIO", KILL],
        "fsync" | "fdatasync" | "rename" | "renameat" | "renameat2" | "mkdir" | "ftruncate" => {
            &["ENOSPC", "EIO"]
        }
        "sendto" | "sendmsg" | "sendmmsg" => &["EINTR", "ENOBUFS", KILL],
        "poll" | "ppoll" | "epoll_wait" | "clock_nanosleep" | "nanosleep" | "wait4" | "flock" => {
            &["EINTR"]
        }
        "bpf" | "ioctl" | "setsockopt" | "bind" | "listen" => &["EPERM", "ENOMEM"],
        _ => &["EPERM"],
    }
}

/// How the dataplane is begun, and what makes a round of it.
const DRIVERS: [&str; 2] = ["packet", "xdp-generic"];

fn up(net: &Net, driver: &str) -> String {
    let state = net.directory.join("state");
    let _ = fs::remove_file(&state);
    format!("$PENSTOCK up r0 r1 --driver {driver} --workers 2 --state {}", state.display())
}

/// Addresses, names and states of the router's devices, in an order that is always the same.
pub(crate) fn devices(net: &Net) -> String {
    let said = crate::begin::devices(net);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Processes in the router's namespace.
pub(crate) fn processes(net: &Net) -> String {
    let pids = crate::net::sh(&format!("ip netns pids {}", net.r));
    let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    pids.split_whitespace().map(|pid| format!("{pid} {}", name(pid))).collect()
}

/// Waits until something holds.
pub(crate) fn within(patience: Duration, holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Runs a command of which no answer may take long.
fn ask(net: &Net, line: &str) -> Result<(bool, String), String> {
    let begun = Instant::now();
    let (well, said) = net.run(&net.r, &format!("timeout -s KILL {} {line}", PATIENCE.as_secs()));
    if begun.elapsed() >= PATIENCE {
        return Err(format!("{line} hangs: {said}"));
    }
    Ok((well, said))
}

/// Begins, changes rules, forwards and ends, under strace with some options. What must hold holds,
/// or the error says what not.
fn round(net: &Net, driver: &str, strace: &str, before: &str) -> Result<(), String> {
    let log = net.directory.join("inject.log");
    let line = format!("exec strace -f -qq {strace} {} 2>&1", up(net, driver));
    let dataplane = net.spawn_in_file(&net.r, &line, &log);
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let over = || said().contains("Error:") || processes(net).is_empty();
    // A word that was not written is not missed.
    let mute = strace.contains("trace=write ") || strace.contains(KILL);
    let runs =
        || said().contains("penstock: running") || mute && net.run(&net.r, "$PENSTOCK show").0;
    std::thread::sleep(Duration::from_millis(100));
    if !within(PATIENCE, || runs() || over()) {
        return Err(format!("neither runs nor ends: {}\n{}", said(), processes(net)));
    }
    if runs() {
        let rules = "'table ip t { chain f { type filter hook forward priority 0; counter; }; }'";
        // Failures are reported, and block no other client.
        for command in [format!("nft {rules}"), "show".into(), "nft list ruleset".into()] {
            ask(net, &format!("$PENSTOCK {command}"))?;
        }
        let answered = || net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0;
        // Ours, or the kernel's, if it has ended by then.
        if !within(PATIENCE, answered) {
            return Err(format!("nothing is forwarded: {}", said()));
        }
        let (ended, answer) = ask(net, "$PENSTOCK down")?;
        if !ended
            && !answer.contains("no dataplane is running")
            && !within(PATIENCE, || processes(net).is_empty())
        {
            return Err(format!("does not end: {answer}"));
        }
    }
    if !within(PATIENCE, || processes(net).is_empty()) {
        return Err(format!("processes stay: {}; {}", processes(net), said()));
    }
    drop(dataplane.stop());
    // If process and guardian both ended early, the next `penstock` command returns the devices.
    if devices(net) != before {
        ask(net, "$PENSTOCK down")?;
    }
    let same = || devices(net) == before;
    if !within(Duration::from_secs(5), same) {
        return Err(format!(
            "devices are not as before:\n{}\nbut\n{before}\n{}",
            devices(net),
            said()
        ));
    }
    // The standard library ends a process or thread that has no memory for its stack of signals so.
    if said().contains("panicked") && !said().contains("alternative stack") {
        return Err(format!("a panic: {}", said()));
    }
    // A process that could not run says why.
    let wordless = mute || MEMORY.iter().any(|call| strace.contains(&format!("trace={call} ")));
    if !runs()
        && !wordless
        && !["Error", "error", "cannot", "memory allocation", "fatal"]
            .iter()
            .any(|word| said().contains(word))
    {
        return Err(format!("ended without a word: {:?}", said()));
    }
    if !within(PATIENCE, || net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0) {
        return Err(format!("the kernel does not forward afterwards: {}", said()));
    }
    Ok(())
}

/// How often each call is made by the thread that makes it most, in a round in which none fails.
fn count(net: &Net, driver: &str, before: &str) -> BTreeMap<String, u64> {
    let trace = net.directory.join("trace");
    let counted = round(net, driver, &format!("-o {}", trace.display()), before);
    assert_eq!(counted, Ok(()), "nothing fails");
    let text = fs::read_to_string(&trace).unwrap();
    let mut by_thread: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !NEVER.contains(&name) {
            *by_thread.entry((thread, name)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, name), count) in by_thread {
        let entry = most.entry(name.to_owned()).or_default();
        *entry = count.max(*entry);
    }
    most
}

/// A call that fails: with which driver, which call with which error, and when it is made the how
/// manieth time.
type Failure = (&'static str, String, &'static str, u64);

/// Takes failures from a list until none is left, and tells of those after which something is
/// wrong.
fn fail_all(mut net: Net, all: &[Failure], next: &AtomicUsize, wrong: &Mutex<Vec<String>>) {
    let mut before = devices(&net);
    while let Some((driver, call, error, at)) = all.get(next.fetch_add(1, Relaxed)) {
        let kind = if *error == KILL { "signal" } else { "error" };
        let strace =
            format!("-o /dev/null -e trace={call} -e inject={call}:{kind}={error}:when={at}");
        let Err(what) = round(&net, driver, &strace, &before) else { continue };
        let told = format!("{driver}: {call} fails with {error}, call {at}: {what}");
        eprintln!("{told}");
        wrong.lock().unwrap().push(told);
        // Nothing of it may be in the way of the next one.
        for pid in crate::net::sh(&format!("ip netns pids {}", net.r)).split_whitespace() {
            crate::net::sh(&format!("kill -9 {pid} || true"));
        }
        drop(net);
        let Some(another) = Net::new() else { return };
        net = another;
        before = devices(&net);
    }
}

#[test]
fn each_system_call_may_fail_once() {
    let Some(net) = Net::new() else { return };
    if !net.has("strace") {
        return;
    }
    let before = devices(&net);
    let mut all: Vec<Failure> = Vec::new();
    for driver in DRIVERS {
        for (call, count) in count(&net, driver, &before) {
            for error in errors(&call) {
                let step = (count / EACH).max(1) as usize;
                let at = (1..=count).step_by(step).chain([count]);
                all.extend(at.map(|at| (driver, call.clone(), *error, at)));
            }
        }
    }
    all.dedup();
    let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
    let wanted = std::env::var("PENSTOCK_INJECT").unwrap_or_default();
    if wanted == "all" || wanted.starts_with(|c: char| c.is_ascii_lowercase()) {
        all.retain(|(_, call, ..)| wanted == "all" || wanted.split(',').any(|one| one == call));
        eprintln!("{} failures", all.len());
    } else {
        rng.shuffle(&mut all);
        all.truncate(setting("PENSTOCK_INJECT", 8) as usize);
    }
    let jobs = setting("PENSTOCK_INJECT_JOBS", 1).max(1);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(|| Net::new().map(|net| fail_all(net, &all, &next, &wrong)));
        }
        fail_all(net, &all, &next, &wrong);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}
