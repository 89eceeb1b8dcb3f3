//! Transactions.

use std::sync::Arc;

use crate::{Change, Error, Generation};

/// The ruleset of a network namespace: the generation in force.
#[derive(Clone, Debug, Default)]
pub struct Ruleset {
    current: Arc<Generation>,
}

/// What a change made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Applied {
    /// Handle of the new object.
    pub handle: Option<u64>,
    /// Final name, where the ruleset chose it (anonymous sets and chains).
    pub name: Option<Arc<str>>,
}

/// A batch in the making: a private next generation.
#[derive(Clone, Debug)]
pub struct Transaction {
    working: Generation,
}

impl Ruleset {
    /// The generation in force.
    pub fn generation(&self) -> Arc<Generation> {
        self.current.clone()
    }

    /// Starts a batch on top of it.
    pub fn begin(&self) -> Transaction {
        Transaction { working: (*self.current).clone() }
    }

    /// Makes the batch the generation in force.
    pub fn commit(&mut self, transaction: Transaction) -> Result<(), Error> {
        self.current = Arc::new(transaction.working);
        Ok(())
    }
}

impl Transaction {
    /// What the ruleset would be with the changes so far.
    pub fn working(&self) -> &Generation {
        &self.working
    }

    /// Takes one change, or refuses it and leaves the batch as it was.
    pub fn apply(&mut self, _change: Change) -> Result<Applied, Error> {
        todo!()
    }
}
