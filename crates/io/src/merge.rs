// SPDX-License-Identifier: Apache-2.0

//! Several captures as one.

use std::collections::VecDeque;

use crate::{Capture, CaptureError, Frame};

/// Takes the frames of several captures in the order of their timestamps. Frames of one capture
/// stay in the order they have there, even where a timestamp is smaller than the one before; with
/// equal timestamps those of the least rank come first, then those of the capture that was given
/// first.
pub struct Merge {
    captures: Vec<Capture>,
    rank: Rank,
    /// Captures that still have a frame, the next one first, each with the time of that frame and
    /// its rank.
    queue: Vec<(u64, u8, usize)>,
    /// Captures to advance before the next choice: all at the start, then the one that gave the
    /// latest frame.
    pending: Vec<usize>,
    /// Errors that were met when looking ahead.
    errors: VecDeque<CaptureError>,
}

/// The rank of a frame of the capture with this number.
type Rank = Box<dyn Fn(usize, &Frame<'_>) -> u8>;

impl Merge {
    /// Takes captures that stand before their first frames. All frames have the same rank.
    pub fn new(captures: Vec<Capture>) -> Merge {
        Merge::ranked(captures, |_, _| 0)
    }

    /// Takes captures that stand before their first frames, and a function that ranks a frame of
    /// the capture with this number: what happened before something else comes first, even where a
    /// clock is too coarse to tell.
    pub fn ranked(
        captures: Vec<Capture>,
        rank: impl Fn(usize, &Frame<'_>) -> u8 + 'static,
    ) -> Merge {
        let pending = (0..captures.len()).rev().collect();
        Merge {
            queue: Vec::with_capacity(captures.len()),
            pending,
            errors: VecDeque::new(),
            captures,
            rank: Box::new(rank),
        }
    }

    /// Reads on in captures without a known next frame.
    fn look(&mut self) {
        while let Some(which) = self.pending.pop() {
            let capture = &mut self.captures[which];
            match capture.advance() {
                Ok(_) => {
                    if let Some(time) = capture.time() {
                        // Few captures: an insertion into a sorted list is the fastest priority
                        // queue.
                        let next = (time, (self.rank)(which, &capture.frame()), which);
                        let at = self.queue.partition_point(|queued| *queued < next);
                        self.queue.insert(at, next);
                    }
                }
                Err(e) => self.errors.push_back(e),
            }
        }
    }

    /// Time of the frame that comes next; `None` at the end. Not to be asked while a frame is being
    /// used.
    pub fn next_time(&mut self) -> Option<u64> {
        self.look();
        self.queue.first().map(|(time, ..)| *time)
    }

    /// The next frame, with the number of its capture. After an error of one capture, which is
    /// returned once, the others continue.
    pub fn next_frame(&mut self) -> Option<Result<(usize, Frame<'_>), CaptureError>> {
        self.look();
        if let Some(error) = self.errors.pop_front() {
            return Some(Err(error));
        }
        if self.queue.is_empty() {
            return None;
        }
        let (_, _, which) = self.queue.remove(0);
        self.pending.push(which);
        Some(Ok((which, self.captures[which].frame())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{CaptureWriter, LinkType};
    use std::io::Cursor;

    fn capture(name: &str, times: &[u64], cut: usize) -> Capture {
        let mut file = Vec::new();
        let mut writer = CaptureWriter::new(&mut file, LinkType::Ethernet).expect("memory");
        for t in times {
            writer.write(*t, &[*t as u8; 2]).expect("memory");
        }
        writer.finish().expect("memory");
        file.truncate(file.len() - cut);
        Capture::new(name, Cursor::new(file)).expect("well-formed")
    }

    #[test]
    fn frames_of_one_time_come_by_rank() {
        let captures = vec![capture("a", &[5, 6], 0), capture("b", &[5, 6], 0)];
        let mut merge =
            Merge::ranked(captures, |which, frame| u8::from((which, frame.time) == (0, 5)));
        let mut seen = Vec::new();
        while let Some(Ok((which, frame))) = merge.next_frame() {
            seen.push((which, frame.time));
        }
        assert_eq!(seen, [(1, 5), (0, 5), (0, 6), (1, 6)]);
    }

    #[test]
    fn frames_come_by_time_then_by_order_of_the_captures() {
        let mut merge = Merge::new(vec![
            capture("a", &[1, 5, 5, 9], 0),
            capture("empty", &[], 0),
            capture("broken", &[0, 6, 9], 1),
            capture("b", &[5, 5, 7, 3, 9], 0),
        ]);
        let mut seen = Vec::new();
        while let Some(next) = merge.next_frame() {
            match next {
                Ok((which, frame)) => {
                    assert_eq!(frame.bytes, [frame.time as u8; 2]);
                    seen.push(format!("{which}:{}", frame.time));
                }
                Err(e) => seen.push(e.to_string()),
            }
        }
        let broken = "broken: byte 60: the file ends inside a frame";
        assert_eq!(
            seen,
            ["2:0", "0:1", "0:5", "0:5", "3:5", "3:5", "2:6", broken, "3:7", "3:3", "0:9", "3:9"]
        );
    }
}
