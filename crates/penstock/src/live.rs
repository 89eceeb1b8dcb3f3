// SPDX-License-Identifier: Apache-2.0

//! Devices of this machine, and the dataplane that runs in this network namespace.
//!
//! A [`Tap`] gives a program the frames that the kernel sends by a device, and takes others: with
//! two of them and a [`Dataplane`](crate::Dataplane) between, a program is a router (the example
//! `nat`). [`Daemon`] is a connection to a running `penstock up`.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use penstock_daemon::control::client::Client;
use penstock_daemon::control::protocol::Message;
use penstock_io::device::{TapRx, TapTx};

use crate::Error;

/// The program's end of a TAP, a device of the kernel that is a file here.
pub struct Tap {
    rx: TapRx,
    tx: TapTx,
    name: String,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tap {
    /// Creates a TAP of this name, or opens an existing one that is not open elsewhere. The device
    /// is gone when this is dropped, unless it was made persistent.
    ///
    /// # Errors
    /// [`Error::System`]: without `CAP_NET_ADMIN`, or the right to this device, `EPERM`; `EBUSY` if
    /// another program has it.
    pub fn open(name: &str) -> Result<Tap, Error> {
        let open = || {
            let tap = penstock_io::device::Tap::open(name)?;
            // Checksums are whole, and no packet is larger than a frame.
            tap.set_offloads(false)?;
            let name = tap.name().to_owned();
            Ok(Tap { tx: TapTx::new(tap.try_clone()?), rx: TapRx::new(tap)?, name })
        };
        open().map_err(Error::System)
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives `take` the frames that the kernel has sent by the device, at most 64, without waiting
    /// for any. Returns how many.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let count = self.rx.fetch();
        for frame in (0..count).filter_map(|i| self.rx.frame(i)) {
            take(frame.bytes);
        }
        count
    }

    /// Gives the kernel a frame, as one that the device has received; at the latest with the next
    /// [`Tap::flush`]. Where the device is down, or its queue full, it is lost.
    pub fn send(&mut self, frame: &[u8]) {
        self.tx.send(frame, None);
    }

    /// Gives the kernel all frames that were sent.
    pub fn flush(&mut self) {
        self.tx.flush();
    }

    /// Waits until the kernel has sent something by one of the devices, or the time is over.
    /// Whether something is there.
    ///
    /// # Errors
    /// [`Error::System`], those of poll(2).
    pub fn wait(taps: &[Tap], time: Duration) -> Result<bool, Error> {
        let files: Vec<BorrowedFd<'_>> = taps.iter().map(AsFd::as_fd).collect();
        let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        let ready = penstock_io::device::wait(&files, &mut Vec::new(), milliseconds);
        ready.map(|count| count > 0).map_err(Error::System)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rx.as_fd()
    }
}

/// The dataplane that `penstock up` runs in this network namespace.
#[derive(Debug)]
pub struct Daemon {
    client: Client,
}

impl Daemon {
    /// Connects. `None` if no dataplane runs here.
    ///
    /// # Errors
    /// [`Error::System`]: the user may not ask, or another user's dataplane runs here.
    pub fn connect() -> Result<Option<Daemon>, Error> {
        let client = Client::connect().map_err(Error::System)?;
        Ok(client.map(|client| Daemon { client }))
    }

    /// Runs commands as `penstock nft` with these arguments does: `["list", "ruleset"]`,
    /// `["-j", "list ruleset"]`, `["add rule …"]`. Returns what is for standard output. A
    /// connection is for one call.
    ///
    /// # Errors
    /// [`Error::System`] with what is for standard error.
    pub fn nft(mut self, arguments: &[&str]) -> Result<String, Error> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.client.text(&Message::Nft(arguments)).map_err(Error::System)
    }
}
