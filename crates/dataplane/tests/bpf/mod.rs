// SPDX-License-Identifier: Apache-2.0

//! What tests of helpers that ask the network have in common: a namespace for the kernel's side, and
//! a dataplane with a program that answers frames.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fastrand::Rng;
use penstock_dataplane::{BpfAttachment, BpfHook, BpfPrograms, Dataplane};
use penstock_ebpfvm::{Instance, Limits};

use crate::loader::hexadecimal;
use crate::router::{START, receive_at};

/// A namespace that goes with its test.
pub struct Namespace(pub String);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

impl Namespace {
    /// An empty one; nothing, with a message, where namespaces cannot be made.
    pub fn new(name: &str) -> Option<Namespace> {
        let name = format!("penstock-bpf-{name}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            println!("skipped: no rights to make a network namespace");
            return None;
        }
        Some(Namespace(name))
    }

    /// Lines for ip(8) in it.
    pub fn batch(&self, family: &[&str], lines: &str) {
        let mut child = Command::new("ip")
            .args(family)
            .args(["-n", &self.0, "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{lines}");
    }

    /// Settings in it.
    #[allow(dead_code)]
    pub fn sysctl(&self, settings: &[&str]) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, "sysctl", "-q", "-w"]).args(settings);
        assert!(command.status().unwrap().success(), "{settings:?}");
    }
}

/// Attaches the program of an object for a hook to a dataplane, as machine code or not.
pub fn attach(path: &mut Dataplane, object: &[u8], hook: BpfHook, compiled: bool) {
    let name = if matches!(hook, BpfHook::Xdp { .. }) { "xdp_ask" } else { "tc_ask" };
    let (instance, programs) =
        Instance::load("object.o", object, &[Some(name)], Limits::default()).unwrap();
    if compiled {
        instance.compile();
        assert!(instance.lock().is_compiled());
    }
    let attached = BpfAttachment::new(hook, "wan", programs.into_iter().next().unwrap());
    path.set_bpf(BpfPrograms::default().with(Arc::new(attached)).unwrap());
}

/// One of several things.
pub fn any<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// The answer that goes back.
pub fn answer(path: &mut Dataplane, frame: &[u8]) -> String {
    let seen = receive_at(path, "wan", frame, START);
    let [(device, bytes)] = &seen.frames[..] else { panic!("{:?}", seen.lines) };
    assert_eq!(device, "wan");
    hexadecimal(bytes)
}

/// A number that the environment sets.
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}
