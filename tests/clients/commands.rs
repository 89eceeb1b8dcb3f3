// SPDX-License-Identifier: Apache-2.0

//! The commands `penstock exec` and `penstock shell` themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::side::{Scratch, both, exec, has, in_exec, left, penstock};

#[test]
fn the_exit_status_is_the_commands() {
    let scratch = Scratch::new();
    let state = scratch.state();
    assert_eq!(left(exec(&state).args(["sh", "-c", "exit 7"])).status, Some(7));
    let missing = left(exec(&state).arg("no-such-command"));
    assert_eq!(missing.status, Some(127));
    assert!(missing.stderr.contains("no-such-command"), "{}", missing.stderr);
    let plain = scratch.file("plain");
    fs::write(&plain, "").expect("a file");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).expect("its mode");
    assert_eq!(left(exec(&state).arg(&plain)).status, Some(126));
    let killed = exec(&state).args(["sh", "-c", "kill -9 $$"]).status().expect("runs");
    assert_eq!(killed.signal(), Some(9));
    assert!(!state.exists(), "no file is made by what changes nothing");
}

#[test]
fn wrong_command_lines_are_refused() {
    for args in [&["exec"][..], &["exec", "--state", "/s"], &["exec", "--what"], &["shell", "-x"]] {
        assert_eq!(left(penstock().args(args)).status, Some(2), "{args:?}");
    }
    for command in ["exec", "shell"] {
        let help = left(penstock().args([command, "--help"]));
        assert_eq!(help.status, Some(0));
        assert!(help.stdout.contains("--state FILE"), "{}", help.stdout);
    }
    // Here there is no dataplane, or none that this user may see.
    let none = left(penstock().args(["exec", "true"]));
    assert!([Some(1), Some(3)].contains(&none.status), "{none:?}");
    assert!(none.stderr.starts_with("Error: "), "{}", none.stderr);
}

#[test]
fn a_broken_state_file_is_refused_and_kept() {
    let scratch = Scratch::new();
    let state = scratch.state();
    fs::write(&state, "table ip t").expect("a file");
    let refused = left(exec(&state).arg("true"));
    assert_eq!(refused.status, Some(1));
    assert!(refused.stderr.contains("not a saved state"), "{}", refused.stderr);
    assert_eq!(fs::read(&state).expect("it is there"), b"table ip t");
    if !has("nft") {
        return;
    }
    // It breaks while a program runs.
    fs::remove_file(&state).expect("it is there");
    let script = format!("nft add table ip t; echo x >{}; nft list ruleset", state.display());
    let broken = in_exec(&state, &script);
    assert_eq!(broken.status, Some(1));
    assert!(broken.stderr.contains("Input/output error"), "{}", broken.stderr);
}

#[test]
fn a_file_that_cannot_be_written_refuses_the_batch() {
    if !has("nft") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.file("folder");
    fs::create_dir(&folder).expect("a folder");
    let state = folder.join("state");
    assert_eq!(in_exec(&state, "nft add table ip a").status, Some(0));
    // The folder is gone, and with it the file: the next change finds no place for a new one.
    let script = format!("rm -r {}; nft add table ip b; nft list ruleset", folder.display());
    let refused = in_exec(&state, &script);
    assert!(refused.stderr.contains("Error: Could not process rule: "), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
}

#[test]
fn programs_of_other_users_may_only_look() {
    let root = left(Command::new("id").arg("-u")).stdout == "0\n";
    if !root || !has("nft") || !has("setpriv") {
        println!("SKIPPED: not root, or no nft or setpriv");
        return;
    }
    let scratch = Scratch::new();
    let other = "setpriv --reuid 65534 --clear-groups --inh-caps=-all";
    let script = format!("nft add table ip a; {other} nft add table ip b; {other} nft list tables");
    let tried = in_exec(&scratch.state(), &script);
    assert!(tried.stderr.contains("Operation not permitted"), "{tried:?}");
    assert_eq!(tried.stdout, "table ip a\n", "{tried:?}");
}

#[test]
fn capabilities_count_where_they_administer_the_network_namespace() {
    let root = left(Command::new("id").arg("-u")).stdout == "0\n";
    if !root || !has("nft") || !has("setpriv") || !has("python3") {
        println!("SKIPPED: not root, or a program is missing");
        return;
    }
    // All have a socket that root has opened, and change something with it. Those in a user
    // namespace of their own have all capabilities, but not where the network namespace is.
    let program = r#"
import ctypes, os, socket, struct
library = ctypes.CDLL(None)
def message(kind, flags, family, resource, *data):
    body = struct.pack("!BBH", family, 0, resource) + b"".join(data)
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body
name = struct.pack("=HH", 6, 1) + b"t\0\0\0"
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
sock.settimeout(5)
def add():
    batch = message(16, 1, 0, 10) + message(0xa00, 5, 2, 0, name) + message(17, 1, 0, 10)
    sock.send(batch)
    return os.strerror(-struct.unpack_from("=i", sock.recv(9000), 16)[0])
print("root:", add(), flush=True)
for user in (0, 65534):
    child = os.fork()
    if child == 0:
        os.setresuid(user, user, user)
        print(user, "as it is:", add(), flush=True)
        # CLONE_NEWUSER
        library.unshare(0x10000000)
        print(user, "in a user namespace of its own:", add(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"#;
    let script = format!("python3 -c '{program}'");
    if let Some(said) = both(&script) {
        assert_eq!(said.stdout.matches("Operation not permitted").count(), 3, "{said:?}");
    }
}

#[test]
fn no_rights_are_needed() {
    let root = left(Command::new("id").arg("-u")).stdout == "0\n";
    if !has("nft") || !has("setpriv") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.file("");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("its mode");
    let mut command = Command::new("setpriv");
    if root {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    command.args(["--inh-caps=-all", env!("CARGO_BIN_EXE_penstock"), "exec", "--state"]);
    let script = "nft add table ip a && nft list tables";
    let ran = left(command.arg(scratch.state()).args(["--", "sh", "-c", script]));
    if ran.status == Some(126) || ran.status == Some(127) {
        println!("SKIPPED: another user cannot run the program: {}", ran.stderr.trim());
        return;
    }
    assert_eq!((ran.status, &*ran.stdout), (Some(0), "table ip a\n"), "{ran:?}");
}

#[test]
fn a_shell_runs_programs_as_exec_does() {
    let scratch = Scratch::new();
    let state = scratch.state();
    let mut shell = penstock();
    shell.args(["shell", "--state"]).arg(&state).env("SHELL", "/bin/echo");
    assert_eq!(left(&mut shell).stdout, "\n");
    let told = left(penstock().args(["shell", "--state"]).arg(&state).env("SHELL", "/usr/bin/env"));
    assert!(told.stdout.contains(&format!("PENSTOCK_EXEC={}", state.display())), "{}", told.stdout);
    assert!(told.stdout.contains("PS1=(penstock) "), "{}", told.stdout);
}
