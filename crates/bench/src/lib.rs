// SPDX-License-Identifier: Apache-2.0

//! Benchmarks of the packet path in memory, on one core, and of the kernel's for comparison:
//! `penstock bench`.
//!
//! A benchmark is a list of variants. All variants of a benchmark run by turns, round by round, so
//! that what disturbs the machine disturbs all of them; a variant's figure is the median of its
//! rounds, its ratio the median of the rates against another variant in the same round.
//!
//! Names of benchmarks and variants are fixed: others compare figures by them.
//!
//! ```no_run
//! use penstock_bench::{Bench, Effort};
//!
//! let bench = Bench::find("forward").unwrap();
//! for figure in bench.run(Some("plain-10k"), &Effort::default())?.figures {
//!     println!("{figure:?}");
//! }
//! # Ok::<(), String>(())
//! ```

mod compile;
mod egress;
mod encap;
mod esp;
mod flow;
mod forward;
mod frames;
mod hooks;
mod ingress;
mod io;
mod kernel;
pub mod measure;
mod mix;
pub mod plot;
mod programs;
mod published;
pub mod report;
mod router;
mod routes;
mod rules;
mod seeds;
mod sets;
mod symbolic;
mod yardstick;

pub use measure::{Effort, Figure, Outcome, Published, Scale, Variant};

/// A benchmark.
pub struct Bench {
    /// What is typed.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    variants: fn(Scale) -> Result<Vec<Variant>, String>,
}

/// All benchmarks.
pub const BENCHES: [Bench; 19] = [
    Bench {
        name: "ingress",
        about: "drop at netdev ingress: one rule, sets, ranges; also at prerouting",
        variants: |_| Ok(ingress::variants()),
    },
    Bench {
        name: "sets",
        about: "each set backend with 1000 elements, two with a million, against the bitmap",
        variants: |scale| Ok(sets::variants(scale)),
    },
    Bench {
        name: "rules",
        about: "linear rules, 10 to 100,000, and ClassBench-style lists",
        variants: |scale| Ok(rules::variants(scale)),
    },
    Bench {
        name: "hooks",
        about: "no, empty, one and three chains on a hook, and called one by one",
        variants: |_| Ok(hooks::variants()),
    },
    Bench {
        name: "egress",
        about: "egress without rules, with one that does not match, with a set that accepts",
        variants: |_| Ok(egress::variants()),
    },
    Bench {
        name: "forward",
        about: "forwarding: plain, stateful, with NAT",
        variants: |scale| Ok(forward::variants(scale)),
    },
    Bench {
        name: "flow",
        about: "established flows: rules, and flowtables at early ingress",
        variants: |scale| Ok(flow::variants(scale)),
    },
    Bench {
        name: "encap",
        about: "established flows: plain, into and out of an IPIP tunnel",
        variants: |scale| Ok(encap::variants(scale)),
    },
    Bench {
        name: "esp",
        about: "IPsec: the cipher alone, rules, and flowtables at early ingress",
        variants: |_| Ok(esp::variants()),
    },
    Bench {
        name: "compile",
        about: "from a commit to effect, and to machine code",
        variants: |scale| Ok(compile::variants(scale)),
    },
    Bench {
        name: "symbolic",
        about: "what a change of long lists and large sets does to all packets",
        variants: |scale| Ok(symbolic::variants(scale)),
    },
    Bench {
        name: "io",
        about: "captures in memory: read, written, forwarded from one to the other",
        variants: |scale| Ok(io::variants(scale)),
    },
    Bench {
        name: "kernel",
        about: "the kernel's own rules, forwarding and XDP over veth (takes root)",
        variants: |_| kernel::variants(),
    },
    Bench {
        name: "netfilter",
        about: "chains at a netfilter hook: nf_tables against BPF programs (takes root)",
        variants: |_| kernel::netfilter::variants(),
    },
    Bench {
        name: "attach",
        about: "rulesets by `penstock attach` against nf_tables (takes root)",
        variants: |_| kernel::attached::variants(),
    },
    Bench {
        name: "live",
        about: "forwarding by `penstock up` over veth, against the kernel's (takes root)",
        variants: |_| kernel::live::variants(),
    },
    Bench {
        name: "seeds",
        about: "published figures of nf_tables, the kernel's here, and ours (kernel's: takes root)",
        variants: |scale| Ok(seeds::variants(scale)),
    },
    Bench {
        name: "yardstick",
        about: "forwarding and ESP by turns with DPDK's testpmd and test-crypto-perf",
        variants: yardstick::variants,
    },
    Bench {
        name: "peers",
        about: "AF_XDP in user space: `penstock up` against Open vSwitch and testpmd (takes root)",
        variants: |_| kernel::peers::variants(),
    },
];

impl Bench {
    /// The benchmark of a name.
    pub fn find(name: &str) -> Option<&'static Bench> {
        BENCHES.iter().find(|b| b.name == name)
    }

    /// Runs it: all variants, or one and its reference. An unknown variant gives no figures.
    ///
    /// # Errors
    /// Missing rights or tools, in a sentence.
    pub fn run(&self, variant: Option<&str>, effort: &Effort) -> Result<Outcome, String> {
        let mut variants = (self.variants)(effort.scale)?;
        if let Some(name) = variant {
            let against = variants.iter().find(|v| v.name == name).and_then(|v| v.against);
            variants.retain(|v| v.name == name || Some(&*v.name) == against);
        }
        Ok(measure::by_turns(variants, effort))
    }
}
