// SPDX-License-Identifier: Apache-2.0

//! `penstock exec --listen`: a script plays the runtime of a container, with the profile that
//! docs/clients.md shows.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::side::{Left, Scratch, has, has_namespaces, left, penstock};

const RUNTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/runtime.py");
const PROFILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/penstock-containers.json");

/// The agent; it ends with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the agent, and waits until it listens.
fn agent(scratch: &Scratch) -> Agent {
    let socket = scratch.file("socket");
    let mut command = penstock();
    command.args(["exec", "--state"]).arg(scratch.state()).arg("--listen").arg(&socket);
    let agent = Agent(command.stdout(Stdio::null()).spawn().expect("penstock can be run"));
    let end = Instant::now() + Duration::from_secs(20);
    while !socket.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    agent
}

/// Runs a script as a container in a network namespace of its own.
fn contained(scratch: &Scratch, script: &str) -> Left {
    let mut command = Command::new("unshare");
    command.args(["--net", "python3", RUNTIME, PROFILE]).arg(scratch.file("socket"));
    left(command.args(["sh", "-c", script]))
}

fn listed(state: &Path) -> String {
    left(penstock().args(["nft", "--state"]).arg(state).args(["list", "ruleset"])).stdout
}

#[test]
fn containers_are_answered_from_a_file() {
    if !has("nft") || !has("python3") || !has_namespaces() {
        return;
    }
    let scratch = Scratch::new();
    let socket = scratch.file("socket");
    // Of an agent that has ended.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket can be made"));
    std::fs::remove_file(&socket).expect("it is there");
    let agent = agent(&scratch);
    let mode = std::os::unix::fs::PermissionsExt::mode(&socket.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let said = contained(
        &scratch,
        "nft add table inet t && nft add chain inet t c && nft list ruleset; \
         nft delete table inet no; exit 7",
    );
    assert_eq!(said.stdout, "table inet t {\n\tchain c {\n\t}\n}\n", "{}", said.stderr);
    assert!(said.stderr.contains("No such file or directory"), "{}", said.stderr);
    assert_eq!(said.status, Some(7));
    assert_eq!(listed(&scratch.state()), said.stdout);
    // What is no state of a container ends nothing.
    std::os::unix::net::UnixStream::connect(&socket).expect("the agent is there");
    let said = contained(&scratch, "nft add rule inet t c counter; nft list ruleset");
    assert!(said.stdout.contains("counter packets 0 bytes 0"), "{}{}", said.stdout, said.stderr);
    // A container goes on without its agent.
    let waits = "nft list tables; until test -e $0.go; do sleep 0.1; done; nft list tables";
    let name = socket.to_string_lossy().into_owned();
    let mut command = Command::new("unshare");
    command.args(["--net", "python3", RUNTIME, PROFILE, &name, "sh", "-c", waits, &name]);
    let container = command.stdout(Stdio::piped()).spawn().expect("unshare can be run");
    std::thread::sleep(Duration::from_secs(1));
    drop(agent);
    std::fs::write(scratch.file("socket.go"), "").expect("a file can be made");
    let said = container.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "table inet t\ntable inet t\n");
    // Another agent takes the place of the socket that is left.
    let _agent = self::agent(&scratch);
    assert_eq!(contained(&scratch, "nft list tables").stdout, "table inet t\n");
}

#[test]
fn a_command_line_with_both_or_none_is_refused() {
    for arguments in [&["exec", "--listen", "s", "nft"][..], &["exec"], &["shell", "--listen", "s"]]
    {
        assert_eq!(left(penstock().args(arguments)).status, Some(2), "{arguments:?}");
    }
}
