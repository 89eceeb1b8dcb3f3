// SPDX-License-Identifier: Apache-2.0

//! What is taken, written down for the case that this process and its guardian end together:
//! `penstock down`, or the next `penstock up`, gives the devices back by it.
//!
//! ```text
//! \x7fpenstock-ports\0, version (1 byte), CRC-32C of what follows (u32, little-endian), Record (postcard)
//! ```
//!
//! The TAPs, and all that stands on them, disappear with the process. So addresses, routes and the
//! like are written down as well, by the thread that follows the kernel's network, soon after they
//! change.

use std::io;
use std::time::{Duration, Instant};

use penstock_netlink::{Kept, Socket, State};
use penstock_wire::checksum::Crc32c;
use serde::{Deserialize, Serialize};

use crate::config::OnDeath;
use crate::devices::takeover::{Taken, WrittenPort};
use crate::log;
use crate::rundir::{self, RunDir};

const MAGIC: &[u8] = b"\x7fpenstock-ports\0";
const VERSION: u8 = 4;

/// What is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What happens to the ports.
    pub(crate) on_death: OnDeath,
    /// When it was written: seconds since the machine was started.
    pub(crate) written: u64,
    /// The ports, and what they have.
    pub(crate) ports: Vec<WrittenPort>,
}

/// Seconds since boot, including those asleep: lifetimes of addresses continue during sleep.
fn seconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time, which lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec as u64
}

/// The name of the file of this network namespace.
fn name() -> io::Result<String> {
    rundir::name("ports")
}

fn checksum(bytes: &[u8]) -> u32 {
    Crc32c::new().bytes(bytes).finish()
}

impl Record {
    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let body = postcard::to_stdvec(self).map_err(io::Error::other)?;
        Ok([MAGIC, &[VERSION], &checksum(&body).to_le_bytes(), &body].concat())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Record, &'static str> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it is not one")?;
        let (version, rest) = rest.split_first().ok_or("it is cut short")?;
        if *version != VERSION {
            return Err("it is of another version of penstock");
        }
        let (sum, body) = rest.split_first_chunk::<4>().ok_or("it is cut short")?;
        if checksum(body) != u32::from_le_bytes(*sum) {
            return Err("its checksum is wrong");
        }
        postcard::from_bytes(body).map_err(|_| "it makes no sense")
    }

    /// Reads it; without a record nothing was taken. The error is a sentence.
    pub(crate) fn read() -> Result<Option<Record>, String> {
        let name = name().map_err(|e| format!("the record of what is taken: {e}"))?;
        let directory = RunDir::get()?;
        let told = |e: &dyn std::fmt::Display| {
            let path = directory.path(&name);
            format!(
                "{}: the record of the devices of an earlier dataplane: {e}\nRestore devices with names that end in \
                 `.port` by hand; then remove the file.",
                path.display()
            )
        };
        match directory.read(&name) {
            Ok(bytes) => Record::from_bytes(&bytes).map(Some).map_err(|e| told(&e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(told(&e)),
        }
    }

    /// Seconds since it was written.
    pub(crate) fn age(&self) -> u32 {
        seconds().saturating_sub(self.written).min(u32::MAX.into()) as u32
    }

    fn write(&self) -> io::Result<()> {
        RunDir::get().map_err(io::Error::other)?.replace(&name()?, &self.to_bytes()?)
    }
}

/// Removes it: all devices are returned.
pub(crate) fn remove() {
    if let (Ok(directory), Ok(name)) = (RunDir::get(), name()) {
        directory.remove(&name);
    }
}

/// When a port is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the device is taken: it still has its configuration.
    Before,
    /// While it is taken: its TAP has it.
    During,
    /// When it is about to be returned: its TAP still has it.
    Ending,
}

/// Writes the record, not more often than is good for the rest.
pub(crate) struct Recorder {
    on_death: OnDeath,
    /// When it is written next.
    due: Option<Instant>,
    /// No sooner than then.
    earliest: Instant,
}

impl Recorder {
    pub(crate) fn new(on_death: OnDeath) -> Recorder {
        Recorder { on_death, due: None, earliest: Instant::now() }
    }

    /// Something has changed.
    pub(crate) fn note(&mut self) {
        self.due.get_or_insert(self.earliest.max(Instant::now()));
    }

    /// Time until it must be written; `None` without a change. Other work (`busy`) comes first for
    /// some time.
    pub(crate) fn due_in(&self, busy: bool) -> Option<Duration> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let due = self.due? + if busy { PATIENCE } else { Duration::ZERO };
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Writes it now.
    pub(crate) fn write(&mut self, socket: &mut Socket, state: &State, ports: &[(&Taken, When)]) {
        /// Part of the time that this may take, and the shortest time from one to the next.
        const SHARE: u32 = 10;
        const PAUSE: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        self.due = None;
        let has = |(t, when): &(&Taken, When)| match when {
            When::Before => t.device,
            When::During | When::Ending => t.tap,
        };
        let indexes: Vec<u32> = ports.iter().map(has).collect();
        let written = Kept::read(socket, state, &indexes).and_then(|kept| {
            let written = |((taken, when), kept): (&(&Taken, When), Kept)| WrittenPort {
                taken: (*taken).clone(),
                // The neighbour's device keeps what it has; the port is gone.
                kept: if taken.end.is_some() { Kept::default() } else { kept },
                moving: *when != When::During,
            };
            let ports = ports.iter().zip(kept).map(written).collect();
            Record { on_death: self.on_death.clone(), written: seconds(), ports }.write()
        });
        if let Err(e) = written {
            log(format_args!("what is taken cannot be written down: {e}"));
        }
        self.earliest = Instant::now() + (begun.elapsed() * SHARE).max(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_whole_or_refused() {
        let record = Record {
            on_death: OnDeath::Ruleset("/etc/x.nft".into()),
            written: 7,
            ports: Vec::new(),
        };
        let bytes = record.to_bytes().expect("bytes");
        assert_eq!(Record::from_bytes(&bytes), Ok(record));
        for at in 0..bytes.len() {
            assert!(Record::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1 << bit;
                assert!(Record::from_bytes(&wrong).is_err(), "bit {bit} of {at}");
            }
        }
    }
}
