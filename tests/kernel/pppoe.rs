// SPDX-License-Identifier: Apache-2.0

//! Sessions of PPPoE in the kernel without pppd: `link add NAME [mtu N] type pppoe dev DEVICE
//! session ID peer ADDRESS`, as the program has it (`linux/if_pppox.h`, `linux/ppp-ioctl.h`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A session, which ends with this.
pub struct Session {
    _session: OwnedFd,
    _channel: File,
    _unit: File,
}

/// Whether a line makes a session.
pub fn is_line(line: &str) -> bool {
    line.starts_with("link add ") && line.contains(" type pppoe ")
}

/// `struct sockaddr_pppox` with `struct pppoe_addr`
#[repr(C, packed)]
struct Address {
    family: libc::sa_family_t,
    protocol: u32,
    session: [u8; 2],
    remote: [u8; 6],
    device: [u8; libc::IFNAMSIZ],
}

const PX_PROTO_OE: i32 = 0;
const PPPIOCGCHAN: libc::c_ulong = 0x8004_7437;
const PPPIOCATTCHAN: libc::c_ulong = 0x4004_7438;
const PPPIOCCONNECT: libc::c_ulong = 0x4004_743a;
const PPPIOCNEWUNIT: libc::c_ulong = 0xc004_743e;

/// Sets up the session that a line says, in the present namespace. Gives it, and a line of `ip
/// -batch` that gives its device the name.
pub fn set_up(line: &str) -> Result<(Session, String), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| {
        let at = words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1));
        at.copied().ok_or_else(|| format!("no \"{word}\" in {line}"))
    };
    let session: u16 = after("session")?.parse().map_err(|_| format!("session in {line}"))?;
    let remote: Option<Vec<u8>> =
        after("peer")?.split(':').map(|b| u8::from_str_radix(b, 16).ok()).collect();
    let remote: Option<[u8; 6]> = remote.and_then(|b| b.try_into().ok());
    let remote = remote.ok_or_else(|| format!("peer in {line}"))?;
    let mut device = [0; libc::IFNAMSIZ];
    let name = after("dev")?.as_bytes();
    device.get_mut(..name.len()).ok_or("a long name")?.copy_from_slice(name);
    let (made, unit) = connect(session, remote, device).map_err(|e| format!("{line}: {e}"))?;
    let mtu = after("mtu").map_or(String::new(), |mtu| format!(" mtu {mtu}"));
    Ok((made, format!("link set ppp{unit} name {}{mtu}", words[2])))
}

fn connect(session: u16, remote: [u8; 6], device: [u8; 16]) -> io::Result<(Session, i32)> {
    let address = Address {
        family: libc::AF_PPPOX as libc::sa_family_t,
        protocol: PX_PROTO_OE as u32,
        session: session.to_be_bytes(),
        remote,
        device,
    };
    // SAFETY: socket takes no pointer, its descriptor has no other owner, and the address is a live
    // structure of the length given.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PPPOX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, PX_PROTO_OE);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let length = size_of::<Address>() as libc::socklen_t;
        if libc::connect(fd, (&raw const address).cast(), length) != 0 {
            return Err(io::Error::last_os_error());
        }
        socket
    };
    let channel_number = control(&socket, PPPIOCGCHAN, 0)?;
    let open = || OpenOptions::new().read(true).write(true).open("/dev/ppp");
    let (channel, unit) = (open()?, open()?);
    control(&channel, PPPIOCATTCHAN, channel_number)?;
    let number = control(&unit, PPPIOCNEWUNIT, -1)?;
    control(&channel, PPPIOCCONNECT, number)?;
    Ok((Session { _session: socket, _channel: channel, _unit: unit }, number))
}

/// A call that takes a number, gives one, or both.
fn control(fd: &impl AsRawFd, request: libc::c_ulong, number: i32) -> io::Result<i32> {
    let mut number = number;
    // SAFETY: each of these requests takes a pointer to an int, which is live.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut number) } {
        0 => Ok(number),
        _ => Err(io::Error::last_os_error()),
    }
}
