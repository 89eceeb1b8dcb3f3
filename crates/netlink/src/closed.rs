// SPDX-License-Identifier: Apache-2.0

//! Devices that no frame passes: a filter at ingress and one at egress that drop everything, in the
//! kernel as long as the device exists, even after the process that installed them has ended
//! (tc(8), `net/sched/cls_bpf.c`).
//!
//! They are classic BPF in the `clsact` queueing discipline, so they need neither bpf(2) nor a file
//! system of its own. Programs at tcx come first, and what these decide is not asked here again.
//! Packet sockets see what arrives before that, AF_XDP and XDP, too, and what is sent from there
//! passes no filter.
//!
//! A filter is known by its first instruction, which loads a number that nothing else would.

use std::io;

use crate::message::{Message, put};
use crate::socket::Socket;

/// Bytes of `struct tcmsg`.
const HEAD: usize = 20;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's result is the verdict.
const DIRECT: u32 = 1;

const CREATE: u16 = 0x400;
const EXCL: u16 = 0x200;

/// `TC_H_CLSACT`, and what is below it.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;

/// First of all filters, for frames of all kinds (`ETH_P_ALL`, in network order).
const FIRST: u32 = 1 << 16 | (3u16.to_be() as u32);
const HANDLE: u32 = 1;

/// What the first instruction loads; the other one where the queueing discipline was made for the
/// filter.
const MARK: u32 = 0x5045_4e53;
const MARK_ALL: u32 = 0x5045_4e51;
/// `TC_ACT_SHOT`
const DROP: u32 = 2;

/// `BPF_LD | BPF_IMM`, `BPF_RET | BPF_K`
const LOAD: u16 = 0;
const RETURN: u16 = 6;

fn head(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [index, handle, parent, info] {
        body.extend(word.to_ne_bytes());
    }
    body
}

fn qdisc(index: u32) -> Vec<u8> {
    let mut body = head(index, CLSACT_HANDLE, CLSACT, 0);
    put(&mut body, TCA_KIND, b"clsact\0");
    body
}

fn instruction(code: u16, k: u32) -> Vec<u8> {
    [&code.to_ne_bytes()[..], &[0, 0], &k.to_ne_bytes()].concat()
}

fn filter(index: u32, parent: u32, mark: u32) -> Vec<u8> {
    let program = [instruction(LOAD, mark), instruction(RETURN, DROP)].concat();
    let mut options = Vec::new();
    put(&mut options, TCA_BPF_OPS_LEN, &2u16.to_ne_bytes());
    put(&mut options, TCA_BPF_OPS, &program);
    put(&mut options, TCA_BPF_FLAGS, &DIRECT.to_ne_bytes());
    let mut body = head(index, HANDLE, parent, FIRST);
    put(&mut body, TCA_KIND, b"bpf\0");
    put(&mut body, TCA_OPTIONS, &options);
    body
}

/// The mark of one of our filters.
fn mark_of(message: &Message) -> Option<u32> {
    let options = message.attributes(HEAD).inside(TCA_OPTIONS)?;
    let program = options.get(TCA_BPF_OPS)?;
    let mark = u32::from_ne_bytes(*program.get(4..)?.first_chunk()?);
    [MARK, MARK_ALL]
        .into_iter()
        .find(|m| *m == mark && program.get(..8) == Some(&instruction(LOAD, *m)[..]))
}

/// The mark of our filter at one end of a device.
fn found(socket: &mut Socket, index: u32, parent: u32) -> Option<u32> {
    // Without a queueing discipline that has filters the kernel refuses to list them.
    let all = socket.dump(libc::RTM_GETTFILTER, &head(index, 0, parent, 0)).unwrap_or_default();
    all.iter().find_map(mark_of)
}

/// Whether no frame passes the device with this index.
pub fn is_closed(socket: &mut Socket, index: u32) -> bool {
    [INGRESS, EGRESS].into_iter().any(|parent| found(socket, index, parent).is_some())
}

