// SPDX-License-Identifier: Apache-2.0

//! `match`, `target`: x_tables extensions (`NFTA_MATCH_*`, `NFTA_TARGET_*`,
//! `net/netfilter/nft_compat.c`).
//!
//! An extension is kept as its program sends it, and lowered where its rule is linked: to VM
//! expressions, and to [`Extension`](crate::op::Extension) for what those cannot do. The rest of
//! the path knows no extensions. The table in `table` says which there are; each has a function in
//! the file of its kind that reads its structure.
//!
//! | file | extensions |
//! | --- | --- |
//! | `table` | those that run, by name and revision |
//! | `registered`, `check` | those that Linux has, and where it takes them |
//! | `transport`, `network`, `ipv6` | matches of headers |
//! | `metadata`, `connection` | matches of what is known of the packet and its connection |
//! | `remembered` | matches that remember packets, and the state of extensions |
//! | `named` | what other programs make, by name |
//! | `ip_sets` | what looks into sets of ipset, or changes them |
//! | `host` | what asks the host's routes and sockets |
//! | `outside` | programs, clusters, IPsec |
//! | `change` | targets that change the packet, its metadata or its connection |
//! | `verdict` | targets that answer, record, copy and hand on |
//! | `nat` | targets that translate |
//! | `bridge`, `frame` | matches of ebtables; targets of ebtables and arptables |

mod bridge;
mod change;
mod check;
mod connection;
mod frame;
mod host;
mod ip_sets;
mod ipv6;
mod metadata;
mod named;
mod nat;
mod network;
mod outside;
mod part;
mod registered;
mod remembered;
mod table;
mod transport;
mod verdict;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expression, Use};
use crate::c_struct::CStruct;
use crate::hook::Hooks;
use crate::linking::{LinkReason, Linking, NotRun};
use crate::needs::Needs;
use crate::op::{Extension, Op};
use crate::{Family, State};
use part::Part;

pub use check::Place as XtPlace;
pub use named::Named as XtNamed;
pub use registered::revisions as xt_revisions;
pub use remembered::shared_rate as shared_xt_rate;

/// An x_tables match or target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Xt {
    /// A target; else a match.
    pub target: bool,
    /// `NFTA_MATCH_NAME`, `NFTA_TARGET_NAME`.
    pub name: Arc<str>,
    /// `NFTA_MATCH_REV`, `NFTA_TARGET_REV`.
    pub rev: u32,
    /// `NFTA_MATCH_INFO`, `NFTA_TARGET_INFO`: the extension's own structure.
    pub info: Arc<[u8]>,
}

/// What an extension is lowered from.
struct Given<'a> {
    rev: u32,
    /// Of the table.
    family: Family,
    info: CStruct<'a>,
}

/// What an extension is lowered to. The error says what of it is not there.
type Lowering = Result<Vec<Part>, &'static str>;

impl Given<'_> {
    /// The family, IPv4 or IPv6.
    fn ip(&self) -> Result<Family, &'static str> {
        match self.family {
            Family::Ip | Family::Ip6 => Ok(self.family),
            Family::Inet | Family::Bridge | Family::Arp | Family::Netdev => {
                Err("it runs in tables of the families ip and ip6")
            }
        }
    }

    /// Bytes of an address, and where the source and the destination are in the header.
    fn addresses(&self) -> Result<(u32, u32, u32), &'static str> {
        Ok(if self.ip()? == Family::Ip6 { (16, 8, 24) } else { (4, 12, 16) })
    }
}

impl Xt {
    fn lower(&self, family: Family) -> Lowering {
        let row = table::find(self.target, &self.name, self.rev, family)
            .ok_or("the packet path does not have it")?;
        if self.info.len() < row.len {
            return Err("its structure is too short");
        }
        (row.lower)(&Given { rev: self.rev, family, info: CStruct(&self.info) })
    }
}

