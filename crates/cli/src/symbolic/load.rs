// SPDX-License-Identifier: Apache-2.0

//! Rulesets to evaluate: of text files and state files, for devices that need not be there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_lang::names::Names;
use penstock_net::Network;
use penstock_print::rules::Written;
use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_ruleset::Generation;
use penstock_ruleset::link::{Linked, LinkedBase};
use penstock_symbolic::Decider;
use penstock_system::{SystemFiles, SystemNames};

use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;

use crate::rules;
use crate::trace::live_ruleset;

/// What a state file begins with.
const STATE: &[u8] = b"\x7fpenstock-state\0";
/// Index of the first device that a ruleset names.
const FIRST_DEVICE: u32 = 1000;

/// Where a ruleset is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a file: a ruleset as for `nft -f`, or a state.
    File(PathBuf),
    /// In the running dataplane.
    Live,
}

impl Source {
    /// That of a command line with `--rules FILE` or `--live`.
    ///
    /// # Errors
    /// Neither is given, or both are.
    pub fn given(file: Option<PathBuf>, live: bool) -> Result<Source, String> {
        match (file, live) {
            (Some(file), false) => Ok(Source::File(file)),
            (None, true) => Ok(Source::Live),
            (None, false) => Err("--rules is missing".to_owned()),
            (Some(_), true) => Err("--rules and --live exclude each other".to_owned()),
        }
    }
}

/// Names of devices: each that a ruleset names gets an index. Everything else is the system's.
pub struct Devices<'n> {
    names: RefCell<Vec<String>>,
    system: Box<dyn Names + 'n>,
    /// Devices that are there have the index that they have: rules of the dataplane name it.
    live: bool,
}

impl<'n> Devices<'n> {
    /// Devices for rulesets from these places.
    pub fn of(sources: &[&Source]) -> Self {
        let live = sources.contains(&&Source::Live);
        Devices { names: RefCell::default(), system: Box::new(SystemNames::default()), live }
    }

    /// Devices of a ruleset that was read with these names.
    pub fn known(names: &'n dyn Names) -> Self {
        Devices { names: RefCell::default(), system: Box::new(Known(names)), live: true }
    }
}

/// Names that somebody else has.
struct Known<'n>(&'n dyn Names);

impl Names for Known<'_> {
    fn rest(&self) -> &dyn Names {
        self.0
    }
}

impl Names for Devices<'_> {
    fn rest(&self) -> &dyn Names {
        &*self.system
    }

    fn interface_index(&self, name: &str) -> Option<u32> {
        if self.live
            && let Some(index) = self.system.interface_index(name)
        {
            return Some(index);
        }
        let mut names = self.names.borrow_mut();
        let known = names.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        Some(FIRST_DEVICE + at as u32)
    }

    fn interface_name(&self, index: u32) -> Option<String> {
        let of_system = || self.system.interface_name(index).filter(|_| self.live);
        of_system().or_else(|| {
            let at = index.checked_sub(FIRST_DEVICE)?;
            self.names.borrow().get(at as usize).cloned()
        })
    }
}

/// A ruleset, ready to be evaluated.
pub struct Loaded {
    /// What its file is called.
    pub file: String,
    /// Its tables.
    pub generation: Arc<Generation>,
    /// Its programs.
    pub linked: Linked,
    /// When it was loaded, in nanoseconds since the epoch.
    pub now: u64,
    /// The network that it is in, if whole ways are evaluated.
    pub network: Option<Arc<Network>>,
}

impl Loaded {
    /// Its base chains, in the order in which packets pass those of one hook.
    pub fn bases(&self) -> Vec<&LinkedBase> {
        let mut bases: Vec<&LinkedBase> = self.linked.bases.iter().collect();
        bases.sort_by_key(|base| (base.base.priority, std::cmp::Reverse(base.base.registered)));
        bases
    }

    /// Loads a ruleset.
    ///
    /// # Errors
    /// What nft prints, or that no dataplane is running.
    pub fn new(source: &Source, devices: &Devices, now: u64) -> Result<Loaded, String> {
        match source {
            Source::File(file) => Loaded::file(file, devices, now),
            Source::Live => {
                let generation = live_ruleset()?.generation();
                Loaded::of("the running dataplane", generation, now)
            }
        }
    }

