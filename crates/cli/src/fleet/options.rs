// SPDX-License-Identifier: Apache-2.0

//! The command line of `penstock fleet`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::Arg::{Long, Short, Value};

use super::source::{self, Source};
use crate::options::{Opt, Values, flag, long, pair, text, usage_lines};
use crate::setup::sentence;

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 3] =
    [("", OPTIONS), (PUBLICATION, PUBLISHED), (source::TITLE, source::OPTIONS)];

const PUBLICATION: &str = "What is published with a ruleset";

const OPTIONS: &[Opt] = &[
    long("key", "the secret key to sign with; for `status`, `diff` and `prune` the public keys do")
        .takes("FILE", Values::Files),
    long("note", "why, for those who look at the head later").takes("TEXT", Values::Any),
    long("keep", "remove what none of the last N heads names; default for `prune`: 10")
        .takes("N", Values::Any),
    flag('j', "json", "print `status` or `diff` as JSON"),
    long("metrics", "print `status` as OpenMetrics"),
    flag('h', "help", "print this text"),
];

const PUBLISHED: &[Opt] = &[
    long("claims", "claims that have to hold of it, as for `penstock nft --claims`")
        .takes("FILE", Values::Files),
    long("test", "tests of it, as for `penstock test`; may be repeated")
        .takes("FILE", Values::Files),
    long("with", "another file that tests or rules need; may be repeated")
        .takes("FILE", Values::Files),
    long("define", "a definition, as for `nft -D`; may be repeated")
        .takes("NAME=VALUE", Values::Any),
    long("define-for", "a definition for nodes with a label, or for node=NODE; may be repeated")
        .takes("LABEL:NAME=VALUE", Values::Any),
    long("set", "elements of a set that the ruleset declares, FAMILY TABLE NAME; may be repeated")
        .takes("SET=FILE", Values::Any),
    long("no-sets", "without the sets of the head; otherwise they stay"),
];

/// What can be asked for.
pub const WORDS: [&str; 9] =
    ["publish", "status", "canary", "promote", "rollback", "diff", "set", "prune", "key"];

/// Heads that `prune` keeps.
const KEPT: usize = 10;

/// The usage text.
pub fn usage() -> String {
    format!(
        "Usage: penstock fleet key FILE\n       \
         penstock fleet publish --source URL --key FILE [OPTIONS] RULES\n       \
         penstock fleet canary --source URL --key FILE [OPTIONS] LABEL PERCENT [RULES]\n       \
         penstock fleet promote | rollback --source URL --key FILE\n       \
         penstock fleet set add | del | sync --source URL --key FILE FAMILY TABLE SET FILE\n       \
         penstock fleet diff --source URL --key FILE RULES\n       \
         penstock fleet prune --source URL --key FILE [--keep N]\n       \
         penstock fleet status --source URL --key FILE [-j | --metrics]\n\n\
         Publishes rulesets for nodes that run `penstock agent`:\n\n  \
         key       write a secret key to FILE, and the public key to FILE.pub\n  \
         publish   evaluate and test a ruleset, as for `nft -f`, sign it and make it the head\n  \
         canary    publish a ruleset for PERCENT of the nodes with a label NAME=VALUE; without RULES: change\n            \
                   which nodes have the canary\n  \
         promote   make the canary's ruleset that of all nodes\n  \
         rollback  take the canary back; without one: publish the ruleset before again\n  \
         set       add elements to a set that is published as data, delete some, or make them those of FILE\n  \
         diff      show for which packets it matters whether they meet the head or RULES\n  \
         prune     remove what none of the last N heads names from the store: it cannot be rolled back to\n  \
         status    who runs what, since when, who refused and why, who is behind\n\n\
         {}\n{PUBLICATION}:\n{}\n{}:\n{}",
        usage_lines(OPTIONS, 30),
        usage_lines(PUBLISHED, 30),
        source::TITLE,
        usage_lines(source::OPTIONS, 30)
    )
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// The command.
    pub command: Command,
    /// The store.
    pub source: Source,
    /// The file of a key, or of keys.
    pub key: PathBuf,
    /// Why.
    pub note: String,
    /// After a publication, what none of so many heads names is removed.
    pub keep: Option<usize>,
    /// What is published.
    pub published: Published,
}

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a key.
    Key(PathBuf),
    /// Publish for all.
    Publish(PathBuf),
    /// Publish for some, or change who they are.
    Canary { label: String, percent: u8, rules: Option<PathBuf> },
    /// All get what the canary has.
    Promote,
    /// All get what was before.
    Rollback,
    /// Elements change.
    Set { verb: Verb, title: [String; 3], file: PathBuf },
    /// Compare.
    Diff { rules: PathBuf, json: bool },
    /// Remove what none of so many heads names.
    Prune(usize),
    /// Show.
    Status(Form),
}

/// How a status is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A table.
    Text,
    /// JSON.
    Json,
    /// OpenMetrics.
    Metrics,
}

/// What becomes of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Those of the file come.
    Add,
    /// Those of the file go.
    Del,
    /// They become those of the file.
    Sync,
}

