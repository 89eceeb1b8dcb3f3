//! The ruleset of a run: text in, text out.

use std::net::IpAddr;
use std::path::Path;

use penstock_lang::datatype::Format;
use penstock_lang::json;
use penstock_lang::names::Names;
use penstock_lang::print::listing::Listing;
use penstock_lang::session::{Options, Refusal, Session};
use penstock_lang::source::{Files, Origin, cannot_read};
use penstock_net::Network;
use penstock_ruleset::link::{CannotOffload, Linked};
use penstock_ruleset::{Generation, Ruleset};

use crate::files::SystemFiles;
use crate::names::SystemNames;

/// Loads a file as `nft -f` does on an empty ruleset; `now` is the time at which it is loaded, in nanoseconds since
/// the epoch. What the file lists is printed. The error is what nft prints, also for rules that cannot run here.
pub fn load(
    file: &Path,
    files: &SystemFiles,
    names: &dyn Names,
    can_offload: &dyn Fn(&Linked) -> Result<(), CannotOffload>,
    now: u64,
    json: bool,
) -> Result<Ruleset, String> {
    let name = file.display().to_string();
    let text = files.read(&name);
    let name = if name == "-" { "/dev/stdin".to_owned() } else { name };
    let text = text.map_err(|e| format!("Error: {}", cannot_read(&name, &e)))?;
    let options =
        Options { json, include_paths: vec!["/etc".to_owned()], runnable_only: true, ..Options::default() };
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name, from: None };
    let mut gate = |generation: &Generation| {
        let linked = Linked::new(generation).map_err(Refusal::Link)?;
        can_offload(&linked).map_err(Refusal::Offload)
    };
    let outcome = Session::new(options, files, names).run_gated(origin, text, &mut ruleset, now, &mut gate);
    if !outcome.ok {
        return Err(outcome.stderr);
    }
    print!("{}", outcome.stdout);
    eprint!("{}", outcome.stderr);
    Ok(ruleset)
}

/// The ruleset at a time as `nft list ruleset` prints it, or `nft -j list ruleset`.
pub fn list(generation: &Generation, names: &dyn Names, now: u64, json: bool) -> String {
    let listing = Listing { generation, format: Format::default(), names, now };
    if json {
        return format!("{}\n", json::to_text(&json::ruleset(&listing, None)));
    }
    listing.ruleset(None)
}

/// Names of a network's devices, and of everything else those of the system.
pub struct NetNames<'a> {
    net: &'a Network,
    system: SystemNames,
}

impl<'a> NetNames<'a> {
    /// The network.
    pub fn net(&self) -> &Network {
        self.net
    }

    /// The devices of `net`.
    pub fn new(net: &'a Network) -> Self {
        NetNames { net, system: SystemNames::default() }
    }
}

impl Names for NetNames<'_> {
    fn interface_index(&self, name: &str) -> Option<u32> {
        self.net.link_by_name(name).map(|l| l.index)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        self.net.link(index).map(|l| l.name.to_string())
    }
    fn service_port(&self, name: &str, protocol: Option<&str>) -> Option<u16> {
        self.system.service_port(name, protocol)
    }
    fn service_name(&self, port: u16, protocol: Option<&str>) -> Option<String> {
        self.system.service_name(port, protocol)
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        self.system.protocol_number(name)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        self.system.protocol_name(number)
    }
    fn user_id(&self, name: &str) -> Option<u32> {
        self.system.user_id(name)
    }
    fn user_name(&self, id: u32) -> Option<String> {
        self.system.user_name(id)
    }
    fn group_id(&self, name: &str) -> Option<u32> {
        self.system.group_id(name)
    }
    fn group_name(&self, id: u32) -> Option<String> {
        self.system.group_name(id)
    }
    fn host_addresses(&self, name: &str) -> Vec<IpAddr> {
        self.system.host_addresses(name)
    }
    fn host_name(&self, address: IpAddr) -> Option<String> {
        self.system.host_name(address)
    }
    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        self.system.table_value(table, name)
    }
    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        self.system.table_name(table, value)
    }
    fn local_offset(&self, at: Option<i64>) -> i64 {
        self.system.local_offset(at)
    }
    fn cgroup_id(&self, path: &str) -> Result<u64, String> {
        self.system.cgroup_id(path)
    }
    fn cgroup_path(&self, id: u64) -> Option<String> {
        self.system.cgroup_path(id)
    }
}
