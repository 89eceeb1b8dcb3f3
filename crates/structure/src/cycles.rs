// SPDX-License-Identifier: Apache-2.0

//! Cycles among the children of each module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use crate::names::Names;
use crate::source::{Module, modules};

/// Modules with one parent that depend on each other in a cycle.
#[derive(Debug)]
pub struct Cycle {
    /// The folder of the crate, and the parent in it: `path/flow`.
    pub parent: String,
    /// Names of the modules.
    pub members: Vec<String>,
    /// What of each module uses what of which other one.
    pub edges: Vec<String>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} modules: {}", self.parent, self.members.len(), self.members.join(" "))
    }
}

/// Cycles in all crates of a folder.
pub fn of_crates(folder: &Path) -> Vec<Cycle> {
    let mut crates: Vec<_> = fs::read_dir(folder)
        .expect("the folder of crates")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    crates.sort();
    let mut all = Vec::new();
    for path in crates {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        for root in ["src/lib.rs", "src/main.rs"].map(|file| path.join(file)) {
            if root.exists() {
                all.extend(of_modules(&name, &modules(&root)));
            }
        }
    }
    all
}

/// Children of one module, by name, with the uses that lead from one to another.
type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn of_modules(crate_name: &str, modules: &[Module]) -> Vec<Cycle> {
    let names = Names::new(modules);
    let mut parents: BTreeMap<&[String], Graph> = BTreeMap::new();
    for from in modules {
        for path in &from.uses {
            let Some(to) = names.target(from, path) else { continue };
            let common = from.path.iter().zip(&to.path).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.path.get(common), to.path.get(common)) {
                let graph = parents.entry(&from.path[..common]).or_default();
                let text = format!("{} -> {}", from.path.join("::"), path.join("::"));
                graph.entry(a.clone()).or_default().entry(b.clone()).or_default().insert(text);
            }
        }
    }
    parents
        .iter()
        .flat_map(|(parent, graph)| {
            components(graph).into_iter().map(|members| {
                let inside = |name: &String| members.contains(name);
                let edges = graph.iter().filter(|(from, _)| inside(from)).flat_map(|(_, to)| {
                    to.iter().filter(|(to, _)| inside(to)).flat_map(|(_, uses)| uses.clone())
                });
                Cycle {
                    parent: [crate_name]
                        .into_iter()
                        .chain(parent.iter().map(|s| &**s))
                        .collect::<Vec<_>>()
                        .join("/"),
                    edges: edges.collect(),
                    members: members.clone(),
                }
            })
        })
        .collect()
}

/// Strongly connected components of more than one module: those that reach each other.
fn components(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|from| (from, reach(graph, from))).collect();
    let mut done = BTreeSet::new();
    let mut all = Vec::new();
    for (from, to) in &reached {
        let back = |other: &&String| reached.get(*other).is_some_and(|there| there.contains(from));
        let members: Vec<String> = to.iter().copied().filter(back).cloned().collect();
        if members.len() > 1 && done.insert(members.clone()) {
            all.push(members);
        }
    }
    all
}

fn reach<'a>(graph: &'a Graph, from: &'a String) -> BTreeSet<&'a String> {
    let mut all = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for to in graph.get(at).into_iter().flat_map(BTreeMap::keys) {
            if all.insert(to) {
                next.push(to);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_depend_on_each_other_in_one_direction() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found: String = of_crates(crates).iter().map(|c| format!("{c}\n")).collect();
        assert_eq!(found, "");
    }

    #[test]
    fn paths_resolve_through_imports_and_globs() {
        let folder = std::env::temp_dir().join(format!("structure-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::*;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "pub struct B; pub fn f() { crate::c::f(); }"),
            ("c.rs", "pub fn f() { vec![crate::A]; } #[cfg(test)] mod tests { use crate::b::B; }"),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        let found = of_modules("x", &modules(&folder.join("lib.rs")));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].members, ["a", "b", "c"]);
        assert_eq!(found[0].edges, ["a -> crate::B", "b -> crate::c::f", "c -> crate::A"]);
    }
}
