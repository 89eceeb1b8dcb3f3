// SPDX-License-Identifier: Apache-2.0

//! Test files: input lines at the margin, what is expected of each in the indented lines below it.

use std::path::{Path, PathBuf};

use crate::packet::{self, Incoming};

/// A test file.
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// Lines before the first test.
    head: Vec<String>,
    /// In order.
    pub tests: Vec<Test>,
}

/// A ruleset, packets, and what is expected.
#[derive(Clone)]
pub struct Test {
    /// What it shows.
    pub title: String,
    /// Line of the title, from 1.
    pub line: usize,
    /// Engines that must agree.
    pub engines: Vec<String>,
    /// Family of the table.
    pub family: String,
    /// Hook of the chain, with its device if it has one.
    pub hook: String,
    /// The device, else empty.
    pub device: String,
    /// Policy of the chain.
    pub policy: String,
    /// Lines of `net.ip` after those of the usual router.
    pub net: String,
    /// In order.
    pub items: Vec<Item>,
}

/// An input line with what is expected of it.
#[derive(Clone)]
pub struct Item {
    /// Its number, from 1.
    pub line: usize,
    /// As written.
    pub text: String,
    /// What it is.
    pub kind: Kind,
    /// The indented lines below, without their indentation.
    pub expected: Vec<String>,
}

/// What an input line is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A comment, an empty line, or a setting.
    Other,
    /// A chain, set or object of the table. For chains, the programs of the rules are expected,
    /// `--` between them.
    With(String),
    /// A rule of the chain; its program is expected.
    Rule(String),
    /// A packet with its expected result.
    Packet(Incoming),
    /// All that was counted is expected.
    Counters,
    /// The ruleset is not accepted; the message is expected.
    Refused,
}

/// Reads a file.
pub fn read(path: &Path) -> Result<File, String> {
    parse(&std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?, path)
}

/// Reads what stands in a file.
pub fn parse(text: &str, path: &Path) -> Result<File, String> {
    let mut file = File { path: path.to_owned(), head: vec![], tests: vec![] };
    let mut settings = Settings::default();
    for (number, line) in (1..).zip(text.lines()) {
        let fail = |e: String| format!("{}:{number}: {e}", path.display());
        if line.starts_with(char::is_whitespace) && !line.trim().is_empty() {
            let item = file.tests.last_mut().and_then(|t| t.items.last_mut());
            let item = item
                .filter(|i| i.kind != Kind::Other)
                .ok_or_else(|| fail("expected of what?".into()))?;
            item.expected.push(line.trim().to_string());
            continue;
        }
        let line = line.trim_end();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "test" {
            file.tests.push(settings.test(rest, number));
            continue;
        }
        let other = line.is_empty() || word.starts_with('#');
        let Some(test) = file.tests.last_mut() else {
            if !other {
                settings.set(word, rest).map_err(fail)?;
            }
            file.head.push(line.to_string());
            continue;
        };
        let kind = match word {
            _ if other => Kind::Other,
            "with" => Kind::With(rest.to_string()),
            "rule" => Kind::Rule(rest.to_string()),
            "packet" => Kind::Packet(packet::parse(rest).map_err(fail)?),
            "counters" => Kind::Counters,
            "refused" => Kind::Refused,
            _ => {
                let mut own = Settings::of(test);
                own.set(word, rest).map_err(fail)?;
                own.put(test);
                Kind::Other
            }
        };
        test.items.push(Item { line: number, text: line.to_string(), kind, expected: vec![] });
    }
    Ok(file)
}

/// What the lines before tests, or in them, say about them.
#[derive(Clone, Default)]
struct Settings {
    engines: Vec<String>,
    family: String,
    hook: String,
    device: String,
    policy: String,
    net: String,
}