/// What is published with a ruleset.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The file of claims.
    pub claims: Option<PathBuf>,
    /// Files of tests.
    pub tests: Vec<PathBuf>,
    /// Other files.
    pub with: Vec<PathBuf>,
    /// Definitions for all nodes.
    pub defines: BTreeMap<String, String>,
    /// Label, name and value of definitions.
    pub defines_for: Vec<(String, String, String)>,
    /// Sets, and files of their elements.
    pub sets: Vec<([String; 3], PathBuf)>,
    /// Without the sets of the head.
    pub no_sets: bool,
}

impl Published {
    fn is_default(&self) -> bool {
        *self == Published::default()
    }
}

/// Reads the arguments after the name of the command; `None` if help is asked for.
///
/// # Errors
/// What is wrong.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut source = Source::default();
    let (mut words, mut key, mut note) = (Vec::new(), None, String::new());
    let (mut json, mut metrics, mut keep) = (false, false, None);
    let mut published = Published::default();
    while let Some(arg) = parser.next().map_err(sentence)? {
        let value = |parser: &mut lexopt::Parser| parser.value().map_err(sentence);
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => json = true,
            Long("metrics") => metrics = true,
            Long("key") => key = Some(PathBuf::from(value(&mut parser)?)),
            Long("note") => note = text(value(&mut parser)?)?,
            Long("keep") => {
                let heads = text(value(&mut parser)?)?.parse().ok().filter(|heads| *heads > 0);
                keep = Some(
                    heads.ok_or("--keep takes a number of heads, the present one among them")?,
                );
            }
            Long("claims") => published.claims = Some(value(&mut parser)?.into()),
            Long("test") => published.tests.push(value(&mut parser)?.into()),
            Long("with") => published.with.push(value(&mut parser)?.into()),
            Long("define") => {
                let (name, define) =
                    pair("define", "NAME=VALUE", &text(value(&mut parser)?)?, '=')?;
                published.defines.insert(name, define);
            }
            Long("define-for") => {
                let form = "LABEL:NAME=VALUE, where the label is NAME=VALUE, or node=NODE";
                let (label, rest) = pair("define-for", form, &text(value(&mut parser)?)?, ':')?;
                label_of(&label)?;
                let (name, define) = pair("define-for", form, &rest, '=')?;
                published.defines_for.push((label, name, define));
            }
            Long("set") => {
                let form = "\"FAMILY TABLE SET=FILE\"";
                let (title, file) = pair("set", form, &text(value(&mut parser)?)?, '=')?;
                let title = title_of(title.split_whitespace().map(str::to_owned).collect())?;
                published.sets.push((title, file.into()));
            }
            Long("no-sets") => published.no_sets = true,
            Long(name) => {
                let name = name.to_owned();
                if !source.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(word) => words.push(word),
            other @ Short(_) => return Err(sentence(other.unexpected())),
        }
    }
    let form = match (json, metrics) {
        (true, true) => return Err("--json and --metrics do not go together".into()),
        (true, false) => Form::Json,
        (false, true) => Form::Metrics,
        (false, false) => Form::Text,
    };
    let mut command = command(words, form)?;
    let takes_form = match command {
        Command::Status(_) => true,
        Command::Diff { .. } => form != Form::Metrics,
        _ => form == Form::Text,
    };
    if !takes_form {
        return Err("--json is for `status` and `diff`, --metrics for `status`".into());
    }
    let publishes = matches!(
        command,
        Command::Publish(_) | Command::Canary { rules: Some(_), .. } | Command::Diff { .. }
    );
    if !publishes && !published.is_default() {
        return Err("what is published with a ruleset needs a ruleset".into());
    }
    match &mut command {
        Command::Prune(heads) => *heads = keep.take().unwrap_or(*heads),
        Command::Key(_) | Command::Diff { .. } | Command::Status(_) if keep.is_some() => {
            return Err("--keep is for `prune` and what makes another head".into());
        }
        _ => {}
    }
    if let Command::Key(_) = command {
        let (key, note) = (PathBuf::new(), String::new());
        return Ok(Some(Asked { command, source, key, note, keep, published }));
    }
    source.given()?;
    let key = key.ok_or("--key FILE is missing")?;
    Ok(Some(Asked { command, source, key, note, keep, published }))
}

