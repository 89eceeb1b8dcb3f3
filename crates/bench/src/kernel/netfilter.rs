// SPDX-License-Identifier: Apache-2.0

//! Chains at a netfilter hook: in nf_tables, and as programs that links put there.
//!
//! Every frame is dropped by the last rule, at prerouting of IPv4 with priority raw.

use std::rc::Rc;

use penstock_bpf::asm::Asm;
use penstock_bpf::{
    InetFamily, InetHook, NetfilterHook, Next, Program, ProgramKind, netfilter::DROP,
};
use penstock_ebpf::rules::{Entry, Job, Place, compile};
use penstock_ruleset::link::Linked;

use super::lab::{Bounds, Lab};
use super::{Result, raw, ruleset, sending};
use crate::Variant;

const HOOK: NetfilterHook = NetfilterHook { family: InetFamily::V4, hook: InetHook::Prerouting };

/// Priority raw.
const PRIORITY: i32 = -300;

/// Rules that look at one packet after the other until the last one drops it.
fn linear(count: usize, statement: &str) -> String {
    let other = |n| format!("ip saddr 203.0.113.{n} udp dport {} {statement}drop\n", 1000 + n);
    let others: String = (1..count).map(other).collect();
    raw(&format!("{others}udp dport 9 {statement}drop"))
}

/// Rules of one port each.
fn ports(count: usize) -> String {
    let others: String = (1..count).map(|n| format!("tcp dport {} drop\n", 1000 + n)).collect();
    raw(&format!("{others}udp dport 9 drop"))
}

/// Chains at one priority after the other, each with some rules that do not match; the last one
/// drops.
fn chains(count: usize) -> String {
    let chain = |n: usize| {
        let last = if n + 1 == count { "udp dport 9 drop" } else { "" };
        let others: String =
            (0..4).map(|rule| format!("udp dport {} drop\n", 100 * n + rule)).collect();
        let priority = PRIORITY + n as i32;
        format!(
            "chain c{n} {{ type filter hook prerouting priority {priority};\n{others}{last}\n}}\n"
        )
    };
    format!("table ip t {{\n{}}}\n", (1..=count).map(|n| chain(n - 1)).collect::<String>())
}

/// The rules as programs in the place of the rules: one for each chain, or one for all.
fn attached(mut lab: Lab, rules: &str, together: bool) -> Result<Lab> {
    let linked = Linked::new(&ruleset(rules).generation()).map_err(|e| e.to_string())?;
    let mut bases: Vec<_> = linked.bases.iter().collect();
    bases.sort_by_key(|base| base.base.priority);
    for part in bases.chunks(if together { bases.len() } else { 1 }) {
        let entries: Vec<_> = part.iter().map(|base| Entry::Ip(base.chain)).collect();
        let job = Job {
            image: &linked.image,
            entries: &entries,
            place: Place::Netfilter(HOOK),
            next: &Next::Pass,
            shared: None,
            routes: None,
        };
        let compiled = compile(job).map_err(|e| e.to_string())?;
        let (program, _) = compiled.load("bench_hook").map_err(|e| e.to_string())?;
        let priority = part.first().map_or(PRIORITY, |base| base.base.priority);
        lab.attach_netfilter(HOOK, priority, &program)?;
    }
    Ok(lab)
}

/// A program that drops everything.
fn bare(mut lab: Lab) -> Result<Lab> {
    let mut asm = Asm::new();
    asm.exit_with(DROP);
    let code = asm.finish().map_err(|e| e.to_string())?;
    let program =
        Program::load(ProgramKind::Netfilter, "bench_drop", &code).map_err(|e| e.to_string())?;
    lab.attach_netfilter(HOOK, PRIORITY, &program)?;
    Ok(lab)
}

/// All variants. What it makes is gone when they are.
///
/// # Errors
/// A sentence that says which rights or tools are missing.
pub(crate) fn variants() -> Result<Vec<Variant>> {
    let bounds = Rc::new(Bounds::new()?);
    let mut all = Vec::new();
    let mut variant = |name: &str, against: Option<&'static str>, lab: Lab| {
        all.push(sending(&bounds, name, against, lab, 1, "r0")?);
        Ok::<_, String>(())
    };
    for (nft, bpf, rules) in [
        ("nft-1", "bpf-1", linear(1, "")),
        ("nft-20", "bpf-20", linear(20, "")),
        ("nft-ports-20", "bpf-ports-20", ports(20)),
        ("nft-counters-20", "bpf-counters-20", linear(20, "counter ")),
    ] {
        let lab = Lab::new(&bounds)?;
        lab.nft(&rules)?;
        variant(nft, None, lab)?;
        variant(bpf, Some(nft), attached(Lab::new(&bounds)?, &rules, true)?)?;
    }
    for (nft, each, all, count) in [
        ("nft-4-chains", "bpf-4-chains", "translated-4-chains", 4),
        ("nft-8-chains", "bpf-8-chains", "translated-8-chains", 8),
    ] {
        let (rules, lab) = (chains(count), Lab::new(&bounds)?);
        lab.nft(&rules)?;
        variant(nft, None, lab)?;
        variant(each, Some(nft), attached(Lab::new(&bounds)?, &rules, false)?)?;
        variant(all, Some(nft), attached(Lab::new(&bounds)?, &rules, true)?)?;
    }
    variant("bpf-drop", Some("nft-1"), bare(Lab::new(&bounds)?)?)?;
    Ok(all)
}
