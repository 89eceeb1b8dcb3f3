// SPDX-License-Identifier: Apache-2.0

//! Tables, chains and rules as the page shows them.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_lang::names::Names;
use penstock_program::Hook;
use penstock_program::expr::Expr;
use penstock_program::reference::Reference;
use penstock_ruleset::model::{ElementData, MapData};
use penstock_ruleset::{
    Chain as RulesetChain, Family, Generation, Rule as RulesetRule, Table as RulesetTable,
};

/// A ruleset.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// In the order of the listing.
    pub tables: Vec<Table>,
    /// What the numbers of rules count.
    pub counted: Counted,
}

/// What the numbers of rules count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Nothing is known.
    #[default]
    Nothing,
    /// Packets that matched, for all rules.
    AllRules,
    /// What `counter` statements count, for rules that have one.
    Counters,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its family.
    pub family: Family,
    /// Its name.
    pub name: String,
    /// Sets, objects and flowtables as `nft list` prints them, each with what it is.
    pub definitions: Vec<(&'static str, String)>,
    /// Its chains.
    pub chains: Vec<Chain>,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Unique in the page.
    pub id: String,
    /// What makes it a base chain.
    pub base: Option<Base>,
    /// Written in the rule that calls it.
    pub anonymous: bool,
    /// In order.
    pub rules: Vec<Rule>,
    /// Packets that the policy decided on.
    pub by_policy: Option<u64>,
}

/// What makes a chain a base chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Where it is.
    pub hook: Hook,
    /// Lower ones run first.
    pub priority: i32,
    /// Among chains with the same priority the one that was registered last runs first.
    pub registered: u64,
    /// Whether the policy accepts.
    pub accepts: bool,
    /// As `nft list` prints it.
    pub text: String,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its handle.
    pub handle: u64,
    /// Unique in the page.
    pub id: String,
    /// As `nft list` prints it, without what it has counted.
    pub text: String,
    /// File and line.
    pub origin: Option<String>,
    /// Chains that it leads to, and whether by `goto`.
    pub calls: Vec<(String, bool)>,
    /// How often it matched.
    pub packets: Option<u64>,
    /// Bytes of the packets, if they are counted.
    pub bytes: Option<u64>,
}

impl Rules {
    /// The rules of a generation, with what their `counter` statements say at a time (nanoseconds
    /// since the epoch).
    pub fn new(generation: &Generation, names: &dyn Names, now: u64) -> Self {
        let format = Format { stateless: true, ..Format::default() };
        let listing = Listing { generation, format, names, now };
        let tables = generation.tables.iter().enumerate();
        let tables = tables.map(|(number, table)| Table::new(&listing, number, table, now));
        Rules { tables: tables.collect(), counted: Counted::Counters }
    }

    /// Replaces what counters say by other counts: a function of family, table and rule for
    /// packets that matched, and one of family, table and chain for packets that the policy
    /// decided on.
    pub fn count_by(
        &mut self,
        rule: impl Fn(Family, &str, u64) -> u64,
        policy: impl Fn(Family, &str, &str) -> u64,
    ) {
        self.counted = Counted::AllRules;
        for table in &mut self.tables {
            for chain in &mut table.chains {
                for own in &mut chain.rules {
                    own.packets = Some(rule(table.family, &table.name, own.handle));
                    own.bytes = None;
                }
                let by_policy = || policy(table.family, &table.name, &chain.name);
                chain.by_policy = chain.base.as_ref().map(|_| by_policy());
            }
        }
    }

    /// The rules without any count.
    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.counted = Counted::Nothing;
        let chains = self.tables.iter_mut().flat_map(|table| &mut table.chains);
        for rule in chains.flat_map(|chain| &mut chain.rules) {
            (rule.packets, rule.bytes) = (None, None);
        }
        self
    }

    /// The rule with a handle.
    pub fn rule(&self, family: Family, table: &str, handle: u64) -> Option<&Rule> {
        let table = self.tables.iter().find(|t| t.family == family && t.name == table)?;
        table.chains.iter().flat_map(|chain| &chain.rules).find(|rule| rule.handle == handle)
    }

    /// All rules, with their chain and table.
    pub fn all(&self) -> impl Iterator<Item = (&Table, &Chain, &Rule)> {
        self.tables.iter().flat_map(|table| {
            let chains = table.chains.iter();
            chains.flat_map(move |chain| chain.rules.iter().map(move |rule| (table, chain, rule)))
        })
    }

    /// Gives rules the handles that a listing of the same ruleset has (`nft -a list ruleset`). If
    /// the two do not have the same number of rules, nothing is known of handles.
    pub fn handles_of(&mut self, listing: &str) {
        let handle = |line: &str| -> Option<u64> {
            let (_, handle) = line.strip_prefix("\t\t")?.rsplit_once(" # handle ")?;
            handle.parse().ok()
        };
        let handles: Vec<u64> = listing.lines().filter_map(handle).collect();
        let chains =
            self.tables.iter_mut().enumerate().flat_map(|(number, table)| {
                table.chains.iter_mut().map(move |chain| (number, chain))
            });
        let chains: Vec<_> = chains.collect();
        let is_sure = chains.iter().all(|(_, chain)| !chain.anonymous)
            && chains.iter().map(|(_, chain)| chain.rules.len()).sum::<usize>() == handles.len();
        let mut handles = handles.into_iter();
        for (number, chain) in chains {
            for rule in &mut chain.rules {
                match handles.next().filter(|_| is_sure) {
                    Some(handle) => {
                        (rule.handle, rule.id) = (handle, format!("t{number}r{handle}"));
                    }
                    None => rule.origin = Some(String::new()),
                }
            }
        }
    }

    /// The largest count of a rule or policy.
    pub(crate) fn most(&self) -> u64 {
        let rules = self.all().filter_map(|(_, _, rule)| rule.packets);
        let chains = self.tables.iter().flat_map(|table| &table.chains);
        rules.chain(chains.filter_map(|chain| chain.by_policy)).max().unwrap_or_default()
    }
}

