// SPDX-License-Identifier: Apache-2.0

//! Records of nfnetlink_log groups as a capture: what `tcpdump -i nflog:GROUP` writes, with one
//! interface per group.

use std::collections::HashMap;
use std::fs::File;
use std::io::Result;
use std::path::Path;

use penstock_dataplane::LogRecord;
use penstock_io::PcapngWriter;
use penstock_packet::Packet;
use penstock_print::log;

/// `LINKTYPE_NFLOG`.
const LINK_TYPE: u16 = 239;

/// Writes records to a file.
pub struct Nflog {
    writer: PcapngWriter<File>,
    groups: HashMap<u16, u32>,
    record: Vec<u8>,
}

impl Nflog {
    /// Makes or empties a file.
    pub fn create(path: &Path) -> Result<Self> {
        let writer = PcapngWriter::create(path)?;
        Ok(Nflog { writer, groups: HashMap::new(), record: Vec::new() })
    }

    /// Appends what a statement with a group logs.
    pub fn write(&mut self, group: u16, record: &LogRecord<'_>, packet: &Packet) -> Result<()> {
        let interface = match self.groups.get(&group) {
            Some(&interface) => interface,
            None => {
                let interface = self.writer.interface(&format!("nflog:{group}"), LINK_TYPE)?;
                self.groups.insert(group, interface);
                interface
            }
        };
        let time = penstock_daemon::wall_time(packet.meta.time);
        log::record(group, record, packet, time, &mut self.record);
        self.writer.write(interface, time, &self.record)
    }

    /// Writes what is still buffered.
    pub fn finish(self) -> Result<()> {
        self.writer.finish()
    }
}
