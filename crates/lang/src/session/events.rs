// SPDX-License-Identifier: Apache-2.0

//! The differences between two generations, a line each: `nft monitor`.
//!
//! Comparing them works for a batch from any source; additions that the same batch deletes are not
//! reported. For sets that rules change, changes by users are reported; elements that packets add
//! belong to no generation.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use penstock_ruleset::model::{Chain, Generation, Set, Table};
use penstock_syntax::ast::Expr;
use penstock_syntax::json::{event, to_text};
use penstock_syntax::names::Names;
use penstock_syntax::objects;
use penstock_syntax::print::Printer;
use serde_json::Value;

use super::Options;
use super::lines::{Lines, named};
use crate::delinearize::Delinearizer;
use crate::listing::Listing;
use crate::listing::json::Tables;

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    All,
    Tables,
    Chains,
    Rules,
    Sets,
    Elements,
    Traces,
}

/// What a `monitor` command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    new: bool,
    destroy: bool,
    object: Object,
}

impl Watch {
    /// Reads a command; `None` for another one than `monitor`, and the message for one that is
    /// wrong.
    pub fn parse(text: &str) -> Option<Result<Watch, String>> {
        let mut words = text
            .split_whitespace()
            .map(|w| w.trim_end_matches(';'))
            .filter(|w| !w.is_empty())
            .peekable();
        if words.next() != Some("monitor") {
            return None;
        }
        let (new, destroy) = match words.next_if(|w| matches!(*w, "new" | "destroy")) {
            None => (true, true),
            Some("new") => (true, false),
            Some(_) => (false, true),
        };
        let object = match words.next() {
            None | Some("ruleset") => Object::All,
            Some("tables") => Object::Tables,
            Some("chains") => Object::Chains,
            Some("rules") => Object::Rules,
            Some("sets" | "maps") => Object::Sets,
            Some("elements") => Object::Elements,
            Some("trace") => Object::Traces,
            Some(other) => return Some(Err(format!("Error: invalid event {other}\n"))),
        };
        if let Some(more) = words.next() {
            return Some(Err(format!("Error: syntax error, unexpected {more}\n")));
        }
        Some(Ok(Watch { new, destroy, object }))
    }

    /// Whether traces are asked for, and not changes.
    pub fn traces(&self) -> bool {
        self.object == Object::Traces
    }

    fn shows(&self, object: Object) -> bool {
        self.object == Object::All || self.object == object
    }

    /// What came and went, with ends of lines; as JSON where the options say so.
    pub fn lines(
        &self,
        before: &Generation,
        after: &Generation,
        options: &Options,
        names: &dyn Names,
        now: u64,
    ) -> String {
        let mut out = Teller { watch: *self, options, names, now, out: String::new() };
        let same = |a: &Table, b: &Table| a.handle == b.handle;
        for table in &before.tables {
            let now_there = after.tables.iter().find(|t| same(t, table));
            if now_there.is_none_or(|t| !Arc::ptr_eq(t, table)) && self.destroy {
                out.gone(before, table, now_there.map(|t| &**t));
            }
        }
        for table in &after.tables {
            let before_there = before.tables.iter().find(|t| same(t, table));
            if before_there.is_none_or(|t| !Arc::ptr_eq(t, table)) && self.new {
                out.come(after, before_there.map(|t| &**t), table);
            }
        }
        out.out
    }
}

struct Teller<'a> {
    watch: Watch,
    options: &'a Options,
    names: &'a dyn Names,
    now: u64,
    out: String,
}

