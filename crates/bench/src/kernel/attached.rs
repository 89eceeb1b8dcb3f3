// SPDX-License-Identifier: Apache-2.0

//! Rulesets that `penstock attach` runs in the kernel, against the same rulesets in nf_tables.

use std::rc::Rc;

use penstock_testkit::classbench::{self, Header, Kind, narrow_first};

use super::generator::{self, Generator, Visitors};
use super::lab::{Bounds, Lab};
use super::{FLOWS, Result, answered, sending, sent_by};
use crate::Variant;

/// Addresses of a blocklist.
const BLOCKED: u32 = 100_000;

/// A chain at ingress that drops by a set of addresses, of which the frames have one.
fn blocklist() -> String {
    let addresses: String =
        (0..BLOCKED).map(|n| format!("11.{}.{}.{}, ", n >> 16, n >> 8 & 255, n & 255)).collect();
    format!(
        "table netdev t {{\nset bad {{ type ipv4_addr; elements = {{ {addresses}198.18.0.7 }}; }}\n\
         chain c {{ type filter hook ingress device r0 priority 0; ip saddr @bad drop; }}\n}}\n"
    )
}

/// A stateful firewall in front of a network: established connections, a blocklist, twenty rules.
fn firewall() -> String {
    let addresses: String = (0..1000).map(|n| format!("11.0.{}.{}, ", n >> 8, n & 255)).collect();
    let rules: String = (0..20)
        .map(|n| format!("ip saddr 203.0.113.{n} tcp dport {} ct state new accept\n", 1000 + n))
        .collect();
    format!(
        "table inet t {{\nset bad {{ type ipv4_addr; elements = {{ {addresses} }}; }}\n\
         chain c {{ type filter hook forward priority 0; policy drop;\n\
         ip saddr @bad counter drop\nct state established,related counter accept\n\
         {rules}udp dport 9 accept\nicmp type echo-request accept\n}}\n}}\n"
    )
}

/// The same in front of the router itself: at a hook, with its policy.
fn host(hook: &str) -> String {
    let blocked = generator::BLOCKED;
    let addresses: String = (0..1000).map(|n| format!("11.0.{}.{}, ", n >> 8, n & 255)).collect();
    let rules: String = (0..20)
        .map(|n| format!("ip saddr 203.0.113.{n} tcp dport {} ct state new accept\n", 1000 + n))
        .collect();
    format!(
        "table inet t {{\nset bad {{ type ipv4_addr; elements = {{ {addresses} 198.18.{}.{} }}; }}\n\
         chain c {{ type filter hook {hook} priority 0; policy drop;\n\
         ip saddr @bad counter drop\nct state established,related counter accept\n\
         {rules}udp dport {} accept\nicmp type echo-request accept\n}}\n}}\n",
        blocked >> 8,
        blocked & 255,
        generator::OPEN
    )
}

/// Rules of a list.
const RULES: usize = 10_000;

/// A list in the style of ClassBench at ingress that counts and drops what it meets, and headers
/// that lie in rules all over it.
fn list(kind: Kind) -> (String, Vec<Header>) {
    let rules = narrow_first(classbench::rules(kind, RULES, 1));
    let text: String = rules.iter().map(|rule| format!("{rule} counter drop\n")).collect();
    (super::ingress(&text), classbench::traffic(&rules, HEADERS, 2))
}

/// Different headers.
const HEADERS: usize = 8192;

/// A router with a server, and its connections.
fn serving(mut lab: Lab) -> Result<Lab> {
    let mut visitors = Generator::visiting(&lab, FLOWS, Visitors::Known)?;
    visitors.send(u32::from(FLOWS))?;
    let first = generator::FIRST_PORT;
    lab.serve(generator::OPEN, first..first + FLOWS)?;
    Ok(lab)
}

/// All variants. What it makes is gone when they are.
///
/// # Errors
/// A sentence that says which rights or tools are missing.
pub(crate) fn variants() -> Result<Vec<Variant>> {
    let bounds = Rc::new(Bounds::new()?);
    let mut all = Vec::new();
    let mut variant =
        |name: &str, against: Option<&'static str>, lab: Lab, flows: u16, end: &'static str| {
            all.push(sending(&bounds, name, against, lab, flows, end)?);
            Ok::<_, String>(())
        };
    let in_kernel = |rules: &str| -> Result<Lab> {
        let lab = Lab::new(&bounds)?;
        lab.nft(rules)?;
        Ok(lab)
    };
    let attached = |rules: &str, devices: &[&str]| -> Result<Lab> {
        let mut lab = Lab::new(&bounds)?;
        lab.run_attached(rules, devices)?;
        Ok(lab)
    };
    let rules = blocklist();
    variant("nft-blocklist", None, in_kernel(&rules)?, 1, "r0")?;
    for (name, place) in [("xdp-blocklist", "r0=xdp"), ("tcx-blocklist", "r0=tcx")] {
        variant(name, Some("nft-blocklist"), attached(&rules, &[place])?, 1, "r0")?;
    }
    let rules = firewall();
    variant("nft-firewall", None, answered(in_kernel(&rules)?)?, FLOWS, "b0")?;
    let own = answered(attached(&rules, &[])?)?;
    variant("attached-firewall", Some("nft-firewall"), own, FLOWS, "b0")?;
    for (kind, nft) in [
        (Kind::AccessControl, "nft-acl-10k"),
        (Kind::Firewall, "nft-fw-10k"),
        (Kind::IpChain, "nft-ipc-10k"),
    ] {
        let (rules, headers) = list(kind);
        for place in ["nft", "xdp", "tcx"] {
            let name = format!("{place}-{}-10k", kind.name());
            let (lab, against) = match place {
                "nft" => (in_kernel(&rules)?, None),
                _ => (attached(&rules, &[&format!("r0={place}")])?, Some(nft)),
            };
            let generator = Generator::listed(&lab, &headers)?;
            all.push(sent_by(&bounds, &name, against, lab, generator, "r0")?);
        }
    }
    for (traffic, visitors, nft) in [
        ("known", Visitors::Known, "nft-host-known"),
        ("strangers", Visitors::Strangers, "nft-host-strangers"),
        ("blocked", Visitors::Blocked, "nft-host-blocked"),
    ] {
        for place in ["nft", "xdp", "tcx"] {
            let name = format!("{place}-host-{traffic}");
            let (lab, against) = match place {
                "nft" => (in_kernel(&host("input"))?, None),
                _ => {
                    let rules = host("ingress device r0");
                    (attached(&rules, &[&format!("r0={place}")])?, Some(nft))
                }
            };
            let lab = serving(lab)?;
            let generator = Generator::visiting(&lab, FLOWS, visitors)?;
            all.push(sent_by(&bounds, &name, against, lab, generator, "r0")?);
        }
    }
    Ok(all)
}
