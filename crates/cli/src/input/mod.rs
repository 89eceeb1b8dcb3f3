// SPDX-License-Identifier: Apache-2.0

//! Captures that packets are read from, and what each of their frames is to the host: one that
//! arrives, one that it sends, or a copy of one that came in elsewhere.

mod compare;
pub mod complete;
mod fingerprint;
mod outgoing;
mod port;
mod read;
mod recent;
mod untranslate;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use penstock_conntrack::Conntrack;
use penstock_daemon::errln;
use penstock_io::{
    Capture, CaptureError, Cooked, Direction, Frame, Interface, LinkType, Merge, Problem,
};
use penstock_net::Network;
use penstock_wire::ethernet;

use crate::recognise::{Given, hinted};
pub use compare::Compare;
pub use complete::Completed;
use complete::complete;
pub use fingerprint::Fingerprint;
pub use outgoing::{LeftOut, Outgoing, neighbour, route};
use outgoing::{Sent, next_hop};
use port::super_packet;
pub use port::{Entering, InputPort, Source};
pub use read::{Captures, Read};
pub use recent::Recent;
pub use untranslate::tuple_of;

/// Opens a capture. The error says also what else the file may be.
pub fn open(file: &Path) -> Result<Capture, String> {
    Capture::open(file).map_err(|e| match e.problem {
        Problem::NotACapture => hinted(&format!("Error: {e}"), file, Given::Capture),
        _ => format!("Error: {e}"),
    })
}

/// Several captures, their frames in the order of their times.
pub struct Inputs<'n> {
    merge: Merge,
    readers: Vec<Reader>,
    net: &'n Network,
    /// The file of the network, for messages.
    file: PathBuf,
    /// Whether frames are taken as they are.
    as_is: bool,
    /// A frame that was made of a cooked one.
    made: Vec<u8>,
    /// A frame that was completed.
    whole: Vec<u8>,
}

/// A capture.
struct Reader {
    read: Read,
    /// Where the frames of its interfaces belong: there are few.
    places: Vec<(Place, Way)>,
}

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The only one, or one without a name.
    Number(u32),
    Named(String),
    Index(u32),
}

impl Place {
    fn of(interface: Interface<'_>) -> Place {
        match interface {
            Interface::Unnamed => Place::Number(0),
            Interface::Described(_, Some(name)) => Place::Named(name.to_owned()),
            Interface::Described(number, None) => Place::Number(number),
            Interface::Index(index) => Place::Index(index),
        }
    }

    /// Whether frames of an interface are of this place.
    fn has(&self, interface: Interface<'_>) -> bool {
        match (self, interface) {
            (Place::Number(own), Interface::Described(number, None)) => *own == number,
            (Place::Number(own), Interface::Unnamed) => *own == 0,
            (Place::Named(own), Interface::Described(_, Some(name))) => own == name,
            (Place::Index(own), Interface::Index(index)) => *own == index,
            _ => false,
        }
    }

    /// Whether this is what the user calls the interface.
    fn is(&self, name: &str, net: &Network) -> bool {
        match self {
            Place::Named(own) => own == name,
            Place::Number(number) => name.parse() == Ok(*number),
            Place::Index(index) => {
                name.parse() == Ok(*index)
                    || net.link_by_name(name).is_some_and(|link| link.index == *index)
            }
        }
    }

    /// As the user is told.
    fn words(&self, net: &Network) -> String {
        match self {
            Place::Number(number) => format!("interface {number}"),
            Place::Named(name) => format!("`{name}`"),
            Place::Index(index) => match net.link(*index) {
                Some(link) => format!("`{}` (index {index})", link.name),
                None => format!("the interface with index {index}"),
            },
        }
    }
}

/// What frames of an interface are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They enter the path here.
    Port(InputPort),
    /// They were sent by this device: [`Outgoing`] says what each of them is.
    Sent(u32),
    /// Copies of frames that the device under theirs has, too.
    Upper,
    /// Not of the interface that is read.
    Other,
}

/// A frame that was read.
pub struct Taken<'a> {
    /// Number of its capture.
    pub which: usize,
    /// The frame, with an Ethernet header in place of a cooked one.
    pub frame: Frame<'a>,
    /// What it is.
    pub way: Way,
    /// What was missing, and was completed.
    pub completed: Completed,
    /// Whether the capture may be of several devices that it does not tell apart.
    is_of_any: bool,
    /// Whether the capture had another header in place of the Ethernet header.
    is_cooked: bool,
}

/// How a frame enters the path.
pub enum Entry<'a> {
    /// By a port.
    Enters(Entering<'a>),
    /// Not at all.
    LeftOut(LeftOut),
}

impl<'a> Taken<'a> {
    /// Whether what the path has sent so far decides about the frame.
    pub fn is_sent(&self) -> bool {
        matches!(self.way, Way::Sent(_))
    }