impl fmt::Display for Xt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} name {} rev {}",
            if self.target { "target" } else { "match" },
            self.name,
            self.rev
        )
    }
}

impl Expression for Xt {
    fn name(&self) -> &'static str {
        if self.target { "target" } else { "match" }
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn only_matches(&self) -> bool {
        false
    }

    fn hooks(&self, family: Family) -> Hooks {
        self.allowed_hooks(family)
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        // Where it cannot be lowered it is not linked, either.
        for part in self.lower(family).unwrap_or_default() {
            part.needs(family, needs);
        }
    }

    fn is_stateful(&self) -> bool {
        remembered::kept(self).is_some()
    }

    fn new_state(&self, now: u64) -> Option<State> {
        remembered::new_state(self, now)
    }

    fn shared_name(&self, family: Family) -> Option<String> {
        remembered::shared_name(self, family)
    }

    fn join(&self, state: &State, now: u64) {
        remembered::join(self, state, now);
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let parts = self.lower(linking.family).map_err(|reason| {
            let (expression, name, rev) = (self.name(), self.name.clone(), self.rev);
            LinkReason::Extension(Box::new(NotRun { expression, name, rev, reason }))
        })?;
        let ops = part::link(&parts, linking)?;
        Ok(Op::Extension(Arc::new(Extension::Sequence { ops, continues: false })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linked::{ChainIndex, FlowtableIndex, LinkedSet, Stateful};
    use crate::linking::Names;
    use crate::operand::ObjectType;

    struct NoNames;

    impl Names for NoNames {
        fn chain(&self, _: &str) -> Option<ChainIndex> {
            None
        }

        fn set(&self, name: &Arc<str>) -> Result<LinkedSet, LinkReason> {
            Err(LinkReason::Unknown { what: "set", name: name.clone() })
        }

        fn object(&self, _: ObjectType, _: &str) -> Option<&Stateful> {
            None
        }

        fn flowtable(&self, _: &str) -> Option<FlowtableIndex> {
            None
        }
    }

    fn linked(xt: &Xt, family: Family) -> Result<Op, LinkReason> {
        let state = xt.new_state(0).map(Arc::new);
        xt.link(&Linking { family, names: &NoNames, state: state.as_ref() })
    }

    /// What a program may send is not what iptables sends.
    #[test]
    fn any_structure_is_linked_or_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        let all = [table::IPV4, table::IPV6, table::ALL, table::BRIDGE, table::ARP];
        for row in all.into_iter().flatten() {
            for round in 0..200 {
                let len = if round == 0 { random.usize(..=row.len) } else { row.len };
                let few = random.u8(..);
                let info: Arc<[u8]> =
                    (0..len).map(|_| if random.bool() { random.u8(..) & few } else { 0 }).collect();
                for family in [Family::Ip, Family::Ip6, Family::Inet, Family::Bridge, Family::Arp] {
                    let rev = *row.revs.start();
                    let xt =
                        Xt { target: row.target, name: row.name.into(), rev, info: info.clone() };
                    match linked(&xt, family) {
                        Ok(op) => assert!(op.info().stays_in_registers, "{xt}"),
                        Err(LinkReason::Extension(_) | LinkReason::Unknown { .. }) => {}
                        Err(other) => panic!("{xt}: {other}"),
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        for (name, rev, info, expected) in [
            ("ipvs", 0, vec![0; 48], "the packet path does not have it"),
            ("tcp", 1, vec![0; 16], "the packet path does not have it"),
            ("tcp", 0, vec![0; 8], "its structure is too short"),
            ("owner", 1, [vec![0; 16], vec![8, 0]].concat(), "supplementary groups are not known"),
        ] {
            let xt = Xt { target: false, name: name.into(), rev, info: info.into() };
            let error = linked(&xt, Family::Ip).map(|_| ()).unwrap_err().to_string();
            assert_eq!(error, format!("match {name} revision {rev} cannot run: {expected}"));
        }
    }
}
