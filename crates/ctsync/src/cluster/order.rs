// SPDX-License-Identifier: Apache-2.0

//! Messages of a sender have an epoch, and are numbered in it. A log keeps their order, but may lose
//! some, and whoever begins to read it begins somewhere.

/// Where a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It follows the last one.
    Next,
    /// It is the first one that is seen of its epoch. Others may have been before it.
    First,
    /// So many before it are missing.
    After(u64),
    /// It was there, or is of an earlier epoch.
    Old,
}

/// What was seen of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Epoch and sequence number of the last message.
    last: Option<(u64, u64)>,
}

impl Order {
    /// Takes a message.
    pub fn take(&mut self, epoch: u64, sequence: u64) -> Place {
        let place = match self.last {
            Some((its, _)) if epoch < its => return Place::Old,
            Some((its, last)) if epoch == its => match sequence.checked_sub(last) {
                None | Some(0) => return Place::Old,
                Some(1) => Place::Next,
                Some(steps) => Place::After(steps - 1),
            },
            _ => Place::First,
        };
        self.last = Some((epoch, sequence));
        place
    }

    /// The epoch of the last message.
    pub fn epoch(&self) -> Option<u64> {
        self.last.map(|(epoch, _)| epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_repetitions_and_earlier_epochs_are_told_apart() {
        let mut order = Order::default();
        for (epoch, sequence, place) in [
            (5, 9, Place::First),
            (5, 10, Place::Next),
            (5, 10, Place::Old),
            (5, 3, Place::Old),
            (5, 14, Place::After(3)),
            (4, 15, Place::Old),
            (5, 15, Place::Next),
            (6, 1, Place::First),
            (6, 2, Place::Next),
            (5, 16, Place::Old),
            (6, u64::MAX, Place::After(u64::MAX - 3)),
        ] {
            assert_eq!(order.take(epoch, sequence), place, "{epoch} {sequence}");
        }
        assert_eq!(order.epoch(), Some(6));
    }
}
