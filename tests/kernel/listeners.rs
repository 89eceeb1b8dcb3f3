// SPDX-License-Identifier: Apache-2.0

//! The services of a scenario in a kernel: programs at nfnetlink_queue, listeners to nfnetlink_log
//! and to ctnetlink, sockets.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::compare::HELPER_OF_EXPECTATIONS;
use crate::nfnl_socket::{Nfnetlink, attribute, attributes};
use crate::services::{FINGERPRINTS, Queue, Queued, Services, Told, Verdict, log_group, log_line};
use crate::tools::{Tools, run};

/// `NFNL_SUBSYS_QUEUE`.
const QUEUE: u8 = 3;

/// Those who serve a scenario, in the network namespace in which they were opened.
pub struct Listeners {
    services: Services,
    queues: Option<Nfnetlink>,
    logs: Option<Nfnetlink>,
    events: Option<Nfnetlink>,
    /// Held, not used.
    _sockets: Vec<OwnedFd>,
    /// Packets that wait for an answer, by the number of the queue.
    waiting: BTreeMap<u16, Vec<(u32, Vec<u8>)>>,
    /// How many packets have been answered.
    answered: BTreeMap<u16, usize>,
    told: Told,
    tools: Arc<dyn Tools>,
}

impl Listeners {
    /// Opens all that a scenario asks for.
    pub fn open(services: &Services, tools: Arc<dyn Tools>) -> Result<Listeners, String> {
        let e = |e: io::Error| e.to_string();
        let mut listeners = Listeners {
            services: services.clone(),
            queues: None,
            logs: None,
            events: None,
            _sockets: vec![],
            waiting: BTreeMap::new(),
            answered: BTreeMap::new(),
            told: Told::new(),
            tools,
        };
        if !services.queues.is_empty() {
            let socket = Nfnetlink::open().map_err(e)?;
            for queue in &services.queues {
                open_queue(&socket, queue).map_err(|e| format!("queue {}: {e}", queue.number))?;
            }
            listeners.queues = Some(socket);
        }
        if !services.log_groups.is_empty() {
            let socket = Nfnetlink::open().map_err(e)?;
            for group in &services.log_groups {
                socket.listen_to_log(*group).map_err(|e| format!("log group {group}: {e}"))?;
            }
            listeners.logs = Some(socket);
        }
        if services.events {
            let socket = Nfnetlink::open().map_err(e)?;
            // NFNLGRP_CONNTRACK_NEW to NFNLGRP_CONNTRACK_EXP_DESTROY.
            (1..=6).try_for_each(|group| socket.join(group)).map_err(e)?;
            listeners.events = Some(socket);
        }
        for line in services.sockets.lines() {
            listeners._sockets.push(open_socket(line).map_err(|e| format!("{line}: {e}"))?);
        }
        if services.fingerprints {
            run("nfnl_osf", &["-f", FINGERPRINTS], "")?;
        }
        Ok(listeners)
    }

    /// Reads what has come, and answers.
    pub fn serve(&mut self) -> io::Result<()> {
        // An answer may let the packet come again.
        while self.serve_queues()? {}
        if let Some(logs) = &mut self.logs {
            for message in logs.messages()? {
                let record = message.get(16..).unwrap_or_default();
                let key = format!("log group {}", log_group(record));
                self.told.entry(key).or_default().push(log_line(record, name_of));
            }
        }
        if let Some(events) = &mut self.events {
            for message in events.messages()? {
                if let Some(line) = self.tools.event(&message) {
                    let line = line.replace(HELPER_OF_EXPECTATIONS, "").trim_end().to_owned();
                    self.told.entry("events".into()).or_default().push(line);
                }
            }
        }
        Ok(())
    }

    /// What was told until now.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Whether there was something to do.
    fn serve_queues(&mut self) -> io::Result<bool> {
        let Some(socket) = &mut self.queues else { return Ok(false) };
        let messages = socket.messages()?;
        for message in &messages {
            let number = message.get(18..20).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
            let (id, packet) = queued(message.get(20..).unwrap_or_default(), message[16]);
            let lines = self.told.entry(format!("queue {number}")).or_default();
            lines.push(packet.line());
            self.waiting.entry(number).or_default().push((id, packet.payload));
        }
        for (number, waiting) in &mut self.waiting {
            let Some(queue) = self.services.queues.iter().find(|q| q.number == *number) else {
                continue;
            };
            while waiting.len() >= queue.window {
                let (id, payload) = waiting.remove(0);
                let place = self.answered.entry(*number).or_default();
                answer(socket, queue, *place, id, &payload)?;
                *place += 1;
            }
        }
        Ok(!messages.is_empty())
    }

    /// Answers for all that still wait.
    pub fn finish(&mut self) -> io::Result<()> {
        for queue in &mut self.services.queues {
            queue.window = 1;
        }
        self.serve()?;
        // Packets that waited for others have an answer now, and may come again.
        self.serve()
    }
}

/// Binds a queue with what its program asks for.
fn open_queue(socket: &Nfnetlink, queue: &Queue) -> io::Result<()> {
    const CONFIG: u8 = 2;
    const BIND: u8 = 1;
    const COPY_PACKET: u8 = 2;
    const FAIL_OPEN: u32 = 1;
    const CONNTRACK: u32 = 2;
    let flags = CONNTRACK | if queue.fail_open { FAIL_OPEN } else { 0 };
    let params = [&queue.copy.to_be_bytes()[..], &[COPY_PACKET]].concat();
    for attributes in [
        attribute(1, &[BIND, 0, 0, 0]),
        attribute(2, &params),
        attribute(3, &queue.length.to_be_bytes()),
        [attribute(5, &flags.to_be_bytes()), attribute(4, &(FAIL_OPEN | CONNTRACK).to_be_bytes())]
            .concat(),
    ] {
        socket.ask(QUEUE, CONFIG, queue.number, &attributes)?;
    }
    Ok(())
}

