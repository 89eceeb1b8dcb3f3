// SPDX-License-Identifier: Apache-2.0

//! Hands frames over between workers: a ring of a fixed number of bytes between each two.
//!
//! A frame is copied once, into the ring, and read where it lies. Neither side waits: a frame that
//! does not fit is refused.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::sync::{AtomicUsize, Bytes};

/// Bytes of a ring at most: more than a thousand full frames, or thirty super-packets.
const LONGEST: usize = 2 << 20;
/// Bytes of a ring at least.
const SHORTEST: usize = 256 << 10;
/// Bytes of all rings together, unless they would be too short.
const ALL: usize = 64 << 20;
/// Frames begin at multiples of this.
const ALIGN: usize = 8;
/// Bytes before a frame: its length, then its metadata.
const fn before<H>() -> usize {
    const { assert!(align_of::<H>() <= ALIGN) };
    ALIGN + size_of::<H>().next_multiple_of(ALIGN)
}
/// The length that says that the rest of the ring is empty.
const SKIP: u32 = u32::MAX;

/// What both ends share.
#[derive(Debug)]
struct Ring {
    /// Those between `taken` and `given` are the consumer's, which only reads them; all others are
    /// the producer's. Each learns from the other's number, with acquire and release, that some
    /// have changed sides.
    bytes: Bytes,
    /// Total bytes consumed; written by the consumer.
    taken: AtomicUsize,
    /// Bytes that were ever put in; written by the producer.
    given: AtomicUsize,
}

/// Both ends of one of `of` rings; frames are taken out in bursts of at most `burst`. Each frame
/// has metadata of type `H`.
pub(crate) fn ring<H: Copy>(of: usize, burst: usize) -> (Producer<H>, Consumer<H>) {
    with_bytes((ALL / of.max(1)).next_power_of_two().clamp(SHORTEST, LONGEST), burst)
}

/// Both ends of a ring of so many bytes, a power of two.
pub(crate) fn with_bytes<H: Copy>(len: usize, burst: usize) -> (Producer<H>, Consumer<H>) {
    let bytes = Bytes::new(len / ALIGN);
    let ring = Arc::new(Ring { bytes, taken: AtomicUsize::new(0), given: AtomicUsize::new(0) });
    let producer = Producer { ring: ring.clone(), given: 0, taken: 0, known: PhantomData };
    (producer, Consumer { ring, taken: 0, burst: Vec::with_capacity(burst), after: 0 })
}

/// The end that puts frames in.
#[derive(Debug)]
pub(crate) struct Producer<H> {
    ring: Arc<Ring>,
    given: usize,
    /// As it was when it was looked at last.
    taken: usize,
    known: PhantomData<fn(H)>,
}

impl<H: Copy> Producer<H> {
    /// Puts a frame in; `false` if there is no room.
    pub(crate) fn give(&mut self, known: H, frame: &[u8]) -> bool {
        let need = before::<H>() + frame.len().next_multiple_of(ALIGN);
        let len = self.ring.bytes.len();
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
        let bytes = &self.ring.bytes;
        if skipped != 0 {
            // SAFETY: the rest of the ring is the producer's, as there is room for more than it; it
            // has at least ALIGN bytes, of which the length is written.
            unsafe { bytes.put(self.given, SKIP) };
            self.given += skipped;
        }
        // SAFETY: `need` bytes from here on are the producer's and lie in one piece, aligned to
        // eight bytes; the length comes first, where a skipped rest has its own.
        unsafe {
            bytes.put(self.given, frame_len);
            bytes.put(self.given + ALIGN, known);
            bytes.write(self.given + before::<H>(), frame);
        }
        self.given += need;
        self.ring.given.store(self.given, Ordering::Release);
        true
    }
}

