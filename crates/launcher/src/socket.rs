// SPDX-License-Identifier: Apache-2.0

//! A socket that a program has, from the supervisor's end.
//!
//! The program's socket is one end of a pair of unix(7) sockets of type `SOCK_SEQPACKET`; the
//! supervisor has the other one. Datagrams that do not fit into the pair's buffer wait in the
//! supervisor, and follow as the program receives.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::address::Address;
use crate::datagram::Datagram;
use crate::notify::Outcome;
use crate::service::SocketId;
use crate::sys::{self, Errno, check};
use crate::task::Habits;

/// Longest datagram that a program is given, in bytes. The kernel's are 32 KiB, but for errors that
/// repeat what is wrong.
pub(crate) const MOST_ANSWER: usize = 192 << 10;
/// Bytes of the buffer between supervisor and program, if it may be that large.
static BUFFER: i32 = 2 << 20;

/// Options of level `SOL_NETLINK` that are flags, a bit for each number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Whether an option is set.
    pub(crate) fn has(self, option: i32) -> bool {
        self.0 & 1 << option != 0
    }

    /// Sets an option or takes it back.
    pub(crate) fn set(&mut self, option: i32, on: bool) {
        self.0 = self.0 & !(1 << option) | u32::from(on) << option;
    }
}

/// A send that was carried out, with its call ended by a signal: it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The thread.
    pub thread: u32,
    /// Number of the system call.
    pub number: libc::c_long,
    /// A hash of the datagrams.
    pub hash: u64,
    /// What the call would have returned.
    pub outcome: Outcome,
}

/// A socket of a program.
pub(crate) struct Socket {
    end: OwnedFd,
    /// Whether the supervisor waits for room in the buffer.
    pub waits_for_room: bool,
    /// See [`SocketId`].
    pub id: SocketId,
    /// The number of its network namespace.
    pub space: u64,
    /// `SOCK_RAW` or `SOCK_DGRAM`.
    pub kind: i32,
    /// Port id, 0 if it has none yet.
    pub port: u32,
    /// Groups that it is a member of, group 1 in the lowest bit.
    pub groups: u32,
    /// Where datagrams without address go.
    pub peer: Address,
    /// How its program uses it.
    pub habits: Habits,
    /// Options.
    pub flags: Flags,
    /// User namespaces that own its network namespace, and those around them: their inodes.
    pub owners: Arc<[u64]>,
    /// Bytes of its buffer for datagrams that it sends, if the program has made it smaller.
    pub send_buffer: Option<usize>,
    /// Bytes of its buffer for datagrams that it receives, if the program has made it smaller.
    pub receive_buffer: Option<usize>,
    /// An error that the next receive returns, 0 for none.
    pub error: Errno,
    /// A send that may be made again.
    pub unanswered: Option<Unanswered>,
    backlog: VecDeque<Datagram>,
    backlog_bytes: usize,
    /// The pair's buffer had no room when something was last sent.
    is_full: bool,
    /// Longest buffer that the program has received into, in bytes.
    receives_into: usize,
    /// Bytes of answers since the program has last received something.
    answered: usize,
    /// The datagrams in the pair's buffer.
    buffered: VecDeque<Buffered>,
}

/// What is known of a datagram in the pair's buffer.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    group: u32,
    len: usize,
    /// See [`Datagram::joins`].
    joins: bool,
}

/// Most entries of [`Socket::buffered`]: a copy of the socket under a low number is read
/// without the supervisor's knowledge.
const MOST_BUFFERED: usize = 4096;

impl Socket {
    /// A socket of a network namespace that a program has just made.
    pub(crate) fn new(
        end: OwnedFd,
        id: SocketId,
        kind: i32,
        space: u64,
        owners: Arc<[u64]>,
    ) -> Self {
        Socket {
            end,
            waits_for_room: false,
            id,
            space,
            kind,
            port: 0,
            groups: 0,
            peer: Address::default(),
            habits: Habits::default(),
            flags: Flags::default(),
            owners,
            send_buffer: None,
            receive_buffer: None,
            error: 0,
            unanswered: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            is_full: false,
            receives_into: 0,
            answered: 0,
            buffered: VecDeque::new(),
        }
    }

