// SPDX-License-Identifier: Apache-2.0

//! `penstock capture`: sends frames to a client until it disconnects.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use penstock_lang::names::Names;
use penstock_system::SystemNames;

use super::Server;
use crate::control::protocol::Message;
use crate::control::{CaptureCall, Client, Rights};
use crate::evaluator::{End, Task};
use crate::probe::{self, Probe};
use crate::requests::Request;
use crate::rules::Process;

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
        /// How soon a disconnected client is noticed without traffic, and how often losses are
        /// reported.
        const PULSE: Duration = Duration::from_millis(200);
        /// Bytes of frames told at once.
        const TOGETHER: usize = 64 << 10;
        if !call.is_sound() {
            client.say(&Message::Err("Error: the capture is malformed\n".into()))?;
            return Ok(Some(1));
        }
        let names = SystemNames::default();
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
            let ports = self.ports.taken.names();
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
