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
mod vpp;
mod yardstick;

pub use measure::{Effort, Figure, Outcome, Published, Scale, Variant};

/// A benchmark.
pub struct Bench {
    /// What is typed.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    variants: fn(&Effort) -> Result<Vec<Variant>, String>,
}

/// All benchmarks.
pub const BENCHES: [Bench; 20] = [
    Bench {
        name: "ingress",
        about: "drop at netdev ingress: one rule, sets, ranges; also at prerouting",
        variants: |_| Ok(ingress::variants()),
    },
    Bench {
        name: "sets",
        about: "each set backend with 1000 elements, two with a million, against the bitmap",
        variants: |effort| Ok(sets::variants(effort.scale)),
    },
    Bench {
        name: "rules",
        about: "linear rules, 10 to 100,000, and ClassBench-style lists",
        variants: |effort| Ok(rules::variants(effort.scale)),
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
        variants: |effort| Ok(forward::variants(effort.scale)),
    },
    Bench {
        name: "flow",
        about: "established flows: rules, and flowtables at early ingress",
        variants: |effort| Ok(flow::variants(effort.scale)),
    },
    Bench {
        name: "encap",
        about: "established flows: plain, into and out of an IPIP tunnel",
        variants: |effort| Ok(encap::variants(effort.scale)),
    },
    Bench {
        name: "esp",
        about: "IPsec: the cipher alone, rules, and flowtables at early ingress",
        variants: |_| Ok(esp::variants()),
    },
    Bench {
        name: "compile",
        about: "from a commit to effect, and to machine code",
        variants: |effort| Ok(compile::variants(effort.scale)),
    },
    Bench {
        name: "symbolic",
        about: "what a change of long lists and large sets does to all packets",
        variants: |effort| Ok(symbolic::variants(effort.scale)),
    },
    Bench {
        name: "io",
        about: "captures in memory: read, written, forwarded from one to the other",
        variants: |effort| Ok(io::variants(effort.scale)),
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
        variants: |effort| Ok(seeds::variants(effort.scale)),
    },
    Bench {
        name: "yardstick",
        about: "forwarding and ESP by turns with DPDK's testpmd and test-crypto-perf",
        variants: |effort| yardstick::variants(effort.scale),
    },
    Bench {
        name: "vpp",
        about: "forwarding, tunnels and ESP by turns with the VPP of `--vpp`",
        variants: |effort| vpp::variants(&effort.vpp, effort.scale),
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
        let mut variants = (self.variants)(effort)?;
        if let Some(name) = variant {
            let against = variants.iter().find(|v| v.name == name).and_then(|v| v.against);
            variants.retain(|v| v.name == name || Some(&*v.name) == against);
        }
        Ok(measure::by_turns(variants, effort))
    }
}
