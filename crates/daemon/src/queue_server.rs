// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to programs (`queue`): the side of the programs. A program listens on a
//! Unix socket and speaks the protocol of `docs/queue.md`, as with `penstock run --queue`.
//!
//! A thread per queue connects to the program, again and again if it must, and reads its answers;
//! another one writes. Which socket is the right one may change meanwhile ([`Place`]).

use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_io::queue::{self, Message};

use crate::log;
use crate::queues::{MOST, Program};
use crate::requests::workers::Workers;
use crate::requests::{Further, Request};
use crate::seccomp::{self, Thread};

/// Between two tries to connect to a program.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a program may take for its first message.
const OPENING: Duration = Duration::from_secs(10);
/// How long a program may take to read what it is given, or to say the rest of what it has begun to
/// say.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a program may hold packets without any verdict.
const SILENCE: Duration = Duration::from_secs(30);
/// Answers that wait for the worker; a program that has given more waits.
const ANSWERS: usize = 256;

/// Where the program of a queue listens.
#[derive(Debug, Default)]
pub(crate) struct Place(Mutex<PlaceState>);

#[derive(Debug, Default)]
struct PlaceState {
    /// Nowhere: the queue is nobody's.
    socket: Option<Arc<Path>>,
    /// A program is connected, or just was.
    busy: bool,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, PlaceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there, or nowhere.
    pub(crate) fn set(&self, socket: Option<&Path>) {
        self.lock().socket = socket.map(Arc::from);
    }

    /// Whether the queue is a program's by this, or still is.
    pub(crate) fn is_taken(&self) -> bool {
        let state = self.lock();
        state.socket.is_some() || state.busy
    }

    /// The socket to connect to next.
    fn next(&self) -> Option<Arc<Path>> {
        let mut state = self.lock();
        state.busy = state.socket.is_some();
        state.socket.clone()
    }

    fn is(&self, socket: &Path) -> bool {
        self.lock().socket.as_deref() == Some(socket)
    }
}

/// Connects programs to a queue, for ever: who listens at its place then.
pub(crate) fn serve(num: u16, place: &Place, workers: &Arc<Workers>) {
    seccomp::enter(Thread::Queue);
    // Of which missing program it is logged already.
    let mut said = None;
    loop {
        let Some(socket) = place.next() else {
            std::thread::sleep(AGAIN);
            continue;
        };
        match UnixStream::connect(&*socket) {
            Ok(stream) => {
                said = None;
                match listen(num, stream, workers, &|| place.is(&socket)) {
                    Ok(()) => {
                        log(format_args!("queue {num}: {} no longer listens", socket.display()))
                    }
                    Err(e) => {
                        log(format_args!("queue {num}: {}: {e}; trying again", socket.display()))
                    }
                }
            }
            Err(e) if said.as_ref() != Some(&socket) => {
                log(format_args!("queue {num}: {}: {e}; trying again", socket.display()));
                said = Some(socket);
            }
            Err(_) => {}
        }
        std::thread::sleep(AGAIN);
    }
}

/// Serves one connection, until its end, or until it is no longer `wanted`.
fn listen(
    num: u16,
    mut stream: UnixStream,
    workers: &Arc<Workers>,
    wanted: &dyn Fn() -> bool,
) -> io::Result<()> {
    let invalid = |what: &'static str| io::Error::new(ErrorKind::InvalidData, what);
    let slow = |what: &'static str| io::Error::new(ErrorKind::TimedOut, what);
    let words = |e: io::Error, late: &'static str| match e.kind() {
        ErrorKind::WouldBlock => slow(late),
        ErrorKind::UnexpectedEof => invalid("a message is cut"),
        _ => e,
    };
    let mut buffer = Vec::new();
    stream.set_read_timeout(Some(OPENING))?;
    let opened = queue::read(&mut stream, &mut buffer);
    let open = match opened.map_err(|e| words(e, "the program does not open the queue"))? {
        Some(Message::Open(open)) if open.version == queue::VERSION => open,
        Some(Message::Open(_)) => {
            return Err(invalid("another version of the protocol is asked for"));
        }
        _ => return Err(invalid("the program does not open the queue")),
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (to, packets) = sync_channel((open.length as usize).clamp(1, MOST));
    let writing = stream.try_clone()?;
    let stuck = Arc::new(AtomicBool::new(false));
    let tell = stuck.clone();
    std::thread::Builder::new().name("queue".into()).spawn(move || {
        seccomp::enter(Thread::Queue);
        if write(&writing, &packets).is_err_and(|e| e.kind() == ErrorKind::WouldBlock) {
            tell.store(true, Relaxed);
        }
        // The reader finds its end, too.
        let _ = writing.shutdown(std::net::Shutdown::Both);
    })?;
    let program = Program::new(open, to);
    let waiting = program.waiting().clone();
    workers.tell(|| Request::Queue(num, Some(program.clone())));
    // The writer ends with the last of those who give it packets.
    drop(program);
    log(format_args!("queue {num}: a program listens"));
    let mut heard = Instant::now();
    let result = loop {
        if !wanted() {
            break Ok(());
        }
        if !is_ready(&stream) {
            if waiting.load(Relaxed) == 0 {
                heard = Instant::now();
            }
            if heard.elapsed() >= SILENCE {
                break Err(slow("the program answers no packets"));
            }
            continue;
        }
        heard = Instant::now();
        match queue::read(&mut stream, &mut buffer) {
            Ok(Some(Message::Answer(answer))) => {
                // Only the worker that queued the packet knows it.
                for inbox in workers.inboxes() {
                    let mut request =
                        Request::Answers([(num, answer.clone(), Further::default())].into());
                    while let Err(back) = inbox.offer(request, ANSWERS) {
                        request = back;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            _ if stuck.load(Relaxed) => break Err(slow("the program takes no packets")),
            Ok(None) => break Ok(()),
            Ok(Some(_)) => break Err(invalid("no answer, but something else")),
            Err(e) => break Err(words(e, "half an answer, and no more")),
        }
    };
    workers.tell(|| Request::Queue(num, None));
    let _ = stream.shutdown(std::net::Shutdown::Both);
    result
}

/// Whether a message begins, or the end, within a second.
fn is_ready(stream: &UnixStream) -> bool {
    let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, 1000) > 0 }
}

/// Sends packets to a program until the senders are gone.
fn write(mut stream: &UnixStream, packets: &Receiver<Message>) -> io::Result<()> {
    let mut buffer = Vec::new();
    packets.iter().try_for_each(|message| queue::write(&mut stream, &message, &mut buffer))
}
