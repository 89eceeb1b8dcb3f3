// SPDX-License-Identifier: Apache-2.0

//! What is known of registers at a place in a function, from instructions before it. In contrast to
//! hints it is certain: accesses rely on it.

use crate::op::Cond;

/// A memory that code looks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Context,
    Packet,
    Frame,
    Values(u32),
}

/// A place in the packet that a register has the address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// So far from where the program sees the packet begin.
    Data(i32),
    /// Where it ends.
    End,
}

/// What is known of a register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fact {
    pub(super) number: Option<u64>,
    /// From and up to which distance its address is in a window.
    pub(super) within: Option<(Window, i32, i32)>,
    /// It has the address of a value of a map, of so many bytes, or 0.
    pub(super) found: Option<(u32, i32)>,
    pub(super) place: Option<Place>,
}

impl Fact {
    /// That of a register with a number.
    pub(super) fn number(number: u64) -> Fact {
        Fact { number: Some(number), ..Fact::default() }
    }

    /// That of the register when a number is added.
    pub(super) fn moved(self, by: i32) -> Fact {
        let within = self.within.and_then(|(window, from, to)| match window {
            Window::Context => None,
            _ => Some((window, from.checked_sub(by)?, to.checked_sub(by)?)),
        });
        let place = self.place.and_then(|place| match place {
            Place::Data(at) => Some(Place::Data(at.checked_add(by)?)),
            Place::End => None,
        });
        let number = self.number.map(|n| n.wrapping_add(i64::from(by) as u64));
        Fact { number, within, found: None, place }
    }
}

/// What is known of all registers at a place, and of the packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    registers: [Fact; 11],
    /// The packet has at least so many bytes.
    bytes: i32,
}

impl Facts {
    pub(super) fn of(&self, register: u8) -> Fact {
        self.registers.get(usize::from(register)).copied().unwrap_or_default()
    }

    pub(super) fn know(&mut self, register: u8, fact: Fact) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = fact;
        }
    }

    pub(super) fn forget(&mut self, register: u8) {
        self.know(register, Fact::default());
    }

    pub(super) fn forget_packet(&mut self) {
        self.bytes = 0;
        for fact in &mut self.registers {
            fact.within = fact.within.filter(|(window, ..)| *window != Window::Packet);
            fact.place = None;
        }
    }

    /// Whether bytes at a distance from a register's address are in the packet, as comparisons of
    /// the program with its end have shown.
    pub(super) fn in_packet(&self, register: u8, off: i32, len: i32) -> bool {
        let Some(Place::Data(at)) = self.of(register).place else { return false };
        let from = i64::from(at) + i64::from(off);
        from >= 0 && from + i64::from(len) <= i64::from(self.bytes)
    }

    /// What a comparison of two registers shows: where it holds, and where it does not.
    pub(super) fn compared(&self, cond: Cond, dst: u8, src: u8) -> (Facts, Facts) {
        let (mut holds, mut not) = (self.clone(), self.clone());
        let places = (self.of(dst).place, self.of(src).place);
        // The packet has `at` bytes where the place is not after the end, and one more where it is
        // before it.
        match (places, cond) {
            ((Some(Place::Data(at)), Some(Place::End)), cond) => match cond {
                Cond::Gt => not.has(at),
                Cond::Ge => not.has(at.saturating_add(1)),
                Cond::Le => holds.has(at),
                Cond::Lt => holds.has(at.saturating_add(1)),
                _ => {}
            },
            ((Some(Place::End), Some(Place::Data(at))), cond) => match cond {
                Cond::Lt => not.has(at),
                Cond::Le => not.has(at.saturating_add(1)),
                Cond::Ge => holds.has(at),
                Cond::Gt => holds.has(at.saturating_add(1)),
                _ => {}
            },
            _ => {}
        }
        (holds, not)
    }

    /// What a comparison of a register with a number shows: where it holds, and where it does not.
    pub(super) fn compared_with(&self, cond: Cond, register: u8, number: i32) -> (Facts, Facts) {
        let (mut holds, mut not) = (self.clone(), self.clone());
        match (cond, number) {
            (Cond::Eq, 0) => not.is_found(register),
            (Cond::Ne, 0) => holds.is_found(register),
            _ => {}
        }
        (holds, not)
    }

    fn has(&mut self, bytes: i32) {
        self.bytes = self.bytes.max(bytes);
    }

    /// A register that may have the address of a value is not 0.
    fn is_found(&mut self, register: u8) {
        if let Some(fact) = self.registers.get_mut(usize::from(register))
            && let Some((map, len)) = fact.found
        {
            fact.within = Some((Window::Values(map), 0, len));
        }
    }
}
