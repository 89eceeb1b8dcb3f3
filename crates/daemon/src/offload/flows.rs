// SPDX-License-Identifier: Apache-2.0

//! The program that forwards flows, on a port.

use std::os::fd::AsFd;
use std::sync::Arc;

use penstock_bpf::{AttachPoint, Link, LoadError, Mode, Program, SocketFilter};
use penstock_ebpf::flow::{Flows, Site};

use super::{OffloadPort, Receives};

/// What forwards flows on a device, until it is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(super) program: Program,
    /// `None` where it stands in front of AF_XDP sockets, by their link.
    pub(super) link: Option<Link>,
}

impl OffloadPort {
    fn site(&self) -> Site {
        let place = self.place();
        let (next, claims) = match place {
            AttachPoint::Xdp => (self.behind_flows(), None),
            AttachPoint::Tcx => (self.rest(), Some(Site::claims())),
        };
        Site { place, next, address: Some(self.mac), unfinished: self.is_virtual, claims }
    }

    /// Puts the program onto the device, or another one in its place.
    pub(super) fn attach_flows(&mut self, flows: &Arc<Flows>) -> Result<(), LoadError> {
        let site = self.site();
        let code = flows.program(&site).map_err(std::io::Error::other)?;
        let program = Program::load(site.place, "penstock_flows", &code)?;
        let link = self.flows.take().and_then(|before| before.link);
        self.flows = Some(Attached { program, link });
        let result = match site.place {
            AttachPoint::Xdp => self.arrange().map_err(LoadError::from),
            AttachPoint::Tcx => self.attach_tcx(flows, &site),
        };
        if result.is_err() {
            self.detach_flows();
        }
        result
    }

    fn attach_tcx(&mut self, flows: &Arc<Flows>, site: &Site) -> Result<(), LoadError> {
        let Some(Attached { program, link }) = &mut self.flows else { return Ok(()) };
        match link {
            Some(link) => link.replace(program)?,
            None => *link = Some(program.attach(self.device, Mode::Any)?),
        }
        // The filter notes its result for an attached program.
        if let (Receives::Packet(sockets), Some(claims)) = (&self.receives, &site.claims) {
            let code = flows.filter(claims, site.address).map_err(std::io::Error::other)?;
            let filter = SocketFilter::load("penstock_flows", &code)?;
            for socket in sockets.iter() {
                filter.attach(socket.as_fd())?;
            }
        }
        Ok(())
    }

    /// Takes the program away.
    pub(super) fn detach_flows(&mut self) {
        let Some(Attached { program, link }) = self.flows.take() else { return };
        if let (Some(AttachPoint::Tcx), Receives::Packet(sockets)) =
            (program.place(), &self.receives)
        {
            sockets.iter().for_each(|socket| drop(SocketFilter::detach(socket.as_fd())));
        }
        // The device may be gone by now.
        if let Some(chains) =
            self.chains.as_mut().filter(|_| program.place() == Some(AttachPoint::Xdp))
        {
            chains.take_link(link);
        }
        let _ = self.arrange();
    }
}
