// SPDX-License-Identifier: Apache-2.0

//! One run of a program, and its memory by address. Every access is checked here.

use std::ops::{Deref, DerefMut};

use crate::context::Context;
use crate::fault::FaultKind;
use crate::host::Host;
use crate::op::Size;
use crate::space::{CONNECTIONS, CONTEXT, MAPS, OBJECTS, PACKET, split};
use crate::state::State;

/// A run: the state of its machine, with a context and a host.
pub(crate) struct Run<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) context: &'a mut Context,
    pub(crate) host: &'a mut dyn Host,
}

impl Deref for Run<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        self.state
    }
}

impl DerefMut for Run<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.state
    }
}

impl Run<'_> {
    /// Pays for work; a run has a limit of it.
    #[inline]
    pub(crate) fn pay(&mut self, steps: u64) -> Result<(), FaultKind> {
        self.steps = self.steps.checked_sub(steps).ok_or(FaultKind::Steps)?;
        Ok(())
    }

    /// Memory to be read. The context and structures of the kernel are none of it: they have
    /// fields.
    #[inline]
    pub(crate) fn memory(&self, at: u64, len: usize) -> Option<&[u8]> {
        match split(at) {
            (PACKET, offset) if self.context.is_direct() => {
                self.context.packet().at(offset as usize, len)
            }
            _ => self.state.memory(at, len),
        }
    }

    /// Memory to be written.
    #[inline]
    pub(crate) fn memory_mut(&mut self, at: u64, len: usize) -> Option<&mut [u8]> {
        match split(at) {
            (PACKET, offset) if self.context.is_writable() => {
                self.context.packet_mut().at_mut(offset as usize, len)
            }
            _ => self.state.memory_mut(at, len),
        }
    }

    #[inline]
    pub(crate) fn load(&self, at: u64, size: Size) -> Result<u64, FaultKind> {
        let wrong = FaultKind::Read(at, size as u32);
        let Some(bytes) = self.memory(at, size as usize) else {
            return match split(at) {
                (CONTEXT, offset) => self.context.load(offset, size as u32),
                (OBJECTS, offset) => self.context.object(offset, size as u32),
                (CONNECTIONS, offset) => self.connections.load(offset, size as u32).ok_or(wrong),
                _ => Err(wrong),
            };
        };
        let value = match size {
            Size::B => bytes.first().map(|b| u64::from(*b)),
            Size::H => bytes.first_chunk().map(|b| u64::from(u16::from_le_bytes(*b))),
            Size::W => bytes.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b))),
            Size::D => bytes.first_chunk().map(|b| u64::from_le_bytes(*b)),
        };
        value.ok_or(wrong)
    }

    #[inline]
    pub(crate) fn store(&mut self, at: u64, size: Size, value: u64) -> Result<(), FaultKind> {
        let wrong = FaultKind::Write(at, size as u32);
        let Some(place) = self.memory_mut(at, size as usize) else {
            return match split(at) {
                (CONTEXT, offset) => self.context.store(offset, size as u32, value),
                _ => Err(wrong),
            };
        };
        match size {
            Size::B => {
                if let Some(byte) = place.first_mut() {
                    *byte = value as u8;
                }
            }
            Size::H => place.copy_from_slice(&(value as u16).to_le_bytes()),
            Size::W => place.copy_from_slice(&(value as u32).to_le_bytes()),
            Size::D => place.copy_from_slice(&value.to_le_bytes()),
        }
        Ok(())
    }

    /// Whether words at an address may be changed at once: not in packets.
    pub(crate) fn is_atomic(&self, at: u64, size: Size) -> bool {
        split(at).0 != PACKET && at.is_multiple_of(size as u64)
    }

    /// The map that a register names.
    pub(crate) fn map_number(&self, register: u64) -> Option<usize> {
        match split(register) {
            (region, 0) if region >= MAPS => {
                let number = (region - MAPS) as usize;
                (number < self.maps.len()).then_some(number)
            }
            _ => None,
        }
    }
}