impl<'a> Teller<'a> {
    fn listing<'g>(&self, generation: &'g Generation) -> Listing<'g>
    where
        'a: 'g,
    {
        let mut format = self.options.format;
        format.handles = false;
        format.backends = false;
        Listing { generation, format, names: self.names, now: self.now }
    }

    fn say(&mut self, verb: &str, text: impl FnOnce() -> String, object: impl FnOnce() -> Value) {
        if self.options.json {
            self.out.push_str(&to_text(&event(verb, object())));
        } else {
            self.out.push_str(&format!("{verb} {}", text()));
        }
        self.out.push('\n');
    }

    fn elements(&self, table: &Table, set: &Set) -> Vec<(String, Expr)> {
        let all = Delinearizer { table, now: self.now }.elements(set);
        let text = |expr: Expr| {
            let mut printer = Printer::new(self.options.format, self.names);
            printer.expr(&expr);
            (printer.out, expr)
        };
        all.into_iter().map(text).collect()
    }

    /// Elements that one set has and the other has not.
    fn difference(
        &self,
        table: &Table,
        set: &Set,
        other: Option<(&Table, &Set)>,
    ) -> Vec<(String, Expr)> {
        let there: std::collections::HashSet<String> = other
            .map(|(table, set)| {
                self.elements(table, set).into_iter().map(|(text, _)| text).collect()
            })
            .unwrap_or_default();
        self.elements(table, set).into_iter().filter(|(text, _)| !there.contains(text)).collect()
    }

    /// Elements that a set has got since the generation before. Where packets change it, too, what
    /// the batch did counts.
    fn come_elements(
        &self,
        table: &Table,
        set: &Set,
        old: Option<(&Table, &Set)>,
    ) -> Vec<(String, Expr)> {
        let dynamic = |set: &Set| set.dynamic().is_some();
        match old {
            Some((_, old)) if dynamic(set) && Arc::ptr_eq(&old.told, &set.told) => Vec::new(),
            Some((_, old)) if dynamic(set) && dynamic(old) => self.elements(table, &set.come()),
            _ if dynamic(set) => self.difference(table, &set.come(), old),
            _ => self.difference(table, set, old),
        }
    }

    /// Elements that a set has lost; `left` is its present form. Elements of a deleted set that
    /// packets change are not reported.
    fn gone_elements(
        &self,
        table: &Table,
        set: &Set,
        left: Option<(&Table, &Set)>,
    ) -> Vec<(String, Expr)> {
        let dynamic = |set: &Set| set.dynamic().is_some();
        match left {
            Some((_, now)) if dynamic(now) && Arc::ptr_eq(&now.told, &set.told) => Vec::new(),
            Some((table, now)) if dynamic(set) && dynamic(now) => self.elements(table, &now.gone()),
            Some((other, now)) if dynamic(now) => {
                self.difference(table, set, Some((other, &now.come())))
            }
            None if dynamic(set) => Vec::new(),
            _ => self.difference(table, set, left),
        }
    }

    fn told_elements(
        &mut self,
        verb: &str,
        listing: &Listing<'_>,
        table: &Table,
        set: &Set,
        all: Vec<(String, Expr)>,
    ) {
        for (text, expr) in all {
            let object =
                || Tables { listing, table }.some_elements(set, std::slice::from_ref(&expr));
            self.say(verb, || format!("element {} {{ {text} }}", named(table, &set.name)), object);
        }
    }

    /// What a table has lost, or all of it: as the kernel tells it, rules first, the table last.
    fn gone(&mut self, generation: &Generation, table: &Table, now: Option<&Table>) {
        let listing = &self.listing(generation);
        let json = Tables { listing, table };
        let chain_now =
            |c: &Chain| now.and_then(|t| t.chains.iter().find(|o| o.handle == c.handle));
        if self.watch.shows(Object::Rules) {
            for chain in &table.chains {
                let left = chain_now(chain);
                for rule in &chain.rules {
                    if left.is_some_and(|c| c.rules.iter().any(|r| r.handle == rule.handle)) {
                        continue;
                    }
                    let text =
                        || format!("rule {} handle {}", named(table, &chain.name), rule.handle);
                    self.say("delete", text, || json.rule(chain, rule));
                }
            }
        }
        for set in table.sets.iter().filter(|s| !s.anonymous) {
            let left =
                now.and_then(|t| Some((t, &**t.sets.iter().find(|s| s.handle == set.handle)?)));
            if self.watch.shows(Object::Elements)
                && left.is_none_or(|(_, s)| !std::ptr::eq(s, &**set))
            {
                let lost = self.gone_elements(table, set, left);
                self.told_elements("delete", listing, table, set, lost);
            }
            if left.is_none() && self.watch.shows(Object::Sets) {
                let kind = if set.data.is_some() { "map" } else { "set" };
                let text = || format!("{kind} {}", named(table, &set.name));
                self.say("delete", text, || json.set(set, Vec::new()));
            }
        }
        if self.watch.shows(Object::All) {
            for object in &table.objects {
                if now.is_none_or(|t| t.objects.iter().all(|o| o.handle != object.handle)) {
                    let kind = objects::name(object.value.kind());
                    let text = || format!("{kind} {}", named(table, &object.name));
                    self.say("delete", text, || json.object(object));
                }
            }
            for flowtable in &table.flowtables {
                if now.is_none_or(|t| t.flowtables.iter().all(|f| f.handle != flowtable.handle)) {
                    let text = || format!("flowtable {}", named(table, &flowtable.name));
                    self.say("delete", text, || json.flowtable(flowtable));
                }
            }
        }
        if self.watch.shows(Object::Chains) {
            for chain in table.chains.iter().filter(|c| !c.anonymous && chain_now(c).is_none()) {
                self.say(
                    "delete",
                    || format!("chain {}", named(table, &chain.name)),
                    || json.chain(chain),
                );
            }
        }
        if now.is_none() && self.watch.shows(Object::Tables) {
            let text = || format!("table {} {}", table.family.name(), table.name);
            self.say("delete", text, || json.header());
        }
    }

    /// What a table has got, or all of it: the table first, rules last.
    fn come(&mut self, generation: &Generation, before: Option<&Table>, table: &Table) {
        let listing = &self.listing(generation);
        let json = Tables { listing, table };
        let lines = Lines { listing: *listing, handles: self.options.format.handles };
        if before.is_none() && self.watch.shows(Object::Tables) {
            self.say("add", || lines.table(table), || json.header());
        }
        let chain_before =
            |c: &Chain| before.and_then(|t| t.chains.iter().find(|o| o.handle == c.handle));
        if self.watch.shows(Object::Chains) {
            for chain in table.chains.iter().filter(|c| !c.anonymous) {
                let changed = chain_before(chain)
                    .is_none_or(|old| (&old.name, &old.base) != (&chain.name, &chain.base));
                if changed {
                    self.say("add", || lines.chain(table, chain), || json.chain(chain));
                }
            }
        }
        if self.watch.shows(Object::All) {
            for object in &table.objects {
                if before.is_none_or(|t| t.objects.iter().all(|o| o.handle != object.handle)) {
                    self.say("add", || lines.object(table, object, ""), || json.object(object));
                }
            }
        }
        for set in table.sets.iter().filter(|s| !s.anonymous) {
            let old =
                before.and_then(|t| Some((t, &**t.sets.iter().find(|s| s.handle == set.handle)?)));
            if old.is_none() && self.watch.shows(Object::Sets) {
                self.say("add", || lines.set(table, set), || json.set(set, Vec::new()));
            }
            if self.watch.shows(Object::Elements)
                && old.is_none_or(|(_, s)| !std::ptr::eq(s, &**set))
            {
                let new = self.come_elements(table, set, old);
                self.told_elements("add", listing, table, set, new);
            }
        }
        if self.watch.shows(Object::All) {
            for flowtable in &table.flowtables {
                if before.is_none_or(|t| t.flowtables.iter().all(|f| f.handle != flowtable.handle))
                {
                    let text = || lines.flowtable(table, flowtable);
                    self.say("add", text, || json.flowtable(flowtable));
                }
            }
        }
        if self.watch.shows(Object::Rules) {
            for chain in &table.chains {
                let old: HashSet<u64> = chain_before(chain)
                    .map(|old| old.rules.iter().map(|rule| rule.handle).collect())
                    .unwrap_or_default();
                for (at, (verb, place)) in places(chain, &old) {
                    let Some(rule) = chain.rules.get(at) else { continue };
                    let text = || lines.rule(table, chain, &place, rule);
                    self.say(verb, text, || json.rule(chain, rule));
                }
            }
        }
    }
}