    /// The supervisor's end.
    pub(crate) fn end(&self) -> RawFd {
        self.end.as_raw_fd()
    }

    /// Whether datagrams wait for room in the buffer.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Bytes that the datagrams count for that wait for room in the buffer.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Queues an answer. Acknowledgements and errors that a buffer has no room for are lost, as
    /// the kernel loses them if the program has made it small; dumps wait.
    pub(crate) fn answer(&mut self, datagram: Datagram) {
        /// `NLM_F_MULTI` in the lower byte of `nlmsg_flags`.
        const MULTI: u8 = 2;
        let waits = datagram.bytes.get(6).is_some_and(|flags| flags & MULTI != 0);
        match self.receive_buffer {
            Some(room) if !waits && self.answered + datagram.cost() > room => {
                self.error = libc::ENOBUFS;
            }
            _ => {
                self.answered += datagram.cost();
                self.queue(datagram);
            }
        }
    }

    /// Queues a datagram. One that may be sent together with others waits until
    /// [`Socket::send_kept`].
    pub(crate) fn queue(&mut self, datagram: Datagram) {
        /// Bytes that wait at most while there is room.
        const TOGETHER: usize = 128 << 10;
        if datagram.bytes.len() > MOST_ANSWER {
            self.error = libc::ENOBUFS;
        } else if self.habits.reads_several {
            self.keep(datagram);
            if self.backlog_bytes > TOGETHER {
                self.send_kept();
            }
        } else if self.backlog.is_empty() {
            self.send_or_keep(datagram);
        } else {
            self.keep(datagram);
        }
    }

    /// Sends what waits, unless the buffer is known to be full.
    pub(crate) fn send_kept(&mut self) {
        if !self.is_full {
            self.refill();
        }
    }

    fn keep(&mut self, datagram: Datagram) {
        self.backlog_bytes += datagram.cost();
        self.backlog.push_back(datagram);
    }

