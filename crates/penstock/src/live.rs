// SPDX-License-Identifier: Apache-2.0

//! Devices of this machine, and the dataplane that runs in this network namespace.
//!
//! A [`Tap`] gives a program the frames that the kernel sends by a device, and takes others: with
//! two of them and a [`Dataplane`](crate::Dataplane) between, a program is a router (the example
//! `nat`). A [`Daemon`] is a connection to a `penstock up`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use penstock_daemon::control::client::Client;
use penstock_daemon::control::protocol::Message;
use penstock_io::device;

use crate::{Error, MAX_FRAME};

/// The program's end of a TAP, a device of the kernel that is a file here.
#[derive(Debug)]
pub struct Tap {
    inner: device::Tap,
    buffer: Vec<u8>,
}

impl Tap {
    /// Makes a TAP of this name, or opens one that is there and that nobody else has open. The
    /// device is gone when this is dropped, unless somebody has made it persistent.
    ///
    /// # Errors
    /// [`Error::System`]: without `CAP_NET_ADMIN`, or the right to this device, `EPERM`.
    pub fn open(name: &str) -> Result<Tap, Error> {
        let inner = device::Tap::open(name).map_err(Error::System)?;
        Ok(Tap { inner, buffer: vec![0; MAX_FRAME + device::Tap::HEADER] })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}
