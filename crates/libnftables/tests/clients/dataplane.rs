// SPDX-License-Identifier: Apache-2.0

//! The library in front of a running dataplane: Python makes the calls of [`crate::python`] in its
//! network namespace, and gets what it gets of a state file.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::library::{made, run, scratch, succeeds};
use crate::python::{PYTHON, SCRIPT, has_module};

/// The program: `PENSTOCK_PROGRAM`, else what cargo has built last beside this test.
fn program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("PENSTOCK_PROGRAM") {
        return Some(program.into());
    }
    let program = std::env::current_exe().ok()?.parent()?.parent()?.join("penstock");
    program.exists().then_some(program)
}

/// A dataplane in a network namespace of its own.
struct Dataplane {
    namespace: String,
    program: PathBuf,
    process: Option<Child>,
}

impl Dataplane {
    /// `None` where there cannot be one.
    fn up() -> Option<Dataplane> {
        let program = program()?;
        let namespace = format!("penstock-lib-{}", std::process::id());
        succeeds(Command::new("ip").args(["netns", "add", &namespace]))?;
        let mut dataplane = Dataplane { namespace, program, process: None };
        let devices = "ip link add d0 type veth peer name d1 && ip link set d1 up";
        succeeds(dataplane.inside("sh").args(["-c", devices]))?;
        let program = dataplane.program.clone();
        let mut up = dataplane.inside(&program);
        let up = up.args(["up", "d0"]).stderr(Stdio::null()).spawn();
        dataplane.process = Some(up.expect("penstock can be run"));
        let end = Instant::now() + Duration::from_secs(60);
        while succeeds(dataplane.inside(&program).arg("show")).is_none() {
            assert!(Instant::now() < end, "the dataplane does not begin");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(dataplane)
    }

    /// A command in its namespace.
    fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        let _ = self.inside(&self.program).arg("down").output();
        if let Some(process) = &mut self.process {
            let _ = process.wait();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

#[test]
fn the_python_module_changes_a_running_dataplane() {
    if !has_module() {
        return;
    }
    let Some(library) = made() else { return };
    let Some(dataplane) = Dataplane::up() else {
        println!("SKIPPED: there is no program penstock, or no network namespace");
        return;
    };
    let said = |command: &mut Command, script: &str| {
        command.arg("-").env("LD_LIBRARY_PATH", library).env_remove("PENSTOCK_COMPAT");
        let output = run(command, script);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let live = said(dataplane.inside(PYTHON).env_remove("PENSTOCK_EXEC"), SCRIPT);
    let state = scratch("dataplane").join("state");
    let stored = said(Command::new(PYTHON).env("PENSTOCK_EXEC", state), SCRIPT);
    live.lines().zip(stored.lines()).for_each(|(live, stored)| assert_eq!(live, stored));
    assert_eq!(live.lines().count(), stored.lines().count());
    // What one program adds the other one lists, in both directions.
    let add = "import nftables; print(nftables.Nftables().cmd('add table inet lib'))";
    assert_eq!(said(dataplane.inside(PYTHON).env("PENSTOCK_EXEC", "live"), add), "(0, '', '')\n");
    let nft = |text: &str| succeeds(dataplane.inside(&dataplane.program).args(["nft", text]));
    assert!(nft("list tables").expect("it lists").contains("table inet lib"));
    nft("add chain inet lib c").expect("it adds");
    let list = "import nftables; print(nftables.Nftables().cmd('list table inet lib')[1])";
    assert!(said(&mut dataplane.inside(PYTHON), list).contains("chain c"));
    drop(dataplane);
}
