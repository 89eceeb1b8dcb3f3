// SPDX-License-Identifier: Apache-2.0

//! What `penstock capture` and `penstock run --capture` see: frames that pass a hook, or that rules
//! log to a group.
//!
//! A probe of a hook is a base chain with one rule, `EXPRESSION log`, in a separate table that no
//! listing shows: so it is compiled like any other, and costs nothing where there is none. What it
//! logs is copied into a bounded queue. The path never waits for it; what finds no room is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use penstock_dataplane::LogRecord;
use penstock_lang::names::Names;
use penstock_lang::session::remote::Changes;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_packet::Packet;
use penstock_print::log;
use penstock_program::Hook;
use penstock_program::expr::Expr;
use penstock_ruleset::model::Table;
use penstock_ruleset::{Change, Generation, Ruleset};
use penstock_wire::ethernet;

use crate::clock;
use crate::control::{CaptureCall, Captured};

/// Frames that wait for a client.
const WAITING: usize = 4096;
/// Bytes of them.
const WAITING_BYTES: usize = 8 << 20;
/// What tables of probes are called; no name in a ruleset has a space.
const TABLE: &str = "capture ";
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_NFLOG: u16 = 239;

/// The side of the path, for each worker.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// Identifies the probe when it ends.
    pub(crate) number: u32,
    /// Captures what rules of the user log to this group, instead of its own rule.
    pub(crate) group: Option<u16>,
    /// Only frames that came by this device, or leave by it.
    device: Option<String>,
    /// Bytes of each frame.
    snaplen: usize,
    to: SyncSender<Captured>,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

/// The side of the client.
#[derive(Debug)]
pub(crate) struct Frames {
    frames: Receiver<Captured>,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

impl Frames {
    /// Waits that long for the next one.
    ///
    /// # Errors
    /// There is none in that time, or the sender is gone.
    pub(crate) fn next(&self, time: Duration) -> Result<Captured, RecvTimeoutError> {
        let frame = self.frames.recv_timeout(time)?;
        self.waiting.fetch_sub(frame.bytes.len(), Ordering::Relaxed);
        Ok(frame)
    }

    /// Frames so far for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The number of the probe with this table.
pub fn number_of(table: &str) -> Option<u32> {
    table.strip_prefix(TABLE)?.parse().ok()
}

impl Probe {
    /// Both its sides.
    pub(crate) fn new(number: u32, call: &CaptureCall) -> (Probe, Frames) {
        let (to, frames) = sync_channel(WAITING);
        let (lost, waiting) = <(Arc<AtomicU64>, Arc<AtomicUsize>)>::default();
        let probe = Probe {
            number,
            group: call.group,
            device: call.device.clone(),
            snaplen: call.snaplen as usize,
            to,
            waiting: waiting.clone(),
            lost: lost.clone(),
        };
        (probe, Frames { frames, waiting, lost })
    }

