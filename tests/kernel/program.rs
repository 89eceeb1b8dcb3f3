// SPDX-License-Identifier: Apache-2.0

//! The services of a scenario for `penstock run`: programs that answer for queues, and what it
//! writes of log groups and events.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_io::queue::{self, Answer, Message, Open, read, write};

use crate::scenario::{Scenario, devices};
use crate::services::{FINGERPRINTS, Queue, Queued, Reply, Told, Verdict, log_group, log_line};

/// The services of one run.
pub struct Programs {
    arguments: Vec<String>,
    nflog: Option<PathBuf>,
    events: Option<PathBuf>,
    names: Vec<String>,
    queues: Vec<JoinHandle<io::Result<()>>>,
    sockets: Vec<PathBuf>,
    over: Arc<AtomicBool>,
    told: Arc<Mutex<Told>>,
}

impl Programs {
    /// Starts programs, and writes files into `directory`, for a run of the scenario.
    pub fn start(scenario: &Scenario, directory: &Path) -> io::Result<Programs> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let services = &scenario.services;
        // `lo` is the first.
        let names = ["", "lo"].map(str::to_owned).into_iter().chain(devices(&scenario.net));
        let mut programs = Programs {
            arguments: vec![],
            nflog: (!services.log_groups.is_empty()).then(|| directory.join("nflog.pcapng")),
            events: services.events.then(|| directory.join("events")),
            names: names.collect(),
            queues: vec![],
            sockets: vec![],
            over: Arc::default(),
            told: Arc::default(),
        };
        if let Some(file) = &programs.nflog {
            programs.arguments.extend(["--nflog".into(), file.display().to_string()]);
        }
        if let Some(file) = &programs.events {
            programs.arguments.extend(["--conntrack-events".into(), file.display().to_string()]);
        }
        if !services.sockets.is_empty() {
            let file = directory.join("sockets");
            std::fs::write(&file, &services.sockets)?;
            programs.arguments.extend(["--sockets".into(), file.display().to_string()]);
        }
        if services.fingerprints {
            programs.arguments.extend(["--osf", FINGERPRINTS].map(str::to_owned));
        }
        for queue in &services.queues {
            let number = NUMBER.fetch_add(1, Relaxed);
            let name = format!("penstock-queue-{}-{number}", std::process::id());
            let socket = std::env::temp_dir().join(name);
            let listener = UnixListener::bind(&socket)?;
            listener.set_nonblocking(true)?;
            let at = format!("{}={}", queue.number, socket.display());
            programs.arguments.extend(["--queue".into(), at]);
            programs.sockets.push(socket);
            let (queue, over, told) = (queue.clone(), programs.over.clone(), programs.told.clone());
            programs
                .queues
                .push(std::thread::spawn(move || serve(&listener, &queue, &over, &told)));
        }
        Ok(programs)
    }

    /// What `penstock run` gets for them.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// What they were told, after the run.
    pub fn finish(self) -> io::Result<Told> {
        self.over.store(true, Relaxed);
        for queue in self.queues {
            queue.join().expect("no panics")?;
        }
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
        let mut told = std::mem::take(&mut *self.told.lock().expect("no panics"));
        let name = |index: u32| self.names.get(index as usize).cloned().unwrap_or_default();
        if let Some(file) = self.nflog {
            for record in records(&std::fs::read(file)?) {
                let key = format!("log group {}", log_group(record));
                told.entry(key).or_default().push(log_line(record, name));
            }
        }
        if let Some(file) = self.events {
            let text = std::fs::read_to_string(file)?;
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            if !lines.is_empty() {
                told.insert("events".into(), lines);
            }
        }
        Ok(told)
    }
}

/// The packets of a pcapng file in the byte order of this machine.
fn records(mut file: &[u8]) -> Vec<&[u8]> {
    const ENHANCED_PACKET: u32 = 6;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
    };
    let mut records = vec![];
    while file.len() >= 12 {
        let (block, rest) = file.split_at((word(file, 4) as usize).clamp(12, file.len()));
        if word(block, 0) == ENHANCED_PACKET {
            records.extend(block.get(28..28 + word(block, 20) as usize));
        }
        file = rest;
    }
    records
}

/// Answers for a queue until the other side has gone.
fn serve(
    listener: &UnixListener,
    queue: &Queue,
    over: &AtomicBool,
    told: &Mutex<Told>,
) -> io::Result<()> {
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && !over.load(Relaxed) => {
                std::thread::sleep(Duration::from_millis(2));
            }
            // The run ended before it asked for a program.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e),
        }
    };
    stream.set_nonblocking(false)?;
    let mut buffer = vec![];
    let window = queue.window as u32;
    let open = Open {
        fail_open: queue.fail_open,
        copy: queue.copy,
        length: queue.length,
        window,
        ..Open::default()
    };
    write(&mut stream, &Message::Open(open), &mut buffer)?;
    let (mut waiting, mut answered, mut window) = (vec![], 0, queue.window);
    while let Some(message) = read(&mut stream, &mut buffer)? {
        match message {
            Message::Packet(packet) => {
                let line = described(&packet).line();
                let mut told = told.lock().expect("no panics");
                told.entry(format!("queue {}", queue.number)).or_default().push(line);
                waiting.push((packet.id, packet.payload));
            }
            Message::End => window = 1,
            Message::Open(_) | Message::Answer(_) => {}
        }
        while waiting.len() >= window {
            let (id, payload) = waiting.remove(0);
            let answer = answer(id, queue.reply(answered), &payload);
            // A run that has ended meanwhile wants none.
            let _ = write(&mut stream, &Message::Answer(answer), &mut buffer);
            answered += 1;
        }
    }
    Ok(())
}

fn described(packet: &queue::Packet) -> Queued {
    Queued {
        protocol: packet.protocol,
        hook: packet.hook,
        family: packet.family,
        mark: packet.mark,
        priority: packet.priority,
        input: packet.input.1.clone(),
        output: packet.output.1.clone(),
        // The kernel gives it where the packet has come in.
        from: match packet.input.0 {
            0 => vec![],
            _ => packet.link.get(6..12).unwrap_or_default().to_vec(),
        },
        connection: packet.connection.map(|c| (c.info, c.status, c.mark, c.zone)),
        len: packet.len,
        payload: packet.payload.clone(),
    }
}

fn answer(id: u64, reply: Reply, payload: &[u8]) -> Answer {
    let verdict = match reply.verdict {
        Verdict::Drop => queue::Verdict::Drop,
        Verdict::Accept => queue::Verdict::Accept,
        Verdict::Repeat => queue::Verdict::Repeat,
        Verdict::Stop => queue::Verdict::Stop,
        Verdict::Queue(..) => queue::Verdict::Queue,
    };
    let mut answer = Answer::new(id, verdict);
    if let Verdict::Queue(to, bypass) = reply.verdict {
        (answer.queue, answer.bypass) = (to, bypass);
    }
    answer.mark = reply.mark;
    answer.payload = reply.change.map(|change| change.of(payload));
    answer
}
