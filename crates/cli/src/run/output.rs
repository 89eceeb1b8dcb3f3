// SPDX-License-Identifier: Apache-2.0

//! What comes out of the path: captures, counts, log and trace lines.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use penstock_conntrack::Conntrack;
use penstock_daemon::errln;
use penstock_daemon::probe::{captured, number_of};
use penstock_dataplane::{
    BpfDifference, BpfFault, BpfRules, DropEvent, DropReason, LogRecord, QueueRecord, Queued, Sink,
    TraceRecord,
};
use penstock_files::Access;
use penstock_io::{CaptureWriter, LinkType};
use penstock_net::{Link, Network};
use penstock_packet::gso::{Headers, segments};
use penstock_packet::{Meta, Packet};
use penstock_print::drops::Dropped;
use penstock_print::rules::WrittenRules;

use super::missing::Missing;
use super::queue::Queues;
use super::report::Collector;
use crate::capture::CaptureFile;
use crate::input::{Compare, Entry, Outgoing, Taken, Way};
use crate::log::{LogFile, Nflog};
use crate::tracer::Tracer;

/// A device that frames leave by.
pub struct Device {
    /// Its name.
    pub name: String,
    /// Frames it transmitted.
    pub frames: u64,
    writer: Option<CaptureWriter<File>>,
}

/// Why and where packets ended. The strings of a place live as long as the ruleset that is run, so
/// that their addresses tell places apart.
type DropKey = (DropReason, usize, usize, Option<u64>);

/// Takes what the path gives out.
pub struct Output<'n> {
    net: &'n Network,
    /// By index of the link.
    devices: Vec<Option<Device>>,
    host: Option<CaptureWriter<File>>,
    /// IP packets delivered to the host.
    pub delivered: u64,
    /// ARP messages delivered to the host.
    pub arp: u64,
    drops: HashMap<DropKey, (Dropped, u64)>,
    /// What the network has no addresses for.
    pub missing: Missing,
    /// By chain and rule, told apart as drops are.
    logs: HashMap<(usize, u64), (String, u64)>,
    log: Option<LogFile>,
    nflog: Option<Nflog>,
    tracer: Option<Tracer<'n>>,
    /// Whether traces are printed.
    prints_traces: bool,
    /// Counts for a report.
    pub report: Option<Collector<'n>>,
    /// What is seen on devices, by index.
    taps: HashMap<u32, (PathBuf, CaptureWriter<File>)>,
    /// What passes hooks, by numbers of captures.
    captures: Vec<(PathBuf, CaptureFile<BufWriter<File>>)>,
    /// Programs that rules give packets to.
    pub queues: Queues,
    /// What tells frames that captures have as sent apart; `None` if all frames arrive.
    outgoing: Option<Outgoing>,
    /// What is sent, held against the captures.
    compare: Option<Compare>,
    /// A segment of a super-packet.
    segment: Vec<u8>,
    /// Rules and program of a chain were found to differ.
    pub differed: bool,
    /// Trace lines that are still to be printed.
    lines: String,
    error: Option<String>,
}

impl<'n> Output<'n> {
    /// Only counts.
    pub fn counting(net: &'n Network) -> Self {
        let mut devices = Vec::new();
        devices.resize_with(net.last_index() as usize + 1, || None);
        for link in net.links() {
            if link.is_wire() {
                devices[link.index as usize] =
                    Some(Device { name: link.name.to_string(), frames: 0, writer: None });
            }
        }
        Output {
            net,
            devices,
            host: None,
            delivered: 0,
            arp: 0,
            drops: HashMap::new(),
            missing: Missing::default(),
            logs: HashMap::new(),
            log: None,
            nflog: None,
            tracer: None,
            prints_traces: false,
            report: None,
            taps: HashMap::new(),
            captures: Vec::new(),
            queues: Queues::default(),
            outgoing: None,
            compare: None,
            segment: Vec::new(),
            differed: false,
            lines: String::new(),
            error: None,
        }
    }