fn command(words: Vec<OsString>, form: Form) -> Result<Command, String> {
    let mut words = words.into_iter();
    let word = words.next().ok_or_else(|| format!("one of {} is missing", WORDS.join(", ")))?;
    let mut rest: Vec<OsString> = words.collect();
    let mut takes = |names: &[&str], optional: usize| {
        if rest.len() < names.len() - optional || rest.len() > names.len() {
            return Err(format!("`{}` takes {}", word.display(), names.join(" ")));
        }
        Ok(std::mem::take(&mut rest))
    };
    Ok(match word.to_str() {
        Some("key") => Command::Key(takes(&["FILE"], 0)?.remove(0).into()),
        Some("publish") => Command::Publish(takes(&["RULES"], 0)?.remove(0).into()),
        Some("canary") => {
            let mut words = takes(&["LABEL", "PERCENT", "[RULES]"], 1)?.into_iter();
            let label = text(words.next().unwrap_or_default())?;
            label_of(&label)?;
            let percent = words.next().unwrap_or_default();
            let number = percent.to_str().and_then(|text| text.trim_end_matches('%').parse().ok());
            let percent = number.filter(|percent| *percent <= 100);
            let percent = percent.ok_or("a percentage is a number from 0 to 100")?;
            Command::Canary { label, percent, rules: words.next().map(PathBuf::from) }
        }
        Some("promote") => takes(&[], 0).map(|_| Command::Promote)?,
        Some("rollback") => takes(&[], 0).map(|_| Command::Rollback)?,
        Some("set") => {
            let mut words = takes(&["add | del | sync", "FAMILY", "TABLE", "SET", "FILE"], 0)?;
            let file = words.pop().unwrap_or_default().into();
            let verb = match words.remove(0).to_str() {
                Some("add") => Verb::Add,
                Some("del") => Verb::Del,
                Some("sync") => Verb::Sync,
                _ => return Err("a set is changed by `add`, `del` or `sync`".into()),
            };
            let words = words.into_iter().map(text).collect::<Result<_, _>>()?;
            Command::Set { verb, title: title_of(words)?, file }
        }
        Some("diff") => {
            let rules = takes(&["RULES"], 0)?.remove(0).into();
            Command::Diff { rules, json: form == Form::Json }
        }
        Some("prune") => takes(&[], 0).map(|_| Command::Prune(KEPT))?,
        Some("status") => takes(&[], 0).map(|_| Command::Status(form))?,
        _ => {
            let word = word.display();
            return Err(format!("there is no `fleet {word}`: {}", WORDS.join(", ")));
        }
    })
}

fn label_of(label: &str) -> Result<(), String> {
    match label.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(()),
        _ => Err(format!("a label is NAME=VALUE, or node=NODE, not `{label}`")),
    }
}

fn title_of(words: Vec<String>) -> Result<[String; 3], String> {
    let title = words.join(" ");
    words.try_into().map_err(|_| format!("a set is FAMILY TABLE SET, not `{title}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(line.split(' ').map(OsString::from))?.ok_or_else(|| "help".to_owned())
    }

    #[test]
    fn all_options_are_known() {
        let all = SECTIONS.iter().flat_map(|(_, options)| options.iter());
        crate::options::assert_known(all, |line| asked(line).map(|_| ()));
    }

    #[test]
    fn commands_take_what_they_need() {
        let store = "--source s --key k";
        let command = |line: &str| asked(line).map(|asked| asked.command);
        assert_eq!(command("key k"), Ok(Command::Key("k".into())));
        assert_eq!(command(&format!("publish r {store}")), Ok(Command::Publish("r".into())));
        let canary = |rules| Command::Canary { label: "a=b".into(), percent: 10, rules };
        assert_eq!(command(&format!("{store} canary a=b 10%")), Ok(canary(None)));
        assert_eq!(command(&format!("{store} canary a=b 10 r")), Ok(canary(Some("r".into()))));
        let title = ["inet", "fw", "s"].map(str::to_owned);
        assert_eq!(
            command(&format!("set sync inet fw s f {store}")),
            Ok(Command::Set { verb: Verb::Sync, title, file: "f".into() })
        );
        assert_eq!(command(&format!("prune {store}")), Ok(Command::Prune(10)));
        assert_eq!(command(&format!("prune {store} --keep 3")), Ok(Command::Prune(3)));
        assert_eq!(asked(&format!("promote {store} --keep 3")).map(|a| a.keep), Ok(Some(3)));
        assert_eq!(command(&format!("status -j {store}")), Ok(Command::Status(Form::Json)));
        for (line, message) in [
            (
                "--source s",
                "one of publish, status, canary, promote, rollback, diff, set, prune, key is missing",
            ),
            ("publish --source s --key k", "`publish` takes RULES"),
            ("publish r --key k", "--source URL is missing: where is the store?"),
            ("publish r --source s", "--key FILE is missing"),
            (
                "publish r -j --source s --key k",
                "--json is for `status` and `diff`, --metrics for `status`",
            ),
            ("canary a 10 --source s --key k", "a label is NAME=VALUE, or node=NODE, not `a`"),
            ("canary a=b 101 --source s --key k", "a percentage is a number from 0 to 100"),
            ("promote r --source s --key k", "`promote` takes "),
            (
                "set put inet fw s f --source s --key k",
                "a set is changed by `add`, `del` or `sync`",
            ),
            (
                "status --claims c --source s --key k",
                "what is published with a ruleset needs a ruleset",
            ),
            (
                "prune --keep 0 --source s --key k",
                "--keep takes a number of heads, the present one among them",
            ),
            (
                "status --keep 1 --source s --key k",
                "--keep is for `prune` and what makes another head",
            ),
            ("publish r --define A --source s --key k", "--define takes NAME=VALUE, not `A`"),
        ] {
            assert_eq!(command(line), Err(message.to_owned()), "{line}");
        }
    }
}
