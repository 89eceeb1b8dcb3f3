// SPDX-License-Identifier: Apache-2.0

//! Stateless ingress chains as a BPF program that runs in the kernel, before any of its work on a
//! packet (XDP).
//!
//! ```
//! use penstock::ebpf::Program;
//! use penstock::{Network, Ruleset};
//!
//! let network = Network::builder().ethernet("wan", [2, 0, 0, 0, 0, 1]).build()?;
//! let ruleset = Ruleset::from_text(&network, "
//!     table netdev t {
//!         chain c {
//!             type filter hook ingress device wan priority 0; policy accept;
//!             udp dport 9 counter drop
//!         }
//!     }
//! ")?;
//! let program = Program::compile(&ruleset.link()?, &network, network.device("wan")?)?;
//! assert!(program.instructions() > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cmp::Reverse;
use std::fmt;

use penstock_bpf::{Link, Mode, Next};
use penstock_dataplane::interface;
use penstock_ebpf::rules::{Compiled, Counters, Entry, Job, Place, compile};
use penstock_program::Hook;

use crate::{Device, Error, Family, Network, Rules};

/// The ingress chains of a device as a program that is not loaded yet.
#[derive(Clone, Debug)]
pub struct Program {
    compiled: Compiled,
}

/// Why chains cannot be such a program: which rule, and what about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompiled(String);

impl fmt::Display for NotCompiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotCompiled {}

/// A program that runs in the kernel, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    counters: Counters,
    _link: Link,
    _program: penstock_bpf::Program,
}

impl Program {
    /// Compiles all chains at ingress of a device, in order of their priorities. Packets that they
    /// accept continue to the kernel.
    ///
    /// # Errors
    /// The first rule that has no translation: one with state, or that asks for what stands in no
    /// header.
    pub fn compile(rules: &Rules, network: &Network, device: Device) -> Result<Self, NotCompiled> {
        let link = network.inner.link(device.index());
        let link = link.ok_or_else(|| NotCompiled("there is no such device".to_owned()))?;
        let chains = rules.linked.bases.iter();
        let mut chains: Vec<_> = chains
            .filter(|c| c.base.hook == Hook::Ingress)
            .filter(|c| c.base.names_device(&link.name))
            .collect();
        chains.sort_by_key(|c| (c.base.priority, Reverse(c.base.registered)));
        let entry = |family, chain| match family {
            Family::Inet => Entry::Inet(chain),
            _ => Entry::Netdev(chain),
        };
        let entries: Vec<_> = chains.iter().map(|c| entry(c.family, c.chain)).collect();
        let (index, mac) = (device.index(), link.mac);
        let device = penstock_ebpf::rules::Device { index, mac, interface: interface(link) };
        let job = Job {
            image: &rules.linked.image,
            entries: &entries,
            place: Place::Xdp(&device),
            next: &Next::Pass,
            shared: None,
            routes: None,
        };
        let compiled = compile(job).map_err(|refused| NotCompiled(refused.to_string()))?;
        Ok(Program { compiled })
    }

    /// How many BPF instructions it has.
    pub fn instructions(&self) -> usize {
        self.compiled.code.len()
    }

    /// Loads it, and attaches it to the device of this index in the current network namespace.
    ///
    /// # Errors
    /// [`Error::System`]: without `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, `EPERM`; `EBUSY`
    /// where a program is already.
    pub fn attach(&self, index: u32) -> Result<Attached, Error> {
        let loaded = self.compiled.load("penstock_ingress");
        let (program, counters) =
            loaded.map_err(|error| Error::System(std::io::Error::other(error.to_string())))?;
        let link = program.attach(index, Mode::Any).map_err(Error::System)?;
        Ok(Attached { counters, _link: link, _program: program })
    }
}

impl Attached {
    /// Adds what the kernel has counted since the last time to the counters of the rules.
    ///
    /// # Errors
    /// [`Error::System`], those of bpf(2).
    pub fn collect(&mut self) -> Result<(), Error> {
        self.counters.collect().map_err(Error::System)
    }
}
