// SPDX-License-Identifier: Apache-2.0

//! `--queue N=SOCKET`: packets that rules queue go to a program, and its answers come back.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use penstock_daemon::{errln, queue_packet};
use penstock_dataplane::{QueueRecord, Queued};
use penstock_io::queue::{self, Answer, Message, Open, read, write};
use penstock_packet::Packet;

/// How long a program may take for its first message.
const OPENING: Duration = Duration::from_secs(10);

/// The program that listens to a queue.
struct Listener {
    num: u16,
    name: String,
    stream: UnixStream,
    open: Open,
    /// Packets sent and not answered, in order; some may have ended meanwhile.
    waiting: Vec<u64>,
    /// It has closed the queue.
    gone: bool,
}

/// All programs that listen.
#[derive(Default)]
pub struct Queues {
    listeners: Vec<Listener>,
    buffer: Vec<u8>,
}

impl Queues {
    /// Connects to a program and hears what it asks for. The error is a sentence for the user.
    pub fn open(&mut self, num: u16, socket: &Path) -> Result<(), String> {
        let name = socket.display().to_string();
        let failed = |e: std::io::Error| format!("Error: --queue {num}={name}: {e}");
        let mut stream = UnixStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(OPENING)).map_err(failed)?;
        let open = match read(&mut stream, &mut self.buffer).map_err(failed)? {
            Some(Message::Open(open)) if open.version == queue::VERSION => open,
            Some(Message::Open(open)) => {
                return Err(format!(
                    "Error: --queue {num}={name}: protocol version {} is asked for, this is {}",
                    open.version,
                    queue::VERSION
                ));
            }
            _ => {
                return Err(format!(
                    "Error: --queue {num}={name}: the program does not open the queue"
                ));
            }
        };
        stream.set_read_timeout(None).map_err(failed)?;
        self.listeners.push(Listener { num, name, stream, open, waiting: Vec::new(), gone: false });
        Ok(())
    }

    /// Whether a program listens, or has listened.
    pub fn is_heard(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Sends a packet to who listens.
    pub fn send(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        let Some(listener) = self.listeners.iter_mut().find(|l| l.num == record.queue && !l.gone)
        else {
            return Queued::Nobody;
        };
        if listener.waiting.len() >= listener.open.length as usize {
            return if listener.open.fail_open { Queued::PassedBy } else { Queued::Full };
        }
        let message = Message::Packet(Box::new(queue_packet(record, packet, listener.open.copy)));
        if write(&mut listener.stream, &message, &mut self.buffer).is_err() {
            listener.gone = true;
            return Queued::Nobody;
        }
        listener.waiting.push(record.id);
        Queued::Held
    }

    /// Announces the end of packets.
    pub fn end(&mut self) {
        for listener in self.listeners.iter_mut().filter(|l| !l.gone) {
            // Who has gone has nothing to answer: reading will tell.
            let _ = write(&mut listener.stream, &Message::End, &mut self.buffer);
            listener.open.window = 1;
        }
    }

    /// Waits for a message of a program that has as many packets as it asked for: its answer, or
    /// `None` in place of it if the program has gone.
    pub(super) fn next(&mut self) -> Option<(u16, Option<Answer>)> {
        let full = |l: &&mut Listener| {
            l.waiting.len() >= (l.open.window.max(1).min(l.open.length)) as usize
        };
        let listener = self.listeners.iter_mut().filter(|l| !l.waiting.is_empty()).find(full)?;
        if listener.gone {
            listener.waiting.clear();
            return Some((listener.num, None));
        }
        match read(&mut listener.stream, &mut self.buffer) {
            Ok(Some(Message::Answer(answer))) => Some((listener.num, Some(answer))),
            Ok(None) => {
                listener.gone = true;
                listener.waiting.clear();
                Some((listener.num, None))
            }
            Ok(Some(_)) | Err(_) => {
                errln!(
                    "Error: --queue {}={}: no answer, but something else",
                    listener.num,
                    listener.name
                );
                listener.gone = true;
                listener.waiting.clear();
                Some((listener.num, None))
            }
        }
    }

    /// The packets that an answer is for.
    pub(super) fn answered(&mut self, num: u16, answer: &Answer) -> Vec<u64> {
        let Some(listener) = self.listeners.iter_mut().find(|l| l.num == num) else {
            return Vec::new();
        };
        let is_meant = |id: &u64| *id == answer.id || answer.up_to && *id < answer.id;
        let ids = listener.waiting.iter().copied().filter(is_meant).collect();
        listener.waiting.retain(|id| !is_meant(id));
        ids
    }
}