impl Table {
    fn new(listing: &Listing<'_>, number: usize, table: &RulesetTable, now: u64) -> Self {
        let mut definitions = Vec::new();
        // A listing of one definition stands in the block of its table.
        let inner = |text: String| {
            let mut lines: Vec<&str> = text.lines().skip(1).collect();
            lines.pop();
            let line = |line: &str| line.strip_prefix('\t').unwrap_or(line).to_owned() + "\n";
            lines.into_iter().map(line).collect::<String>().trim_end().to_owned()
        };
        definitions
            .extend(table.objects.iter().map(|o| ("object", inner(listing.object(table, o)))));
        let sets = table.sets.iter().filter(|set| !set.anonymous);
        definitions.extend(sets.map(|set| {
            (if set.data.is_some() { "map" } else { "set" }, inner(listing.set(table, set)))
        }));
        definitions.extend(
            table.flowtables.iter().map(|f| ("flowtable", inner(listing.flowtable(table, f)))),
        );
        let chains = table.chains.iter().map(|chain| {
            let id = format!("t{number}c{}", chain.handle);
            Chain::new(listing, table, chain, id, number, now)
        });
        Table {
            family: table.family,
            name: table.name.to_string(),
            definitions,
            chains: chains.collect(),
        }
    }
}

impl Chain {
    fn new(
        listing: &Listing<'_>,
        table: &RulesetTable,
        chain: &RulesetChain,
        id: String,
        number: usize,
        now: u64,
    ) -> Self {
        let base = chain.base.as_ref().map(|base| {
            let head = RulesetChain { rules: Vec::new(), ..RulesetChain::clone(chain) };
            let text = listing.chain(table, &head);
            let text = text.lines().map(str::trim).find(|line| line.starts_with("type "));
            Base {
                hook: base.hook,
                priority: base.priority,
                registered: base.registered,
                accepts: base.policy_accept,
                text: text.unwrap_or_default().to_owned(),
            }
        });
        let mut led = HashMap::new();
        let rules = chain.rules.iter().map(|rule| {
            let counter = rule.snapshot(now).into_iter().find_map(|expr| match expr {
                Expr::Counter(counter) => Some((counter.packets, counter.bytes)),
                _ => None,
            });
            Rule {
                handle: rule.handle,
                id: format!("t{number}r{}", rule.handle),
                text: listing.rule(table, rule).trim().to_owned(),
                origin: rule.origin.as_ref().map(ToString::to_string),
                calls: calls(table, rule, &mut led),
                packets: counter.map(|(packets, _)| packets),
                bytes: counter.map(|(_, bytes)| bytes),
            }
        });
        Chain {
            name: chain.name.to_string(),
            id,
            base,
            anonymous: chain.anonymous,
            rules: rules.collect(),
            by_policy: None,
        }
    }
}

/// Chains that verdicts lead to, and whether by `goto`.
type Calls = Vec<(String, bool)>;

/// The chains that a rule leads to, each once. What verdict maps lead to is kept.
fn calls<'t>(
    table: &'t RulesetTable,
    rule: &'t RulesetRule,
    of_maps: &mut HashMap<&'t Arc<str>, Calls>,
) -> Calls {
    let mut out = Calls::new();
    let mut add = |call: (String, bool)| {
        if !out.contains(&call) {
            out.push(call);
        }
    };
    for expr in &rule.exprs {
        let is_goto = matches!(expr, Expr::Immediate(i) if i.to_string().contains("goto"));
        expr.references(&mut |reference| match reference {
            Reference::Chain(chain) => add((chain.to_string(), is_goto)),
            Reference::Set(name) => {
                let of_map = of_maps.entry(name).or_insert_with(|| of_map(table, name));
                of_map.iter().cloned().for_each(&mut add);
            }
            Reference::Object(..) | Reference::Flowtable(_) => {}
        });
    }
    out
}

/// The chains that a verdict map leads to, in order of their names.
fn of_map(table: &RulesetTable, name: &Arc<str>) -> Calls {
    use penstock_program::Verdict;
    let maps =
        |set: &&Arc<penstock_ruleset::Set>| set.name == *name && set.data == Some(MapData::Verdict);
    let Some(map) = table.sets.iter().find(maps) else { return Vec::new() };
    let elements = map.elements();
    let mut out: Calls = elements
        .iter_unordered()
        .filter_map(|element| match &element.value.data {
            Some(ElementData::Verdict(verdict @ (Verdict::Jump(chain) | Verdict::Goto(chain)))) => {
                Some((chain.to_string(), matches!(verdict, Verdict::Goto(_))))
            }
            _ => None,
        })
        .collect();
    out.sort();
    out.dedup();
    out
}
