// SPDX-License-Identifier: Apache-2.0

//! Names as a child knows them: tables of the system are read as everywhere; interfaces are asked
//! of the dataplane, hosts of the client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

use penstock_lang::names::Names;
use penstock_system::SystemNames;

use super::protocol::{ANSWER, Answer, Ask};
use crate::channel::Channel;
use crate::control::Client;
use crate::control::protocol::Message;

/// Interfaces that were asked for, by what was asked.
type Known<K, V> = RefCell<HashMap<K, Option<V>>>;

/// The names of a child.
pub(super) struct ChildNames<'c> {
    /// Names that need files only.
    system: SystemNames,
    channel: &'c Channel,
    client: &'c Client,
    indexes: Known<String, u32>,
    names: Known<u32, String>,
}

impl<'c> ChildNames<'c> {
    pub(super) fn new(system: SystemNames, channel: &'c Channel, client: &'c Client) -> Self {
        ChildNames {
            system,
            channel,
            client,
            indexes: RefCell::default(),
            names: RefCell::default(),
        }
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
    fn rest(&self) -> &dyn Names {
        &self.system
    }

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
        String::from_utf8_lossy(&found)
            .split('\0')
            .filter_map(|address| address.parse().ok())
            .collect()
    }
}
