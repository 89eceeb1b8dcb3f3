// SPDX-License-Identifier: Apache-2.0

//! What is known of registers at a place in a function, from instructions before it.

/// A memory that code looks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Context,
    Packet,
    Frame,
    Values(u32),
}

/// What is known of a register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fact {
    pub(super) number: Option<u64>,
    /// From and up to which distance its address is in a window.
    pub(super) within: Option<(Window, i32, i32)>,
}

impl Fact {
    /// That of the register when a number is added.
    pub(super) fn moved(self, by: i32) -> Fact {
        let within = self.within.and_then(|(window, from, to)| match window {
            Window::Context => None,
            _ => Some((window, from.checked_sub(by)?, to.checked_sub(by)?)),
        });
        Fact { number: self.number.map(|n| n.wrapping_add(i64::from(by) as u64)), within }
    }
}

/// What is known of all registers at a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts([Fact; 11]);

impl Facts {
    pub(super) fn of(&self, register: u8) -> Fact {
        self.0.get(usize::from(register)).copied().unwrap_or_default()
    }

    pub(super) fn know(&mut self, register: u8, fact: Fact) {
        if let Some(place) = self.0.get_mut(usize::from(register)) {
            *place = fact;
        }
    }

    pub(super) fn know_number(&mut self, register: u8, number: u64) {
        self.know(register, Fact { number: Some(number), within: None });
    }

    pub(super) fn forget(&mut self, register: u8) {
        self.know(register, Fact::default());
    }

    pub(super) fn forget_packet(&mut self) {
        for fact in &mut self.0 {
            fact.within = fact.within.filter(|(window, ..)| *window != Window::Packet);
        }
    }
}