    /// How the frame enters the path, with what is known of those before it; without that, frames
    /// that a capture has as sent do not.
    ///
    /// # Errors
    /// The capture is of several devices and does not tell them apart.
    pub fn entry(
        &self,
        net: &Network,
        conntrack: &Conntrack,
        outgoing: Option<&mut Outgoing>,
    ) -> Result<Entry<'a>, &'static str> {
        let Frame { time, link, bytes, .. } = self.frame;
        let enters_as = |port, link, bytes: Cow<'a, [u8]>| {
            let gso = match port {
                InputPort::Device(device) | InputPort::Stack(device) => {
                    super_packet(net, device, &bytes)
                }
                InputPort::Host | InputPort::HostDevice(_) => None,
            };
            Entry::Enters(Entering { port, time, link, bytes, gso })
        };
        let enters = |port| enters_as(port, link, Cow::Borrowed(bytes));
        let Some(outgoing) = outgoing else {
            return Ok(match self.way {
                Way::Port(port) => {
                    let bytes = Cow::Borrowed(bytes);
                    Entry::Enters(Entering { port, time, link, bytes, gso: None })
                }
                Way::Sent(_) => Entry::LeftOut(LeftOut::Copy),
                Way::Upper => Entry::LeftOut(LeftOut::Upper),
                Way::Other => Entry::LeftOut(LeftOut::Other),
            });
        };
        Ok(match self.way {
            Way::Port(InputPort::Device(device))
                if link == LinkType::Ethernet && !outgoing.arrived(net, device, time, bytes) =>
            {
                Entry::LeftOut(LeftOut::Copy)
            }
            Way::Port(port) => enters(port),
            Way::Sent(device) => match outgoing.what(net, conntrack, device, time, bytes) {
                // The destination's link address is missing.
                Sent::Packet(packet) if self.is_cooked => match next_hop(net, device, packet) {
                    Some(to) => {
                        let frame = [&to.0, bytes.get(to.0.len()..).unwrap_or_default()].concat();
                        enters_as(InputPort::Stack(device), link, Cow::Owned(frame))
                    }
                    None => enters_as(InputPort::Host, LinkType::Raw, Cow::Borrowed(packet)),
                },
                Sent::Packet(_) | Sent::Raw => enters(InputPort::Stack(device)),
                Sent::Forwarded(from, frame) => {
                    enters_as(InputPort::Device(from), LinkType::Ethernet, Cow::Owned(frame))
                }
                Sent::LeftOut(LeftOut::Back) if self.is_of_any => return Err(OF_ANY),
                Sent::LeftOut(why) => Entry::LeftOut(why),
            },
            Way::Upper => Entry::LeftOut(LeftOut::Upper),
            Way::Other => Entry::LeftOut(LeftOut::Other),
        })
    }
}

/// What is wrong with a capture of all devices that does not tell them apart.
const OF_ANY: &str = "this is a capture of several devices that does not tell their frames apart; \
    `tcpdump -i any -y LINUX_SLL2` does, or a capture of each device";

/// Why a frame is not taken.
pub enum Trouble {
    /// A capture is broken: the others go on.
    Broken(CaptureError),
    /// The command line cannot be meant so.
    Unclear(String),
}

impl Trouble {
    /// Tells of a broken capture: the others go on.
    ///
    /// # Errors
    /// What nobody can go on from.
    pub fn tell(self) -> Result<(), String> {
        match self {
            Trouble::Broken(e) => {
                errln!("Error: {e}");
                Ok(())
            }
            Trouble::Unclear(message) => Err(message),
        }
    }
}

impl From<Trouble> for String {
    /// What is told.
    fn from(trouble: Trouble) -> String {
        match trouble {
            Trouble::Broken(e) => format!("Error: {e}"),
            Trouble::Unclear(message) => message,
        }
    }
}

