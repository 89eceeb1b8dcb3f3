// SPDX-License-Identifier: Apache-2.0

//! Maps that a program only reads: equal ones are one.

use std::sync::Arc;

use penstock_bpf::{Map, MapKind, MapSpec};

use super::Compiler;

/// Those of a program, each once.
#[derive(Default)]
pub(super) struct Constants(Vec<Arc<Map>>);

impl Compiler<'_> {
    /// A map with these contents, which nobody changes.
    pub(super) fn constant(
        &mut self,
        spec: MapSpec,
        contents: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Arc<Map> {
        let map = Map::with_contents(spec, contents);
        let Constants(all) = &mut self.constants;
        if let Some(known) = all.iter().find(|known| known.begins_as(&map)) {
            return known.clone();
        }
        let map = Arc::new(map);
        all.push(map.clone());
        map
    }

    /// An array of one value, which nobody changes.
    pub(super) fn one_value(&mut self, name: &'static str, value: Vec<u8>) -> Arc<Map> {
        let (key, size) = (4, value.len() as u32);
        let spec = MapSpec { name, kind: MapKind::Array, key, value: size, entries: 1 };
        self.constant(spec, vec![(vec![0; 4], value)])
    }
}
