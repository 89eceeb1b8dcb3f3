//! Frames that one worker hands over to another: a ring of a fixed number of bytes between each two.
//!
//! A frame is copied once, into the ring, and read where it lies. Nobody waits: a frame for which there is no room is refused.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_io::device::{BURST, Received};
use penstock_packet::Gso;

/// Bytes of a ring at most: more than a thousand full frames, or thirty super-packets.
const LONGEST: usize = 2 << 20;
/// Bytes of a ring at least.
const SHORTEST: usize = 256 << 10;
/// Bytes of all rings together, unless they would be too short.
const ALL: usize = 64 << 20;
/// Frames begin at multiples of this.
const ALIGN: usize = 8;
/// Bytes before a frame: its length, then what is known of it.
const BEFORE: usize = ALIGN + size_of::<Handed>().next_multiple_of(ALIGN);
/// The length that says that the rest of the ring is empty.
const SKIP: u32 = u32::MAX;

/// What is known of a frame that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    /// Number of its port.
    pub(crate) port: u32,
    /// It comes from the host, not from the wire.
    pub(crate) from_host: bool,
    /// It is a fragment whose worker is to be found out.
    pub(crate) whose: bool,
    /// It is a super-packet.
    pub(crate) gso: Option<Gso>,
}

struct Ring {
    bytes: Box<[UnsafeCell<MaybeUninit<u64>>]>,
    /// Bytes that were ever given back; written by the taker.
    taken: AtomicUsize,
    /// Bytes that were ever put in; written by the giver.
    given: AtomicUsize,
}

// SAFETY: bytes between `taken` and `given` are read by the one taker only, all others written by the one giver only, and
// each learns from the other's number, with acquire and release, that they have changed sides.
unsafe impl Sync for Ring {}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("taken", &self.taken).field("given", &self.given).finish()
    }
}

impl Ring {
    /// The byte at a place, modulo the length of the ring.
    fn at(&self, place: usize) -> *mut u8 {
        self.bytes.as_ptr().cast_mut().cast::<u8>().wrapping_add(place % self.len())
    }

    /// Bytes, a power of two.
    fn len(&self) -> usize {
        self.bytes.len() * ALIGN
    }
}

/// Both ends of a ring, of so many.
pub(crate) fn ring(of: usize) -> (Giver, Taker) {
    let len = (ALL / of.max(1)).next_power_of_two().clamp(SHORTEST, LONGEST);
    let bytes = (0..len / ALIGN).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring { bytes, taken: AtomicUsize::new(0), given: AtomicUsize::new(0) });
    let giver = Giver { ring: ring.clone(), given: 0, taken: 0 };
    (giver, Taker { ring, taken: 0, burst: Vec::with_capacity(BURST), after: 0 })
}

/// The end that puts frames in.
#[derive(Debug)]
pub(crate) struct Giver {
    ring: Arc<Ring>,
    given: usize,
    /// As it was when it was looked at last.
    taken: usize,
}

impl Giver {
    /// Puts a frame in; `false` if there is no room.
    pub(crate) fn give(&mut self, handed: Handed, frame: &[u8]) -> bool {
        let need = BEFORE + frame.len().next_multiple_of(ALIGN);
        let len = self.ring.len();
        let rest = len - self.given % len;
        // A frame lies in one piece.
        let skipped = if need > rest { rest } else { 0 };
        let Ok(frame_len) = u32::try_from(frame.len()) else { return false };
        if self.given + skipped + need - self.taken > len {
            self.taken = self.ring.taken.load(Ordering::Acquire);
            if self.given + skipped + need - self.taken > len {
                return false;
            }
        }
        if skipped != 0 {
            // SAFETY: the rest of the ring is the giver's, as there is room for more than it; it has at least ALIGN bytes, of
            // which the length is written.
            unsafe { self.ring.at(self.given).cast::<u32>().write(SKIP) };
            self.given += skipped;
        }
        // SAFETY: `need` bytes from here on are the giver's and lie in one piece, aligned to eight bytes; the length comes
        // first, where a skipped rest has its own.
        unsafe {
            self.ring.at(self.given).cast::<u32>().write(frame_len);
            self.ring.at(self.given + ALIGN).cast::<Handed>().write(handed);
            let to = self.ring.at(self.given + BEFORE);
            std::ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len());
        }
        self.given += need;
        self.ring.given.store(self.given, Ordering::Release);
        true
    }
}