/// The rules of a chain that were not there before, by their places in it, in the order in which
/// they came, and where each has its place then. So the lines make the same chain again. Rules that
/// come in one batch cannot refer to each other by handle, as in the kernel.
fn places(chain: &Chain, old: &HashSet<u64>) -> Vec<(usize, (&'static str, String))> {
    let rules = &chain.rules;
    let handle = |at: usize| rules.get(at).map_or(0, |rule| rule.handle);
    let is_old = |at: usize| old.contains(&handle(at));
    let mut new: Vec<usize> = (0..rules.len()).filter(|at| !is_old(*at)).collect();
    new.sort_by_key(|at| handle(*at));
    // Places of the rules that are there.
    let mut there: BTreeSet<usize> = (0..rules.len()).filter(|at| is_old(*at)).collect();
    let place = |at: usize| {
        let before = there.range(..at).next_back().copied();
        let after = there.range(at..).next().copied();
        let place = match (before, after) {
            (_, None) => ("add", String::new()),
            (None, Some(_)) => ("insert", String::new()),
            (Some(before), _) if is_old(before) => ("add", format!(" handle {}", handle(before))),
            (_, Some(after)) if is_old(after) => ("insert", format!(" handle {}", handle(after))),
            (Some(before), _) => ("add", format!(" index {}", there.range(..before).count())),
        };
        there.insert(at);
        (at, place)
    };
    new.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use penstock_ruleset::Ruleset;

    use super::*;
    use crate::session::Session;
    use penstock_syntax::names::NoNames;
    use penstock_syntax::source::{NoFiles, Origin};

    /// What `nft monitor` would say of some commands, one batch each.
    fn told(watch: &str, batches: &[&str]) -> String {
        let watch = Watch::parse(watch).unwrap().unwrap();
        let (mut ruleset, mut out) = (Ruleset::default(), String::new());
        for text in batches {
            let before = ruleset.generation();
            let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
            let outcome = session.run(Origin::CommandLine, (*text).into(), &mut ruleset, 0);
            assert!(outcome.ok, "{}", outcome.stderr);
            out += &watch.lines(&before, &ruleset.generation(), &Options::default(), &NoNames, 0);
        }
        out
    }

    const BATCHES: [&str; 4] = [
        "table inet t {
           set s {
             type ipv4_addr; elements = { 198.18.0.1 }
           }
           chain c {
             type filter hook input priority 0; tcp dport 22 counter accept
           }
         }",
        "add element inet t s { 198.18.0.2 }; delete element inet t s { 198.18.0.1 }",
        "add rule inet t c drop; delete rule inet t c handle 3",
        "flush ruleset",
    ];

    #[test]
    fn changes_are_reported_in_the_order_of_the_kernel() {
        assert_eq!(
            told("monitor", &BATCHES),
            "add table inet t\n\
             add chain inet t c { type filter hook input priority filter; policy accept; }\n\
             add set inet t s { type ipv4_addr; } \n\
             add element inet t s { 198.18.0.1 }\n\
             add rule inet t c tcp dport 22 counter packets 0 bytes 0 accept\n\
             delete element inet t s { 198.18.0.1 }\n\
             add element inet t s { 198.18.0.2 }\n\
             delete rule inet t c handle 3\n\
             add rule inet t c drop\n\
             delete rule inet t c handle 4\n\
             delete element inet t s { 198.18.0.2 }\n\
             delete set inet t s\n\
             delete chain inet t c\n\
             delete table inet t\n"
        );
    }

    #[test]
    fn user_changes_of_dynamic_sets_are_reported() {
        let batches = [
            "table inet t {
               set s { type ipv4_addr; size 99; flags dynamic; elements = { 198.18.0.1 }; }
               map m { type ipv4_addr : inet_service; size 99; flags dynamic; elements = { 198.18.0.1 : 80 }; }
               set later { type ipv4_addr; size 99; flags dynamic; elements = { 198.18.0.1, 198.18.0.2 }; }
               chain c { add @s { ip saddr counter }; }
               chain d { ip daddr 198.18.0.9 add @m { ip saddr : tcp dport }; }
             }",
            "add element inet t s { 198.18.0.2, 198.18.0.3 }; delete element inet t s { 198.18.0.1 }",
            "add element inet t s { 198.18.0.4 }; delete element inet t s { 198.18.0.4 }",
            "add element inet t s { 198.18.0.2 }; add rule inet t c drop",
            "add rule inet t d add @later { ip saddr }; delete element inet t later { 198.18.0.1 }
             add element inet t later { 198.18.0.5 }",
            "flush set inet t s; delete element inet t m { 198.18.0.1 : 80 }",
            "flush ruleset",
        ];
        assert_eq!(
            told("monitor elements", &batches),
            "add element inet t s { 198.18.0.1 }\n\
             add element inet t m { 198.18.0.1 : 80 }\n\
             add element inet t later { 198.18.0.1 }\n\
             add element inet t later { 198.18.0.2 }\n\
             delete element inet t s { 198.18.0.1 }\n\
             add element inet t s { 198.18.0.2 }\n\
             add element inet t s { 198.18.0.3 }\n\
             delete element inet t later { 198.18.0.1 }\n\
             add element inet t later { 198.18.0.5 }\n\
             delete element inet t s { 198.18.0.2 }\n\
             delete element inet t s { 198.18.0.3 }\n\
             delete element inet t m { 198.18.0.1 : 80 }\n"
        );
    }

    #[test]
    fn monitors_report_only_what_they_subscribed_to() {
        assert_eq!(told("monitor new tables", &BATCHES), "add table inet t\n");
        assert_eq!(
            told("monitor destroy rules", &BATCHES),
            "delete rule inet t c handle 3\ndelete rule inet t c handle 4\n"
        );
        assert_eq!(Watch::parse("list ruleset"), None);
        assert_eq!(Watch::parse("monitor foo"), Some(Err("Error: invalid event foo\n".into())));
        assert!(Watch::parse("monitor trace").unwrap().unwrap().traces());
    }

    /// What `monitor` prints of a change of rules makes the same chains of the same ones before.
    #[test]
    fn lines_about_rules_replay() {
        const START: &str =
            "add table ip t; add chain ip t c; add rule ip t c ip ttl 1; add rule ip t c ip ttl 2";
        let mut seed = fastrand::Rng::with_seed(7);
        for round in 0..300 {
            let (mut ruleset, mut replayed) = (Ruleset::default(), Ruleset::default());
            let run = |ruleset: &mut Ruleset, text: String| {
                let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
                let outcome = session.run(Origin::CommandLine, text.clone(), ruleset, 0);
                assert!(outcome.ok, "{text}: {}", outcome.stderr);
            };
            let list = |ruleset: &Ruleset| {
                let generation = ruleset.generation();
                let chain = &generation.tables[0].chains[0];
                chain.rules.iter().map(|rule| rule.handle).collect::<Vec<_>>()
            };
            run(&mut ruleset, START.into());
            run(&mut replayed, START.into());
            for batch in 0..3 {
                let before = ruleset.generation();
                let handles = list(&ruleset);
                let mut commands = Vec::new();
                for number in 0..seed.usize(1..5) {
                    let ttl = 10 * batch + number + 10;
                    let at = handles.get(seed.usize(0..handles.len().max(1)));
                    commands.push(match (seed.u8(0..5), at) {
                        (0, Some(handle)) => {
                            format!("add rule ip t c handle {handle} ip ttl {ttl}")
                        }
                        (1, Some(handle)) => {
                            format!("insert rule ip t c handle {handle} ip ttl {ttl}")
                        }
                        (2, _) => format!("insert rule ip t c ip ttl {ttl}"),
                        // Rules of the same batch count.
                        (3, _) if batch == 0 => {
                            let index = seed.usize(0..2 + number);
                            format!("add rule ip t c index {index} ip ttl {ttl}")
                        }
                        _ => format!("add rule ip t c ip ttl {ttl}"),
                    });
                }
                if let Some(handle) = handles.first().filter(|_| seed.bool() && batch > 0) {
                    commands.insert(0, format!("delete rule ip t c handle {handle}"));
                    commands.retain(|c| {
                        c.starts_with("delete") || !c.contains(&format!("handle {handle} "))
                    });
                }
                let text = commands.join("; ");
                run(&mut ruleset, text.clone());
                let watch = Watch::parse("monitor rules").unwrap().unwrap();
                let after = ruleset.generation();
                let said = watch.lines(&before, &after, &Options::default(), &NoNames, 0);
                run(&mut replayed, said.clone());
                assert_eq!(list(&replayed), list(&ruleset), "{round}: {text}\n{said}");
            }
        }
    }
}
