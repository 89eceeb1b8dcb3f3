//! The program that forwards flows, on a port.

use std::os::fd::AsFd;
use std::sync::Arc;

use penstock_bpf::{Link, LoadError, Mode, Place, Program, SocketFilter};
use penstock_ebpf::flow::{Flows, Site};

use super::{OffloadPort, Receives};

/// What forwards flows on a device, until it is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    program: Program,
    /// `None` where it stands in front of AF_XDP sockets, by their link.
    link: Option<Link>,
}

impl OffloadPort {
    fn site(&self) -> Site {
        let place = self.place();
        let claims = matches!((place, &self.receives), (Place::Tcx, Receives::Packet(_))).then(Site::claims);
        Site { place, next: self.rest(), address: Some(self.mac), unfinished: self.is_virtual, claims }
    }

    /// Puts the program onto the device, or another one in its place.
    pub(super) fn attach_flows(&mut self, flows: &Arc<Flows>) -> Result<(), LoadError> {
        let site = self.site();
        let code = flows.program(&site).map_err(std::io::Error::other)?;
        let program = Program::load(site.place, "penstock_flows", &code)?;
        let before = self.flows.take();
        let link = match (&self.receives, before.and_then(|b| b.link)) {
            (Receives::Xdp(redirect), _) => {
                redirect.put_in_front(Some(&program))?;
                None
            }
            (Receives::Packet(_), Some(link)) => {
                link.replace(&program)?;
                Some(link)
            }
            (Receives::Packet(_), None) => Some(program.attach(self.device, Mode::Any)?),
        };
        // Whoever filters leaves word for a program that is there.
        if let (Receives::Packet(sockets), Some(claims)) = (&self.receives, &site.claims) {
            let code = flows.filter(claims, site.address).map_err(std::io::Error::other)?;
            let filter = SocketFilter::load("penstock_flows", &code)?;
            for socket in sockets.iter() {
                filter.attach(socket.as_fd())?;
            }
        }
        self.flows = Some(Attached { program, link });
        Ok(())
    }

    /// Takes the program away.
    pub(super) fn detach_flows(&mut self) {
        let Some(Attached { program, link }) = self.flows.take() else { return };
        match &self.receives {
            // The device may be gone by now.
            Receives::Xdp(redirect) => drop(redirect.put_in_front(None)),
            Receives::Packet(sockets) => {
                sockets.iter().for_each(|socket| drop(SocketFilter::detach(socket.as_fd())));
            }
        }
        drop((link, program));
    }
}
