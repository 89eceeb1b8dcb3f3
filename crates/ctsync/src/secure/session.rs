// SPDX-License-Identifier: Apache-2.0

//! Handshake and frames: Noise IK (revision 34), with X25519, AES-256-GCM and SHA-256.
//!
//! The one that connects sends the first message, which has its static key, encrypted; the other
//! one answers with the second. Both are frames without records.

use snow::{HandshakeState, TransportState};

use super::algorithms::builder;
use super::key::{PrivateKey, PublicKey};

/// What both sides must agree on besides: the version of records.
const PROLOGUE: &[u8] = b"penstock failover 1";
/// Bytes of the length of a frame.
const LENGTH: usize = 2;
/// Bytes of a tag of AES-GCM.
const TAG: usize = 16;
/// Bytes of the first message of the handshake, and of the second: an ephemeral key, the encrypted
/// static key, and the tag of an empty payload; an ephemeral key and such a tag.
const HANDSHAKE: [usize; 2] = [32 + 32 + TAG + TAG, 32 + TAG];
/// Bytes of a frame at most, with its length.
pub const LONGEST_FRAME: usize = LENGTH + 65_535;
/// Bytes of records in a frame at most.
pub const LONGEST_RECORDS: usize = 65_535 - TAG;

/// Why a peer is not spoken with any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A frame of the handshake has a length that none has.
    Length,
    /// It does not have the private key of a peer, has another key in mind, or has another version.
    Handshake,
    /// A frame was changed on its way, or is no frame.
    Frame,
}

impl Refused {
    /// A sentence for the log.
    pub fn sentence(self) -> &'static str {
        match self {
            Refused::Length => "what it sends is no handshake",
            Refused::Handshake => "the keys do not fit, or it has another version",
            Refused::Frame => "a frame is wrong",
        }
    }
}

/// A handshake that is not complete.
pub struct Handshake {
    state: HandshakeState,
    connects: bool,
}

