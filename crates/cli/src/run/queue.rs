//! `--queue N=SOCKET`: packets that rules queue go to a program, and its answers come back.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use penstock_conntrack::Direction;
use penstock_io::queue::{self, Answer, Connection, Message, Open, Verdict, read, write};
use penstock_packet::Packet;
use penstock_path::{Dataplane, QueueAnswer, QueueRecord, QueueVerdict, Queued};
use penstock_program::Hook;

use super::output::Output;

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
            _ => return Err(format!("Error: --queue {num}={name}: the program does not open the queue")),
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
        let Some(listener) = self.listeners.iter_mut().find(|l| l.num == record.queue && !l.gone) else {
            return Queued::Nobody;
        };
        if listener.waiting.len() >= listener.open.length as usize {
            return if listener.open.fail_open { Queued::PassedBy } else { Queued::Full };
        }
        let message = Message::Packet(Box::new(message(record, packet, listener.open.copy)));
        if write(&mut listener.stream, &message, &mut self.buffer).is_err() {
            listener.gone = true;
            return Queued::Nobody;
        }
        listener.waiting.push(record.id);
        Queued::Held
    }

    /// Says that no more packets come.
    pub fn end(&mut self) {
        for listener in self.listeners.iter_mut().filter(|l| !l.gone) {
            // Who has gone has nothing to answer: reading will tell.
            let _ = write(&mut listener.stream, &Message::End, &mut self.buffer);
            listener.open.window = 1;
        }
    }

    /// Waits for a message of a program that has as many packets as it asked for: its answer, or `None` in place of it if
    /// the program has gone.
    fn next(&mut self) -> Option<(u16, Option<Answer>)> {
        let full = |l: &&mut Listener| l.waiting.len() >= (l.open.window.max(1).min(l.open.length)) as usize;
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
                eprintln!("Error: --queue {}={}: no answer, but something else", listener.num, listener.name);
                listener.gone = true;
                listener.waiting.clear();
                Some((listener.num, None))
            }
        }
    }

    /// The packets that an answer is for.
    fn answered(&mut self, num: u16, answer: &Answer) -> Vec<u64> {
        let Some(listener) = self.listeners.iter_mut().find(|l| l.num == num) else { return Vec::new() };
        let is_meant = |id: &u64| *id == answer.id || answer.up_to && *id < answer.id;
        let ids = listener.waiting.iter().copied().filter(is_meant).collect();
        listener.waiting.retain(|id| !is_meant(id));
        ids
    }
}

/// Waits for answers until every program has fewer packets than it wants to have at once, and lets packets go on.
pub fn settle(path: &mut Dataplane, output: &mut Output, now: u64) {
    while let Some((num, answer)) = output.queues.next() {
        let Some(answer) = answer else {
            path.close_queue(num, now, output);
            continue;
        };
        let verdict = match answer.verdict {
            Verdict::Drop => QueueVerdict::Drop,
            Verdict::Accept => QueueVerdict::Accept,
            Verdict::Queue => QueueVerdict::Queue { num: answer.queue, bypass: answer.bypass },
            Verdict::Repeat => QueueVerdict::Repeat,
            Verdict::Stop => QueueVerdict::Stop,
        };
        let said = QueueAnswer { verdict, mark: answer.mark, payload: answer.payload.as_deref() };
        for id in output.queues.answered(num, &answer) {
            // One that was dropped meanwhile needs no answer any more.
            let _ = path.verdict(id, &said, now, output);
        }
    }
}

fn message(record: &QueueRecord<'_>, packet: &Packet, copy: u32) -> queue::Packet {
    let device = |link: Option<&penstock_net::Link>| {
        link.map_or((0, String::new()), |link| (link.index, link.name.to_string()))
    };
    let meta = &packet.meta;
    let network = packet.network();
    let connection = record.connection.as_ref().map(|connection| Connection {
        info: meta.ct.info as u8,
        status: connection.status(),
        mark: connection.mark(),
        id: connection.id(),
        zone: connection.zone(Direction::Original),
    });
    queue::Packet {
        id: record.id,
        time: meta.time,
        queue: record.queue,
        protocol: meta.protocol,
        hook: match record.context.hook {
            Hook::Prerouting | Hook::Ingress => 0,
            Hook::Input => 1,
            Hook::Forward => 2,
            Hook::Output | Hook::Egress => 3,
            Hook::Postrouting => 4,
        },
        family: record.context.nfproto,
        mark: meta.mark,
        priority: meta.priority,
        input: device(record.input),
        output: device(record.output),
        connection,
        link: packet.link().to_vec(),
        len: network.len() as u32,
        payload: network.get(..copy as usize).unwrap_or(network).to_vec(),
    }
}