    fn send_or_keep(&mut self, datagram: Datagram) {
        match self.send(&datagram) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.keep(datagram),
            Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {}
            Err(_) => self.error = libc::ENOBUFS,
            Ok(()) => {}
        }
    }

    fn send(&mut self, datagram: &Datagram) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let bytes = &datagram.bytes;
        // SAFETY: the bytes live through the call, which only reads them.
        check(unsafe { libc::send(self.end(), bytes.as_ptr().cast(), bytes.len(), flags) } as _)?;
        if self.buffered.len() < MOST_BUFFERED {
            let joins = self.habits.reads_several && datagram.joins();
            let (group, len) = (datagram.group, bytes.len());
            self.buffered.push_back(Buffered { group, len, joins });
        }
        Ok(())
    }

    /// Moves datagrams that wait into the buffer, as many as fit.
    pub(crate) fn refill(&mut self) {
        self.is_full = false;
        while let Some(datagram) = self.backlog.pop_front() {
            let mut cost = datagram.cost();
            let datagram = self.with_following(datagram, &mut cost);
            match self.send(&datagram) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.backlog_bytes -= cost - datagram.cost();
                    self.backlog.push_front(datagram);
                    self.is_full = true;
                    return;
                }
                // The program is gone, or the datagram is too long for the buffer.
                Err(_) => self.error = libc::ENOBUFS,
                Ok(()) => {}
            }
            self.backlog_bytes -= cost;
        }
    }

    /// Puts those that wait after a datagram into the same one, as many as the program has room for.
    /// Adds what they count for to `cost`.
    fn with_following(&mut self, mut datagram: Datagram, cost: &mut usize) -> Datagram {
        if !self.habits.reads_several || self.backlog.is_empty() || !datagram.joins() {
            return datagram;
        }
        while let Some(next) = self.backlog.front()
            && next.group == datagram.group
            && datagram.bytes.len() + next.bytes.len() <= self.receives_into.min(MOST_ANSWER)
            && next.joins()
        {
            *cost += next.cost();
            datagram.bytes.extend_from_slice(&next.bytes);
            self.backlog.pop_front();
        }
        datagram
    }

    /// Takes the next datagram out of the program's end of the pair, or looks at it. What was put
    /// together and does not fit into the program's buffer stays.
    ///
    /// # Errors
    /// `EAGAIN`: there is none. The socket's error, once.
    pub(crate) fn receive(
        &mut self,
        program_end: &OwnedFd,
        peek: bool,
        room: usize,
        scratch: &mut [u8],
    ) -> Result<Datagram, Errno> {
        self.receives_into = self.receives_into.max(room);
        let mut datagram = self.take(program_end, peek, scratch)?;
        if datagram.bytes.len() > room
            && self.habits.reads_several
            && let Some(at) = datagram.end_of_fitting(room)
        {
            let rest = Datagram { group: datagram.group, bytes: datagram.bytes.split_off(at) };
            if !peek {
                self.put_back(program_end, vec![rest], scratch);
            }
        }
        Ok(datagram)
    }

    /// Takes the next datagram out of the program's end of the pair, or looks at it.
    fn take(
        &mut self,
        program_end: &OwnedFd,
        peek: bool,
        scratch: &mut [u8],
    ) -> Result<Datagram, Errno> {
        if self.error != 0 {
            return Err(std::mem::take(&mut self.error));
        }
        let mut flags = libc::MSG_DONTWAIT;
        if peek {
            flags |= libc::MSG_PEEK;
        }
        let (to, room) = (scratch.as_mut_ptr().cast(), scratch.len());
        // SAFETY: the buffer has that room and lives through the call, which fills it.
        let len = check(unsafe { libc::recv(program_end.as_raw_fd(), to, room, flags) } as _)
            .map_err(|e| sys::errno(&e))? as usize;
        let noted = if peek { self.buffered.front().copied() } else { self.buffered.pop_front() };
        if !peek {
            self.answered = 0;
            self.refill();
        }
        let bytes = scratch.get(..len).unwrap_or_default().to_vec();
        Ok(Datagram { group: noted.map_or(0, |noted| noted.group), bytes })
    }

    /// Adds datagrams of the same kind to one that was taken out of the program's end of the pair,
    /// as many as there are and as there is room for, if the program understands that.
    pub(crate) fn receive_more(
        &mut self,
        program_end: &OwnedFd,
        into: &mut Datagram,
        room: usize,
        scratch: &mut [u8],
    ) {
        /// Datagrams that are taken at once.
        const MANY: usize = 64;
        if !self.habits.reads_several || !into.joins() {
            return;
        }
        let mut sum = into.bytes.len();
        let fits = |next: &&Buffered| {
            sum += next.len;
            next.group == into.group && next.joins && sum <= room && sum <= scratch.len()
        };
        let lengths: Vec<usize> =
            self.buffered.iter().take_while(fits).take(MANY).map(|next| next.len).collect();
        let mut rest = &mut scratch[..];
        let mut rooms = Vec::with_capacity(lengths.len());
        for len in lengths {
            let (room, after) = rest.split_at_mut(len);
            rooms.push(room);
            rest = after;
        }
        // One is shorter than its room if the program has received without a trapped call.
        let received = sys::receive_many(program_end.as_raw_fd(), &mut rooms);
        for (room, len) in rooms.iter().zip(received) {
            into.bytes.extend_from_slice(&room[..len]);
            self.buffered.pop_front();
        }
        self.refill();
    }

    /// Puts datagrams back that a receive took, before all others.
    pub(crate) fn put_back(
        &mut self,
        program_end: &OwnedFd,
        taken: Vec<Datagram>,
        scratch: &mut [u8],
    ) {
        let error = std::mem::take(&mut self.error);
        let after: Vec<Datagram> = std::mem::take(&mut self.backlog).into();
        self.backlog_bytes = 0;
        let mut all = taken;
        while let Ok(datagram) = self.take(program_end, false, scratch) {
            all.push(datagram);
        }
        all.extend(after);
        all.into_iter().for_each(|datagram| self.keep(datagram));
        self.refill();
        self.error = error;
    }

    /// Takes datagrams that the program sent without a trapped call: by libnetfilter_queue,
    /// `sendfile(2)`, or a copy of the descriptor under a low number. Gives those that are there, up
    /// to [`ROW`].
    pub(crate) fn take_untrapped(&self, rooms: &mut Rooms) -> Vec<Vec<u8>> {
        let mut rooms: Vec<&mut [u8]> = rooms.0.chunks_exact_mut(ROOM).collect();
        let received = sys::receive_many(self.end(), &mut rooms);
        let filled = rooms.iter().zip(received).map(|(room, len)| &room[..len]);
        // One of no length is the end of who has closed the other end.
        filled.filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec).collect()
    }
}

