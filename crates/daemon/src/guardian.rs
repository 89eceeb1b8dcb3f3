//! A process that gives the devices back when the dataplane dies, however it does.
//!
//! It holds the other descriptors of the TAPs, so these are still there, with all that stands on them, when it is needed.
//! It ignores what ends other processes politely: its end is that of the dataplane.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use penstock_io::device::Tap;
use penstock_netlink::Socket;

use crate::takeover::{Taken, give_back, record};
use crate::{control, log, rights, turn};

/// Said when all is given back already.
const DONE: u8 = b'd';
/// Said when a device has come back, with the number of its port and its index, 32 bits each.
const BACK: u8 = b'b';
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
    // SAFETY: two new descriptors that nobody else has.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

impl Guardian {
    /// Starts it. There must be no other thread yet.
    pub fn start(taken: &[Taken], taps: &[Tap]) -> io::Result<Guardian> {
        let (read, write) = pipe()?;
        // SAFETY: this is the only thread, so that the child may go on like any process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(write);
                watch(File::from(read), taken, taps);
                // SAFETY: ends the child without running what the parent has registered.
                unsafe { libc::_exit(0) }
            }
            process => Ok(Guardian { pipe: write.into(), process }),
        }
    }

    /// Another end of the pipe, for whoever sees devices come back.
    pub fn heir(&self) -> io::Result<Heir> {
        self.pipe.try_clone().map(Heir)
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        // SAFETY: asks about a child of ours; no pointer is given.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), libc::WNOHANG) == self.process }
    }

    /// All is given back: it may go.
    pub fn dismiss(mut self) {
        let mut said = [0; SAID];
        said[0] = DONE;
        let _ = self.pipe.write_all(&said);
        drop(self.pipe);
        // SAFETY: waits for a child of ours; no pointer is given.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

/// Tells the guardian of devices that have come back.
#[derive(Debug)]
pub struct Heir(File);

impl Heir {
    /// The device of the port with this number has another index now.
    pub fn tell(&mut self, port: usize, device: u32) {
        let mut said = [BACK; SAID];
        said[1..5].copy_from_slice(&(port as u32).to_ne_bytes());
        said[5..].copy_from_slice(&device.to_ne_bytes());
        // Without a guardian nobody needs to know.
        let _ = self.0.write_all(&said);
    }
}

fn watch(mut pipe: File, taken: &[Taken], taps: &[Tap]) {
    // SAFETY: no pointers but a string with its end; a session of its own keeps the terminal's signals away.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"penstock-guard".as_ptr());
        // What the dataplane waits for is its alone.
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    // It needs no more than the dataplane does.
    if let Err(e) = rights::keep_only_needed() {
        log(format_args!("the guardian keeps its capabilities: {e}"));
    }
    let mut taken = taken.to_vec();
    let mut said = [0; SAID];
    // Nothing more comes from a process that is dead.
    while pipe.read_exact(&mut said).is_ok() {
        let [what, p0, p1, p2, p3, d0, d1, d2, d3] = said;
        if what == DONE {
            return;
        }
        if let Some(taken) = taken.get_mut(u32::from_ne_bytes([p0, p1, p2, p3]) as usize) {
            taken.device = u32::from_ne_bytes([d0, d1, d2, d3]);
        }
    }
    log("the dataplane has died: giving its devices back to the kernel");
    let Ok(mut socket) = Socket::new() else { return };
    for taken in &taken {
        if let Err(e) = give_back(&mut socket, taken) {
            log(e);
        }
    }
    record::remove();
    control::remove_sockets();
    turn::remove();
    // Until here they have kept their devices.
    taps.iter().for_each(|tap| log(format_args!("{} is the device again", tap.name())));
}
