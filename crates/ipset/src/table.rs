// SPDX-License-Identifier: Apache-2.0

//! The elements of all sets but lists. Packets find, add and delete them without a lock; the
//! lengths of prefixes that are there say which to try, longest first (`ip_set_hash_gen.h`).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use penstock_sets::Dynamic;

use crate::carried::{Carried, Comments, New, WORDS, Words};
use crate::element::{Device, Element, IFACE_LEN, Key, Prefix, key_len};
use crate::error::Code;
use crate::kind::{Dimension, Family, Kind};
use crate::options::Options;

/// How many elements have a prefix of each length, or a wildcard for names of each length.
#[derive(Debug)]
struct Lengths(Box<[AtomicU32]>);

impl Lengths {
    fn new(most: usize) -> Self {
        Lengths((0..=most).map(|_| AtomicU32::new(0)).collect())
    }

    fn add(&self, len: usize) {
        if let Some(count) = self.0.get(len) {
            count.fetch_add(1, Relaxed);
        }
    }

    fn remove(&self, len: usize) {
        if let Some(count) = self.0.get(len) {
            let _ = count.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
        }
    }

    fn clear(&self) {
        self.0.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Those that are there, longest first.
    fn each(&self) -> impl Iterator<Item = usize> {
        let there = |(_, count): &(usize, &AtomicU32)| count.load(Relaxed) > 0;
        self.0.iter().enumerate().rev().filter(there).map(|(len, _)| len)
    }
}

/// What a lookup found.
pub(crate) struct Found {
    pub carried: Carried,
    pub slot: u32,
}

/// The elements of a set.
#[derive(Debug)]
pub(crate) struct Table {
    kind: Kind,
    family: Family,
    elements: Dynamic,
    lengths: [Lengths; 2],
    wildcards: Lengths,
    /// Of networks with devices: the networks, and how many elements each has. The search ends at
    /// the longest prefix that is there with any device (`hash_netiface4_data_equal()`).
    networks: Option<Dynamic>,
    pub(crate) comments: Comments,
}

/// An element of a table, and what it carries; when it expires (ns).
pub(crate) type Listed = (Element, Carried, Option<u64>);

impl Table {
    /// An empty one.
    ///
    /// # Errors
    /// `ENOMEM`: there is no memory for as many elements as it may have.
    pub(crate) fn new(kind: Kind, family: Family, options: &Options) -> Result<Self, Code> {
        let (key_len, most) = (key_len(kind, family), options.most());
        if !Dynamic::has_room(key_len, WORDS, most) {
            return Err(Code::ENOMEM);
        }
        let bits = usize::from(family.bits());
        Ok(Table {
            kind,
            family,
            elements: Dynamic::new(key_len, WORDS, most),
            lengths: [Lengths::new(bits), Lengths::new(bits)],
            wildcards: Lengths::new(IFACE_LEN),
            networks: (kind == Kind::HashNetIface)
                .then(|| Dynamic::new(family.address_len() + 1, 2, most)),
            comments: Comments::default(),
        })
    }

    fn key(&self, element: &Element) -> Key {
        element.key(self.kind, self.family)
    }

    /// How many elements there are at a time (ns).
    pub(crate) fn count(&self, now: u64) -> u32 {
        self.elements.make_room(now, u32::MAX);
        self.elements.len()
    }

    /// The words of what was found.
    pub(crate) fn words(&self, slot: u32) -> Words<'_> {
        Words(self.elements.value(slot))
    }

    /// The element that is exactly this one.
    #[inline]
    pub(crate) fn find(&self, element: &Element, now: u64) -> Option<Found> {
        let key = self.key(element);
        let (carried, slot) =
            self.elements.lookup(key.bytes(), now, |words| Words(words).read())?;
        Some(Found { carried, slot })
    }

