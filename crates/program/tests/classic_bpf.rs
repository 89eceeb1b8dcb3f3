// SPDX-License-Identifier: Apache-2.0

//! Random programs of classic BPF here and in the kernel of this machine, as the filter of a Unix
//! socket (`SO_ATTACH_FILTER`), which sees what is sent as the packet: it keeps as many bytes as
//! the program returns. What is refused there is refused here. `PENSTOCK_ROUNDS` and `PENSTOCK_SEED`
//! set how many programs, and which.

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use fastrand::Rng;
use penstock_program::op::{BpfAncillary, BpfPacket, BpfProgram};

type Insn = (u16, u8, u8, u32);

/// Bytes of a packet: more than the programs return.
const LEN: usize = 128;

struct Bytes<'a>(&'a [u8]);

impl BpfPacket for Bytes<'_> {
    fn link(&self) -> &[u8] {
        &[]
    }

    fn network(&self) -> &[u8] {
        self.0
    }

    fn ancillary(&mut self, _: BpfAncillary) -> Option<u32> {
        None
    }
}

/// A program of instructions that are mostly right, and that does not look outside of its packet's
/// bytes by negative offsets. It ends with a number below [`LEN`].
fn program(rng: &mut Rng) -> Vec<Insn> {
    let constant = |rng: &mut Rng| match rng.u8(..4) {
        0 => rng.u32(..),
        1 => rng.u32(..4),
        2 => 1 << rng.u8(..32),
        _ => rng.u32(..LEN as u32 + 8),
    };
    let mut insns: Vec<Insn> = vec![(0x02, 0, 0, 0), (0x03, 0, 0, 1)];
    let count = rng.usize(1..24);
    while insns.len() < count + 2 {
        let size = [0, 8, 16][rng.usize(..3)];
        let k = constant(rng);
        let insn = match rng.u8(..16) {
            0 | 1 => (0x20 | size, 0, 0, rng.u32(..LEN as u32 + 4)),
            2 => {
                // Sums that go around come out in the packet.
                let back = rng.u32(..8);
                let x = if rng.bool() { rng.u32(..LEN as u32) } else { u32::MAX - back };
                insns.push((0x01, 0, 0, x));
                (0x40 | size, 0, 0, 8 + rng.u32(..LEN as u32))
            }
            3 => (0xb1, 0, 0, rng.u32(..LEN as u32 + 4)),
            4 => ([0x80, 0x81, 0x84, 0x07, 0x87][rng.usize(..5)], 0, 0, 0),
            5 => ([0x00, 0x01][rng.usize(..2)], 0, 0, k),
            6 => ([0x60, 0x61, 0x02, 0x03][rng.usize(..4)], 0, 0, rng.u32(..3)),
            7 => (0x06, 0, 0, rng.u32(..LEN as u32)),
            8..12 => {
                let op =
                    [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0][rng.usize(..10)];
                (0x04 | op | if rng.bool() { 8 } else { 0 }, 0, 0, k)
            }
            12 => (0x05, 0, 0, rng.u32(..3)),
            _ => {
                let test = [0x10, 0x20, 0x30, 0x40][rng.usize(..4)];
                let code = 0x05 | test | if rng.bool() { 8 } else { 0 };
                (code, rng.u8(..4), rng.u8(..4), k)
            }
        };
        insns.push(insn);
    }
    insns.extend([(0x54, 0, 0, LEN as u32 - 1), (0x16, 0, 0, 0)]);
    insns
}

/// Makes a program the filter of a socket.
fn attach(socket: &UnixDatagram, insns: &[Insn]) -> std::io::Result<()> {
    let mut filter: Vec<libc::sock_filter> =
        insns.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the structure and the instructions that it points to live through the call.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as u32,
        )
    };
    if failed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn random_programs_do_what_they_do_in_the_kernel() {
    let setting = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let rounds = setting("PENSTOCK_ROUNDS").unwrap_or(4000);
    let first: u64 = setting("PENSTOCK_SEED").unwrap_or(1);
    let (mut refused, mut dropped) = (0, 0);
    for seed in first..first + rounds {
        let mut rng = Rng::with_seed(seed);
        let insns = program(&mut rng);
        let packet: Vec<u8> = (0..LEN).map(|_| rng.u8(..)).collect();
        let (to, from) = UnixDatagram::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        let ours = BpfProgram::new(&insns);
        match attach(&from, &insns) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                assert!(ours.is_err(), "the kernel refuses seed {seed}: {insns:x?}");
                refused += 1;
                continue;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
        let ours = ours.unwrap_or_else(|why| panic!("seed {seed}: {why}: {insns:x?}"));
        let ours = ours.run(&mut Bytes(&packet)) as usize;
        let _ = to.send(&packet);
        let mut buffer = [0; LEN];
        let theirs = from.recv(&mut buffer).unwrap_or_default();
        assert_eq!(ours.min(LEN), theirs, "seed {seed}: {insns:x?}");
        dropped += u64::from(theirs == 0);
    }
    println!("{rounds} programs, {refused} refused, {dropped} returned nothing");
    assert!(rounds < 100 || dropped < rounds * 3 / 4, "most programs return nothing");
}
