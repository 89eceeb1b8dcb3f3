// SPDX-License-Identifier: Apache-2.0

//! A process that returns the devices when the dataplane dies, for any reason, or hangs.
//!
//! It holds the other descriptors of the TAPs, so these are still there, with all that stands on
//! them, when it is needed. It ignores the usual termination signals: it ends with the dataplane.
//! It kills a dataplane that has begun to beat and misses a beat.

pub(crate) mod heartbeat;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_io::device::Tap;
use penstock_netlink::Socket;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::config::OnDeath;
use crate::devices::on_death::{self, closed_devices, how_to_open};
use crate::devices::record::{self, Record};
use crate::devices::takeover::{Taken, WrittenPort, restore};
use crate::seccomp::{self, Thread};
use crate::{control, log, namespace_lock, rights};

/// What the dataplane says to its guardian.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// All devices are returned.
    Done,
    /// Packets are processed, and the next beat comes within so many milliseconds; 0 for no more
    /// beats.
    Beat(u32),
    /// The device of the port with this TAP has this index now.
    Back { tap: u32, device: u32 },
    /// Another device is about to be taken. The TAP comes along.
    Taken(Taken),
    /// The device in whose place this TAP was is returned.
    Returned(u32),
}

/// Bytes of a word at most: names of VLAN devices on a device are the most of it.
const WORD: usize = 1 << 20;
/// How long the dataplane waits for a guardian that is held up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Our end of the channel to it.
#[derive(Debug)]
pub struct Guardian {
    channel: Arc<Channel>,
    /// Its process.
    pub process: i32,
}

/// A TAP that is held, so that it stays with all that stands on it.
type HeldTap = (u32, OwnedFd);

impl Guardian {
    /// Starts it. There must be no other thread yet. It closes its copy of the metrics listener:
    /// the next dataplane needs the address.
    pub fn start(
        taken: &[Taken],
        taps: &[Tap],
        on_death: &OnDeath,
        metrics: Option<&TcpListener>,
    ) -> io::Result<Guardian> {
        let (theirs, ours) = Channel::pair(PATIENCE)?;
        let held = taken.iter().zip(taps);
        let held = held.map(|(taken, tap)| Ok((taken.tap, tap.try_clone()?.into_fd())));
        let held: Vec<HeldTap> = held.collect::<io::Result<_>>()?;
        // SAFETY: this is the only thread, so that the child may continue like any process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                if let Some(listener) = metrics {
                    // SAFETY: a descriptor of this process, which does not use it from here on.
                    unsafe { libc::close(listener.as_raw_fd()) };
                }
                // A TAP that is returned has to disappear: one descriptor of each is kept.
                for tap in taps {
                    // SAFETY: as above.
                    unsafe { libc::close(tap.as_fd().as_raw_fd()) };
                }
                watch(&theirs, taken, held, on_death);
                // SAFETY: ends the child without running what the parent has registered.
                unsafe { libc::_exit(0) }
            }
            process => Ok(Guardian { channel: Arc::new(ours), process }),
        }
    }

    /// Something to tell it by, for other threads.
    pub fn handle(&self) -> GuardianHandle {
        GuardianHandle(self.channel.clone())
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        // SAFETY: asks about a child of ours; no pointer is given.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), libc::WNOHANG) == self.process }
    }

    /// All devices are returned: ends the guardian, which has nothing to do if it cannot be told.
    pub fn dismiss(self) {
        let told = self.handle().say(&Word::Done, None).is_ok();
        // SAFETY: no pointer is given. A child that has not been waited for keeps its number.
        unsafe {
            let wait = |options| libc::waitpid(self.process, std::ptr::null_mut(), options);
            if !told && wait(libc::WNOHANG) == 0 {
                libc::kill(self.process, libc::SIGKILL);
            }
            wait(0);
        }
    }
}

/// Tells the guardian what it has to know. Without a guardian nothing is told.
#[derive(Clone, Debug)]
pub struct GuardianHandle(Arc<Channel>);

