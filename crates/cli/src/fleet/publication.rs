// SPDX-License-Identifier: Apache-2.0

//! A ruleset with its files, as it is published: read from disk, evaluated for each kind of node,
//! and tested.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use penstock_daemon::now;
use penstock_daemon::proofs::ClaimsText;
use penstock_fleet::blobs::Blobs;
use penstock_fleet::canary::Node;
use penstock_fleet::draft::Draft;
use penstock_fleet::manifest::{FORM, Selected, SetData};
use penstock_fleet::store::Error;
use penstock_fleet::tree::{self, Tree};
use penstock_fleet::{Digest, Manifest, Store, elements, path};
use penstock_lang::datatype::Format;
use penstock_lang::source::Files;
use penstock_ruleset::Ruleset;
use penstock_system::{SystemFiles, SystemNames};

use super::options::Published;
use crate::published::claims::claims_hold;
use crate::published::evaluate::{self, TreeFiles};
use crate::published::tests::run_tests;
use crate::symbolic::gate;

/// Reads a ruleset and what belongs to it, puts its blobs into the store, and gives the name of the
/// manifest. `kept` are sets of the head that stay.
///
/// # Errors
/// A file cannot be read or is outside the directory of the ruleset, the ruleset is refused or is
/// another one when it is loaded twice, claims do not hold, or a test fails.
pub fn put(
    rules: &Path,
    published: &Published,
    kept: &[SetData],
    store: &dyn Store,
) -> Result<Digest, String> {
    let mut draft = Draft::default();
    let manifest = manifest(rules, published, kept, &mut draft)?;
    let told = |e: Error| e.to_string();
    let digest = draft.manifest(&manifest);
    // The tree is read as nodes read it.
    let blobs = Blobs::of_draft(&draft, store);
    check(&Tree::read(digest, &blobs).map_err(told)?, &blobs)?;
    draft.put(&manifest, store).map_err(told)
}

/// Whether nodes of each kind can have a tree in force.
///
/// # Errors
/// What is wrong with it.
fn check(tree: &Tree, blobs: &Blobs<'_>) -> Result<(), String> {
    let elements = all_elements(&tree.manifest, blobs).map_err(|e| e.to_string())?;
    for node in kinds(&tree.manifest) {
        let files = TreeFiles::new(tree, true, &elements);
        let defines = tree.manifest.defines_of(&node);
        let mut ruleset = Ruleset::default();
        evaluate::run(&files, &defines, &mut ruleset)?;
        claims_hold(&files, &ruleset)?;
        let first = listing(&ruleset);
        evaluate::run(&files, &defines, &mut ruleset)?;
        if listing(&ruleset) != first {
            return Err("Error: loaded twice, the ruleset is another one than loaded once: \
                        it has to begin with `flush ruleset`, or delete its tables first"
                .into());
        }
        if !tree.manifest.tests.is_empty() {
            run_tests(tree, &node, &elements)?;
        }
    }
    Ok(())
}

/// Commands that add all elements of sets that are data.
///
/// # Errors
/// Blobs cannot be read.
pub fn all_elements(manifest: &Manifest, blobs: &Blobs<'_>) -> Result<String, Error> {
    let added = manifest.sets.iter().map(|set| {
        tree::elements(set, blobs).map(|elements| penstock_agent::text::added(set, &elements))
    });
    added.collect()
}

/// A node of each kind that definitions tell apart; where all have the same, one without labels.
pub fn kinds(manifest: &Manifest) -> Vec<Node> {
    let labels: BTreeSet<&str> = manifest.nodes.iter().map(|some| some.label.as_str()).collect();
    let node = |label: &str| {
        let (name, value) = label.split_once('=').unwrap_or_default();
        match name {
            "node" => Node { name: value.to_owned(), ..Node::default() },
            _ => Node { labels: [(name.to_owned(), value.to_owned())].into(), ..Node::default() },
        }
    };
    match labels.is_empty() {
        true => vec![Node::default()],
        false => labels.into_iter().map(node).collect(),
    }
}

fn listing(ruleset: &Ruleset) -> String {
    let generation = ruleset.generation();
    let format = Format { stateless: true, ..Format::default() };
    crate::rules::list(&generation, &SystemNames::default(), format, now(), false)
}