/// Datagrams that are taken at once of those that were sent without a trapped call.
pub(crate) const ROW: usize = 16;
/// Bytes of the longest of them.
const ROOM: usize = 1 << 20;

/// Where they go. Pages that no datagram reaches take no memory.
pub(crate) struct Rooms(Vec<u8>);

impl Rooms {
    pub(crate) fn new() -> Self {
        Rooms(vec![0; ROW * ROOM])
    }
}

/// A pair of connected sockets that keep messages apart.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors, which the call fills.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }.into())?;
    // SAFETY: the call made both.
    let [own, other] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        // SAFETY: the value lives through the call, which only reads it. The second one is refused
        // without rights, and the first one is cut to what is allowed.
        unsafe {
            libc::setsockopt(
                own.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const BUFFER).cast(),
                size_of::<i32>() as u32,
            )
        };
    }
    Ok((own, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a packet or event, with a number in it.
    fn message(number: u32, len: usize) -> Vec<u8> {
        let mut bytes = (len as u32).to_ne_bytes().to_vec();
        bytes.extend([0, 3, 0, 0]);
        bytes.extend(number.to_ne_bytes());
        bytes.resize(len, 0);
        bytes
    }

    #[test]
    fn messages_that_are_sent_together_arrive_once_each_and_whole() {
        let mut scratch = vec![0; 1 << 20];
        // Bytes of messages, rooms that the program receives into by turns, and the receives that
        // 1,000 messages take.
        for (len, rooms, receives) in [
            (100, &[4096][..], 27),
            // Some are longer than some of the program's buffers.
            (100, &[4096, 300][..], 54),
            // A message that fits into no buffer is cut, as by the kernel.
            (4400, &[4096][..], 1000),
            // More than fits into the pair.
            (40_000, &[64 << 10][..], 1000),
        ] {
            let (end, program_end) = pair().unwrap();
            let mut socket = Socket::new(end, 1, libc::SOCK_RAW, 0, Arc::default());
            socket.habits.reads_several = true;
            let mut numbers = Vec::new();
            let mut calls = 0;
            let mut receive = |socket: &mut Socket| {
                let room = rooms[calls % rooms.len()];
                let Ok(mut datagram) = socket.receive(&program_end, false, room, &mut scratch)
                else {
                    return false;
                };
                socket.receive_more(&program_end, &mut datagram, room, &mut scratch);
                calls += 1;
                assert!(datagram.bytes.len() <= room.max(len), "{len} {rooms:?}");
                for message in datagram.bytes.chunks(len) {
                    assert_eq!(message.len(), len, "{len} {rooms:?}");
                    numbers.push(u32::from_ne_bytes(message[8..12].try_into().unwrap()));
                }
                true
            };
            // The program is known to have that room once it has received something.
            receive(&mut socket);
            (0..1000).for_each(|n| socket.queue(Datagram { group: 0, bytes: message(n, len) }));
            socket.send_kept();
            while receive(&mut socket) {}
            assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{len} {rooms:?}");
            assert!(calls <= receives, "{len} {rooms:?}: {calls}");
            assert_eq!((socket.backlog_bytes(), socket.error), (0, 0), "{len} {rooms:?}");
        }
    }
}
