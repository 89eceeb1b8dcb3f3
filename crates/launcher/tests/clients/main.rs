// SPDX-License-Identifier: Apache-2.0

//! Programs under the launcher, answered by a service of the test: `cargo test -p
//! penstock-launcher --test clients [NAME]`.
//!
//! The test program starts itself once more as the launcher. Clients are Python scripts
//! (`clients/*.py`), a static C program and a static Go program; without an interpreter or compiler
//! their tests are skipped, with a message.

mod service;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio, exit};
use std::time::{Duration, Instant};

/// The first argument with which this program is the launcher.
const LAUNCH: &str = "--launch";

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("getgen_is_answered", getgen_is_answered),
    ("sockets_look_like_netlink_sockets", || python("sockets.py")),
    ("every_way_to_send_and_receive_works", || python("ways.py")),
    ("children_threads_and_copies_share_sockets", || python("processes.py")),
    ("signals_interrupt_and_restart_calls", || python("signals.py")),
    ("many_answers_wait_for_a_slow_reader", || python("backlog.py")),
    ("groups_are_told", || python("groups.py")),
    ("programs_that_decide_send_untrapped", || python("decides.py")),
    ("hostile_arguments_are_refused", || python("hostile.py")),
    ("a_page_that_never_comes_holds_up_its_own_program_only", || python("stuck.py")),
    ("other_namespaces_are_the_kernels", other_namespaces_are_the_kernels),
    ("other_ways_to_the_kernel_are_refused", || python("refused.py")),
    ("a_static_c_program_is_answered", || compiled("client.c")),
    ("a_static_go_program_is_answered", || compiled("client.go")),
    ("many_clients_at_once_are_answered", many_clients_at_once_are_answered),
    ("status_and_signal_are_the_commands", status_and_signal_are_the_commands),
    ("the_command_inherits_what_it_would_without", the_command_inherits_what_it_would_without),
    ("a_second_launcher_inside_is_refused", a_second_launcher_inside_is_refused),
    ("it_works_without_rights", it_works_without_rights),
    ("a_low_limit_of_files_moves_the_numbers", a_low_limit_of_files_moves_the_numbers),
    ("the_supervisor_ends_with_its_clients", the_supervisor_ends_with_its_clients),
    ("a_killed_client_leaves_nothing", a_killed_client_leaves_nothing),
    ("round_trip", round_trip),
];

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_ref().is_some_and(|first| first == LAUNCH) {
        let command: Vec<OsString> = arguments.collect();
        let Err(e) = penstock_launcher::launch(&command, Box::<service::Canned>::default());
        eprintln!("launch: {e}");
        exit(e.status().into());
    }
    let wanted = first.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let wanted = if wanted.starts_with('-') { String::new() } else { wanted };
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&wanted)) {
        let begin = Instant::now();
        test();
        println!("{name}: ok, {} ms", begin.elapsed().as_millis());
    }
}

/// A command under the launcher.
fn launcher() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own name"));
    command.arg(LAUNCH).stdin(Stdio::null());
    command
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Whether a program is there; says so if not.
fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program} >/dev/null")])
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        println!("skipped: there is no {program}");
    }
    found
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Runs a command that must end well.
fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

fn python(script: &str) {
    if has("python3") {
        print!("{}", succeed(launcher().arg("python3").arg(folder().join(script))));
    }
}

/// Compiles a program, once.
fn build(source: &str) -> Option<PathBuf> {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "-"));
    let from = folder().join(source);
    let mut command = if source.ends_with(".go") {
        if !has("go") {
            return None;
        }
        let mut command = Command::new("go");
        command.args(["build", "-o"]).arg(&to).arg(&from).env("CGO_ENABLED", "0");
        command.env("GOFLAGS", "").env("GO111MODULE", "off");
        command
    } else {
        if !has("cc") {
            return None;
        }
        let mut command = Command::new("cc");
        command.args(["-static", "-O1", "-pthread", "-o"]).arg(&to).arg(&from);
        command
    };
    succeed(&mut command);
    Some(to)
}

fn compiled(source: &str) {
    if let Some(program) = build(source) {
        print!("{}", succeed(launcher().arg(program)));
    }
}

fn getgen_is_answered() {
    if has("python3") {
        let text = succeed(launcher().arg("python3").arg(folder().join("getgen.py")));
        assert_eq!(text, "generation 1 by python3\n");
    }
}

fn many_clients_at_once_are_answered() {
    let Some(program) = build("client.c") else { return };
    let program = program.display();
    let script = format!(
        "for n in $(seq 64); do {program} & p=\"$p $!\"; done; for p in $p; do wait $p || exit; done"
    );
    succeed(launcher().args(["sh", "-c", &script]));
}

fn status_and_signal_are_the_commands() {
    let run = |arguments: &[&str]| run(launcher().args(arguments)).status;
    assert_eq!(run(&["true"]).code(), Some(0));
    assert_eq!(run(&["sh", "-c", "exit 7"]).code(), Some(7));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).signal(), Some(libc::SIGTERM));
    assert_eq!(run(&["sh", "-c", "kill -PIPE $$"]).signal(), Some(libc::SIGPIPE));
    assert_eq!(run(&["/nowhere/nothing"]).code(), Some(127));
    assert_eq!(run(&["/etc/passwd"]).code(), Some(126));
    // The command has the process id that the caller knows.
    let mut child = launcher().args(["sleep", "60"]).spawn().expect("sleep");
    let name = || std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
    wait_for(|| name() == "sleep\n");
    child.kill().expect("kill");
    assert_eq!(child.wait().expect("wait").signal(), Some(libc::SIGKILL));
}

