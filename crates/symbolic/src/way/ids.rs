// SPDX-License-Identifier: Apache-2.0

//! Sets of VLAN IDs.

/// Ranges of VLAN IDs in ascending order, apart from each other; 0 where there are no VLANs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids(Vec<(u16, u16)>);

impl Ids {
    /// All that a tag may name.
    pub fn all() -> Ids {
        Ids(vec![(1, 4094)])
    }

    /// One alone.
    pub fn one(id: u16) -> Ids {
        Ids(vec![(id, id)])
    }

    /// Some, in ascending order.
    pub fn of(ids: impl Iterator<Item = u16>) -> Ids {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for id in ids {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == id => *last = id,
                _ => ranges.push((id, id)),
            }
        }
        Ids(ranges)
    }

    /// Those of these for which something does not hold.
    pub fn without(&self, holds: impl Fn(u16) -> bool) -> Ids {
        let all = self.0.iter().flat_map(|(first, last)| *first..=*last);
        Ids::of(all.filter(|id| !holds(*id)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an ID is among these.
    pub fn has(&self, id: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&id))
    }

    /// The only one, if there is one alone.
    pub fn only(&self) -> Option<u16> {
        match self.0[..] {
            [(first, last)] if first == last => Some(first),
            _ => None,
        }
    }

    /// First and last of each range.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// Bytes that no other set has.
    pub fn name(&self) -> Vec<u8> {
        let ends = self.0.iter().flat_map(|(first, last)| [*first, *last]);
        ends.flat_map(u16::to_be_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IDs, and their ranges.
    type Case = (&'static [u16], &'static [(u16, u16)]);

    #[test]
    fn ids_are_kept_as_ranges() {
        let cases: [Case; 4] = [
            (&[], &[]),
            (&[7], &[(7, 7)]),
            (&[1, 2, 3], &[(1, 3)]),
            (&[1, 3, 4], &[(1, 1), (3, 4)]),
        ];
        for (ids, ranges) in cases {
            let set = Ids::of(ids.iter().copied());
            assert_eq!(set.ranges(), ranges);
            assert!((0..9).all(|id| set.has(id) == ids.contains(&id)), "{ids:?}");
            assert_eq!(set.only(), if ids.len() == 1 { Some(ids[0]) } else { None }, "{ids:?}");
        }
        assert_eq!(Ids::all().without(|id| id < 4093).ranges(), [(4093, 4094)]);
    }
}
