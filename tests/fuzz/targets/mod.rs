// SPDX-License-Identifier: Apache-2.0

//! What must hold for the bytes that come in at each door of the program.
//!
//! A target is a file here and a line in the table below. `tests/fuzz/main.rs` runs each for a
//! moment on seeds and on changes to them; `fuzz/` runs them with coverage (`make fuzz`).

use fastrand::Rng;

/// One door.
#[derive(Debug)]
pub struct Target {
    /// What `make fuzz TARGET=` calls it, and the directory of `tests/fuzz/corpus` with inputs that
    /// once failed.
    pub name: &'static str,
    /// What the bytes are.
    pub bytes: &'static str,
    /// What must hold, in addition to no panic, no hang and proportionate memory.
    pub holds: &'static str,
    /// Longest input that is made for it, in bytes.
    pub longest: usize,
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Makes an input out of the seeds; bytes are changed at random as well where coverage is
    /// measured.
    pub make: fn(&mut Rng, &[Vec<u8>]) -> Vec<u8>,
    /// Panics if what must hold does not.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(mod $name;)*

        /// All of them.
        pub const ALL: &[&Target] = &[$(&$name::TARGET),*];

        #[cfg(test)]
        mod holds {
            $(
                #[test]
                fn $name() {
                    crate::fuzz(&super::$name::TARGET);
                }
            )*
        }
    };
}

targets! {
    ruleset
    json
    capture
    config
    frame
    payload
    program
    virtio
    verdict
    queue
    control
    http
    filter
    describe
    pcap_filter
    tc
    dump
    saved
    state
    changes
    netlink
    nf_tables
    connections
    peer
    published
    ip_sets
    globals
    packets
    maps
    bpf
}

/// The inputs of a target: what is made of the project's tests, and what its directory of the
/// corpus has.
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut seeds = (target.seeds)();
    seeds.extend(crate::seeds::read_all(target.name));
    seeds
}
