// SPDX-License-Identifier: Apache-2.0

//! Things of a ruleset on one line each, after the verb: the text that `nft -e` and `nft monitor`
//! have in common.

use penstock_ruleset::model::{Chain, Flowtable, Object, Rule, Set, Table};
use penstock_syntax::objects;

use crate::listing::Listing;

/// `ip filter input`: a thing with its family and table.
pub(super) fn named(table: &Table, name: &str) -> String {
    format!("{} {} {name}", table.family.name(), table.name)
}

/// Writes things of a generation.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) listing: Listing<'a>,
    /// `-a`: handles are appended.
    pub(super) handles: bool,
}

impl<'a> Lines<'a> {
    fn handle(&self, handle: u64) -> String {
        if self.handles { format!(" # handle {handle}") } else { String::new() }
    }

    /// A table without its content.
    pub(super) fn table(&self, table: &Table) -> String {
        format!("table {} {}{}", table.family.name(), table.name, self.handle(table.handle))
    }

    /// A chain without its rules and comment.
    pub(super) fn chain(&self, table: &'a Table, chain: &Chain) -> String {
        let bare = Chain { rules: Vec::new(), userdata: Default::default(), ..chain.clone() };
        let body = one_line(&self.listing.chain(table, &bare), ";");
        let body = if chain.base.is_some() { format!(" {{ {body} }}") } else { String::new() };
        format!("chain {}{body}{}", named(table, &chain.name), self.handle(chain.handle))
    }

    /// A rule. `at` is what stands after its chain: nothing, or ` handle N`.
    pub(super) fn rule(&self, table: &'a Table, chain: &Chain, at: &str, rule: &Rule) -> String {
        let text = self.listing.rule(table, rule);
        format!("rule {}{at} {text}{}", named(table, &chain.name), self.handle(rule.handle))
    }

    /// A set or map without its elements.
    pub(super) fn set(&self, table: &'a Table, set: &Set) -> String {
        let kind = if set.data.is_some() { "map" } else { "set" };
        let body = one_line(&self.listing.set_with(table, set, &[]), ";");
        format!("{kind} {} {{{} {body} }} ", named(table, &set.name), self.handle(set.handle))
    }

    /// An object. `end` follows its last line.
    pub(super) fn object(&self, table: &'a Table, object: &Object, end: &str) -> String {
        let kind = objects::name(object.value.kind());
        let body = one_line(&self.listing.object(table, object), end);
        format!("{kind} {} {{{} {body} }} ", named(table, &object.name), self.handle(object.handle))
    }

    /// A flowtable.
    pub(super) fn flowtable(&self, table: &'a Table, flowtable: &Flowtable) -> String {
        let body = one_line(&self.listing.flowtable(table, flowtable), ";");
        let handle = self.handle(flowtable.handle);
        format!("flowtable {} {{ {body} }}{handle}", named(table, &flowtable.name))
    }
}

/// What stands between the inner braces of a listing, on one line that ends with `end`.
fn one_line(listing: &str, end: &str) -> String {
    let (mut joined, mut blocks) = (String::new(), 0);
    for line in listing.lines().skip(2).map(|line| line.trim().trim_end_matches(';')) {
        // The braces of nested blocks stay, the outer ones do not.
        let closes = line == "}";
        if line.is_empty() || closes && blocks == 0 {
            continue;
        }
        if !joined.is_empty() {
            joined += if joined.ends_with('{') { " " } else { "; " };
        }
        joined += line;
        blocks += i32::from(line.ends_with(" {"));
        blocks -= i32::from(closes);
    }
    if joined.is_empty() { joined } else { joined + end }
}
