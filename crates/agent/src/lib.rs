// SPDX-License-Identifier: Apache-2.0

//! Keeps a node on the ruleset that a fleet has published.
//!
//! An agent waits for another head, checks it, reads its tree, has it tested and put in force, asks
//! whether the node is still healthy, and reports. What it decides is [`machine`], which does no
//! input or output; what it does is [`agent`], over a [`Store`](penstock_fleet::Store) and a
//! [`Host`].
//!
//! | file | is |
//! | --- | --- |
//! | [`agent`] | the loop |
//! | [`machine`] | what is to be done next |
//! | [`memory`] | what outlives the agent: the last head, and the last tree that was in force |
//! | [`health`] | commands that say whether the node is well |
//! | [`text`] | elements as commands of nft |
//! | [`sets`] | sets in force: compared, repaired, renewed |
//! | [`renewals`] | when elements with a timeout are renewed |

pub mod agent;
pub mod health;
pub mod machine;
pub mod memory;
pub mod renewals;
pub mod sets;
pub mod text;

use std::time::Duration;

use penstock_fleet::canary::Node;
use penstock_fleet::manifest::SetData;
use penstock_fleet::tree::Tree;

pub use agent::{Agent, Settings};

/// What is to be put in force.
pub struct Commit<'a> {
    /// The files.
    pub tree: &'a Tree,
    /// For whom.
    pub node: &'a Node,
    /// Whether the main file of the tree is run, before [`Commit::elements`].
    pub whole: bool,
    /// Commands of nft that add elements to sets, or delete some.
    pub elements: &'a str,
    /// The change is taken back unless the node is found healthy within this time; zero for a change
    /// that needs no confirmation.
    pub confirm: Duration,
}

/// Why something is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCommitted {
    /// It is not what it should be: the message.
    Refused(String),
    /// It was in force, and was taken back: why.
    RolledBack(String),
    /// There is nothing that could have it in force.
    NoDataplane(String),
    /// It cannot be decided now, whatever it is: why.
    NotNow(String),
}

/// Where rulesets are put in force.
pub trait Host {
    /// What tells the dataplane that runs now from one that runs later; `None` if there is none.
    fn dataplane(&mut self) -> Option<u64>;

    /// Runs the tests that belong to a tree. `elements` are commands that add the elements of sets.
    ///
    /// # Errors
    /// What is not as the tests expect.
    fn test(&mut self, tree: &Tree, node: &Node, elements: &str) -> Result<(), String>;

    /// Puts something in force, in one transaction, and takes it back if `healthy` says so.
    ///
    /// # Errors
    /// Why not.
    fn commit(
        &mut self,
        commit: &Commit<'_>,
        healthy: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(), NotCommitted>;

    /// Whether elements of sets are looked at. A host that does not gets none of a whole tree; their
    /// blobs are read and checked all the same.
    fn reads_elements(&self) -> bool {
        true
    }

    /// What tells the ruleset in force from the one after another change, whoever makes it; `None`
    /// where sets are not compared.
    fn generation(&mut self) -> Option<u64> {
        None
    }

    /// A set in force, as `nft list set` prints it, with its elements or without; `None` if there is
    /// no such set.
    ///
    /// # Errors
    /// It cannot be asked for now.
    fn list(&mut self, set: &SetData, elements: bool) -> Result<Option<String>, String> {
        let _ = elements;
        Err(format!("set {} is in force nowhere", set.title()))
    }

    /// A set as [`Host::list`] would print it if nothing but a tree was ever put in force. `elements`
    /// are commands that add the elements of the set.
    ///
    /// # Errors
    /// The tree is refused.
    fn listed(
        &mut self,
        tree: &Tree,
        node: &Node,
        set: &SetData,
        elements: &str,
    ) -> Result<String, String> {
        let _ = (tree, node, elements);
        Err(format!("set {} is in force nowhere", set.title()))
    }

    /// Says something to who runs the agent.
    fn say(&mut self, line: &str);
}
