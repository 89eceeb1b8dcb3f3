// SPDX-License-Identifier: Apache-2.0

//! The kernel's side of cases that Penstock is measured with, too.

use std::collections::HashSet;
use std::rc::Rc;

use penstock_bpf::asm::Asm;
use penstock_bpf::{AttachPoint, Program};

use super::generator::Generator;
use super::lab::{self, Bounds, Lab};
use super::{Result, sent_by};
use crate::Variant;
use crate::published::{Case, With};
use crate::router::{Fate, answer};

/// A tunnel from r1 to the host behind it.
const TUNNEL: &str = "\
route add 203.0.113.0/24 via 198.19.0.7
xfrm state add src 198.19.0.1 dst 198.19.0.7 proto esp spi 1 reqid 1 mode tunnel \
aead rfc4106(gcm(aes)) 0x0707070707070707070707070707070707070707 128
xfrm policy add src 198.18.0.0/16 dst 203.0.113.0/24 dir out \
tmpl src 198.19.0.1 dst 198.19.0.7 proto esp reqid 1 mode tunnel
";

/// A classifier that passes everything on (`TCX_NEXT`, include/uapi/linux/bpf.h).
fn classifier() -> Result<Program> {
    let mut asm = Asm::new();
    asm.exit_with(-1);
    let code = asm.finish().map_err(|e| e.to_string())?;
    Program::load(AttachPoint::Tcx, "bench_next", &code).map_err(|e| e.to_string())
}

/// Sends the frames and their answers until a flowtable of the kernel has all flows.
fn offloaded(lab: &Lab, frames: &[Vec<u8>]) -> Result<()> {
    const TRIES: usize = 100;
    let flows = frames.iter().collect::<HashSet<_>>().len();
    let back: Vec<_> = frames
        .iter()
        .map(|frame| {
            let mut back = answer(frame.clone());
            back[..6].copy_from_slice(&lab::R1);
            back[6..12].copy_from_slice(&lab::BEHIND);
            back
        })
        .collect();
    let mut there = Generator::repeating(lab, "a0", frames)?;
    let mut back = Generator::repeating(lab, "b0", &back)?;
    for _ in 0..TRIES {
        there.send(frames.len() as u32)?;
        back.send(frames.len() as u32)?;
        if lab.kernel_flows()? == flows {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err("flows do not get into the flowtable".into())
}

fn variant(bounds: &Rc<Bounds>, name: &str, case: &Case) -> Result<Variant> {
    let mut lab = Lab::new(bounds)?;
    let rules = case.rules.replace("lan", "r0").replace("wan", "r1");
    match case.with {
        With::Iptables => lab.iptables("-t raw -A PREROUTING -p udp --dport 9 -j DROP")?,
        _ if rules.is_empty() => {}
        _ => lab.nft(&rules)?,
    }
    match case.with {
        With::Nothing | With::Iptables => {}
        With::Classifier => lab.attach_egress("r1", &classifier()?)?,
        With::Flowtable => offloaded(&lab, &case.frames)?,
        With::Esp => lab.ip(TUNNEL)?,
    }
    let generator = Generator::repeating(&lab, "a0", &case.frames)?;
    let end = if case.fate == Fate::Sent { "b0" } else { "r0" };
    sent_by(bounds, name, None, lab, generator, end)
}

/// The kernel's variants of cases that can be measured here; why others cannot is said.
pub(crate) fn variants(cases: &[Case]) -> Vec<Variant> {
    let without = |what: &str, why: String| {
        // What a tool says has lines of its own.
        let why = why.lines().next().unwrap_or_default();
        eprintln!("penstock bench seeds: without {what}: {why}");
    };
    let bounds = match Bounds::new() {
        Ok(bounds) => Rc::new(bounds),
        Err(why) => {
            without("the kernel's figures", why);
            return Vec::new();
        }
    };
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for case in cases {
        let Some(name) = case.kernel.filter(|name| seen.insert(*name)) else { continue };
        match variant(&bounds, name, case) {
            Ok(variant) => all.push(variant),
            Err(why) => without(name, why),
        }
    }
    all
}
