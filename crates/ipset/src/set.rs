// SPDX-License-Identifier: Apache-2.0

//! One set.

use serde::{Deserialize, Serialize};

use crate::carried::{Carried, New, left};
use crate::element::Element;
use crate::error::Code;
use crate::given::{Given, NOMATCH};
use crate::kind::{Dimension, Family, Kind};
use crate::list::Members;
use crate::options::{Options, Shape};
use crate::range::Ranges;
use crate::table::Table;

/// Most elements that a request names by ranges. The kernel goes through more, too, for as long as
/// it takes.
const RANGE_MOST: u64 = 1 << 24;

/// What a set is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Type.
    pub kind: Kind,
    /// Family.
    pub family: Family,
    /// Revision that it was made with.
    pub revision: u8,
    /// What it was made with.
    pub options: Options,
}

/// An element as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The element.
    pub element: Element,
    /// Of a list, the name of the set.
    pub name: Option<Box<str>>,
    /// What it carries.
    pub carried: Carried,
    /// Seconds that are left, 0 for no end.
    pub timeout: u32,
    /// When it expires (ns), if it does.
    pub expires_at: Option<u64>,
    /// Comment.
    pub comment: Option<Box<str>>,
}

/// What is in it.
#[derive(Debug)]
pub(crate) enum Content {
    Table(Box<Table>),
    List(Members),
}

/// A set.
#[derive(Debug)]
pub(crate) struct Set {
    pub header: Header,
    pub content: Content,
}

impl Set {
    /// An empty one.
    pub(crate) fn new(header: Header) -> Result<Self, Code> {
        let content = match header.kind {
            Kind::ListSet => Content::List(Members::default()),
            kind => Content::Table(Box::new(Table::new(kind, header.family, &header.options)?)),
        };
        Ok(Set { header, content })
    }

    /// Elements at a time (ns).
    pub(crate) fn count(&self, now: u64) -> u32 {
        match &self.content {
            Content::Table(table) => table.count(now),
            Content::List(members) => members.count(now),
        }
    }

    pub(crate) fn clear(&self) {
        match &self.content {
            Content::Table(table) => table.clear(),
            Content::List(members) => members.clear(),
        }
    }

    /// Adds or deletes the elements of a table that a request names.
    pub(crate) fn change(
        &self,
        table: &Table,
        given: &Given,
        (delete, exist): (bool, bool),
        now: u64,
    ) -> Result<(), Code> {
        let Header { kind, family, options, .. } = &self.header;
        let ranges = Ranges::new(*kind, *family, options, given, false)?;
        if ranges.count() > RANGE_MOST {
            return Err(Code::ERANGE);
        }
        let nomatch = kind.has_nets() && given.flags & NOMATCH != 0;
        let new = New::checked(&given.extensions, nomatch, options)?;
        ranges.each(&mut |element| {
            let done = match delete {
                true if table.remove(element, now) => Ok(()),
                true => Err(Code::EXIST),
                false => {
                    let mac = ranges.mac.filter(|_| *kind == Kind::BitmapIpMac);
                    table.add(element, mac, &new, (exist, options), now)
                }
            };
            match done {
                Err(Code::EXIST) if exist => Ok(()),
                done => done,
            }
        })
    }

    /// Whether a table has the element that a request names.
    pub(crate) fn test(&self, table: &Table, given: &Given, now: u64) -> Result<bool, Code> {
        let Header { kind, family, options, .. } = &self.header;
        let ranges = Ranges::new(*kind, *family, options, given, true)?;
        New::checked(&given.extensions, false, options)?;
        let element = ranges.one();
        let nomatch = given.flags & NOMATCH != 0;
        // A network is looked for as it is; an address in all networks.
        let dimension = usize::from(*kind == Kind::HashIpPortNet);
        let is_address = element.nets[dimension].len == family.bits();
        let found = match kind.has_nets() && is_address {
            true => table.search(&element, now, |_| true),
            false => table.find(&element, now),
        };
        let Some(found) = found else { return Ok(false) };
        if *kind == Kind::BitmapIpMac
            && let (Some(wanted), Some(has)) = (given.mac, found.carried.mac)
        {
            return Ok(wanted == has);
        }
        Ok(found.carried.nomatch == (nomatch && kind.has_nets()))
    }