/// Number and content of a message of nfnetlink_queue.
fn queued(bytes: &[u8], family: u8) -> (u32, Queued) {
    let word = |value: &[u8]| value.first_chunk().map_or(0, |b| u32::from_be_bytes(*b));
    let (mut id, mut len) = (0, None);
    let mut packet = Queued { family, ..Queued::default() };
    let mut connection = (0, 0, 0, 0);
    let mut tracked = false;
    for (kind, value) in attributes(bytes) {
        match kind {
            1 => {
                id = word(value);
                packet.protocol = u16::from_be_bytes([value[4], value[5]]);
                packet.hook = value[6];
            }
            3 => packet.mark = word(value),
            5 => packet.input = name_of(word(value)),
            6 => packet.output = name_of(word(value)),
            9 => packet.from = value[4..4 + usize::from(value[1])].to_vec(),
            10 => packet.payload = value.to_vec(),
            11 => {
                tracked = true;
                for (kind, value) in attributes(value) {
                    match kind {
                        3 => connection.1 = word(value),
                        8 => connection.2 = word(value),
                        18 => connection.3 = u16::from_be_bytes([value[0], value[1]]),
                        _ => {}
                    }
                }
            }
            12 => connection.0 = word(value) as u8,
            13 => len = Some(word(value)),
            21 => packet.priority = word(value),
            _ => {}
        }
    }
    packet.connection = tracked.then_some(connection);
    packet.len = len.unwrap_or(packet.payload.len() as u32);
    (id, packet)
}

/// Sends the answer for the packet at a place.
fn answer(
    socket: &Nfnetlink,
    queue: &Queue,
    place: usize,
    id: u32,
    payload: &[u8],
) -> io::Result<()> {
    const VERDICT: u8 = 1;
    const BYPASS: u32 = 0x8000;
    let reply = queue.reply(place);
    let verdict = match reply.verdict {
        Verdict::Drop => 0,
        Verdict::Accept => 1,
        Verdict::Repeat => 4,
        Verdict::Stop => 5,
        Verdict::Queue(to, bypass) => u32::from(to) << 16 | if bypass { BYPASS } else { 0 } | 3,
    };
    let mut given = attribute(2, &[verdict.to_be_bytes(), id.to_be_bytes()].concat());
    if let Some(mark) = reply.mark {
        given.extend(attribute(3, &mark.to_be_bytes()));
    }
    if let Some(change) = reply.change {
        given.extend(attribute(10, &change.of(payload)));
    }
    socket.tell(QUEUE, VERDICT, queue.number, &given)
}

/// The name of an interface of the present namespace.
fn name_of(index: u32) -> String {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the call asks for, and ends with a zero.
    unsafe {
        if libc::if_indextoname(index, name.as_mut_ptr()).is_null() {
            return index.to_string();
        }
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    }
}

/// Opens a socket as a line of `penstock run --sockets` has it: `tcp LOCAL:PORT [transparent]
/// [mark N]`.
fn open_socket(line: &str) -> io::Result<OwnedFd> {
    let wrong = || io::Error::other("not understood");
    let mut words = line.split_whitespace();
    let kind = match words.next() {
        Some("tcp") => libc::SOCK_STREAM,
        Some("udp") => libc::SOCK_DGRAM,
        _ => return Err(wrong()),
    };
    let local: SocketAddr = words.next().and_then(|w| w.parse().ok()).ok_or_else(wrong)?;
    let four = local.is_ipv4();
    let domain = if four { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes no pointer; a returned descriptor has no other owner.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    while let Some(word) = words.next() {
        let (level, option, value) = match word {
            "transparent" if four => (libc::SOL_IP, libc::IP_TRANSPARENT, 1),
            "transparent" => (libc::SOL_IPV6, libc::IPV6_TRANSPARENT, 1),
            "mark" => {
                let mark = words.next().and_then(|w| w.parse().ok()).ok_or_else(wrong)?;
                (libc::SOL_SOCKET, libc::SO_MARK, mark)
            }
            _ => return Err(wrong()),
        };
        set(&fd, level, option, value)?;
    }
    set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if !four {
        set(&fd, libc::SOL_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    bind(&fd, local)?;
    // SAFETY: no pointers.
    if kind == libc::SOCK_STREAM && unsafe { libc::listen(fd.as_raw_fd(), 4) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

fn set(fd: &OwnedFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to a live i32 of the length given.
    let rc =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(fd: &OwnedFd, local: SocketAddr) -> io::Result<()> {
    // SAFETY: zeroed socket addresses are valid.
    let (mut four, mut six): (libc::sockaddr_in, libc::sockaddr_in6) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let port = local.port().to_be();
    let (address, len) = match local.ip() {
        IpAddr::V4(ip) => {
            four.sin_family = libc::AF_INET as u16;
            four.sin_port = port;
            four.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            ((&raw const four).cast(), size_of_val(&four))
        }
        IpAddr::V6(ip) => {
            six.sin6_family = libc::AF_INET6 as u16;
            six.sin6_port = port;
            six.sin6_addr.s6_addr = ip.octets();
            ((&raw const six).cast(), size_of_val(&six))
        }
    };
    // SAFETY: the pointer is to a live socket address of the length given.
    let rc = unsafe { libc::bind(fd.as_raw_fd(), address, len as libc::socklen_t) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
