// SPDX-License-Identifier: Apache-2.0

//! What an element of a map refers to by name.

use penstock_program::reference::Reference;

use crate::model::{ElementData, ElementValue, MapData};

/// Whether elements of such a map refer to something.
pub(crate) fn map_refers(data: Option<MapData>) -> bool {
    matches!(data, Some(MapData::Verdict | MapData::Object(_)))
}

/// What an element of a map of this kind refers to.
pub(crate) fn of_element(data: Option<MapData>, value: &ElementValue) -> Option<Reference<'_>> {
    match (data, value.data.as_ref()?) {
        (_, ElementData::Verdict(verdict)) => verdict.chain().map(Reference::Chain),
        (Some(MapData::Object(kind)), ElementData::Object(name)) => {
            Some(Reference::Object(kind, name))
        }
        (_, ElementData::Object(_) | ElementData::Value(_)) => None,
    }
}
