//! Hook lists: which base chains see a packet at a hook, in which order.

use penstock_net::Network;
use penstock_program::Hook;
use penstock_program::image::ChainIndex;
use penstock_ruleset::Family;
use penstock_ruleset::link::{Linked, LinkedBase};
use penstock_ruleset::model::{BaseChain, ChainType};

/// Protocol families that have lists of their own. Chains of `inet` tables are in both IP lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Protocol {
    Ip = 0,
    Ip6 = 1,
    Arp = 2,
}

/// A base chain in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) chain: ChainIndex,
    pub(crate) family: Family,
    pub(crate) kind: ChainType,
    priority: i32,
    registered: u64,
}

/// Number of lists that belong to no device: three families with the five hooks from prerouting to postrouting.
const LISTS: usize = 15;
const INGRESS: u32 = 15;
const EGRESS: u32 = 16;

/// All lists of a generation. A list without chains costs the test of one bit.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    /// A bit per list that is not empty; devices share one for ingress and one for egress.
    used: u32,
    lists: [Vec<Entry>; LISTS],
    /// By index of the device.
    ingress: Vec<Vec<Entry>>,
    egress: Vec<Vec<Entry>>,
}

fn slot(protocol: Protocol, hook: Hook) -> Option<usize> {
    let hook = match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
        Hook::Ingress | Hook::Egress => return None,
    };
    Some(protocol as usize * 5 + hook)
}

/// Whether a device name fits what a chain names: the same, or the beginning of it where that ends with `*`.
fn names(pattern: &str, device: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => device.starts_with(start),
        None => pattern == device,
    }
}

impl Hooks {
    /// The lists of a linked generation. Chains for devices that do not exist are in no list; bridge chains see no
    /// packets, since there are no bridges.
    pub(crate) fn new(net: &Network, linked: &Linked) -> Self {
        let devices = net.last_index() as usize + 1;
        let mut hooks = Hooks {
            ingress: vec![Vec::new(); devices],
            egress: vec![Vec::new(); devices],
            ..Hooks::default()
        };
        for LinkedBase { chain, family, base } in &linked.bases {
            let (kind, priority, registered) = (base.kind, base.priority, base.registered);
            hooks.register(
                net,
                *family,
                base,
                Entry { chain: *chain, family: *family, kind, priority, registered },
            );
        }
        let order =
            |list: &mut Vec<Entry>| list.sort_by_key(|e| (e.priority, std::cmp::Reverse(e.registered)));
        hooks.lists.iter_mut().chain(&mut hooks.ingress).chain(&mut hooks.egress).for_each(order);
        hooks
    }

    fn register(&mut self, net: &Network, family: Family, base: &BaseChain, entry: Entry) {
        if family == Family::Bridge {
            return;
        }
        let per_device = match base.hook {
            Hook::Ingress => Some((&mut self.ingress, INGRESS)),
            Hook::Egress => Some((&mut self.egress, EGRESS)),
            _ => None,
        };
        if let Some((lists, bit)) = per_device {
            for link in net.links() {
                if base.devices.iter().any(|d| names(d, &link.name))
                    && let Some(list) = lists.get_mut(link.index as usize)
                {
                    list.push(entry);
                    self.used |= 1 << bit;
                }
            }
            return;
        }
        let protocols: &[Protocol] = match family {
            Family::Inet => &[Protocol::Ip, Protocol::Ip6],
            Family::Ip => &[Protocol::Ip],
            Family::Ip6 => &[Protocol::Ip6],
            Family::Arp => &[Protocol::Arp],
            Family::Netdev | Family::Bridge => &[],
        };
        for &protocol in protocols {
            if let Some(slot) = slot(protocol, base.hook) {
                self.lists[slot].push(entry);
                self.used |= 1 << slot;
            }
        }
    }

    /// The chains at an IP or ARP hook.
    #[inline]
    pub(crate) fn list(&self, protocol: Protocol, hook: Hook) -> &[Entry] {
        match slot(protocol, hook) {
            Some(slot) if self.used & 1 << slot != 0 => &self.lists[slot],
            _ => &[],
        }
    }

    /// The chains at ingress of a device.
    #[inline]
    pub(crate) fn ingress(&self, device: u32) -> &[Entry] {
        if self.used & 1 << INGRESS == 0 {
            return &[];
        }
        self.ingress.get(device as usize).map_or(&[], Vec::as_slice)
    }

    /// The chains at egress of a device.
    #[inline]
    pub(crate) fn egress(&self, device: u32) -> &[Entry] {
        if self.used & 1 << EGRESS == 0 {
            return &[];
        }
        self.egress.get(device as usize).map_or(&[], Vec::as_slice)
    }
}