impl GuardianHandle {
    /// Says a word: once more if the system had no memory for it.
    fn say(&self, word: &Word, tap: Option<&Tap>) -> io::Result<()> {
        let fds: Vec<_> = tap.iter().map(|tap| tap.as_fd()).collect();
        match self.0.say_with(word, &fds) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM)) => {
                self.0.say_with(word, &fds)
            }
            said => said,
        }
    }

    /// Says a word. Without a guardian there is no receiver, and nothing to be done about it.
    fn tell(&self, word: &Word, tap: Option<&Tap>) {
        let _ = self.say(word, tap);
    }

    /// The device of the port with this TAP has another index now.
    pub fn back(&self, tap: u32, device: u32) {
        self.tell(&Word::Back { tap, device }, None);
    }

    /// A device is about to be taken.
    pub fn taken(&self, taken: &Taken, tap: &Tap) {
        self.tell(&Word::Taken(taken.clone()), Some(tap));
    }

    /// The device in whose place this TAP was is returned.
    pub fn returned(&self, tap: u32) {
        self.tell(&Word::Returned(tap), None);
    }

    /// Packets are processed, and the next beat comes within this time; zero ends the beats.
    pub fn beat(&self, patience: Duration) {
        self.tell(&Word::Beat(patience.as_millis().min(u32::MAX.into()) as u32), None);
    }
}

/// A process that waits for the word to load a ruleset: it may run programs, which the guardian may
/// not.
struct Loader(File);

impl Loader {
    /// Starts it. There must be no other thread. It does not keep the TAPs.
    fn start(on_death: &OnDeath, held: &[HeldTap]) -> io::Result<Option<Loader>> {
        let OnDeath::Ruleset(file) = on_death else { return Ok(None) };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        // SAFETY: this is the only thread, so that the child may continue like any process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                for (_, tap) in held {
                    // SAFETY: a descriptor of this process, which does not use it.
                    unsafe { libc::close(tap.as_fd().as_raw_fd()) };
                }
                let mut theirs = File::from(OwnedFd::from(theirs));
                let mut word = [0];
                if theirs.read_exact(&mut word).is_ok() {
                    let loaded = on_death::load(file).inspect_err(|e| log(e));
                    let _ = theirs.write_all(&[u8::from(loaded.is_ok())]);
                }
                // SAFETY: ends the child without running what its parents have registered.
                unsafe { libc::_exit(0) }
            }
            _ => Ok(Some(Loader(File::from(OwnedFd::from(ours))))),
        }
    }

    /// Has it load the ruleset; whether it did.
    fn load(mut self) -> bool {
        /// How long that may take.
        const PATIENCE: Duration = Duration::from_secs(60);
        let mut answer = [0];
        self.0.write_all(&[1]).is_ok()
            && is_readable(&self.0, Some(PATIENCE))
            && self.0.read_exact(&mut answer).is_ok()
            && answer == [1]
    }
}

/// Whether something can be read, or the other side has closed, within a time of the monotonic
/// clock, which does not continue while the machine sleeps.
fn is_readable(file: &File, patience: Option<Duration>) -> bool {
    let end = patience.map(|patience| Instant::now() + patience);
    loop {
        let left = end.map_or(-1, |end| {
            let left = end.saturating_duration_since(Instant::now());
            left.as_micros().div_ceil(1000).min(i32::MAX as u128) as libc::c_int
        });
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        match unsafe { libc::poll(&raw mut poll, 1, left) } {
            0 => return false,
            1.. => return true,
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            // Reading tells what is wrong.
            _ => return true,
        }
    }
}

/// Kills a dataplane that has stopped to beat, and waits until it is gone.
fn end(dataplane: i32, channel: &Channel) {
    /// How long kernel work may delay the end of a process. The process itself does nothing during
    /// that time.
    const PATIENCE: Duration = Duration::from_secs(5);
    if lives(dataplane) {
        // SAFETY: no pointers. As long as it is the parent, no other process has its number.
        unsafe { libc::kill(dataplane, libc::SIGKILL) };
    }
    let until = Instant::now() + PATIENCE;
    let left = || until.saturating_duration_since(Instant::now());
    while !left().is_zero() && !matches!(channel.receive(WORD, Some(left())), Ok(None)) {}
}

/// Whether the dataplane is still there: as long as it is, it is the parent.
fn lives(dataplane: i32) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getppid() == dataplane }
}