    /// Writes captures to a directory, which is made if need be. None of the files may be one that
    /// is read.
    pub fn to(directory: &Path, net: &'n Network, read: &[PathBuf]) -> Result<Self, String> {
        let read: Vec<PathBuf> = read.iter().filter_map(|f| f.canonicalize().ok()).collect();
        std::fs::create_dir_all(directory)
            .map_err(|e| format!("Error: {}: {e}", directory.display()))?;
        let create = |name: &str, link| {
            let file = directory.join(format!("{name}.pcap"));
            if file.canonicalize().is_ok_and(|f| read.contains(&f)) {
                return Err(format!("Error: {} would be overwritten, and is read", file.display()));
            }
            CaptureWriter::create(&file, link)
                .map_err(|e| format!("Error: {}: {e}", file.display()))
        };
        let mut output = Output::counting(net);
        for device in output.devices.iter_mut().flatten() {
            device.writer = Some(create(&device.name, LinkType::Ethernet)?);
        }
        output.host = Some(create("host", LinkType::Raw)?);
        Ok(output)
    }

    /// Keeps what is needed to tell which frames of captures were sent, and to compare.
    pub fn watch(&mut self, outgoing: bool, compare: bool) {
        self.outgoing = outgoing.then(Outgoing::default);
        self.compare = compare.then(Compare::default);
    }

    /// How a frame of a capture enters the path.
    pub fn entry<'a>(
        &mut self,
        taken: &Taken<'a>,
        conntrack: &Conntrack,
    ) -> Result<Entry<'a>, &'static str> {
        if let (Some(compare), Way::Sent(device)) = (&mut self.compare, taken.way) {
            compare.there(device, taken.frame.time, taken.frame.bytes);
        }
        taken.entry(self.net, conntrack, self.outgoing.as_mut())
    }

    /// The comparison, if it was asked for.
    pub fn compared(&self) -> Option<&Compare> {
        self.compare.as_ref()
    }

    /// Devices in the order of their indexes.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().flatten()
    }

    /// Writes what `log` statements say: lines, and records of groups.
    pub fn log_to(&mut self, log: Option<LogFile>, nflog: Option<Nflog>) {
        (self.log, self.nflog) = (log, nflog);
    }

    /// Writes what is seen on a device to a file.
    pub fn tap(&mut self, device: u32, file: &Path) -> Result<(), String> {
        let failed = |e| format!("Error: {}: {e}", file.display());
        let writer = CaptureWriter::create(file, LinkType::Ethernet).map_err(failed)?;
        self.taps.insert(device, (file.to_owned(), writer));
        Ok(())
    }

    /// Writes what the next capture of a hook sees to a file: the first one has number 0.
    pub fn capture(&mut self, file: &Path) -> Result<(), String> {
        let opened = penstock_files::create(file, Access::Owner)
            .and_then(|out| CaptureFile::new(BufWriter::new(out)));
        self.captures.push((
            file.to_owned(),
            opened.map_err(|e| format!("Error: {}: {e}", file.display()))?,
        ));
        Ok(())
    }

    /// Prints traces with what this tracer knows.
    pub fn trace_by(&mut self, tracer: Tracer<'n>, prints: bool) {
        (self.tracer, self.prints_traces) = (Some(tracer), prints);
    }

    /// The rules, as traces name them.
    pub fn rules(&self) -> Option<&WrittenRules> {
        self.tracer.as_ref().map(Tracer::rules)
    }

    /// Records of `log` statements by prefix, the most frequent first.
    pub fn logs(&self) -> Vec<(&str, u64)> {
        let mut logs: Vec<_> = self.logs.values().map(|(text, n)| (text.as_str(), *n)).collect();
        logs.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        logs
    }

    /// Why and where packets ended in words and as values, and how many, the most frequent first.
    pub fn drops(&self) -> Vec<(String, &Dropped, u64)> {
        let mut drops: Vec<_> =
            self.drops.values().map(|(drop, n)| (drop.to_string(), drop, *n)).collect();
        drops.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        drops
    }

    /// The error of a capture that could not be written, once.
    pub fn failed(&mut self) -> Result<(), String> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Writes what is still buffered.
    pub fn finish(&mut self, now: u64) -> Result<(), String> {
        self.print_lines();
        for (file, capture) in self.captures.drain(..) {
            capture.finish(now).map_err(|e| format!("Error: {}: {e}", file.display()))?;
        }
        let hosts = self.host.take().map(|w| ("host", w));
        let devices = self
            .devices
            .iter_mut()
            .flatten()
            .filter_map(|d| Some((d.name.as_str(), d.writer.take()?)));
        for (name, writer) in devices.chain(hosts) {
            writer.finish().map_err(|e| format!("Error: {name}.pcap: {e}"))?;
        }
        for (file, writer) in std::mem::take(&mut self.taps).into_values() {
            writer.finish().map_err(|e| format!("Error: {}: {e}", file.display()))?;
        }
        let log = self.log.take().map_or(Ok(()), LogFile::finish);
        let nflog = self.nflog.take().map_or(Ok(()), Nflog::finish);
        log.and(nflog).map_err(|e| format!("Error: log: {e}"))
    }
}