    /// The first element that a packet, or a request without networks, matches and that `accepts`
    /// says yes to.
    #[inline]
    pub(crate) fn search(
        &self,
        element: &Element,
        now: u64,
        mut accepts: impl FnMut(&Found) -> bool,
    ) -> Option<Found> {
        let mut exact = |element: &Element| self.find(element, now).filter(|found| accepts(found));
        if !self.kind.has_nets() {
            return exact(element);
        }
        // Which of the addresses are networks.
        let [first, second] = match self.kind {
            Kind::HashIpPortNet => [false, true],
            Kind::HashNetNet | Kind::HashNetPortNet => [true, true],
            _ => [true, false],
        };
        let mut tried = *element;
        let mut inner = |tried: &mut Element| -> Option<Found> {
            if !second {
                return self.devices(tried, &mut exact);
            }
            self.lengths[1].each().find_map(|len| {
                tried.nets[1] = Prefix::masked(element.nets[1].address, len as u8);
                exact(tried)
            })
        };
        if !first {
            return inner(&mut tried);
        }
        for len in self.lengths[0].each() {
            tried.nets[0] = Prefix::masked(element.nets[0].address, len as u8);
            let found = inner(&mut tried);
            if found.is_some() || self.has_network(&tried, now) {
                return found;
            }
        }
        None
    }

    /// The key of an element's network.
    fn network(&self, element: &Element) -> ([u8; 17], usize) {
        let (mut key, len) = ([0; 17], self.family.address_len());
        key[..len].copy_from_slice(&element.nets[0].address[..len]);
        key[len] = element.nets[0].len;
        (key, len + 1)
    }

    fn has_network(&self, element: &Element, now: u64) -> bool {
        let Some(networks) = &self.networks else { return false };
        let (key, len) = self.network(element);
        networks.lookup(&key[..len], now, |_| ()).is_some()
    }

    /// Notes that there are `more` elements of a network, which live until `expires_at` (ns).
    fn add_to_network(&self, element: &Element, more: u64, expires_at: u64, now: u64) {
        let Some(networks) = &self.networks else { return };
        let (key, len) = self.network(element);
        let key = &key[..len];
        let fill = |words: &[AtomicU64]| words.iter().for_each(|word| word.store(0, Relaxed));
        networks.insert(key, now, expires_at, fill);
        networks.renew(key, now, |words| {
            let [count, latest] = words else { return None };
            count.fetch_add(more, Relaxed);
            Some(latest.fetch_max(expires_at, Relaxed).max(expires_at))
        });
    }

    /// Notes that there is one element less of a network.
    fn remove_from_network(&self, element: &Element, now: u64) {
        let Some(networks) = &self.networks else { return };
        let (key, len) = self.network(element);
        let key = &key[..len];
        if let Some(((), slot)) = networks.lookup(key, now, |_| ()) {
            let before = networks.value(slot).first().map_or(0, |n| n.fetch_sub(1, Relaxed));
            if before <= 1 {
                networks.remove(key, now);
            }
        }
    }

    /// Tries a device's name, and then the wildcards that it begins with.
    #[inline]
    fn devices(
        &self,
        tried: &mut Element,
        exact: &mut impl FnMut(&Element) -> Option<Found>,
    ) -> Option<Found> {
        if let Some(found) = exact(tried) {
            return Some(found);
        }
        if self.kind != Kind::HashNetIface || tried.device.wildcard {
            return None;
        }
        let device = tried.device;
        let found =
            self.wildcards.each().filter(|len| *len <= device.len()).find_map(|len| {
                exact(&Element { device: Device::beginning(&device, len), ..*tried })
            });
        tried.device = device;
        found
    }

    /// The longest prefix of its first dimension of networks, which elements that packets add have;
    /// all bits if it has none.
    pub(crate) fn longest(&self) -> u8 {
        let dimension = usize::from(self.kind == Kind::HashIpPortNet);
        self.lengths[dimension].each().next().map_or(self.family.bits(), |len| len as u8)
    }

    fn note(&self, element: &Element, note: impl Fn(&Lengths, usize)) {
        let mut net = 0;
        for dimension in self.kind.dimensions() {
            match dimension {
                Dimension::Net => {
                    note(&self.lengths[net], element.nets[net].len.into());
                    net = 1;
                }
                Dimension::Ip => net = 1,
                Dimension::Iface if element.device.wildcard => {
                    note(&self.wildcards, element.device.len());
                }
                Dimension::Iface | Dimension::Port | Dimension::Mac | Dimension::Mark => {}
            }
        }
    }

