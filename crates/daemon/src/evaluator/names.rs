//! Names as a child knows them: tables of the system are read as everywhere; interfaces are asked of the dataplane, hosts
//! of the client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

use penstock_lang::names::Names;

use super::channel::Channel;
use super::protocol::{ANSWER, Answer, Ask};
use crate::control::Client;
use crate::control::protocol::Message;

/// Interfaces that were asked for, by what was asked.
type Known<K, V> = RefCell<HashMap<K, Option<V>>>;

/// The names of a child.
pub(super) struct ChildNames<'c> {
    /// Those that need no more than files.
    system: Box<dyn Names>,
    channel: &'c Channel,
    client: &'c Client,
    indexes: Known<String, u32>,
    names: Known<u32, String>,
}

impl<'c> ChildNames<'c> {
    pub(super) fn new(system: Box<dyn Names>, channel: &'c Channel, client: &'c Client) -> Self {
        ChildNames { system, channel, client, indexes: RefCell::default(), names: RefCell::default() }
    }

    /// Forgets interfaces: they come and go.
    pub(super) fn forget(&self) {
        self.indexes.borrow_mut().clear();
        self.names.borrow_mut().clear();
    }

    fn ask(&self, ask: &Ask) -> Option<Answer> {
        self.channel.say(ask).ok()?;
        self.channel.hear(ANSWER, None).ok()?
    }
}

impl Names for ChildNames<'_> {
    fn interface_index(&self, name: &str) -> Option<u32> {
        if let Some(known) = self.indexes.borrow().get(name) {
            return *known;
        }
        let index = match self.ask(&Ask::InterfaceIndex(name.to_owned())) {
            Some(Answer::Index(Some(index))) => Some(index),
            // It may be one that is to come.
            _ => self.system.interface_index(name),
        };
        self.indexes.borrow_mut().insert(name.to_owned(), index);
        index
    }

    fn interface_name(&self, index: u32) -> Option<String> {
        if let Some(known) = self.names.borrow().get(&index) {
            return known.clone();
        }
        let name = match self.ask(&Ask::InterfaceName(index)) {
            Some(Answer::Name(name)) => name,
            _ => None,
        };
        self.names.borrow_mut().insert(index, name.clone());
        name
    }

    fn host_addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = self.client.question(&Message::Resolve(name.to_owned())).unwrap_or_default();
        String::from_utf8_lossy(&found).split('\0').filter_map(|address| address.parse().ok()).collect()
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
