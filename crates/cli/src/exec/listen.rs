// SPDX-License-Identifier: Apache-2.0

//! `penstock exec --listen`: answers containers, for whose netfilter sockets their runtime hands over
//! a listener (`listenerPath` of the OCI runtime specification, config-linux.md).
//!
//! For each container the runtime connects and sends its state: an object of JSON, with the
//! descriptors that the object names, by one or more sendmsg(2); then it closes the connection. A
//! supervisor for each container answers from then on. It outlives this process.

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
/// How long a runtime may take to send it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most descriptors of a message.
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
    loop {
        match listener.accept() {
            Ok((stream, _)) => match answer(stream, state) {
                Ok(name) => out!("{name} is answered\n"),
                Err(e) => errln!("a container is not answered: {e}"),
            },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                // Without descriptors or memory the next one may have some.
                errln!("{}: {e}", socket.display());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
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
    std::fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    listener
}

/// Has a supervisor answer the container of a connection. Returns what the container is called.
fn answer(stream: UnixStream, state: Option<&Path>) -> Result<String, String> {
    let (text, descriptors) = receive(&stream).map_err(|e| format!("its state: {e}"))?;
    drop(stream);
    let (process, listener) = listener_of(&text, descriptors)?;
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

/// What a state says, and the listener among its descriptors.
fn listener_of(
    text: &[u8],
    descriptors: Vec<OwnedFd>,
) -> Result<(ContainerProcess, OwnedFd), String> {
    let process: ContainerProcess =
        serde_json::from_slice(text).map_err(|e| format!("its state: {e}"))?;
    if process.fds.len() != descriptors.len() {
        let (named, sent) = (process.fds.len(), descriptors.len());
        return Err(format!("its state names {named} descriptors, and {sent} were sent"));
    }
    let mut named = process.fds.iter().zip(descriptors);
    let listener = named.find(|(name, _)| *name == LISTENER).map(|(_, fd)| fd);
    let listener = listener.ok_or(format!("its state has no {LISTENER}"))?;
    Ok((process, listener))
}

/// Reads until the other side closes the connection, with descriptors.
fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let end = Instant::now() + PATIENCE;
    let (mut text, mut descriptors) = (Vec::new(), Vec::new());
    let mut piece = vec![0; 64 << 10];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let len = receive_piece(stream, &mut piece, &mut descriptors)?;
        let Some(read) = piece.get(..len).filter(|read| !read.is_empty()) else {
            return Ok((text, descriptors));
        };
        text.extend_from_slice(read);
        if text.len() > LONGEST || descriptors.len() > DESCRIPTORS {
            return Err(io::Error::other("it is too long"));
        }
    }
}

/// Reads some bytes, and the descriptors that came with them.
fn receive_piece(
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
            return match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
                e => Err(e),
            };
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
    use std::os::fd::AsFd;

    use super::*;

    fn files(many: usize) -> Vec<OwnedFd> {
        let file = std::fs::File::open("/dev/null").unwrap();
        (0..many).map(|_| file.as_fd().try_clone_to_owned().unwrap()).collect()
    }

    #[test]
    fn states_of_the_specification_are_read() {
        let state = r#"{"ociVersion": "1.0.2", "fds": ["other", "seccompFd"], "pid": 4422,
            "metadata": "x", "state": {"ociVersion": "1.0.2", "id": "c1", "status": "creating",
            "pid": 4422, "bundle": "/containers/c1"}}"#;
        let two = files(2);
        let second = two[1].as_raw_fd();
        let (process, listener) = listener_of(state.as_bytes(), two).unwrap();
        assert_eq!((process.pid, &*process.state.id), (4422, "c1"));
        assert_eq!(listener.as_raw_fd(), second);
        let refused = |text: &str, many| listener_of(text.as_bytes(), files(many)).unwrap_err();
        assert!(refused(state, 1).contains("names 2 descriptors, and 1 were sent"));
        assert!(refused(r#"{"fds": ["x"], "pid": 1}"#, 1).contains("no seccompFd"));
        assert!(refused(r#"{"fds": ["seccompFd"], "pid": -1}"#, 1).contains("its state: "));
        assert!(refused("", 0).contains("its state: "));
    }

    #[test]
    fn a_state_in_pieces_is_read_to_its_end() {
        use std::io::Write;
        let (mut runtime, agent) = UnixStream::pair().unwrap();
        let runtime = std::thread::spawn(move || {
            for piece in ["{\"fds\"", ": [], ", "\"pid\": 1}"] {
                runtime.write_all(piece.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let (text, descriptors) = receive(&agent).unwrap();
        assert_eq!((text.as_slice(), descriptors.len()), (&br#"{"fds": [], "pid": 1}"#[..], 0));
        runtime.join().unwrap();
    }
}