/// Listens until the dataplane is gone. `false` if all devices are already returned. That a word
/// cannot be received is no sign of death, and takes the word from nobody: it is asked for again.
fn listen(
    dataplane: i32,
    channel: &Channel,
    taken: &mut Vec<Taken>,
    held: &mut Vec<HeldTap>,
) -> bool {
    /// Between two tries to receive, if one fails: it may go on failing.
    const PAUSE: Duration = Duration::from_millis(10);
    let mut patience = None;
    loop {
        let (bytes, fds) = match channel.receive(WORD, patience) {
            Ok(Some(word)) => word,
            // Nothing more comes from a process that is dead.
            Ok(None) => return true,
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                log("the dataplane is not heard any more: ending it (--hang-time)");
                end(dataplane, channel);
                return true;
            }
            Err(_) if lives(dataplane) => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(_) => return true,
        };
        match postcard::from_bytes(&bytes) {
            Ok(Word::Done) => return false,
            Ok(Word::Beat(next)) => {
                patience = (next > 0).then(|| Duration::from_millis(next.into()));
            }
            Ok(Word::Back { tap, device }) => {
                if let Some(taken) = taken.iter_mut().find(|taken| taken.tap == tap) {
                    taken.device = device;
                }
            }
            Ok(Word::Taken(new)) => {
                held.extend(fds.into_iter().map(|fd| (new.tap, fd)));
                taken.push(new);
            }
            Ok(Word::Returned(tap)) => {
                taken.retain(|taken| taken.tap != tap);
                held.retain(|(held, _)| *held != tap);
            }
            Err(_) => {}
        }
    }
}

fn watch(channel: &Channel, taken: &[Taken], mut held: Vec<HeldTap>, on_death: &OnDeath) {
    // SAFETY: no pointers.
    let dataplane = unsafe { libc::getppid() };
    // SAFETY: no pointers but a terminated string; a separate session keeps the terminal's signals
    // away.
    unsafe {
        libc::setsid();
        for signal in
            [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGABRT]
        {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"penstock-guard".as_ptr());
        // What the dataplane waits for is its alone.
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    // It needs the same rights as the dataplane.
    if let Err(e) = rights::keep_only_needed() {
        log(format_args!("the guardian keeps its capabilities: {e}"));
    }
    let loader = Loader::start(on_death, &held).unwrap_or_else(|e| {
        log(format_args!("should this process die, its devices stay closed: {e}"));
        None
    });
    seccomp::enter(Thread::Guardian);
    let mut taken = taken.to_vec();
    if !listen(dataplane, channel, &mut taken, &mut held) {
        return;
    }
    log("the dataplane has died: giving its devices back to the kernel");
    let Ok(mut socket) = Socket::new() else { return };
    // It may have died while it gave back, or took.
    let record = Record::read().unwrap_or_else(|e| {
        log(e);
        None
    });
    let written = |taken: &Taken| {
        let written = record.as_ref()?.ports.iter().find(|port| port.taken.name == taken.name)?;
        Some((written.kept.clone(), written.moving))
    };
    let port = |taken: &Taken| {
        let (kept, moving) = written(taken).unwrap_or_default();
        WrittenPort { taken: taken.clone(), kept, moving }
    };
    let all: Vec<_> = taken.iter().map(port).collect();
    let age = record.as_ref().map_or(0, Record::age);
    restore(&mut socket, &all, age).iter().for_each(log);
    if on_death.closes() {
        let closed = closed_devices(&mut socket);
        if loader.is_some_and(Loader::load) {
            log("the ruleset of --on-death is in force: opening the devices");
            on_death::open(&mut socket, closed.into_iter().map(|(index, _)| index));
        } else {
            let names: Vec<String> = closed.into_iter().map(|(_, name)| name).collect();
            log(how_to_open(&names));
        }
    }
    record::remove();
    control::remove_sockets();
    namespace_lock::remove();
    // Until here they have kept their devices.
    drop(held);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_cannot_be_received_is_no_death() {
        // SAFETY: no pointers.
        let parent = unsafe { libc::getppid() };
        let dead = i32::MAX;
        for (dataplane, died) in [(parent, false), (dead, true)] {
            let (theirs, ours) = Channel::pair(PATIENCE).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let too_long = vec![0; WORD + 1];
                    // The second one does not arrive where nobody listens any more.
                    let _ = ours.send(&too_long, &[]);
                    let _ = ours.say(&Word::Done);
                });
                let gone = listen(dataplane, &theirs, &mut Vec::new(), &mut Vec::new());
                assert_eq!(gone, died);
                drop(theirs);
            });
        }
    }
}