    /// Loads a file: a ruleset as for `nft -f`, or a state.
    fn file(file: &Path, devices: &Devices, now: u64) -> Result<Loaded, String> {
        let anything = |_: &Linked| Ok(());
        let is_state = file.as_os_str() != "-"
            && std::fs::File::open(file).is_ok_and(|mut file| {
                let mut start = [0; STATE.len()];
                std::io::Read::read_exact(&mut file, &mut start).is_ok() && start == STATE
            });
        let ruleset = match is_state {
            true => rules::restore(file, &anything, now)?,
            false => {
                let files = SystemFiles { allow_exec: false };
                rules::load(file, &files, devices, &anything, now, false)?
            }
        };
        Loaded::of(&file.display().to_string(), ruleset.generation(), now)
    }

    /// A ruleset of a place that has a name.
    ///
    /// # Errors
    /// Something in it cannot be evaluated.
    pub fn of(name: &str, generation: Arc<Generation>, now: u64) -> Result<Loaded, String> {
        for table in &generation.tables {
            if let Some(chain) = table.chains.iter().find(|chain| chain.program.is_some()) {
                let family = table.family.name();
                return Err(format!(
                    "Error: {name}: chain {family} {} {} is a BPF program, which cannot be evaluated",
                    table.name, chain.name
                ));
            }
        }
        let linked = Linked::new(&generation).map_err(|e| format!("Error: {name}: {e}"))?;
        Ok(Loaded { file: name.to_owned(), generation, linked, now, network: None })
    }

    /// Place and text of a rule.
    pub fn rule(&self, rule: RuleIndex, devices: &Devices) -> Option<Written> {
        let (family, table, _, handle) = self.linked.image.place(rule)?;
        let listing = self.listing(&self.generation, devices);
        let table = listing.table_named(family, table)?;
        let rules = table.chains.iter().flat_map(|chain| &chain.rules);
        let rule = rules.into_iter().find(|rule| rule.handle == handle)?;
        Some(Written::of(&listing, table, rule))
    }

    /// Place and text of a rule, in words.
    pub fn rule_text(&self, rule: RuleIndex, devices: &Devices) -> String {
        let Some(written) = self.rule(rule, devices) else { return "a rule".to_owned() };
        let text = written.shown();
        match &written.origin {
            Some(origin) => format!("{origin}: {text}"),
            None => {
                let name = self.linked.image.rule_name(rule);
                let chain = name.map_or_else(String::new, |name| self.chain_name(name.chain));
                format!("{chain}: {text}")
            }
        }
    }

    /// Where a rule is, in words.
    pub fn rule_place(&self, rule: RuleIndex, devices: &Devices) -> String {
        match self.rule(rule, devices) {
            Some(written) => match &written.origin {
                Some(origin) => origin.to_string(),
                None => format!("`{}`", written.shown()),
            },
            None => "a rule".to_owned(),
        }
    }

    /// What decides, in words.
    pub fn decider_text(&self, decider: Decider, devices: &Devices) -> String {
        match (decider.rule, decider.base) {
            (Some(rule), _) => self.rule_text(rule, devices),
            (None, Some(chain)) => format!("policy of chain {}", self.chain_name(chain)),
            (None, None) if self.network.is_some() => "no chain on the way".to_owned(),
            (None, None) => "no chain at this hook".to_owned(),
        }
    }

    /// How a generation is listed.
    pub fn listing<'a>(&self, generation: &'a Generation, devices: &'a Devices) -> Listing<'a> {
        let format = Format { stateless: true, ..Format::default() };
        Listing { generation, format, names: devices, now: self.now }
    }

    /// Family, table and name of a chain.
    pub fn chain_name(&self, chain: ChainIndex) -> String {
        let image = &self.linked.image;
        let table = image.table_of(chain);
        let (family, table) = table.map_or(("", ""), |table| (table.family.name(), &*table.name));
        let name = image.chain(chain).map_or("", |chain| &*chain.name);
        format!("{family} {table} {name}")
    }

    /// Numbers of the sets that packets change, by address; equal names have equal numbers.
    pub fn sets(&self, known: &mut HashMap<String, u32>) -> HashMap<usize, u32> {
        let mut all = HashMap::new();
        for table in &self.generation.tables {
            for set in &table.sets {
                let Some(dynamic) = set.dynamic() else { continue };
                let name = format!("{} {} {}", table.family.name(), table.name, set.name);
                let next = known.len() as u32;
                let number = *known.entry(name).or_insert(next);
                all.insert(penstock_symbolic::set_address(dynamic), number);
            }
        }
        all
    }
}
