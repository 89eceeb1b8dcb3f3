// SPDX-License-Identifier: Apache-2.0

//! `penstock capture`: what it asks for, what it is told, and the server's side of it.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::admission::Rights;
use super::capture_call::CaptureCall;
use super::connection::Client;
use super::protocol::Message;
use super::rules::Process;
use super::server::Server;
use crate::evaluator::{End, Task};
use crate::probe::{self, Probe};
use crate::worker::Request;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Where it came from, or leaves by.
    pub interface: String,
    /// `LINKTYPE_*`.
    pub link_type: u16,
    /// It leaves.
    pub outgoing: bool,
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// Bytes that it had.
    pub len: u32,
    /// The first of them.
    pub bytes: Vec<u8>,
}

impl Captured {
    /// Appends it as a message has it: length of the name, name, link type, direction, time,
    /// length, bytes that follow, bytes: all little-endian.
    pub fn put(&self, out: &mut Vec<u8>) {
        let name = self.interface.as_bytes().get(..255).unwrap_or(self.interface.as_bytes());
        out.push(name.len() as u8);
        out.extend_from_slice(name);
        out.extend_from_slice(&self.link_type.to_le_bytes());
        out.push(u8::from(self.outgoing));
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.bytes);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        fn bytes<'a>(from: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
            let (first, rest) = from.split_at_checked(count)?;
            *from = rest;
            Some(first)
        }
        fn number<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
            bytes(from, N)?.try_into().ok()
        }
        let [name] = number(from)?;
        let interface = String::from_utf8_lossy(bytes(from, usize::from(name))?).into_owned();
        let link_type = u16::from_le_bytes(number(from)?);
        let [outgoing] = number(from)?;
        let time = u64::from_le_bytes(number(from)?);
        let len = u32::from_le_bytes(number(from)?);
        let count = u32::from_le_bytes(number(from)?) as usize;
        let bytes = bytes(from, count)?.to_vec();
        Some(Captured { interface, link_type, outgoing: outgoing != 0, time, len, bytes })
    }

    /// The frames of a message; `None` if it is broken.
    pub fn all(mut bytes: &[u8]) -> Option<Vec<Captured>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            frames.push(Captured::take(&mut bytes)?);
        }
        Some(frames)
    }
}

/// Takes a probe away when its client has gone, however that is.
struct Held<'s> {
    server: &'s Server,
    number: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.server.rules.end_probe(self.number);
        self.server.workers.tell(|| Request::EndProbe(self.number));
    }
}

impl Server {
    /// Tells a client of frames until it goes.
    pub(super) fn capture(
        &self,
        client: &Client,
        call: &CaptureCall,
        process: &Process,
    ) -> io::Result<Option<u8>> {
        /// How soon a client that went away is noticed where nothing passes, and how often it is
        /// told of losses.
        const PULSE: Duration = Duration::from_millis(200);
        /// Bytes of frames told at once.
        const TOGETHER: usize = 64 << 10;
        if !call.is_sound() {
            client.say(&Message::Err("Error: the capture is malformed\n".into()))?;
            return Ok(Some(1));
        }
        let names = (self.config.names)(&[]);
        if let Some(device) = &call.device
            && names.interface_index(device).is_none()
        {
            client.say(&Message::Err(format!("Error: Cannot find device \"{device}\"\n")))?;
            return Ok(Some(1));
        }
        let number = self.rules.next_probe();
        let (probe, seen) = Probe::new(number, call);
        let _held = Held { server: self, number };
        self.workers.tell(|| Request::Probe(probe.clone()));
        drop(probe);
        if call.group.is_none() {
            let ports: Vec<String> = self.config.ports.iter().map(|p| p.name.clone()).collect();
            let task = Task::Probe { words: call.words().to_vec(), ports };
            let generation = match self.evaluate(client, task, Rights::All, process)? {
                End::HandedOver(generation) => generation,
                End::Done => return Ok(None),
                End::Failed(sentence) => {
                    client.say(&Message::Err(format!("Error: {sentence}\n")))?;
                    return Ok(Some(1));
                }
            };
            let started = probe::table_of(&generation, number)
                .and_then(|table| self.rules.begin_probe(table));
            if let Err(message) = started {
                client.say(&Message::Err(message))?;
                return Ok(Some(1));
            }
        }
        // It is there from here on.
        client.say(&Message::Lost(0))?;
        let mut told = 0;
        loop {
            match seen.next(PULSE) {
                Ok(frame) => {
                    let mut bytes = Vec::new();
                    frame.put(&mut bytes);
                    while bytes.len() < TOGETHER
                        && let Ok(frame) = seen.next(Duration::ZERO)
                    {
                        frame.put(&mut bytes);
                    }
                    client.say(&Message::Frames(bytes))?;
                }
                Err(RecvTimeoutError::Timeout) => client.is_there()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(1)),
            }
            if seen.lost() != told {
                told = seen.lost();
                client.say(&Message::Lost(told))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(expression: &str) -> CaptureCall {
        CaptureCall {
            family: "inet".into(),
            hook: "forward".into(),
            priority: "filter - 10".into(),
            device: Some("eth0".into()),
            snaplen: 96,
            group: None,
            expression: expression.into(),
        }
    }

    #[test]
    fn calls_come_as_they_were_made() {
        for group in [None, Some(7)] {
            let call = CaptureCall { group, ..call("tcp dport { 22, 80 }") };
            assert_eq!(CaptureCall::of(call.words().to_vec()), Some(call));
        }
        assert_eq!(CaptureCall::of(vec!["inet".into()]), None);
    }

    #[test]
    fn an_expression_is_one() {
        for expression in
            ["", "tcp dport { 22, 80 }", "ip saddr . tcp dport { 198.18.0.1 . 1-2 } ct state new"]
        {
            assert!(call(expression).is_sound(), "{expression}");
        }
        for expression in
            ["tcp dport 22; flush ruleset", "tcp dport 1 }", "tcp dport 1\naccept", "} {", "a # b"]
        {
            assert!(!call(expression).is_sound(), "{expression}");
        }
        assert!(!CaptureCall { device: Some("a\" }".into()), ..call("") }.is_sound());
        assert!(!CaptureCall { priority: "0; }".into(), ..call("") }.is_sound());
    }

    #[test]
    fn frames_come_as_they_passed() {
        let frame = Captured {
            interface: "eth0".into(),
            link_type: 101,
            outgoing: true,
            time: 1_700_000_000_123_456_789,
            len: 1500,
            bytes: vec![0x45, 0, 3],
        };
        let mut bytes = Vec::new();
        frame.put(&mut bytes);
        Captured { interface: String::new(), bytes: vec![], ..frame.clone() }.put(&mut bytes);
        let all = Captured::all(&bytes).expect("two frames");
        assert_eq!((all.len(), &all[0]), (2, &frame));
        // Wherever it is cut, it is whole frames or none.
        for cut in 1..bytes.len() {
            assert!(Captured::all(&bytes[..cut]).is_none_or(|frames| frames.len() == 1), "{cut}");
        }
    }
}