impl<'n> Inputs<'n> {
    /// Opens captures, for a network that was read from `file`.
    pub fn open(captures: &Captures, net: &'n Network, file: &Path) -> Result<Inputs<'n>, String> {
        let mut opened: Vec<Capture> = Vec::new();
        let mut readers = Vec::new();
        // The link addresses of devices that captures are of.
        let mut own = Vec::new();
        for read in &captures.reads {
            let read = read.resolved();
            let port = read.source.as_ref().map(|source| InputPort::of(source, net, file));
            own.push(match port.transpose()? {
                Some(InputPort::Device(device)) => net.link(device).map(|link| link.mac),
                _ => None,
            });
            opened.push(open(&read.file)?);
            readers.push(Reader { read, places: Vec::new() });
        }
        let (made, whole) = (Vec::new(), Vec::new());
        // A frame is forwarded after it has come in, also within a tick of the clock.
        let merge = Merge::ranked(opened, move |which, frame| {
            u8::from(own[which].is_some_and(|own| is_sent(frame, own.0)))
        });
        let (file, as_is) = (file.to_owned(), captures.as_is);
        Ok(Inputs { merge, readers, net, file, as_is, made, whole })
    }

    /// The capture of this number, as on the command line.
    pub fn name(&self, which: usize) -> String {
        self.readers[which].read.to_string()
    }

    /// How many captures there are.
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// Time of the next frame, in nanoseconds since the epoch.
    pub fn next_time(&mut self) -> Option<u64> {
        self.merge.next_time()
    }

    /// The next frame; `None` at the end.
    pub fn next(&mut self) -> Option<Result<Taken<'_>, Trouble>> {
        let (which, frame) = match self.merge.next_frame()? {
            Ok(next) => next,
            Err(e) => return Some(Err(Trouble::Broken(e))),
        };
        let reader = &mut self.readers[which];
        let way = match reader.way(frame.interface, self.net, &self.file) {
            Ok(way) => way,
            Err(message) => return Some(Err(Trouble::Unclear(message))),
        };
        let (mut frame, mut way, mut completed) = (frame, way, Completed::default());
        let is_of_any = frame.link == LinkType::Sll;
        let is_cooked = is_of_any || frame.link == LinkType::Sll2;
        if let Way::Port(InputPort::Device(device)) = way {
            let own = self.net.link(device).map(|link| link.mac.0).unwrap_or_default();
            if let Some(cooked) = Cooked::parse(frame.link, frame.bytes) {
                self.made.clear();
                if !cooked.to_ethernet(own, &mut self.made) {
                    return Some(Ok(Taken {
                        which,
                        frame,
                        way: Way::Other,
                        completed,
                        is_of_any,
                        is_cooked,
                    }));
                }
                let cut = frame.wire_len.saturating_sub(frame.bytes.len() as u32);
                let wire_len = self.made.len() as u32 + cut;
                frame = Frame { link: LinkType::Ethernet, bytes: &self.made, wire_len, ..frame };
            }
            if is_sent(&frame, own) && !self.as_is {
                way = Way::Sent(device);
            }
        }
        if !self.as_is && matches!(way, Way::Port(_) | Way::Sent(_)) {
            let (wire_len, is_ip) = (frame.wire_len as usize, frame.link.is_ip());
            if let Some(done) = complete(frame.bytes, wire_len, is_ip, &mut self.whole) {
                (completed, frame.bytes) = (done, &self.whole);
            }
        }
        Some(Ok(Taken { which, frame, way, completed, is_of_any, is_cooked }))
    }
}

/// Whether the device with this link address has sent a frame.
fn is_sent(frame: &Frame<'_>, own: [u8; 6]) -> bool {
    let from_own = || {
        frame.link == LinkType::Ethernet
            && ethernet::Header::new(frame.bytes).is_some_and(|header| header.src().0 == own)
    };
    frame.direction.map_or_else(from_own, |direction| direction == Direction::Out)
}

impl Reader {
    /// Where the frames of an interface belong.
    fn way(&mut self, interface: Interface<'_>, net: &Network, file: &Path) -> Result<Way, String> {
        if let Some((_, way)) = self.places.iter().find(|(place, _)| place.has(interface)) {
            return Ok(*way);
        }
        let place = Place::of(interface);
        let way = self.new_way(&place, net, file)?;
        self.places.push((place, way));
        Ok(way)
    }

    fn new_way(&self, place: &Place, net: &Network, file: &Path) -> Result<Way, String> {
        let Read { source, file: capture, interface } = &self.read;
        let capture = capture.display();
        if interface.as_deref().is_some_and(|name| !place.is(name, net)) {
            return Ok(Way::Other);
        }
        if let Some(source) = source {
            let other = self.places.iter().find(|(_, way)| matches!(way, Way::Port(_)));
            return match other {
                Some((other, _)) => Err(format!(
                    "Error: {capture} has frames of {} and of {}: say which of them are meant, \
                     --read {source}={capture}:NAME, or leave the device out, --read {capture}",
                    other.words(net),
                    place.words(net),
                )),
                None => InputPort::of(source, net, file).map(Way::Port),
            };
        }
        let link = match place {
            Place::Named(name) => net.link_by_name(name),
            Place::Index(index) => net.link(*index),
            Place::Number(_) => {
                return Err(format!(
                    "Error: {capture} does not name its interfaces: --read DEV={capture} says \
                     where its frames arrive"
                ));
            }
        };
        match link {
            Some(link) if link.is_wire() => Ok(Way::Port(InputPort::Device(link.index))),
            Some(_) => Ok(Way::Upper),
            None => Err(format!(
                "Error: {capture} has frames of {}, which {} does not have; --read \
                 DEV={capture}:NAME reads those of one interface",
                place.words(net),
                file.display(),
            )),
        }
    }
}