    /// Elements of a table from a place on, as they are told, and where the next ones begin.
    pub(crate) fn told(
        &self,
        table: &Table,
        from: u32,
        most: usize,
        now: u64,
    ) -> (Vec<Told>, Option<u32>) {
        let (listed, next) = table.page(from, most, now);
        let told = listed.into_iter().map(|(element, carried, expires_at)| Told {
            element,
            name: None,
            timeout: left(expires_at, now),
            expires_at,
            comment: table.comments.get(carried.comment),
            carried,
        });
        (told.collect(), next)
    }

    /// Bytes of memory that the kernel would count (`IPSET_ATTR_MEMSIZE`), with a bucket of its own
    /// for each element of a hash: how the kernel's fall into buckets is by chance.
    pub(crate) fn memory(&self, now: u64) -> u32 {
        let count = self.count(now) as usize;
        let bytes = match (&self.header.options.shape, &self.content) {
            (Shape::Bitmap { .. }, Content::Table(table)) => {
                self.bitmap_memory() + table.comments.memory()
            }
            (Shape::Hash { hashsize, .. }, Content::Table(table)) => {
                /// Of a bucket without elements; it has room for two at first.
                const BUCKET: usize = 32;
                let regions = (*hashsize as usize).div_ceil(1024).saturating_sub(1) * 24;
                let element = self.with_extensions(self.element_memory(), 4);
                let base = self.hash_memory() + regions;
                base + count * (BUCKET + 2 * element) + table.comments.memory()
            }
            (_, Content::List(members)) => {
                80 + count * self.with_extensions(48, 8) + members.comments.memory()
            }
            (Shape::List { .. }, Content::Table(_)) => 0,
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Bytes of an element with what it carries (`ip_set_elem_len()`).
    fn with_extensions(&self, own: usize, align: usize) -> usize {
        let Options { timeout, counters, comment, skbinfo, .. } = &self.header.options;
        let (mut len, mut most) = (own, align);
        for (has, size, align) in
            [(*counters, 16, 8), (timeout.is_some(), 8, 8), (*skbinfo, 16, 4), (*comment, 8, 8)]
        {
            if has {
                len = len.next_multiple_of(align) + size;
                most = most.max(align);
            }
        }
        len.next_multiple_of(most)
    }

    fn bitmap_memory(&self) -> usize {
        let elements = self.header.options.most() as usize;
        let (base, own) = match self.header.kind {
            Kind::BitmapPort => (72, 0),
            Kind::BitmapIpMac => (80, 8),
            _ => (88, 0),
        };
        base + elements.div_ceil(64) * 8 + elements * self.with_extensions(own, 1)
    }

    /// Bytes of an empty hash with at most 1024 buckets.
    fn hash_memory(&self) -> usize {
        let v6 = self.header.family == Family::V6;
        match (self.header.kind, v6) {
            (Kind::HashIpPortIp, false) | (Kind::HashMac, _) => 208,
            (Kind::HashIp | Kind::HashIpPort | Kind::HashIpMark | Kind::HashIpMac, false) => 216,
            (Kind::HashIp, true) => 224,
            (Kind::HashIpPortNet, false) => 464,
            (Kind::HashNet | Kind::HashNetPort, false) => 456,
            (Kind::HashNetIface, false) => 488,
            (Kind::HashNetNet | Kind::HashNetPortNet, false) => 472,
            (Kind::HashIpPortNet, true) => 1256,
            (Kind::HashNet | Kind::HashNetPort, true) => 1240,
            (Kind::HashNetIface, true) => 1264,
            (Kind::HashNetNet | Kind::HashNetPortNet, true) => 1264,
            _ => 232,
        }
    }

    /// Bytes of an element of a hash without what it carries.
    fn element_memory(&self) -> usize {
        let address = self.header.family.address_len();
        match self.header.kind {
            Kind::HashIp => address,
            Kind::HashMac => 8,
            Kind::HashIpMac => address + 8,
            Kind::HashIpPortIp | Kind::HashIpPortNet => 2 * address + 4,
            Kind::HashNetIface => (address + 21).next_multiple_of(4),
            Kind::HashNetNet | Kind::HashNetPortNet => 2 * address + 8,
            _ => address + 4,
        }
    }

    /// Whether its elements have a dimension.
    pub(crate) fn has(&self, dimension: Dimension) -> bool {
        self.header.kind.dimensions().contains(&dimension)
    }
}
