// SPDX-License-Identifier: Apache-2.0

//! `penstock exec --listen`: answers containers, for whose netfilter sockets their runtime hands over
//! a listener (`listenerPath` of the OCI runtime specification, config-linux.md).
//!
//! For each container the runtime connects and sends its state: an object of JSON, with the
//! descriptors that the object names. crun connects long before, and runc stays connected, so several
//! are heard at a time, and a state ends where its object does. A supervisor for each container
//! answers from then on. It outlives this process.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use penstock_daemon::{errln, out};
use penstock_exec::{CannotOpen, LiveService, StateService, Stored};
use penstock_launcher::{Service, adopt};
use serde::Deserialize;

/// Bytes of a state. runc writes some hundreds, and what the container's annotations have.
const LONGEST: usize = 1 << 20;
/// How long a runtime may take from its connection to the end of a state: it may run hooks between.
const PATIENCE: Duration = Duration::from_secs(600);
/// Runtimes that may be connected at a time.
const CONNECTED: usize = 512;
/// Most descriptors of a state.
const DESCRIPTORS: usize = 16;

/// What is read of the state (`containerProcessState`).
#[derive(Debug, Deserialize)]
struct ContainerProcess {
    /// Names of the descriptors, in their order.
    fds: Vec<String>,
    /// The container's process, as the runtime sees its number.
    pid: u32,
    #[serde(default)]
    state: ContainerState,
}

/// The container.
#[derive(Debug, Default, Deserialize)]
struct ContainerState {
    #[serde(default)]
    id: String,
}

/// The name of the filter's listener among the descriptors.
const LISTENER: &str = "seccompFd";