impl Output<'_> {
    /// The frame that was sent last, and all that it caused, is at its end.
    pub fn end_of_frame(&mut self) {
        if let Some(report) = &mut self.report {
            report.end();
        }
    }

    fn count_drops(&mut self, drop: &DropEvent<'_>, packets: u64) {
        let key = match &drop.place {
            Some(p) => (drop.reason, p.table.as_ptr() as usize, p.chain.as_ptr() as usize, p.rule),
            None => (drop.reason, 0, 0, None),
        };
        let rules = self.tracer.as_ref().map(Tracer::rules);
        self.drops.entry(key).or_insert_with(|| (Dropped::of(drop, rules), 0)).1 += packets;
    }

    fn print_lines(&mut self) {
        // A reader that closed standard error does not want them.
        let _ = std::io::stderr().write_all(self.lines.as_bytes());
        self.lines.clear();
    }
}

impl Sink for Output<'_> {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        let index = device.index;
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.sent(meta.time, frame);
        }
        if let Some(report) = &mut self.report {
            report.transmit(device, frame, meta);
        }
        if let Some(compare) = &mut self.compare {
            compare.here(index, meta.time, frame);
        }
        let Some(Some(device)) = self.devices.get_mut(index as usize) else { return };
        let mut write = |frame: &[u8]| {
            device.frames += 1;
            if let Some(writer) = &mut device.writer
                && let Err(e) = writer.write(meta.time, frame)
            {
                self.error = Some(format!("Error: {}.pcap: {e}", device.name));
            }
        };
        match meta.gso.and_then(|gso| Some((gso, Headers::of_frame(frame)?))) {
            Some((gso, headers)) => segments(frame, headers, gso, &mut self.segment, write),
            None => write(frame),
        }
    }

    fn tap(&mut self, device: &Link, frame: &[u8], meta: &Meta, _outgoing: bool) {
        if let Some((file, writer)) = self.taps.get_mut(&device.index)
            && let Err(e) = writer.write(meta.time, frame)
        {
            self.error = Some(format!("Error: {}: {e}", file.display()));
        }
    }

    fn deliver(&mut self, device: &Link, packet: &Packet) {
        const ARP: u16 = 0x0806;
        if let Some(report) = &mut self.report {
            report.deliver(device, packet);
        }
        if packet.meta.protocol == ARP {
            self.arp += 1;
            return;
        }
        self.delivered += 1;
        if let Some(writer) = &mut self.host
            && let Err(e) = writer.write(packet.meta.time, packet.network())
        {
            self.error = Some(format!("Error: host.pcap: {e}"));
        }
    }

    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        if let (DropReason::OtherHost, Some(link)) = (drop.reason, self.net.link(packet.meta.iif)) {
            self.missing.other_host(link, packet);
        }
        self.count_drops(drop, 1);
        if let Some(report) = &mut self.report {
            report.drop(drop, packet);
        }
    }

    fn drop_several(&mut self, drop: &DropEvent<'_>, packets: u64) -> bool {
        if self.report.is_some() {
            return false;
        }
        self.count_drops(drop, packets);
        true
    }

    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet) {
        if let Some(number) = number_of(record.place.table) {
            if let Some(report) = &mut self.report {
                report.probed(number);
            }
            if let Some((file, capture)) = self.captures.get_mut(number as usize)
                && let Err(e) = capture.write(&captured(record, packet))
            {
                self.error = Some(format!("Error: {}: {e}", file.display()));
            }
            return;
        }
        let mut prefix = record.log.prefix.as_deref().unwrap_or_default();
        let mut key = (record.place.chain.as_ptr() as usize, record.place.rule.unwrap_or(0));
        if record.place.table.is_empty() {
            // What connection tracking says, by protocol.
            prefix = prefix.split(':').next().unwrap_or_default();
            let protocol = prefix.rsplit('_').next().and_then(|number| number.parse().ok());
            key = (0, protocol.unwrap_or_default());
        }
        self.logs.entry(key).or_insert_with(|| (format!("log prefix \"{prefix}\""), 0)).1 += 1;
        let written = match (record.log.group, &mut self.nflog, &mut self.log) {
            (Some(group), Some(nflog), _) => nflog.write(group, record, packet),
            (None, _, Some(log)) => log.write(record, packet),
            _ => Ok(()),
        };
        if let Err(e) = written {
            self.error = Some(format!("Error: log: {e}"));
        }
    }

    fn resolve(&mut self, device: &Link, neighbour: IpAddr) -> bool {
        self.missing.neighbour(device, neighbour);
        false
    }

    fn queue(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        self.queues.send(record, packet)
    }

    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        /// Bytes of lines that are printed together.
        const TOGETHER: usize = 32 << 10;
        if number_of(record.place.table).is_some() {
            return;
        }
        if let Some(report) = &mut self.report {
            report.trace(record, packet);
        }
        if let Some(tracer) = self.tracer.as_ref().filter(|_| self.prints_traces) {
            tracer.line(record, packet, &mut self.lines);
        }
        if self.lines.len() > TOGETHER {
            self.print_lines();
        }
    }

    fn bpf_fault(&mut self, fault: &BpfFault<'_>) {
        let BpfFault { label, program, fault } = fault;
        errln!("Warning: {label}: BPF program {}: {fault}", program.name());
    }

    fn bpf_differs(&mut self, difference: &BpfDifference<'_>, packet: &Packet) {
        self.differed = true;
        let BpfDifference { program, place, passes, rules } = difference;
        let program_does = match passes {
            Some(true) => "accepts",
            Some(false) => "drops",
            None => "goes wrong on",
        };
        let rules_do = match rules {
            BpfRules::Accept => "accept",
            BpfRules::Drop => "drop",
            BpfRules::Take => "take or queue",
        };
        let (family, table, chain) = (place.family.name(), place.table, place.chain);
        let by = match place.rule {
            Some(handle) => format!(" (rule with handle {handle})"),
            None => String::new(),
        };
        let headers = self.tracer.as_ref().map(|tracer| tracer.headers(packet));
        errln!(
            "Error: --check-bpf: chain {family} {table} {chain}: rules {rules_do}{by}, program {} {program_does}: {}",
            program.name(),
            headers.unwrap_or_default().trim()
        );
    }

    fn bpf_printk(&mut self, line: &str) {
        errln!("bpf_printk: {line}");
    }
}