/// Reads all files, and puts them into a draft.
///
/// # Errors
/// A file cannot be read or is outside, or the ruleset cannot be evaluated.
pub fn manifest(
    rules: &Path,
    published: &Published,
    kept: &[SetData],
    draft: &mut Draft,
) -> Result<Manifest, String> {
    let told = |path: &Path, e: &dyn std::fmt::Display| format!("Error: {}: {e}", path.display());
    let absolute = std::fs::canonicalize(rules).map_err(|e| told(rules, &e))?;
    let root = absolute.parent().unwrap_or(Path::new("/"));
    let root_text = root.to_str().ok_or_else(|| told(root, &"the name is no text"))?.to_owned();
    let inside = |file: &Path| -> Result<String, String> {
        let absolute = std::fs::canonicalize(file).map_err(|e| told(file, &e))?;
        let name = absolute.strip_prefix(root).ok().and_then(Path::to_str);
        let name = name.filter(|name| path::is_inside(name)).map(str::to_owned);
        name.ok_or_else(|| told(file, &format_args!("it is not below {}", root.display())))
    };
    let mut manifest = Manifest {
        form: FORM,
        root: root_text.clone(),
        main: inside(rules)?,
        defines: published.defines.clone(),
        claims: published.claims.as_deref().map(inside).transpose()?,
        tests: published.tests.iter().map(|file| inside(file)).collect::<Result<_, _>>()?,
        ..Manifest::default()
    };
    for (label, name, value) in &published.defines_for {
        let defines = BTreeMap::from([(name.clone(), value.clone())]);
        match manifest.nodes.iter_mut().find(|some| some.label == *label) {
            Some(some) => some.defines.extend(defines),
            None => manifest.nodes.push(Selected { label: label.clone(), defines }),
        }
    }
    let sets = if published.no_sets { &[] } else { kept };
    let replaced =
        |set: &&SetData| !published.sets.iter().any(|(title, _)| title.join(" ") == set.title());
    manifest.sets.extend(sets.iter().filter(replaced).cloned());
    for (title, file) in &published.sets {
        let text = std::fs::read_to_string(file).map_err(|e| told(file, &e))?;
        let elements = elements::parse(&text).map_err(|e| format!("{}:{e}", file.display()))?;
        manifest.sets.push(draft.set(title.each_ref().map(String::as_str), &elements));
    }
    let read = included(&manifest)?;
    let more = published.with.iter().map(|file| inside(file)).collect::<Result<Vec<_>, _>>()?;
    let named = [&manifest.main].into_iter().chain(&manifest.claims).chain(&manifest.tests);
    let names: BTreeSet<String> = named.cloned().chain(read).chain(more).collect();
    for name in names {
        let file = root.join(&name);
        let bytes = std::fs::read(&file).map_err(|e| told(&file, &e))?;
        manifest.files.insert(name, draft.file(&bytes));
    }
    Ok(manifest)
}

/// Files that the ruleset and the claims include, found out by reading them for each kind of node.
fn included(manifest: &Manifest) -> Result<BTreeSet<String>, String> {
    let files = Recorder {
        root: manifest.root.clone(),
        read: RefCell::default(),
        outside: RefCell::default(),
    };
    let main = format!("{}/{}", manifest.root, manifest.main);
    for node in kinds(manifest) {
        let text = files.read(&main)?;
        let (defines, names) = (manifest.defines_of(&node), SystemNames::default());
        let (root, mut ruleset) = (&manifest.root, Ruleset::default());
        let ran = evaluate::text(&files, root, (&main, text), &defines, &mut ruleset, &names);
        if let Some(outside) = files.outside.borrow().first() {
            return Err(format!("Error: {outside} is not below {root}: nodes would not have it"));
        }
        ran?;
    }
    if let Some(claims) = &manifest.claims {
        let name = format!("{}/{claims}", manifest.root);
        ClaimsText::read(name, &gate::PROVER, |file| files.read(file))
            .map_err(|e| format!("Error: {e}"))?;
    }
    Ok(files.read.into_inner())
}

/// Files below a directory, and the names of those that were read.
struct Recorder {
    root: String,
    read: RefCell<BTreeSet<String>>,
    /// What was asked for and is not below the directory.
    outside: RefCell<Vec<String>>,
}

const FILES: SystemFiles = SystemFiles { allow_exec: false };

impl Recorder {
    fn below(&self, name: &str) -> Result<PathBuf, String> {
        match path::inside(&self.root, name) {
            Some(inside) => {
                let file = Path::new(&self.root).join(&inside);
                if file.is_file() {
                    self.read.borrow_mut().insert(inside);
                }
                Ok(file)
            }
            None => {
                self.outside.borrow_mut().push(name.to_owned());
                Err("it is not below the directory of the ruleset".into())
            }
        }
    }
}

impl Files for Recorder {
    fn read(&self, name: &str) -> Result<String, String> {
        FILES.include(&self.below(name)?.to_string_lossy())
    }

    fn read_bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        FILES.read_bytes(&self.below(name)?.to_string_lossy())
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let Some(inside) = path::inside(&self.root, pattern) else {
            // What is outside is refused if it exists: nodes would not have it.
            self.outside.borrow_mut().extend(FILES.glob(pattern).into_iter().next());
            return Vec::new();
        };
        let prefix = pattern.strip_suffix(&inside).unwrap_or_default();
        let root = format!("{}/", self.root);
        let found = FILES.glob(&format!("{root}{inside}"));
        let names = found.iter().filter_map(|file| file.strip_prefix(&root));
        names.map(|name| format!("{prefix}{name}")).collect()
    }
}
