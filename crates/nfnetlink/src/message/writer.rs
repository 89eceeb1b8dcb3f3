// SPDX-License-Identifier: Apache-2.0

//! Writes messages and attributes.

use super::align;

/// `NLA_F_NESTED`.
pub const NESTED: u16 = 0x8000;

/// The start of a message or attribute; its length is set at the end.
#[derive(Clone, Copy, Debug)]
pub struct Start(usize);

/// Messages, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins a message. Its length is set by [`Writer::end`].
    pub fn begin(&mut self, kind: u16, flags: u16, sequence: u32, port: u32) -> Start {
        let start = Start(self.bytes.len());
        self.raw(&[0; 4]);
        self.raw(&kind.to_ne_bytes());
        self.raw(&flags.to_ne_bytes());
        self.raw(&sequence.to_ne_bytes());
        self.raw(&port.to_ne_bytes());
        start
    }

    /// Ends a message.
    pub fn end(&mut self, start: Start) {
        let len = (self.bytes.len() - start.0) as u32;
        if let Some(place) = self.bytes.get_mut(start.0..start.0 + 4) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
        self.pad();
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Zeroes up to the next multiple of 4.
    pub fn pad(&mut self) {
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    /// An attribute. A value of more than 65,531 bytes cannot be told; its end is left away.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let most = usize::from(u16::MAX) - 4;
        let value = value.get(..most).unwrap_or(value);
        self.raw(&(value.len() as u16 + 4).to_ne_bytes());
        self.raw(&kind.to_ne_bytes());
        self.raw(value);
        self.pad();
    }

    /// One byte.
    pub fn u8(&mut self, kind: u16, value: u8) {
        self.attribute(kind, &[value]);
    }

    /// Two bytes in network order.
    pub fn be16(&mut self, kind: u16, value: u16) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Four bytes in network order.
    pub fn be32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Eight bytes in network order.
    pub fn be64(&mut self, kind: u16, value: u64) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// A text with a zero at its end (`nla_put_string()`).
    pub fn string(&mut self, kind: u16, value: &str) {
        let start = self.start_nest(kind);
        self.raw(value.as_bytes());
        self.raw(&[0]);
        self.end_nest(start);
    }

    /// An attribute with attributes in it. The kernel's old subsystems leave [`NESTED`] away.
    pub fn nest<R>(&mut self, kind: u16, write: impl FnOnce(&mut Self) -> R) -> R {
        let start = self.start_nest(kind);
        let result = write(self);
        self.end_nest(start);
        result
    }

    /// Begins an attribute with attributes in it.
    pub fn start_nest(&mut self, kind: u16) -> Start {
        let start = Start(self.bytes.len());
        self.raw(&[0; 2]);
        self.raw(&kind.to_ne_bytes());
        start
    }

    /// Ends an attribute with attributes in it.
    pub fn end_nest(&mut self, start: Start) {
        let len = (self.bytes.len() - start.0) as u16;
        if let Some(place) = self.bytes.get_mut(start.0..start.0 + 2) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
        self.pad();
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that was written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// What was written after the first `at` bytes; the writer keeps those before.
    pub fn split_off(&mut self, at: usize) -> Vec<u8> {
        self.bytes.split_off(at.min(self.bytes.len()))
    }
}