    /// Adds an element, or with `exist` changes one that is there (`mtype_add()`).
    pub(crate) fn add(
        &self,
        element: &Element,
        mac: Option<[u8; 6]>,
        new: &New<'_>,
        (exist, options): (bool, &Options),
        now: u64,
    ) -> Result<(), Code> {
        let key = self.key(element);
        let comment = if options.comment { self.comments.add(new.comment) } else { 0 };
        for _ in 0..2 {
            let inserted = self.elements.insert(key.bytes(), now, new.expires_at(now), |words| {
                let words = Words(words);
                words.clear();
                words.take(new, comment, options);
                if let Some(mac) = mac {
                    words.set_mac(mac);
                }
            });
            match inserted {
                Some((_, true)) => {
                    self.note(element, Lengths::add);
                    self.add_to_network(element, 1, new.expires_at(now), now);
                    return Ok(());
                }
                Some((slot, false)) => {
                    if !exist {
                        self.comments.remove(comment);
                        return Err(Code::EXIST);
                    }
                    let words = self.words(slot);
                    self.comments.remove(words.comment());
                    words.take(new, comment, options);
                    if let Some(mac) = mac {
                        words.set_mac(mac);
                    }
                    if options.timeout.is_some() {
                        self.elements.renew(key.bytes(), now, |_| Some(new.expires_at(now)));
                        self.add_to_network(element, 0, new.expires_at(now), now);
                    }
                    return Ok(());
                }
                None if options.forceadd => self.evict(now),
                None => break,
            }
        }
        self.comments.remove(comment);
        Err(Code::HASH_FULL)
    }

    /// Makes room: one element goes.
    fn evict(&self, now: u64) {
        let (some, _) = self.elements.page((now % 61) as u32, 1, now, |_| ());
        let (some, _) = match some.is_empty() {
            true => self.elements.page(0, 1, now, |_| ()),
            false => (some, None),
        };
        for element in some {
            self.remove(&Element::of_key(&element.key, self.kind, self.family), now);
        }
    }

    /// Deletes an element; whether it was there.
    pub(crate) fn remove(&self, element: &Element, now: u64) -> bool {
        let key = self.key(element);
        let comment = match self.comments.count() {
            0 => None,
            _ => self.elements.lookup(key.bytes(), now, |words| Words(words).comment()),
        };
        if !self.elements.remove(key.bytes(), now) {
            return false;
        }
        self.note(element, Lengths::remove);
        self.remove_from_network(element, now);
        if let Some((comment, _)) = comment {
            self.comments.remove(comment);
        }
        true
    }

    /// Deletes all elements.
    pub(crate) fn clear(&self) {
        self.elements.clear();
        self.lengths.iter().for_each(Lengths::clear);
        self.wildcards.clear();
        self.networks.iter().for_each(Dynamic::clear);
        self.comments.clear();
    }

    /// Some elements from a place on, and where the next ones begin: of a bitmap in order, of others
    /// in the order in which places were taken, mostly that of their addition.
    pub(crate) fn page(&self, from: u32, most: usize, now: u64) -> (Vec<Listed>, Option<u32>) {
        let read = |words: &[_]| Words(words).read();
        if self.kind.is_bitmap() {
            let mut all = self.elements.elements(now, read);
            all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            let rest: Vec<_> = all.iter().skip(from as usize).take(most).collect();
            let next = from as usize + rest.len();
            let listed = rest.iter().map(|e| self.listed(&e.key, &e.read, e.expires_at));
            return (listed.collect(), (next < all.len()).then_some(next as u32));
        }
        let (elements, next) = self.elements.page(from, most, now, read);
        let listed = elements.iter().map(|e| self.listed(&e.key, &e.read, e.expires_at));
        (listed.collect(), next)
    }

    fn listed(&self, key: &[u8], carried: &Carried, expires_at: Option<u64>) -> Listed {
        (Element::of_key(key, self.kind, self.family), carried.clone(), expires_at)
    }

    /// Forgets comments of what has expired.
    pub(crate) fn tidy(&self, now: u64) {
        if self.comments.count() == 0 {
            return;
        }
        let elements = self.elements.elements(now, |words| Words(words).comment());
        let used: HashSet<u32> = elements.iter().map(|element| element.read).collect();
        if used.len() < self.comments.count() {
            self.comments.retain(&used);
        }
    }
}