/// Appends a frame with a message of Noise that `write` makes. Nothing is appended if it cannot be.
fn frame<E>(
    to: &mut Vec<u8>,
    room: usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<(), E> {
    let begin = to.len();
    to.resize(begin + LENGTH + room, 0);
    let written = write(to.get_mut(begin + LENGTH..).unwrap_or_default());
    let len = written.as_ref().copied().unwrap_or(0);
    to.truncate(begin + if written.is_ok() { LENGTH + len } else { 0 });
    if let Some(place) = to.get_mut(begin..begin + LENGTH) {
        place.copy_from_slice(&(len as u16).to_be_bytes());
    }
    written.map(drop)
}

/// The first frame of what was received: its message and its length with that of the message.
/// `None` if it is not complete.
fn first(received: &[u8]) -> Option<(&[u8], usize)> {
    let (len, rest) = received.split_first_chunk::<LENGTH>()?;
    let len = usize::from(u16::from_be_bytes(*len));
    Some((rest.get(..len)?, LENGTH + len))
}

impl Handshake {
    /// The side that connects: appends the first frame.
    ///
    /// # Errors
    /// [`Refused::Handshake`]: the keys are none.
    pub fn connect(own: &PrivateKey, peer: &PublicKey, to: &mut Vec<u8>) -> Result<Self, Refused> {
        let wrong = |_| Refused::Handshake;
        let builder = builder().map_err(wrong)?.local_private_key(&own.0).map_err(wrong)?;
        let builder = builder.remote_public_key(&peer.0).map_err(wrong)?;
        let builder = builder.prologue(PROLOGUE).map_err(wrong)?;
        let mut state = builder.build_initiator().map_err(wrong)?;
        frame(to, HANDSHAKE[0], |into| state.write_message(&[], into)).map_err(wrong)?;
        Ok(Handshake { state, connects: true })
    }

    /// The side that accepts.
    ///
    /// # Errors
    /// [`Refused::Handshake`]: the key is none.
    pub fn accept(own: &PrivateKey) -> Result<Self, Refused> {
        let wrong = |_| Refused::Handshake;
        let builder = builder().map_err(wrong)?.local_private_key(&own.0).map_err(wrong)?;
        let builder = builder.prologue(PROLOGUE).map_err(wrong)?;
        let state = builder.build_responder().map_err(wrong)?;
        Ok(Handshake { state, connects: false })
    }

    /// How many bytes are to be received before [`Handshake::receive`] has something to do.
    pub fn wants(&self) -> usize {
        LENGTH + HANDSHAKE[usize::from(self.connects)]
    }

    /// Takes the frame of the other side, of [`Handshake::wants`] bytes. The side that accepts
    /// appends its answer. Returns the session and who the peer is; `is_peer` says whether a key is
    /// one of a peer, and nothing is answered if it is not.
    ///
    /// # Errors
    /// It is no frame of a handshake with a peer.
    pub fn receive(
        mut self,
        received: &[u8],
        is_peer: impl Fn(&PublicKey) -> bool,
        to: &mut Vec<u8>,
    ) -> Result<(Session, PublicKey), Refused> {
        let wrong = |_| Refused::Handshake;
        let whole = first(received).filter(|(_, len)| *len == self.wants());
        let (message, _) = whole.ok_or(Refused::Length)?;
        // There is no payload.
        self.state.read_message(message, &mut [0; TAG]).map_err(wrong)?;
        let key = self.state.get_remote_static().and_then(|key| key.try_into().ok());
        let peer = key.map(PublicKey).filter(is_peer).ok_or(Refused::Handshake)?;
        if !self.connects {
            let state = &mut self.state;
            frame(to, HANDSHAKE[1], |into| state.write_message(&[], into)).map_err(wrong)?;
        }
        let state = self.state.into_transport_mode().map_err(wrong)?;
        Ok((Session { state, plain: vec![0; LONGEST_RECORDS].into() }, peer))
    }
}

/// Both directions after the handshake.
pub struct Session {
    state: TransportState,
    plain: Box<[u8]>,
}

impl Session {
    /// Appends a frame with records, [`LONGEST_RECORDS`] bytes of them at most.
    ///
    /// # Errors
    /// [`Refused::Frame`]: they are too long, or there were 2^64 frames.
    pub fn seal(&mut self, records: &[u8], to: &mut Vec<u8>) -> Result<(), Refused> {
        let state = &mut self.state;
        frame(to, records.len() + TAG, |into| state.write_message(records, into))
            .map_err(|_| Refused::Frame)
    }

    /// Opens the first frame of what was received: its records, and how many bytes it had. `None`
    /// if it is not complete.
    ///
    /// # Errors
    /// [`Refused::Frame`]: it was changed, left out, or sent twice.
    pub fn open(&mut self, received: &[u8]) -> Result<Option<(&[u8], usize)>, Refused> {
        let Some((message, len)) = first(received) else { return Ok(None) };
        let plain = self.state.read_message(message, &mut self.plain);
        let plain = plain.map_err(|_| Refused::Frame)?;
        Ok(Some((self.plain.get(..plain).unwrap_or_default(), len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (PrivateKey, PrivateKey) {
        (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap())
    }

    fn sessions() -> (Session, Session) {
        let (a, b) = pair();
        let (mut there, mut back) = (Vec::new(), Vec::new());
        let first = Handshake::connect(&a, &b.public(), &mut there).unwrap();
        let second = Handshake::accept(&b).unwrap();
        assert_eq!((second.wants(), first.wants()), (there.len(), 2 + HANDSHAKE[1]));
        let (second, from) = second.receive(&there, |key| *key == a.public(), &mut back).unwrap();
        assert_eq!((from, back.len()), (a.public(), first.wants()));
        let (first, to) = first.receive(&back, |_| true, &mut Vec::new()).unwrap();
        assert_eq!(to, b.public());
        (first, second)
    }

    #[test]
    fn records_arrive_in_frames_in_both_directions() {
        let (mut a, mut b) = sessions();
        for len in [0, 1, 1000, LONGEST_RECORDS] {
            let records = vec![7; len];
            let mut wire = Vec::new();
            a.seal(&records, &mut wire).unwrap();
            a.seal(b"x", &mut wire).unwrap();
            for cut in [0, 1, 2, wire.len().min(LENGTH + len + TAG) - 1] {
                assert_eq!(b.open(&wire[..cut]), Ok(None));
            }
            let (opened, used) = b.open(&wire).unwrap().unwrap();
            assert_eq!((opened, used), (&records[..], LENGTH + len + TAG));
            let used = used.to_owned();
            assert_eq!(b.open(&wire[used..]), Ok(Some((&b"x"[..], LENGTH + 1 + TAG))));
        }
        let mut wire = Vec::new();
        b.seal(b"back", &mut wire).unwrap();
        assert_eq!(a.open(&wire).unwrap().unwrap().0, b"back");
        assert_eq!(a.seal(&vec![0; LONGEST_RECORDS + 1], &mut Vec::new()), Err(Refused::Frame));
    }

    #[test]
    fn frames_that_were_changed_repeated_or_left_out_are_refused() {
        for fault in 0..3 {
            let (mut a, mut b) = sessions();
            let (mut one, mut two) = (Vec::new(), Vec::new());
            a.seal(b"one", &mut one).unwrap();
            a.seal(b"two", &mut two).unwrap();
            let wrong = match fault {
                0 => {
                    one[5] ^= 1;
                    one
                }
                1 => two,
                _ => {
                    assert!(b.open(&one).unwrap().is_some());
                    one
                }
            };
            assert_eq!(b.open(&wrong), Err(Refused::Frame), "{fault}");
        }
    }

    #[test]
    fn handshakes_of_others_are_refused() {
        let ((a, b), (other, _)) = (pair(), pair());
        let receive = |by: &PrivateKey, to: &PrivateKey, wrong: &dyn Fn(&mut Vec<u8>)| {
            let mut wire = Vec::new();
            Handshake::connect(by, &to.public(), &mut wire).unwrap();
            wrong(&mut wire);
            let accepts = Handshake::accept(&b).unwrap();
            let mut answer = Vec::new();
            let came = accepts.receive(&wire, |key| *key == a.public(), &mut answer);
            assert_eq!(came.is_err(), answer.is_empty());
            came.map(|(_, peer)| peer)
        };
        assert_eq!(receive(&a, &b, &|_| {}), Ok(a.public()));
        // A key that is no peer's, one for somebody else, and bytes that are changed or no handshake.
        assert_eq!(receive(&other, &b, &|_| {}), Err(Refused::Handshake));
        assert_eq!(receive(&a, &other, &|_| {}), Err(Refused::Handshake));
        for at in (2..98).step_by(9) {
            assert_eq!(receive(&a, &b, &|wire| wire[at] ^= 1), Err(Refused::Handshake), "{at}");
        }
        assert_eq!(receive(&a, &b, &|wire| wire[0] ^= 1), Err(Refused::Length));
        assert_eq!(receive(&a, &b, &|wire| wire.truncate(50)), Err(Refused::Length));
    }
}