/// Waits until something holds, and panics after ten seconds.
fn wait_for(holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it does not become true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn the_command_inherits_what_it_would_without() {
    let script = "ls -l /proc/self/fd | sed 's/.* \\([0-9]* ->\\)/\\1/; s/\\[[0-9]*\\]//' | grep -v /proc/; \
                  grep -E '^(SigBlk|SigIgn|Seccomp_filters|Umask)' /proc/self/status | sed 's/filters.*//'; pwd; env | grep -v ^_=; \
                  ulimit -a; ps -o ppid= $$ >/dev/null; ps -o sid= -p $$";
    let plain = succeed(Command::new("sh").args(["-c", script]).stdin(Stdio::null()));
    let launched = succeed(launcher().args(["sh", "-c", script]));
    assert_eq!(plain, launched);
}

fn a_second_launcher_inside_is_refused() {
    let own = std::env::current_exe().expect("own name");
    let output = run(launcher().arg(own).args([LAUNCH, "true"]));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("reported to another program already"), "{errors}");
}

fn it_works_without_rights() {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } != 0 || !has("python3") || !has("setpriv") {
        return;
    }
    // A copy that another user may run.
    let copy = std::env::temp_dir().join(format!("penstock-launcher-{}", std::process::id()));
    let script = copy.with_extension("py");
    std::fs::copy(std::env::current_exe().expect("own name"), &copy).expect("copy");
    std::fs::copy(folder().join("rights.py"), &script).expect("copy");
    let python = "/usr/bin/python3";
    let output = run(Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&copy)
        .args([LAUNCH, python])
        .arg(&script));
    let _ = (std::fs::remove_file(&copy), std::fs::remove_file(&script));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no_new_privs 1\ngeneration 1\n");
    // With rights sudo and the like continue working.
    let text = succeed(launcher().args(["grep", "NoNewPrivs", "/proc/self/status"]));
    assert_eq!(text, "NoNewPrivs:\t0\n");
}

fn a_low_limit_of_files_moves_the_numbers() {
    if !has("python3") {
        return;
    }
    let own = std::env::current_exe().expect("own name");
    let script = format!(
        "ulimit -n 256; exec {} {LAUNCH} python3 -c '
import socket
s = socket.socket(16, 3, 12)
assert 192 <= s.fileno() < 256, s.fileno()
s.bind((0, 0))
'",
        own.display()
    );
    succeed(Command::new("sh").args(["-c", &script]));
    let script = format!("ulimit -n 64; exec {} {LAUNCH} true", own.display());
    let output = run(Command::new("sh").args(["-c", &script]));
    assert_eq!(output.status.code(), Some(1));
}

/// Ids of supervisors that answer a process: those that began since and are named so.
fn supervisors() -> Vec<u32> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name == "penstock-exec\n" {
            all.push(id);
        }
    }
    all
}

fn the_supervisor_ends_with_its_clients() {
    let before = supervisors();
    let fresh = || supervisors().into_iter().filter(|id| !before.contains(id)).count();
    // The command ends, and what it started continues: pipes are not held open by the supervisor.
    let begin = Instant::now();
    succeed(launcher().args(["sh", "-c", "sleep 2 </dev/null >/dev/null 2>&1 & exit 0"]));
    assert!(begin.elapsed() < Duration::from_millis(1500), "a pipe is held open");
    assert_eq!(fresh(), 1);
    wait_for(|| fresh() == 0);
}

fn a_killed_client_leaves_nothing() {
    if !has("python3") {
        return;
    }
    let before = supervisors();
    let mut child = launcher()
        .arg("python3")
        .arg(folder().join("killed.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().expect("stdout"));
    std::io::BufRead::read_line(&mut reader, &mut line).expect("a line");
    let fresh: Vec<u32> = supervisors().into_iter().filter(|id| !before.contains(id)).collect();
    let [supervisor] = fresh[..] else { panic!("{fresh:?}") };
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/{supervisor}/{what}")).map_or(0, Iterator::count)
    };
    let (files, threads) = (count("fd"), count("task"));
    let mut input = child.stdin.take().expect("stdin");
    for _ in 0..3 {
        // 40 processes, killed in the midst of sends and receives.
        input.write_all(b"go\n").expect("write");
        line.clear();
        std::io::BufRead::read_line(&mut reader, &mut line).expect("a line");
        assert_eq!(line, "killed\n");
        // The supervisor may have been in the midst of a call when they were counted.
        wait_for(|| count("fd") <= files && count("task") <= threads);
    }
    drop(input);
    assert!(child.wait().expect("wait").success());
    wait_for(|| !supervisors().contains(&supervisor));
}

fn other_namespaces_are_the_kernels() {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } == 0 && has("python3") {
        python("namespaces.py");
    }
}

/// Prints the time of a round trip of `NFT_MSG_GETGEN`, and the kernel's in the same run.
fn round_trip() {
    let Some(program) = build("client.c") else { return };
    // SAFETY: no pointers.
    let kernel = unsafe { libc::geteuid() } == 0;
    for turn in 0..3 {
        if kernel {
            let text = run(Command::new("unshare").arg("-n").arg(&program).arg("time"));
            print!("{turn} kernel:   {}", String::from_utf8_lossy(&text.stdout));
        }
        print!("{turn} launched: {}", succeed(launcher().arg(&program).arg("time")));
    }
}