impl Settings {
    fn set(&mut self, word: &str, rest: &str) -> Result<(), String> {
        match word {
            "engines" => self.engines = rest.split_whitespace().map(str::to_string).collect(),
            "policy" => self.policy = rest.to_string(),
            "net" => self.net += &format!("{rest}\n"),
            "hook" => {
                let mut words = rest.split_whitespace().map(str::to_string);
                self.family = words.next().unwrap_or_default();
                self.hook = words.next().ok_or("a family and a hook are expected")?;
                self.device = words.next().unwrap_or_default();
            }
            _ => return Err(format!("{word}: not a word that a line begins with")),
        }
        Ok(())
    }

    fn test(&self, title: &str, line: usize) -> Test {
        let mut test = Test {
            title: title.to_string(),
            line,
            engines: vec![],
            family: String::new(),
            hook: String::new(),
            device: String::new(),
            policy: String::new(),
            net: String::new(),
            items: vec![],
        };
        self.clone().put(&mut test);
        test
    }

    fn of(test: &Test) -> Settings {
        Settings {
            engines: test.engines.clone(),
            family: test.family.clone(),
            hook: test.hook.clone(),
            device: test.device.clone(),
            policy: test.policy.clone(),
            net: test.net.clone(),
        }
    }

    fn put(self, test: &mut Test) {
        test.engines = self.engines;
        test.family = self.family;
        test.hook = self.hook;
        test.device = self.device;
        test.net = self.net;
        test.policy = if self.policy.is_empty() { "accept".into() } else { self.policy };
    }
}

impl File {
    /// Writes it with what is expected as it stands now.
    pub fn write(&self) -> std::io::Result<()> {
        let mut text = String::new();
        let mut line = |indent: &str, l: &str| {
            text.push_str(indent);
            text.push_str(l);
            text.push('\n');
        };
        for l in &self.head {
            line("", l);
        }
        for test in &self.tests {
            line("", &format!("test {}", test.title));
            for item in &test.items {
                line("", &item.text);
                for l in &item.expected {
                    line("    ", l);
                }
            }
        }
        std::fs::write(&self.path, text)
    }
}

impl Test {
    /// The ruleset that is tested, as for `nft -f`.
    pub fn ruleset(&self) -> String {
        let mut text = format!("table {} t {{\n", self.family);
        for item in &self.items {
            if let Kind::With(declaration) = &item.kind {
                text.push_str(&format!("\t{declaration}\n"));
            }
        }
        let device =
            if self.device.is_empty() { String::new() } else { format!(" device {}", self.device) };
        text.push_str(&format!(
            "\tchain c {{\n\t\ttype filter hook {}{device} priority 0; policy {};\n",
            self.hook, self.policy
        ));
        for item in &self.items {
            if let Kind::Rule(rule) = &item.kind {
                text.push_str(&format!("\t\t{rule}\n"));
            }
        }
        text.push_str("\t}\n}\n");
        text
    }

    /// The test without the rules of its chain.
    pub fn without_rules(&self) -> String {
        let items =
            self.items.iter().filter(|i| !matches!(i.kind, Kind::Rule(_))).cloned().collect();
        Test { items, ..self.clone() }.ruleset()
    }

    /// What goes with it where the path alone would not show what a chain lets through: malformed
    /// packets at ingress are dropped after it. Packets that pass the chain then go to another
    /// device, unchanged.
    pub fn beyond(&self) -> String {
        if self.hook != "ingress" {
            return String::new();
        }
        let to = if self.device == "dmz" { "wan" } else { "dmz" };
        let device = &self.device;
        format!(
            "table netdev beyond {{\n\tchain through {{\n\t\ttype filter hook ingress device {device} priority 1000;\n\t\tfwd to {to}\n\t}}\n}}\n"
        )
    }

    /// Whether engines are to refuse it.
    pub fn is_refused(&self) -> bool {
        self.items.iter().any(|i| i.kind == Kind::Refused)
    }

    /// The packets, in order.
    pub fn packets(&self) -> impl Iterator<Item = &Incoming> {
        self.items.iter().filter_map(|i| match &i.kind {
            Kind::Packet(packet) => Some(packet),
            _ => None,
        })
    }
}

/// Name of the chain that a declaration declares.
pub fn declared_chain(declaration: &str) -> Option<&str> {
    declaration.strip_prefix("chain ")?.split_whitespace().next()
}
