// SPDX-License-Identifier: Apache-2.0

//! The tables that the work on nf_tables has published, again: each case with the published figure,
//! that of the kernel of this machine, and ours.
//!
//! Kernel and Penstock get the same rules and frames, by turns. Published figures are of other
//! machines and kernels. The kernel's figure here is a processor's whole time for a frame from one
//! veth device to another (`kernel`); ours is that of the packet path in memory. Where this kernel
//! lacks what a case needs, or rights are missing, its column stays empty, and a note says why.

use std::rc::Rc;

use penstock_dataplane::Settings;

use crate::flow::NET;
use crate::frames::{Frames, tcp_flow};
use crate::published::{self, Case, With};
use crate::router::{Fate, Router, ruleset};
use crate::{Scale, Variant, esp, kernel};

/// A router of ours that is ready, as something to measure.
fn ours(case: &Case) -> Box<dyn FnMut()> {
    let frames = Rc::new(Frames::hot(case.frames.iter().cloned()));
    let router = Router::between(NET, Settings::default(), &ruleset(&case.rules));
    match case.with {
        With::Nothing | With::Iptables if case.walked => {
            Box::new(router.indirect().sending(&frames, case.fate))
        }
        With::Nothing | With::Iptables => Box::new(router.sending(&frames, case.fate)),
        With::Classifier => {
            let tc = "qdisc add dev wan clsact\nfilter add dev wan egress protocol all matchall action ok";
            Box::new(router.tc(tc).sending(&frames, case.fate))
        }
        With::Flowtable => {
            let tcp = case.frames.iter().any(|frame| frame[23] == 6);
            let mut router = match tcp {
                true => router.shaken(&Frames::hot([tcp_flow(0, [198, 19, 0, 7], 9)].into_iter())),
                false => router.answered(&frames),
            };
            // The second packet of a flow is the first that can be offloaded.
            (0..2).for_each(|_| router.check(&frames, Fate::Sent));
            Box::new(router.sending_fast(&frames))
        }
        With::Esp if case.kernel.is_some() => esp::normal(&frames, None),
        With::Esp => esp::offloaded(&frames, None),
    }
}

/// Ours with the kernel's variants, where this kernel has what they need.
pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let cases = published::all(scale);
    let mut all = kernel::seeds::variants(&cases);
    all.extend(cases.iter().map(|case| {
        let variant = Variant::new(case.name, case.frames.len() as u64, ours(case));
        Variant { against: case.kernel, ..variant.published(case.published) }
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`ours`] checks that each frame has its fate.
    #[test]
    fn elements_are_those_that_frames_are_for() {
        for case in published::concatenations(Scale::Reduced) {
            ours(&case)();
        }
    }
}
