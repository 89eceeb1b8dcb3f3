// SPDX-License-Identifier: Apache-2.0

//! Prints the public API of a crate, an item per line, from rustdoc's JSON: `public-api DIRECTORY
//! CRATE`. `scripts/api` makes the JSON.
//!
//! What the crate re-exports from other crates of the directory is printed as these have it. Of the
//! traits that the compiler implements by itself `Send` and `Sync` are printed: whether a type has
//! them follows from its private fields.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

/// What is wrong, for the user.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(directory), Some(name), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("Usage: public-api DIRECTORY CRATE");
        return ExitCode::FAILURE;
    };
    match print(Path::new(&directory), &name) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("Error: {what}");
            ExitCode::FAILURE
        }
    }
}

/// The public API of a crate, and of what it re-exports.
fn print(directory: &Path, name: &str) -> Result<String> {
    let mut crates = Crates { directory: directory.to_owned(), read: HashMap::new() };
    let own = crates.get(name)?;
    let mut lines = own.lines.clone();
    for (_, source) in own.uses.clone() {
        let path = crates.home(source)?;
        let home = crates.get(first(&path))?;
        let found: Vec<_> = home.lines.iter().filter(|line| is_of(line, &path)).cloned().collect();
        if found.is_empty() {
            return Err(format!("{path} is not in the JSON of its crate"));
        }
        lines.push(String::new());
        lines.extend(found);
    }
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// Crates that were read so far.
struct Crates {
    directory: PathBuf,
    read: HashMap<String, Crate>,
}

/// A crate.
struct Crate {
    /// Its public API, without what it re-exports from other crates.
    lines: Vec<String>,
    /// What it re-exports from other crates of ours: path here, and there.
    uses: Vec<(String, String)>,
}

impl Crates {
    fn get(&mut self, name: &str) -> Result<&Crate> {
        match self.read.entry(name.to_owned()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let file = self.directory.join(format!("{name}.json"));
                Ok(new.insert(Crate::read(&file, name)?))
            }
        }
    }

    /// The path of an item in the crate that defines it, of one in a crate that may re-export it.
    fn home(&mut self, path: String) -> Result<String> {
        let from = self.get(first(&path))?;
        let through = from.uses.iter().find_map(|(here, there)| {
            let rest = path.strip_prefix(here.as_str())?;
            (rest.is_empty() || rest.starts_with("::")).then(|| format!("{there}{rest}"))
        });
        match through {
            Some(path) => self.home(path),
            None => Ok(path),
        }
    }
}

impl Crate {
    fn read(file: &Path, name: &str) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let api = public_api::Builder::from_rustdoc_json(file).omit_blanket_impls(true).build();
        let api = api.map_err(|e| format!("{}: {e}", file.display()))?;
        let api = api.to_string();
        let lines = api.lines().filter(|line| is_ours(line)).map(str::to_owned);
        let json: Value =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut uses = Vec::new();
        collect_uses(&json, &json["root"], name, &mut uses);
        Ok(Crate { lines: lines.collect(), uses })
    }
}

/// Collects the re-exports of a module and its public modules.
fn collect_uses(json: &Value, module: &Value, path: &str, uses: &mut Vec<(String, String)>) {
    let item = |id: &Value| &json["index"][id.to_string()];
    for id in item(module)["inner"]["module"]["items"].as_array().into_iter().flatten() {
        let (inner, public) = (&item(id)["inner"], item(id)["visibility"] == "public");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if public && inner.get("module").is_some() {
            let path = format!("{path}::{}", text(&item(id)["name"]));
            collect_uses(json, id, &path, uses);
        } else if let Some(reexport) = inner.get("use").filter(|_| public) {
            let source = text(&reexport["source"]);
            if source.starts_with("penstock_") && first(&source) != first(path) {
                uses.push((format!("{path}::{}", text(&reexport["name"])), source));
            }
        }
    }
}

/// The crate of a path.
fn first(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

/// Whether a line says something that is decided in the sources: of traits that types have by
/// themselves these are `Send` and `Sync`.
fn is_ours(line: &str) -> bool {
    let others = ["Freeze", "Unpin", "UnsafeUnpin", "RefUnwindSafe", "UnwindSafe"];
    let trait_of = line.strip_prefix("impl").and_then(|rest| rest.split(" for ").next());
    !trait_of.is_some_and(|name| others.iter().any(|other| name.ends_with(other)))
}

/// Whether a line is about the item of a path, or what belongs to it.
fn is_of(line: &str, path: &str) -> bool {
    let subject = match line.strip_prefix("impl") {
        Some(of) => of.rsplit(" for ").next().unwrap_or(of).trim_start(),
        None => line.find(&format!("{}::", first(path))).map_or("", |at| &line[at..]),
    };
    let rest = subject.strip_prefix(path);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_the_item_that_they_are_about() {
        let path = "penstock_net::Family";
        for (line, belongs) in [
            ("pub enum penstock_net::Family", true),
            ("pub penstock_net::Family::Ip", true),
            ("pub fn penstock_net::Family::name(self) -> &'static str", true),
            ("impl core::fmt::Debug for penstock_net::Family", true),
            ("impl penstock_net::Family", true),
            ("pub enum penstock_net::FamilyKind", false),
            ("pub fn penstock_net::Table::family(&self) -> penstock_net::Family", false),
            ("impl core::convert::From<penstock_net::Family> for u8", false),
        ] {
            assert_eq!(is_of(line, path), belongs, "{line}");
        }
    }

    #[test]
    fn of_automatic_traits_those_of_threads_are_kept() {
        assert!(is_ours("impl core::marker::Send for penstock::Device"));
        assert!(is_ours("impl !core::marker::Sync for penstock::Device"));
        assert!(!is_ours("impl core::marker::Freeze for penstock::Device"));
        assert!(!is_ours("impl core::panic::unwind_safe::UnwindSafe for penstock::Device"));
    }
}
