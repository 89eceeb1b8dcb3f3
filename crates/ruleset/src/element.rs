// SPDX-License-Identifier: Apache-2.0

//! Elements of sets and maps: what they hold apart from their keys.

use std::sync::Arc;

use penstock_program::expr::{Expr, ObjectType};
use penstock_program::{Data, State, Verdict};
use serde::{Deserialize, Serialize};

use crate::userdata::UserData;

/// What a map's elements hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapData {
    /// Register data.
    Value {
        /// Bytes.
        len: u32,
    },
    /// Verdicts.
    Verdict,
    /// Objects of the table.
    Object(ObjectType),
}

/// Value of an element. Sets have millions of elements, and few of these have more than a key and
/// data, so what else they may have costs only those that have it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ElementValue {
    /// Data of a map's element.
    pub data: Option<ElementData>,
    extras: Option<Box<ElementExtras>>,
}

/// What few elements have in addition to key and data.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ElementExtras {
    /// Stateful expressions of the element, and their live state.
    pub exprs: Vec<Expr>,
    /// As in [`Rule::states`](crate::Rule::states).
    #[serde(skip)]
    pub states: Vec<Arc<State>>,
    /// Own timeout in milliseconds, where it differs from the set's default.
    pub timeout: Option<u64>,
    /// The language's: comments.
    pub userdata: Option<UserData>,
}

impl From<ElementData> for ElementValue {
    fn from(data: ElementData) -> Self {
        ElementValue { data: Some(data), extras: None }
    }
}

impl ElementValue {
    /// With this data and these extras.
    pub fn new(data: Option<ElementData>, extras: ElementExtras) -> Self {
        let mut value = ElementValue { data, extras: None };
        value.change_extras(|e| *e = extras);
        value
    }

    /// [`ElementExtras::exprs`]
    pub fn exprs(&self) -> &[Expr] {
        self.extras.as_ref().map_or(&[], |e| &e.exprs)
    }

    /// [`ElementExtras::states`]
    pub fn states(&self) -> &[Arc<State>] {
        self.extras.as_ref().map_or(&[], |e| &e.states)
    }

    /// [`ElementExtras::timeout`]
    pub fn timeout(&self) -> Option<u64> {
        self.extras.as_ref().and_then(|e| e.timeout)
    }

    /// [`ElementExtras::userdata`]
    pub fn userdata(&self) -> Option<&UserData> {
        self.extras.as_ref().and_then(|e| e.userdata.as_ref())
    }

    /// Changes what the element has in addition to key and data.
    pub fn change_extras(&mut self, change: impl FnOnce(&mut ElementExtras)) {
        let mut extras = self.extras.take().unwrap_or_default();
        change(&mut extras);
        self.extras = (*extras != ElementExtras::default()).then_some(extras);
    }
}

/// Data of a map's element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementData {
    /// Register bytes.
    Value(Data),
    /// A verdict.
    Verdict(Verdict),
    /// An object's name.
    Object(Arc<str>),
}