/// Lets no frame pass from now on. `false` if none has passed before.
///
/// # Errors
/// Those of netlink: the kernel has no `clsact` or no BPF filters, the device has another queueing
/// discipline at ingress, or a filter that comes first already.
pub fn close(socket: &mut Socket, index: u32) -> io::Result<bool> {
    let there = [INGRESS, EGRESS].map(|parent| found(socket, index, parent));
    if there.iter().all(Option::is_some) {
        return Ok(false);
    }
    let mark = match socket.change(libc::RTM_NEWQDISC, CREATE | EXCL, &qdisc(index)) {
        Ok(()) => MARK_ALL,
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {
            there.into_iter().flatten().next().unwrap_or(MARK)
        }
        Err(e) => return Err(e),
    };
    for (parent, there) in [INGRESS, EGRESS].into_iter().zip(there) {
        if there.is_some() {
            continue;
        }
        let added =
            socket.change(libc::RTM_NEWTFILTER, CREATE | EXCL, &filter(index, parent, mark));
        if let Err(e) = added {
            let _ = open(socket, index);
            if mark == MARK_ALL {
                let _ = socket.change(libc::RTM_DELQDISC, 0, &qdisc(index));
            }
            return Err(e);
        }
    }
    Ok(true)
}

/// Lets frames pass again; what others have there stays. `false` if the device was not closed.
///
/// # Errors
/// Those of netlink.
pub fn open(socket: &mut Socket, index: u32) -> io::Result<bool> {
    let mut mark = None;
    for parent in [INGRESS, EGRESS] {
        let Some(there) = found(socket, index, parent) else { continue };
        mark = Some(there);
        let mut body = head(index, HANDLE, parent, FIRST);
        put(&mut body, TCA_KIND, b"bpf\0");
        socket.change(libc::RTM_DELTFILTER, 0, &body)?;
    }
    if mark == Some(MARK_ALL) {
        // Another program may have filters there by now.
        let mut others = |parent| {
            let all = socket.dump(libc::RTM_GETTFILTER, &head(index, 0, parent, 0));
            !all.unwrap_or_default().is_empty()
        };
        if !others(INGRESS) && !others(EGRESS) {
            socket.change(libc::RTM_DELQDISC, 0, &qdisc(index))?;
        }
    }
    Ok(mark.is_some())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::State;

    fn tc(line: &str) -> String {
        let output = Command::new("sh").args(["-c", line]).output().expect("sh");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn a_device_is_closed_and_opened_and_others_filters_stay() {
        // SAFETY: no pointers; it concerns this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("skipped: no rights to make a network namespace");
            return;
        }
        tc("ip link add name one type veth peer name two; ip link set one up; ip link set two up");
        let mut socket = Socket::new().expect("netlink");
        let index = State::read(&mut socket).expect("links").device("one").expect("one").link.index;
        let show = "tc qdisc show dev one clsact; tc filter show dev one ingress; tc filter show dev one egress";
        let before = tc(show);
        for _ in 0..2 {
            assert!(!is_closed(&mut socket, index));
            assert!(close(&mut socket, index).expect("closed") && is_closed(&mut socket, index));
            assert!(!close(&mut socket, index).expect("it is closed"));
            assert_eq!(tc(show).matches("direct-action").count(), 2);
            assert!(
                open(&mut socket, index).expect("opened")
                    && !open(&mut socket, index).expect("open")
            );
            assert_eq!(tc(show), before);
        }
        // A filter of another program.
        tc(
            "tc qdisc add dev one clsact; tc filter add dev one egress pref 7 bpf da bytecode '1,6 0 0 0'",
        );
        let before = tc(show);
        assert!(close(&mut socket, index).expect("closed"));
        assert!(open(&mut socket, index).expect("opened"));
        assert_eq!(tc(show), before);
        // Those that come first, or have no egress, are in the way, and stay.
        for other in [
            "clsact; tc filter add dev one egress pref 1 handle 1 bpf da bytecode '1,6 0 0 0'",
            "ingress",
        ] {
            tc(&format!("tc qdisc del dev one clsact; tc qdisc add dev one {other}"));
            let before = tc(show);
            assert!(close(&mut socket, index).is_err());
            assert!(!is_closed(&mut socket, index));
            assert_eq!(tc(show), before);
        }
        assert!(close(&mut socket, 9999).is_err());
    }
}