/// The end that takes frames out, in bursts.
#[derive(Debug)]
pub(crate) struct Consumer<H> {
    ring: Arc<Ring>,
    taken: usize,
    /// What is known of the frames of the burst, where they lie and how long they are.
    burst: Vec<(H, usize, usize)>,
    /// Where what follows the burst begins.
    after: usize,
}

impl<H: Copy> Consumer<H> {
    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.given.load(Ordering::SeqCst) == self.taken
    }

    /// Fetches up to a burst of frames, which stay until the next release; returns how many.
    pub(crate) fn fetch(&mut self) -> usize {
        self.release();
        let given = self.ring.given.load(Ordering::Acquire);
        let bytes = &self.ring.bytes;
        let mut at = self.taken;
        while at != given && self.burst.len() < self.burst.capacity() {
            // SAFETY: what lies before `given` was written by the producer, and belongs to the
            // consumer until its release; a length begins at `at`, and unless it is a skip, the
            // frame's metadata follows.
            let len: u32 = unsafe { bytes.get(at) };
            if len == SKIP {
                at += bytes.len() - at % bytes.len();
                continue;
            }
            // SAFETY: as above.
            let known = unsafe { bytes.get(at + ALIGN) };
            self.burst.push((known, at + before::<H>(), len as usize));
            at += before::<H>() + (len as usize).next_multiple_of(ALIGN);
        }
        self.after = at;
        self.burst.len()
    }

    /// A frame of the burst, and its metadata.
    pub(crate) fn frame(&self, i: usize) -> Option<(H, &[u8])> {
        let (known, at, len) = *self.burst.get(i)?;
        // SAFETY: these bytes were written by the producer in one piece, and are the consumer's
        // until the burst is released, for which `self` is borrowed to change.
        let bytes = unsafe { self.ring.bytes.slice(at, len) };
        Some((known, bytes))
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
    use crate::worker::handoff::HandoffMeta;
    use penstock_io::device::BURST;
    use penstock_packet::{Gso, GsoKind};

    fn handed(port: u32) -> HandoffMeta {
        let gso =
            port.is_multiple_of(3).then_some(Gso { size: port as u16 + 1, kind: GsoKind::Udp });
        HandoffMeta {
            port,
            from_host: port.is_multiple_of(2),
            owner_unknown: port.is_multiple_of(5),
            gso,
        }
    }

    fn bytes(n: u32) -> Vec<u8> {
        let len = (n as usize * 7919) % 3000 + if n.is_multiple_of(97) { 60_000 } else { 0 };
        (0..len).map(|i| (i as u32 * 31 + n) as u8).collect()
    }

    #[test]
    fn a_ring_keeps_order_and_refuses_when_full() {
        let (mut producer, mut consumer) = ring(1, BURST);
        let (mut given, mut taken) = (0, 0);
        for _ in 0..5 {
            while producer.give(handed(given), &bytes(given)) {
                given += 1;
            }
            // Whatever was refused, shorter ones may fit; nothing is lost by it.
            assert!(given - taken > 500);
            while !consumer.is_empty() {
                let count = consumer.fetch();
                assert!((1..=BURST).contains(&count));
                for i in 0..count {
                    let (known, frame) = consumer.frame(i).expect("a frame");
                    assert_eq!((known, frame), (handed(taken), &bytes(taken)[..]));
                    taken += 1;
                }
                consumer.release();
            }
            assert_eq!((given, consumer.fetch()), (taken, 0));
        }
    }

    #[test]
    fn threads_hand_over_every_accepted_frame() {
        const COUNT: u32 = 20_000;
        let (mut producer, mut consumer) = ring(1, BURST);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..COUNT {
                    while !producer.give(handed(n), &bytes(n)) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut taken = 0;
            while taken < COUNT {
                for i in 0..consumer.fetch() {
                    let (known, frame) = consumer.frame(i).expect("a frame");
                    assert!(known == handed(taken) && frame == bytes(taken), "{taken}");
                    taken += 1;
                }
            }
        });
    }
}
