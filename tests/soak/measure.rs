// SPDX-License-Identifier: Apache-2.0

//! What must stay level and what must add up: memory, descriptors, threads and BPF objects of the
//! dataplane's processes, and the account of its packets.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::lab::{Lab, NAMES};

/// Figures of the dataplane and of the processes that stay with it, at a quiet moment.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Minutes since the soak began.
    pub at: f64,
    /// Kilobytes in memory, and of address space.
    pub rss: u64,
    pub vm: u64,
    /// Bytes that no other process has, of the dataplane alone, in kilobytes.
    pub private: u64,
    pub processes: u64,
    pub threads: u64,
    pub descriptors: u64,
    /// Descriptors of timers.
    pub timers: u64,
    /// Descriptors of BPF programs, maps and links.
    pub bpf: u64,
    pub connections: u64,
    pub flows: u64,
    pub waiting: u64,
    /// Packets that came and went since the dataplane began.
    pub packets: u64,
}

/// All processes that a process has started, itself first.
pub fn family(pid: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program stands in parentheses and may hold anything.
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(of) = all.get(at) {
        all.extend(children.get(of).into_iter().flatten());
        at += 1;
    }
    all
}

/// The guardian of a dataplane.
pub fn guardian(pid: u32) -> Option<u32> {
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    family(pid).into_iter().skip(1).find(|pid| name(pid).trim() == "penstock-guard")
}

fn line(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// What `penstock show --json` says.
pub fn shown(lab: &Lab) -> Option<Value> {
    let (shown, said) = lab.in_r("$PENSTOCK show --json");
    if shown { serde_json::from_str(&said).ok() } else { None }
}

impl Figures {
    /// Measures the dataplane now.
    pub fn take(lab: &Lab, at: f64, shown: &Value) -> Figures {
        let mut figures = Figures { at, ..Figures::default() };
        let main = lab.net.pid();
        for pid in family(main) {
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
            // They come and go with clients, and have most of their memory from the evaluator.
            if status.starts_with("Name:\tpenstock-nft\n")
                || status.starts_with("Name:\tpenstock-ready\n")
            {
                continue;
            }
            figures.processes += 1;
            figures.rss += line(&status, "VmRSS:");
            figures.vm += line(&status, "VmSize:");
            figures.threads += line(&status, "Threads:");
            if pid == main {
                let rollup =
                    fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
                figures.private = line(&rollup, "Private_Dirty:");
            }
            for fd in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                figures.descriptors += 1;
                let to =
                    fs::read_link(fd.path()).unwrap_or_default().to_string_lossy().into_owned();
                figures.timers += u64::from(to.contains("timerfd"));
                figures.bpf += u64::from(to.contains("bpf"));
            }
        }
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        figures.connections = number(&shown["connections"]);
        figures.flows = number(&shown["flows"]["count"]);
        figures.waiting = number(&shown["account"]["waiting"]);
        figures.packets =
            number(&shown["account"]["received"]) + number(&shown["account"]["from_host"]);
        figures
    }

    /// Heads of the columns of [`Figures::row`].
    pub fn head() -> String {
        format!(
            "{:>7} {:>9} {:>9} {:>9} {:>5} {:>4} {:>5} {:>5} {:>4} {:>7} {:>6} {:>7} {:>10}",
            "minute",
            "rss KB",
            "priv KB",
            "vm KB",
            "procs",
            "thr",
            "fds",
            "timer",
            "bpf",
            "conns",
            "flows",
            "waiting",
            "packets"
        )
    }

    pub fn row(&self) -> String {
        let Figures { at, rss, private, vm, processes, threads, descriptors, timers, bpf, .. } =
            self;
        let Figures { connections, flows, waiting, packets, .. } = self;
        format!(
            "{at:>7.1} {rss:>9} {private:>9} {vm:>9} {processes:>5} {threads:>4} {descriptors:>5} {timers:>5} {bpf:>4} \
             {connections:>7} {flows:>6} {waiting:>7} {packets:>10}"
        )
    }
}

/// Why packets do not add up, if they do not: what came is what went, as the path counts it, at its
/// ports, and as the kernel has counted it at the TAPs.
pub fn unbalanced(lab: &Lab, shown: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let account = &shown["account"];
    if account["missing"].as_i64() != Some(0) {
        wrong.push(format!("came and went: {account}"));
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let ports = shown["ports"].as_array().cloned().unwrap_or_default();
    let sent: u64 = ports.iter().map(|p| number(&p["sent"]["frames"])).sum();
    let elsewhere = number(&shown["elsewhere"]);
    if sent + elsewhere != number(&account["transmitted"]) {
        wrong.push(format!(
            "transmitted {}, sent by ports {sent}, elsewhere {elsewhere}",
            account["transmitted"]
        ));
    }
    let (_, links) = lab.in_r("cat /proc/net/dev");
    for name in NAMES {
        let Some(port) = ports.iter().find(|p| p["name"] == name) else {
            wrong.push(format!("{name}: no such port"));
            continue;
        };
        let Some(counted) = links.lines().find_map(|l| l.trim().strip_prefix(&format!("{name}:")))
        else {
            wrong.push(format!("{name}: no such device"));
            continue;
        };
        let columns: Vec<u64> = counted.split_whitespace().filter_map(|c| c.parse().ok()).collect();
        let (received, sent) =
            (columns.get(1).copied().unwrap_or(0), columns.get(9).copied().unwrap_or(0));
        let given = number(&port["to_host"]["frames"]) - number(&port["host_refused"]);
        let taken = number(&port["from_host"]["frames"]);
        if received != given || sent != taken {
            wrong.push(format!(
                "{name}: the host has received {received} frames of {given} and sent {sent}, of which {taken} came"
            ));
        }
    }
    wrong
}

/// The least of a figure.
pub fn least(some: &[Figures], read: impl Fn(&Figures) -> u64) -> u64 {
    some.iter().map(read).min().unwrap_or(0)
}

/// Kilobytes per minute by which a figure grows over the second half of a run: by the least of
/// either part of it, since what is there for a moment, clients and their processes, comes on top.
pub fn growth(all: &[Figures], read: impl Fn(&Figures) -> u64) -> f64 {
    let half = &all[all.len() / 2..];
    let (before, after) = half.split_at(half.len() / 2);
    let least = |some| least(some, &read) as f64;
    let middle =
        |some: &[Figures]| some.iter().map(|f| f.at).sum::<f64>() / some.len().max(1) as f64;
    let minutes = middle(after) - middle(before);
    if minutes > 0.0 { (least(after) - least(before)) / minutes } else { 0.0 }
}
