// SPDX-License-Identifier: Apache-2.0

//! Helpers by number and by name: those that are built in, and those that programs are
//! (`net/netfilter/nfnetlink_cthelper.c`).

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::{Class, HELPERS, Helper, Kind};
use crate::tuple::{IPV4, IPV6};

/// A helper that a program is: it reads packets from a queue, and expects connections by its
/// verdicts.
#[derive(Clone, Debug)]
pub struct ProgramHelper<'a> {
    /// Its number, which no built-in helper has: from [`Helpers::FIRST`] on.
    pub number: u16,
    /// Its name.
    pub name: &'a str,
    /// Address family of its connections (`NFPROTO_*`), 0 for all.
    pub l3: u8,
    /// Transport protocol of its connections.
    pub protocol: u8,
    /// Its queue.
    pub queue: u16,
    /// Whether packets go there; otherwise they pass.
    pub enabled: bool,
    /// Bytes that the program keeps with a connection, 32 at most.
    pub data_len: u8,
    /// Its classes of expectations.
    pub classes: Vec<Class>,
}

/// All helpers: the built-in ones and those that programs are.
#[derive(Clone, Debug, Default)]
pub struct Helpers {
    /// By number.
    programs: Arc<[(u16, Arc<Helper>)]>,
}

/// One of the [`Helpers`].
#[derive(Clone, Debug)]
pub(crate) enum Known {
    BuiltIn(&'static Helper),
    Program(Arc<Helper>),
}

impl Known {
    /// Whether it is the same helper, maybe with another queue or other classes.
    pub fn is_same(&self, other: &Helper) -> bool {
        let what = |h: &Helper| (h.protocol, h.ipv4, h.ipv6);
        self.name == other.name && what(self) == what(other)
    }
}

impl Deref for Known {
    type Target = Helper;

    fn deref(&self) -> &Helper {
        match self {
            Known::BuiltIn(helper) => helper,
            Known::Program(helper) => helper,
        }
    }
}

impl Helpers {
    /// The first number of a program's helper.
    pub const FIRST: u16 = 0x100;

    /// The built-in helpers, and some that programs are.
    pub fn with_programs<'a>(programs: impl IntoIterator<Item = ProgramHelper<'a>>) -> Self {
        let helper = |new: ProgramHelper<'_>| {
            let ProgramHelper { queue, enabled, data_len, .. } = new;
            let helper = Helper {
                name: Cow::Owned(new.name.into()),
                protocol: new.protocol,
                ipv4: matches!(new.l3, 0 | IPV4),
                ipv6: matches!(new.l3, 0 | IPV6),
                port: 0,
                classes: Cow::Owned(new.classes),
                kind: Kind::Program { queue, enabled, data_len },
            };
            (new.number, Arc::new(helper))
        };
        Helpers { programs: programs.into_iter().map(helper).collect() }
    }

    /// The number of a helper by name, for connections of an address family and a transport
    /// protocol (`__nf_conntrack_helper_find()`).
    pub fn number(&self, name: &str, l3: u8, protocol: u8) -> Option<u16> {
        let is_it = |helper: &Helper| helper.name == name && helper.serves(l3, protocol);
        let built_in = HELPERS.iter().position(is_it).map(|place| place as u16 + 1);
        built_in.or_else(|| {
            let found = self.programs.iter().find(|(_, helper)| is_it(helper))?;
            Some(found.0)
        })
    }

    /// The classes of the helper of a number.
    pub fn classes(&self, number: u16) -> Option<Cow<'static, [Class]>> {
        Some(self.get(number)?.classes.clone())
    }

    /// The helper of a number.
    pub(crate) fn get(&self, number: u16) -> Option<Known> {
        if let Some(built_in) = HELPERS.get(usize::from(number).checked_sub(1)?) {
            return Some(Known::BuiltIn(built_in));
        }
        let program = self.programs.iter().find(|(n, _)| *n == number)?;
        Some(Known::Program(program.1.clone()))
    }

    /// Whether they are the same ones.
    pub(crate) fn is_same(&self, other: &Helpers) -> bool {
        self.programs == other.programs
    }
}
