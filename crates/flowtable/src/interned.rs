// SPDX-License-Identifier: Apache-2.0

//! Things that many flows have in common: kept once, found by number, gone with the last flow that
//! has them.

use std::collections::HashMap;
use std::hash::Hash;

/// Numbers and what they stand for.
#[derive(Debug)]
pub(crate) struct Interned<T> {
    things: Vec<T>,
    uses: Vec<u32>,
    free: Vec<u32>,
    numbers: HashMap<T, u32>,
    changed: u64,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned {
            things: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            numbers: HashMap::new(),
            changed: 0,
        }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// The number of a thing, which is used once more.
    pub fn acquire(&mut self, thing: &T) -> u32 {
        if let Some(&n) = self.numbers.get(thing) {
            self.uses[n as usize] += 1;
            return n;
        }
        let n = match self.free.pop() {
            Some(n) => {
                self.things[n as usize] = thing.clone();
                self.uses[n as usize] = 1;
                n
            }
            None => {
                self.things.push(thing.clone());
                self.uses.push(1);
                self.things.len() as u32 - 1
            }
        };
        self.numbers.insert(thing.clone(), n);
        self.changed += 1;
        n
    }

    /// It is used once less.
    pub fn release(&mut self, n: u32) {
        let uses = &mut self.uses[n as usize];
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(&self.things[n as usize]);
            self.free.push(n);
            self.changed += 1;
        }
    }

    /// What a number that is in use stands for.
    #[inline(always)]
    pub fn get(&self, n: u32) -> &T {
        &self.things[n as usize]
    }

    /// The number of a thing that is used.
    pub fn number(&self, thing: &T) -> Option<u32> {
        /// Of so many, looking at all is faster than a hash that nobody can foresee.
        const FEW: usize = 8;
        match self.things.len() {
            0..=FEW => self.iter().find(|(_, own)| *own == thing).map(|(n, _)| n),
            _ => self.numbers.get(thing).copied(),
        }
    }

    /// Grows when one comes or goes.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// All that are used.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(&self.things)
            .zip(&self.uses)
            .filter(|(_, uses)| **uses > 0)
            .map(|(thing, _)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_things_are_found_by_their_numbers() {
        for count in [3, 8, 9, 40] {
            let mut things = Interned::default();
            let numbers: Vec<u32> = (0..count).map(|thing| things.acquire(&thing)).collect();
            things.release(numbers[1]);
            for (thing, number) in numbers.iter().enumerate() {
                let expected = (thing != 1).then_some(*number);
                assert_eq!(things.number(&thing), expected, "{thing} of {count}");
            }
        }
    }

    #[test]
    fn a_number_is_used_again_after_its_last_user() {
        let mut things = Interned::default();
        let (a, b) = (things.acquire(&"a"), things.acquire(&"b"));
        assert_eq!(things.acquire(&"a"), a);
        things.release(a);
        assert_eq!((things.get(a), things.len()), (&"a", 2));
        things.release(a);
        assert_eq!((things.number(&"a"), things.number(&"b")), (None, Some(b)));
        assert_eq!(things.acquire(&"c"), a);
        assert_eq!(things.iter().collect::<Vec<_>>(), [(a, &"c"), (b, &"b")]);
    }
}