    /// Takes what a rule logs.
    pub(crate) fn take(&self, record: &LogRecord<'_>, packet: &Packet) {
        let links = [record.input, record.output];
        if let Some(device) = &self.device
            && !links.iter().flatten().any(|link| *link.name == **device)
        {
            return;
        }
        let mut frame = captured(record, packet);
        if let Some(group) = self.group {
            (frame.interface, frame.link_type) = (format!("nflog:{group}"), LINKTYPE_NFLOG);
            let group = record.log.group.unwrap_or_default();
            log::record(group, record, packet, frame.time, &mut frame.bytes);
            frame.len = frame.bytes.len() as u32;
        }
        frame.bytes.truncate(self.snaplen);
        let len = frame.bytes.len();
        let fits = self.waiting.fetch_add(len, Ordering::Relaxed) + len <= WAITING_BYTES;
        if !fits || self.to.try_send(frame).is_err() {
            self.waiting.fetch_sub(len, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A frame that passes a hook, whole.
pub fn captured(record: &LogRecord<'_>, packet: &Packet) -> Captured {
    let outgoing = matches!(record.context.hook, Hook::Output | Hook::Postrouting | Hook::Egress);
    let link =
        if outgoing { record.output.or(record.input) } else { record.input.or(record.output) };
    let bytes = frame(packet);
    let interface = link.map_or_else(String::new, |link| link.name.to_string());
    Captured {
        interface,
        link_type: LINKTYPE_ETHERNET,
        outgoing,
        time: clock::wall_time(packet.meta.time),
        len: bytes.len() as u32,
        bytes,
    }
}

/// The frame as a capture has it. At hooks of IP its link header is that of its arrival. It is an
/// Ethernet frame in any case, since libpcap reads no file with several interfaces of type
/// `LINKTYPE_RAW`.
fn frame(packet: &Packet) -> Vec<u8> {
    const ADDRESSES: usize = 12;
    let mut out = Vec::new();
    match packet.link().get(..ADDRESSES) {
        Some(addresses) if packet.link().len() >= ethernet::LEN => out.extend_from_slice(addresses),
        // A packet of this host, of a device without link header, or without its header yet.
        _ => out.extend_from_slice(&[0; ADDRESSES]),
    }
    if let Some(tag) = packet.meta.vlan {
        out.extend_from_slice(&tag.protocol.to_be_bytes());
        out.extend_from_slice(&tag.tci.to_be_bytes());
    }
    match packet.link().get(ADDRESSES..) {
        Some(rest) if packet.link().len() >= ethernet::LEN => out.extend_from_slice(rest),
        _ => out.extend_from_slice(&packet.meta.protocol.to_be_bytes()),
    }
    out.extend_from_slice(packet.network());
    out
}

/// The table of a probe of a hook. `ports` are the devices of chains that need one.
///
/// # Errors
/// What is wrong with the expression, as nft prints it.
pub fn table(
    call: &CaptureCall,
    number: u32,
    ports: &[String],
    names: &dyn Names,
) -> Result<Arc<Table>, String> {
    table_of(&*evaluated(call, ports, names, &Ignored)?, number)
}

/// Changes that are not recorded.
struct Ignored;

impl Changes for Ignored {
    fn begin(&self, _generation: &Generation, _now: u64) {}
    fn note(&self, _change: &Change) {}
}

/// Evaluates the table of a probe by itself; its changes are noted in two runs.
pub(crate) fn evaluated(
    call: &CaptureCall,
    ports: &[String],
    names: &dyn Names,
    changes: &dyn Changes,
) -> Result<Arc<Generation>, String> {
    let CaptureCall { family, hook, priority, device, expression, .. } = call;
    let at_device = matches!(&**hook, "ingress" | "egress");
    let devices = match device {
        _ if !at_device => String::new(),
        Some(device) => format!(" device \"{device}\""),
        None => {
            let quoted: Vec<String> = ports.iter().map(|p| format!("\"{p}\"")).collect();
            format!(" devices = {{ {} }}", quoted.join(", "))
        }
    };
    let mut ruleset = Ruleset::default();
    let mut run = |text: String| {
        let options = Options { runnable_only: true, ..Options::default() };
        let mut session = Session::new(options, &NoFiles, names).noting(changes);
        let outcome = session.run(Origin::CommandLine, text, &mut ruleset, crate::now());
        if outcome.ok { Ok(()) } else { Err(outcome.stderr) }
    };
    run(format!(
        "add table {family} c; add chain {family} c c {{ type filter hook {hook}{devices} priority {priority}; }}"
    ))?;
    let before = format!("add rule {family} c c ");
    // The statement after the expression makes it a capture; what the user sees of an error is the
    // expression alone.
    run(format!("{before}{expression} log group 0")).map_err(|said| {
        let cut = |line: &str| match line.strip_prefix(&before) {
            Some(rest) => rest.strip_suffix(" log group 0").unwrap_or(rest).to_owned(),
            None if !line.is_empty()
                && line.bytes().all(|b| matches!(b, b' ' | b'\t' | b'^' | b'~')) =>
            {
                line.get(before.len()..).unwrap_or_default().to_owned()
            }
            None => line.to_owned(),
        };
        said.lines().map(|line| cut(line) + "\n").collect::<String>()
    })?;
    Ok(ruleset.generation())
}

/// The table of a probe, of a generation that has nothing else.
pub(crate) fn table_of(generation: &Generation, number: u32) -> Result<Arc<Table>, String> {
    let only_matches = |generation: &Generation| {
        let [table] = &generation.tables[..] else { return None };
        let [chain] = &table.chains[..] else { return None };
        let [rule] = &chain.rules[..] else { return None };
        let (log, matches) = rule.exprs.split_last()?;
        (matches!(log, Expr::Log(_)) && matches.iter().all(Expr::only_matches))
            .then(|| table.clone())
    };
    let Some(table) = only_matches(generation) else {
        return Err(
            "Error: an expression of a capture only matches: it has no statements and no verdict\n"
                .into(),
        );
    };
    let mut table = Table::clone(&table);
    table.name = format!("{TABLE}{number}").into();
    table.handle = u64::MAX - u64::from(number);
    Ok(Arc::new(table))
}

/// A generation with the tables of probes next to those of the user.
pub fn with_probes(generation: &Generation, tables: &[Arc<Table>]) -> Generation {
    let mut all = generation.clone();
    all.tables.extend(tables.iter().cloned());
    all
}
