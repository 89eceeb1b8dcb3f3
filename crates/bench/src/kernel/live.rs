// SPDX-License-Identifier: Apache-2.0

//! Forwarding by `penstock up` on the devices of a lab, against the kernel's own: small frames of
//! established flows.
//!
//! Everything runs on one processor, and all of it is counted: making the frames, the kernel's
//! part, and our process. The figure is the number of frames forwarded per second of processor
//! time, including the kernel's.

use std::rc::Rc;
use std::thread;
use std::time::Duration;

use super::generator::{Frames, Generator};
use super::lab::{Bounds, Lab};
use super::process::{Process, up};
use super::{FLOWS, Result, STATEFUL};
use crate::Variant;

/// Packets per call, and in flight at a time: fewer than the rings of sockets hold.
const PACKETS: u64 = 8192;
const ON_THEIR_WAY: u64 = 1024;

/// Pauses until packets in flight have arrived. Processor time of other processes is not counted.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSES: u32 = 2000;

/// Established flows leave the rules.
pub(super) const FLOWTABLE: &str = "table ip t {
    flowtable f { hook early_ingress priority 0; devices = { w0, w1 }; }
    chain c { type filter hook forward priority 0; ct state established flow add @f
      ct state established,related accept; }; }\n";

/// All variants. What it makes is gone when they are.
///
/// # Errors
/// A sentence that says which rights or tools are missing.
pub(crate) fn variants() -> Result<Vec<Variant>> {
    const KERNEL: &str = "kernel-ct-10k";
    let bounds = Rc::new(Bounds::new()?);
    let mut all = Vec::new();
    let mut variant = |name: &str, driver: Option<&str>, rules: &str| -> Result<()> {
        let lab = Lab::new(&bounds)?;
        lab.ends_poll()?;
        let path = match driver {
            Some(driver) => Some(up(&lab, driver, rules)?),
            None => {
                lab.nft(rules)?;
                None
            }
        };
        let mut stream = Stream::new(lab)?;
        stream.establish().map_err(|what| format!("{name}: {what}"))?;
        let clock = path.as_ref().map(Process::clock);
        let deferred = bounds.clone();
        let made = Variant::new(name, PACKETS, move || {
            // Ends before its namespace.
            let _ = &path;
            stream.send(PACKETS);
        })
        .with_others(move || {
            deferred.deferred() + clock.map_or(Duration::ZERO, |clock| clock.time())
        });
        all.push(if name == KERNEL { made } else { made.against(KERNEL) });
        Ok(())
    };
    variant(KERNEL, None, STATEFUL)?;
    for driver in ["xdp", "packet"] {
        variant(&format!("{driver}-ct-10k"), Some(driver), STATEFUL)?;
        variant(&format!("{driver}-flowtable-10k"), Some(driver), FLOWTABLE)?;
    }
    Ok(all)
}

/// Sends frames into a lab, as many at a time as it accepts.
pub(super) struct Stream {
    // Before the namespace.
    there: Generator,
    back: Generator,
    lab: Lab,
}

impl Stream {
    pub(super) fn new(lab: Lab) -> Result<Self> {
        let there = Generator::new(&lab, "a0", FLOWS, Frames::Change, false)?;
        let back = Generator::new(&lab, "b0", FLOWS, Frames::Change, true)?;
        Ok(Stream { there, back, lab })
    }

    /// Where it went.
    pub(super) fn into_lab(self) -> Lab {
        self.lab
    }

    /// Sends so many. What does not arrive makes the figure worse.
    fn send(&mut self, packets: u64) {
        let mut left = packets;
        while left > 0 {
            let some = left.min(ON_THEIR_WAY);
            let _ = arrive(&mut self.there, &self.lab, "b0", some);
            left -= some;
        }
    }

    /// A packet of each flow in both directions, and the first one again: then they are
    /// established.
    pub(super) fn establish(&mut self) -> Result<()> {
        for _ in 0..2 {
            for (generator, end) in [(&mut self.there, "b0"), (&mut self.back, "a0")] {
                let mut left = u64::from(FLOWS);
                while left > 0 {
                    let some = left.min(ON_THEIR_WAY);
                    arrive(generator, &self.lab, end, some)?;
                    left -= some;
                }
            }
        }
        Ok(())
    }
}

/// Sends frames until so many have arrived.
fn arrive(generator: &mut Generator, lab: &Lab, end: &str, packets: u64) -> Result<()> {
    const TRIES: u32 = 10;
    let wanted = lab.arrived(end)? + packets;
    let mut missing = packets;
    for _ in 0..TRIES {
        generator.send(missing as u32)?;
        let mut before = 0;
        for _ in 0..PAUSES {
            let now = lab.arrived(end)?;
            missing = wanted.saturating_sub(now);
            if missing == 0 {
                return Ok(());
            }
            if now == before {
                thread::sleep(PAUSE);
            } else {
                thread::yield_now();
            }
            before = now;
        }
    }
    Err(format!("{missing} frames do not arrive at {end}"))
}