/// Answers containers until a signal ends it.
pub(super) fn run(socket: &Path, state: Option<&Path>) -> ExitCode {
    // Otherwise it is known only with the first container.
    if let Some(path) = state
        && let Err(e) = Stored::open(path)
    {
        errln!("Error: {} {e}", path.display());
        return ExitCode::FAILURE;
    }
    let listener = match bind(socket) {
        Ok(listener) => listener,
        Err(e) => {
            errln!("Error: {}: {e}", socket.display());
            return ExitCode::FAILURE;
        }
    };
    out!("containers are answered on {}\n", socket.display());
    let mut runtimes = Vec::new();
    loop {
        let listens = (runtimes.len() < CONNECTED).then_some(&listener);
        let ready = match wait(listens, &runtimes) {
            Ok(ready) => ready,
            Err(e) => {
                errln!("{}: {e}", socket.display());
                return ExitCode::FAILURE;
            }
        };
        let mut waiting = Vec::new();
        for (mut runtime, ready) in std::mem::take(&mut runtimes).into_iter().zip(ready) {
            let heard = match ready {
                true => runtime.hear(),
                false if Instant::now() >= runtime.until => Err("its state: timed out".into()),
                false => Ok(None),
            };
            match heard.and_then(|whole| whole.map(|of| answer(of, state)).transpose()) {
                Ok(Some(name)) => out!("{name} is answered\n"),
                Ok(None) => waiting.push(runtime),
                Err(e) => errln!("a container is not answered: {e}"),
            }
        }
        runtimes = waiting;
        match listener.accept() {
            Ok((stream, _)) => runtimes.extend(Runtime::new(stream)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => {
                // The next one may have descriptors and memory.
                errln!("{}: {e}", socket.display());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Waits until someone connects, or a runtime says something, or has said nothing for too long.
/// Returns which runtimes have said something, or have gone.
fn wait(listener: Option<&UnixListener>, runtimes: &[Runtime]) -> io::Result<Vec<bool>> {
    let event = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let first = runtimes.iter().map(|runtime| runtime.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    let time = left.map_or(-1, |left| left.as_millis() as i32 + 1);
    let mut polls: Vec<_> = runtimes.iter().map(|r| event(r.stream.as_raw_fd())).collect();
    polls.extend(listener.map(|listener| event(listener.as_raw_fd())));
    // SAFETY: as many structures as is said, which live through the call.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, time) };
    match io::Error::last_os_error() {
        e if ready < 0 && e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(polls.iter().map(|poll| ready > 0 && poll.revents != 0).collect()),
    }
}

/// Listens, for the own user only. A socket that nobody listens on any more is replaced.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let is_socket = socket.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
    if is_socket {
        match UnixStream::connect(socket) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(socket)?,
        }
    }
    // SAFETY: no pointers, and one thread. Nobody else can connect before the mode is set.
    let mask = unsafe { libc::umask(0o177) };
    let listener = UnixListener::bind(socket);
    // SAFETY: as above.
    unsafe { libc::umask(mask) };
    let listener = listener?;
    std::fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A whole state, and the listener.
type Received = (ContainerProcess, OwnedFd);

/// Has a supervisor answer a container. Returns what it is called.
fn answer((process, listener): Received, state: Option<&Path>) -> Result<String, String> {
    let service: Box<dyn Service> = match state {
        None => Box::new(LiveService::default()),
        Some(path) => {
            let opened = |e: CannotOpen| format!("{} {e}", path.display());
            Box::new(StateService::new(Stored::open(path).map_err(opened)?))
        }
    };
    let name = format!("container {} with process {}", process.state.id, process.pid);
    adopt(listener, process.pid, service).map_err(|e| format!("{name}: {e}"))?;
    Ok(name)
}

/// A runtime that has connected.
struct Runtime {
    stream: UnixStream,
    until: Instant,
    text: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Runtime {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let until = Instant::now() + PATIENCE;
        Ok(Runtime { stream, until, text: Vec::new(), descriptors: Vec::new() })
    }

    /// Reads what there is. Returns the state once it is whole.
    fn hear(&mut self) -> Result<Option<Received>, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("its state: {e}");
        let mut piece = [0; 16 << 10];
        let len = match receive(&self.stream, &mut piece, &mut self.descriptors) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            received => received.map_err(|e| wrong(&e))?,
        };
        self.text.extend_from_slice(&piece[..len]);
        if self.text.len() > LONGEST || self.descriptors.len() > DESCRIPTORS {
            return Err(wrong(&"it is too long"));
        }
        match serde_json::from_slice(&self.text) {
            Ok(process) => with_listener(process, std::mem::take(&mut self.descriptors)).map(Some),
            Err(e) if e.is_eof() && len > 0 => Ok(None),
            Err(e) => Err(wrong(&e)),
        }
    }
}

/// Finds the listener among the descriptors of a state.
fn with_listener(process: ContainerProcess, descriptors: Vec<OwnedFd>) -> Result<Received, String> {
    if process.fds.len() != descriptors.len() {
        let (named, sent) = (process.fds.len(), descriptors.len());
        return Err(format!("its state names {named} descriptors, and {sent} were sent"));
    }
    let mut named = process.fds.iter().zip(descriptors);
    let listener = named.find(|(name, _)| *name == LISTENER).map(|(_, fd)| fd);
    let listener = listener.ok_or(format!("its state has no {LISTENER}"))?;
    Ok((process, listener))
}

/// Reads some bytes, and the descriptors that came with them.
fn receive(
    stream: &UnixStream,
    piece: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    /// Room for control messages, aligned as `struct cmsghdr` is.
    #[repr(C, align(8))]
    struct Control([u8; 128]);
    let mut part = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
    let mut control = Control([0; 128]);
    // SAFETY: all parts of the message live through the call, which fills the piece and the control
    // messages up to the lengths given. The macros stay inside the length that the kernel says; the
    // descriptors are new and have no other owner.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        let len = libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        if len < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut at = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(header) = at.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                #[allow(
                    clippy::unnecessary_cast,
                    reason = "its type is another one in other C libraries"
                )]
                let bytes = header.cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(at).cast::<i32>();
                for number in 0..bytes / size_of::<i32>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(number).read_unaligned()));
                }
            }
            at = libc::CMSG_NXTHDR(&raw const message, at);
        }
        Ok(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    const STATE: &str = r#"{"ociVersion": "1.0.2", "fds": ["other", "seccompFd"], "pid": 4422,
        "metadata": "x", "state": {"ociVersion": "1.0.2", "id": "c1", "status": "creating",
        "pid": 4422, "bundle": "/containers/c1"}}"#;

    fn files(many: usize) -> Vec<OwnedFd> {
        let file = std::fs::File::open("/dev/null").unwrap();
        (0..many).map(|_| file.as_fd().try_clone_to_owned().unwrap()).collect()
    }

    /// What comes of a state that is said in pieces, with descriptors; then the runtime goes.
    fn heard(pieces: &[&str], descriptors: Vec<OwnedFd>) -> Result<Option<Received>, String> {
        let (mut runtime, agent) = UnixStream::pair().unwrap();
        let mut agent = Runtime { descriptors, ..Runtime::new(agent).unwrap() };
        assert!(agent.hear().unwrap().is_none(), "nothing is said yet");
        for piece in pieces {
            runtime.write_all(piece.as_bytes()).unwrap();
            match agent.hear() {
                Ok(None) => {}
                done => return done,
            }
        }
        drop(runtime);
        agent.hear()
    }

    #[test]
    fn states_of_the_specification_are_read() {
        let two = files(2);
        let second = two[1].as_raw_fd();
        let (begin, end) = STATE.split_at(50);
        let (process, listener) = heard(&[begin, end], two).unwrap().unwrap();
        assert_eq!((process.pid, &*process.state.id), (4422, "c1"));
        assert_eq!(listener.as_raw_fd(), second);
        for (text, many, said) in [
            (STATE, 1, "names 2 descriptors, and 1 were sent"),
            (r#"{"fds": ["x"], "pid": 1}"#, 1, "no seccompFd"),
            (r#"{"fds": ["seccompFd"], "pid": -1}"#, 1, "its state: "),
            (begin, 0, "its state: EOF"),
            ("no", 0, "its state: "),
            (&"[".repeat(LONGEST), 0, "its state: "),
        ] {
            let refused = heard(&[&text[..text.len().min(1000)]], files(many)).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