/// The end that takes frames out, in bursts.
#[derive(Debug)]
pub(crate) struct Taker {
    ring: Arc<Ring>,
    taken: usize,
    burst: Vec<(Handed, usize, usize)>,
    /// Where what follows the burst begins.
    after: usize,
}

impl Taker {
    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.given.load(Ordering::SeqCst) == self.taken
    }

    /// Takes up to [`BURST`] frames, which are there until the next release; how many.
    pub(crate) fn fetch(&mut self) -> usize {
        self.release();
        let given = self.ring.given.load(Ordering::Acquire);
        let mut at = self.taken;
        while at != given && self.burst.len() < BURST {
            // SAFETY: what lies before `given` was written by the giver, and is the taker's until it is given back; at `at`
            // begins a length, and behind one that is no skip what is known of the frame.
            let len = unsafe { self.ring.at(at).cast::<u32>().read() };
            if len == SKIP {
                at += self.ring.len() - at % self.ring.len();
                continue;
            }
            // SAFETY: as above.
            let handed = unsafe { self.ring.at(at + ALIGN).cast::<Handed>().read() };
            self.burst.push((handed, at + BEFORE, len as usize));
            at += BEFORE + (len as usize).next_multiple_of(ALIGN);
        }
        self.after = at;
        self.burst.len()
    }

    /// A frame of the burst.
    pub(crate) fn frame(&self, i: usize) -> Option<(Handed, Received<'_>)> {
        let (handed, at, len) = *self.burst.get(i)?;
        // SAFETY: these bytes were written by the giver in one piece, and are the taker's until the burst is released, for which
        // `self` is borrowed to change.
        let bytes = unsafe { std::slice::from_raw_parts(self.ring.at(at), len) };
        Some((handed, Received { bytes, gso: handed.gso }))
    }

    /// Gives the frames of the burst back.
    pub(crate) fn release(&mut self) {
        if !self.burst.is_empty() {
            self.burst.clear();
            self.taken = self.after;
            self.ring.taken.store(self.taken, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_packet::GsoKind;

    fn handed(port: u32) -> Handed {
        let gso = port.is_multiple_of(3).then_some(Gso { size: port as u16 + 1, kind: GsoKind::Udp });
        Handed { port, from_host: port.is_multiple_of(2), whose: port.is_multiple_of(5), gso }
    }

    fn bytes(n: u32) -> Vec<u8> {
        let len = (n as usize * 7919) % 3000 + if n.is_multiple_of(97) { 60_000 } else { 0 };
        (0..len).map(|i| (i as u32 * 31 + n) as u8).collect()
    }

    #[test]
    fn what_is_put_in_comes_out_in_order_and_a_full_ring_takes_no_more() {
        let (mut giver, mut taker) = ring(1);
        let (mut given, mut taken) = (0, 0);
        for _ in 0..5 {
            while giver.give(handed(given), &bytes(given)) {
                given += 1;
            }
            // Whatever was refused, shorter ones may fit; nothing is lost by it.
            assert!(given - taken > 500);
            while !taker.is_empty() {
                let count = taker.fetch();
                assert!((1..=BURST).contains(&count));
                for i in 0..count {
                    let (known, frame) = taker.frame(i).expect("a frame");
                    assert_eq!((known, frame.bytes), (handed(taken), &bytes(taken)[..]));
                    taken += 1;
                }
                taker.release();
            }
            assert_eq!((given, taker.fetch()), (taken, 0));
        }
    }

    #[test]
    fn threads_hand_over_all_that_fits() {
        const COUNT: u32 = 20_000;
        let (mut giver, mut taker) = ring(1);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..COUNT {
                    while !giver.give(handed(n), &bytes(n)) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut taken = 0;
            while taken < COUNT {
                for i in 0..taker.fetch() {
                    let (known, frame) = taker.frame(i).expect("a frame");
                    assert!(known == handed(taken) && frame.bytes == bytes(taken), "{taken}");
                    taken += 1;
                }
            }
        });
    }
}
