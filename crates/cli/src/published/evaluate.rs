// SPDX-License-Identifier: Apache-2.0

//! What a published ruleset comes to on a node: evaluated in this process, within limits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use penstock_daemon::now;
use penstock_fleet::tree::Tree;
use penstock_lang::session::{Options, Outcome, Session};
use penstock_lang::source::{Files, Origin};
use penstock_ruleset::Ruleset;
use penstock_system::SystemNames;

/// The name of the text that puts a tree in force: the main file, and elements of sets.
pub const WHOLE: &str = "the published ruleset";

/// A text is evaluated at most for this time.
const TIME: Duration = Duration::from_secs(60);

/// Files of a tree. Nothing outside of it is read, and no command runs.
pub struct TreeFiles<'t> {
    /// The tree.
    pub tree: &'t Tree,
    /// The text that has the name [`WHOLE`].
    pub whole: String,
}

const NONE: &str = "No such file or directory";

impl<'t> TreeFiles<'t> {
    /// Files of a tree, with the text that includes the main file, if `main` says so, and has
    /// commands that change elements.
    pub fn new(tree: &'t Tree, main: bool, elements: &str) -> TreeFiles<'t> {
        let include = format!("include \"{}\"\n", main_file(tree));
        let whole = [if main { include.as_str() } else { "" }, elements].concat();
        TreeFiles { tree, whole }
    }
}

impl Files for TreeFiles<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        if path == WHOLE {
            return Ok(self.whole.clone());
        }
        let bytes = self.read_bytes(path)?;
        String::from_utf8(bytes).map_err(|_| "it is no text".to_owned())
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        self.tree.file(path).map(<[u8]>::to_vec).ok_or_else(|| NONE.to_owned())
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        self.tree.matching(pattern)
    }
}

/// The main file, as texts name it.
pub fn main_file(tree: &Tree) -> String {
    format!("{}/{}", tree.manifest.root, tree.manifest.main)
}

/// Runs the text of a node on a ruleset, and gives what it lists.
///
/// # Errors
/// What nft prints.
pub fn run(
    files: &TreeFiles<'_>,
    defines: &BTreeMap<String, String>,
    ruleset: &mut Ruleset,
) -> Result<String, String> {
    let root = &files.tree.manifest.root;
    let names = SystemNames::default();
    text(files, root, (WHOLE, files.whole.clone()), defines, ruleset, &names)
}

/// Runs a text, with files that it includes by the directory `root`, and gives what it lists.
///
/// # Errors
/// What nft prints.
pub fn text(
    files: &dyn Files,
    root: &str,
    (name, text): (&str, String),
    defines: &BTreeMap<String, String>,
    ruleset: &mut Ruleset,
    names: &SystemNames,
) -> Result<String, String> {
    let options = Options {
        defines: defines.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        include_paths: vec![root.to_owned()],
        runnable_only: true,
        deadline: Some(Instant::now() + TIME),
        ..Options::default()
    };
    let origin = Origin::File { name: name.to_owned(), from: None };
    let outcome: Outcome = Session::new(options, files, names).run(origin, text, ruleset, now());
    if outcome.ok { Ok(outcome.stdout) } else { Err(outcome.stderr.trim_end().to_owned()) }
}

/// A message of nft in one line, for reports.
pub fn one_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("Error: ").unwrap_or(line);
    line.chars().take(400).collect()
}
