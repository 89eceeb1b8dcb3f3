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
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use penstock_io::device::Tap;
use penstock_netlink::Socket;

use crate::config::OnDeath;
use crate::devices::on_death::{self, closed_devices, how_to_open};
use crate::devices::record::{self, Record};
use crate::devices::takeover::{Taken, restore};
use crate::seccomp::{self, Thread};
use crate::{control, log, namespace_lock, rights};

/// Sent when all devices are already returned.
const DONE: u8 = b'd';
/// Said when a device has come back, with the number of its port and its index, 32 bits each.
const BACK: u8 = b'b';
/// Sent while packets are processed, with the milliseconds until the next beat; 0 for none.
const BEAT: u8 = b'a';
/// Bytes of what is said, so that each comes whole.
const SAID: usize = 9;

/// Our end of the pipe to it.
#[derive(Debug)]
pub struct Guardian {
    pipe: File,
    /// Its process.
    pub process: i32,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which live through the call.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: two new descriptors without another owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

impl Guardian {
    /// Starts it. There must be no other thread yet. It closes its copy of the metrics listener:
    /// the next dataplane needs the address.
    pub fn start(
        taken: &[Taken],
        taps: &[Tap],
        on_death: &OnDeath,
        metrics: Option<&TcpListener>,
    ) -> io::Result<Guardian> {
        let (read, write) = pipe()?;
        // The dataplane does not wait for a guardian that is held up. SAFETY: no pointers.
        unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        // SAFETY: this is the only thread, so that the child may continue like any process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(write);
                if let Some(listener) = metrics {
                    // SAFETY: a descriptor of this process, which does not use it from here on.
                    unsafe { libc::close(listener.as_raw_fd()) };
                }
                watch(File::from(read), taken, taps, on_death);
                // SAFETY: ends the child without running what the parent has registered.
                unsafe { libc::_exit(0) }
            }
            process => Ok(Guardian { pipe: write.into(), process }),
        }
    }

    /// Another end of the pipe, for threads that see devices come back.
    pub fn handle(&self) -> io::Result<GuardianHandle> {
        self.pipe.try_clone().map(GuardianHandle)
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        // SAFETY: asks about a child of ours; no pointer is given.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), libc::WNOHANG) == self.process }
    }

    /// All devices are returned: ends the guardian.
    pub fn dismiss(mut self) {
        let mut said = [0; SAID];
        said[0] = DONE;
        let _ = self.pipe.write_all(&said);
        drop(self.pipe);
        // SAFETY: waits for a child of ours; no pointer is given.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

/// Tells the guardian what it has to know.
#[derive(Debug)]
pub struct GuardianHandle(File);

impl GuardianHandle {
    fn say(&mut self, what: u8, one: u32, two: u32) {
        let mut said = [what; SAID];
        said[1..5].copy_from_slice(&one.to_ne_bytes());
        said[5..].copy_from_slice(&two.to_ne_bytes());
        // Without a guardian there is no receiver.
        let _ = self.0.write_all(&said);
    }

    /// The device of the port with this number has another index now.
    pub fn tell(&mut self, port: usize, device: u32) {
        self.say(BACK, port as u32, device);
    }

    /// Packets are processed, and the next beat comes within this time; zero ends the beats.
    pub fn beat(&mut self, patience: Duration) {
        self.say(BEAT, patience.as_millis().min(u32::MAX.into()) as u32, 0);
    }
}

/// A process that waits for the word to load a ruleset: it may run programs, which the guardian may
/// not.
struct Loader(File);

impl Loader {
    /// Starts it. There must be no other thread.
    fn start(on_death: &OnDeath) -> io::Result<Option<Loader>> {
        let OnDeath::Ruleset(file) = on_death else { return Ok(None) };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        // SAFETY: this is the only thread, so that the child may continue like any process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
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
fn end(dataplane: i32, pipe: &mut File) {
    /// How long kernel work may delay the end of a process. The process itself does nothing during
    /// that time.
    const PATIENCE: Duration = Duration::from_secs(5);
    // SAFETY: no pointers. As long as it is the parent, no other process has its number.
    unsafe {
        if libc::getppid() == dataplane {
            libc::kill(dataplane, libc::SIGKILL);
        }
    }
    let until = Instant::now() + PATIENCE;
    let mut said = [0; SAID];
    while is_readable(pipe, Some(until.saturating_duration_since(Instant::now()))) {
        if pipe.read_exact(&mut said).is_err() {
            return;
        }
    }
}

/// Listens until the dataplane is gone. `false` if all devices are already returned.
fn listen(dataplane: i32, pipe: &mut File, taken: &mut [Taken]) -> bool {
    let mut said = [0; SAID];
    let mut patience = None;
    loop {
        if !is_readable(pipe, patience) {
            log("the dataplane is not heard any more: ending it (--hang-time)");
            end(dataplane, pipe);
            return true;
        }
        // Nothing more comes from a process that is dead.
        if pipe.read_exact(&mut said).is_err() {
            return true;
        }
        let [what, a0, a1, a2, a3, b0, b1, b2, b3] = said;
        let (one, two) =
            (u32::from_ne_bytes([a0, a1, a2, a3]), u32::from_ne_bytes([b0, b1, b2, b3]));
        match what {
            DONE => return false,
            BEAT => patience = (one > 0).then(|| Duration::from_millis(one.into())),
            _ => {
                if let Some(taken) = taken.get_mut(one as usize) {
                    taken.device = two;
                }
            }
        }
    }
}

fn watch(mut pipe: File, taken: &[Taken], taps: &[Tap], on_death: &OnDeath) {
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
    let loader = Loader::start(on_death).unwrap_or_else(|e| {
        log(format_args!("should this process die, its devices stay closed: {e}"));
        None
    });
    seccomp::enter(Thread::Guardian);
    let mut taken = taken.to_vec();
    if !listen(dataplane, &mut pipe, &mut taken) {
        return;
    }
    log("the dataplane has died: giving its devices back to the kernel");
    let Ok(mut socket) = Socket::new() else { return };
    // It may have died while it gave back, or took.
    let record = Record::read().unwrap_or_else(|e| {
        log(e);
        None
    });
    let kept = |taken: &Taken| {
        Some(record.as_ref()?.ports.iter().find(|(t, _)| t.name == taken.name)?.1.clone())
    };
    let all: Vec<_> = taken.iter().map(|t| (t.clone(), kept(t).unwrap_or_default())).collect();
    let (age, moving) = record.as_ref().map_or((0, false), |record| (record.age(), record.moving));
    restore(&mut socket, &all, age, moving).iter().for_each(log);
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
    taps.iter().for_each(|tap| log(format_args!("{} is the device again", tap.name())));
}
