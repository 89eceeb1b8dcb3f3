// SPDX-License-Identifier: Apache-2.0

//! Files of claims: lines about what becomes of packets at a hook.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_net::Network;
use penstock_symbolic::Outcome;

use super::hooks::HookName;
use super::network::network_of;
use crate::recognise::{self, hinted};
use crate::setup::sysctl;
use crate::test::line::without_comment;

/// What a line of the file claims.
pub enum Kind {
    /// Always or never an outcome, for packets that matches are about.
    Outcome { always: bool, outcome: Outcome, matches: String },
    /// Always or never out of a device of the network.
    Leave { always: bool, device: String, matches: String },
    /// Packets that arrive, or those of the host, come to the host (`None`) or leave by a device,
    /// if routing leads them there.
    Reach { of_host: bool, to: Option<String>, matches: String },
    /// The same as another ruleset.
    Same(PathBuf),
}

/// The chains that claims are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum About {
    /// Those of the one hook that there is, or that an option says.
    #[default]
    Given,
    /// Those of a hook, whether there are any or not.
    Hook(HookName),
    /// A base chain: its family, its table and its name.
    Chain([String; 3]),
    /// All on the ways through a network.
    Way(Net),
}

/// The network that a line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// Its file.
    pub file: PathBuf,
    /// What the host does with its devices, by sysctl(8) names.
    pub sysctls: Vec<(String, u32)>,
}

/// A claim of a file.
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// Without comment and blanks at its ends.
    pub text: String,
    /// What it claims.
    pub kind: Kind,
    /// What it is about.
    pub about: About,
}

/// Claims, and where they are from.
pub struct Claims {
    /// What their file is called.
    pub file: String,
    /// The claims in their order; at least one.
    pub lines: Vec<Line>,
    /// The networks that lines are about.
    networks: Vec<(Net, Arc<Network>)>,
}

impl Claims {
    /// Reads the claims of a file, and the networks that it names; `-` is standard input.
    ///
    /// # Errors
    /// A file cannot be read, or what is wrong in it, with its line.
    pub fn of_file(file: &Path) -> Result<Claims, String> {
        let text = match file.as_os_str() == "-" {
            true => std::io::read_to_string(std::io::stdin()),
            false => std::fs::read_to_string(file),
        };
        let name = file.display().to_string();
        let text = text.map_err(|e| format!("Error: {name}: {e}"))?;
        Claims::new(&name, &text)?
            .in_networks(|file| std::fs::read_to_string(file).map_err(|e| e.to_string()))
    }

    /// Reads the networks that lines name.
    ///
    /// # Errors
    /// What is wrong in one, with its line.
    pub fn in_networks(
        mut self,
        read: impl Fn(&Path) -> Result<String, String>,
    ) -> Result<Claims, String> {
        for line in &self.lines {
            let About::Way(net) = &line.about else { continue };
            if self.networks.iter().any(|(known, _)| known == net) {
                continue;
            }
            let file = &net.file;
            let text = read(file).map_err(|e| {
                hinted(&format!("Error: {}: {e}", file.display()), file, recognise::Given::Net)
            })?;
            self.networks.push((net.clone(), network_of(file, &text, &net.sysctls)?));
        }
        Ok(self)
    }

    /// The files of networks that lines name, each once.
    pub fn network_files(&self) -> BTreeSet<&Path> {
        let about = self.lines.iter().map(|line| &line.about);
        let files = about.filter_map(|about| match about {
            About::Way(net) => Some(&*net.file),
            _ => None,
        });
        files.collect()
    }

    /// A network that was read.
    pub fn network(&self, net: &Net) -> Option<Arc<Network>> {
        self.networks.iter().find(|(known, _)| known == net).map(|(_, network)| network.clone())
    }

    /// Reads the claims of a text that is from a file with this name.
    ///
    /// # Errors
    /// What is wrong in it, with its line.
    pub fn new(name: &str, text: &str) -> Result<Claims, String> {
        let mut about = About::Given;
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |what: String| format!("Error: {name}:{number}: {what}\n{line}");
            if let Some(next) = heading(line, Path::new(name)) {
                about = next.map_err(wrong)?;
                continue;
            }
            let kind = kind(line, Path::new(name)).map_err(|what| wrong(what.to_owned()))?;
            lines.push(Line { number, text: line.to_owned(), kind, about: about.clone() });
        }
        match lines.is_empty() {
            true => Err(format!("Error: {name}: there are no claims in it")),
            false => Ok(Claims { file: name.to_owned(), lines, networks: Vec::new() }),
        }
    }
}

/// The chains that later lines are about, if a line says so.
fn heading(line: &str, file: &Path) -> Option<Result<About, String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["hook", ref rest @ ..] => Some(HookName::parse(rest).map(About::Hook)),
        ["chain", family, table, chain] => {
            Some(Ok(About::Chain([family, table, chain].map(str::to_owned))))
        }
        ["chain", ..] => Some(Err("`chain` takes a family, a table and a chain".to_owned())),
        ["net", network, ref sysctls @ ..] => {
            let sysctls = sysctls.iter().map(|value| {
                sysctl(OsStr::new(value)).map_err(|_| format!("`{value}` is no NAME=VALUE"))
            });
            let file = beside(file, network);
            let net = |sysctls| About::Way(Net { file, sysctls });
            Some(sysctls.collect::<Result<_, _>>().map(net))
        }
        ["net"] => Some(Err("`net` takes a file".to_owned())),
        _ => None,
    }
}

/// What a line of a file claims.
fn kind(line: &str, file: &Path) -> Result<Kind, &'static str> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word {
        "never" | "always" => {
            let rest = rest.trim_start();
            let (outcome, matches) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let outcome = match outcome {
                "accept" => Outcome::Accept,
                "drop" => Outcome::Drop,
                "reject" => Outcome::Reject,
                "queue" => Outcome::Queue,
                "leave" => {
                    let matches = matches.trim_start();
                    let (device, matches) =
                        matches.split_once(char::is_whitespace).unwrap_or((matches, ""));
                    if device.is_empty() {
                        return Err("`leave` takes a device");
                    }
                    let device = device.trim_matches('"').to_owned();
                    let matches = matches.trim().to_owned();
                    return Ok(Kind::Leave { always: word == "always", device, matches });
                }
                _ => return Err("expected accept, drop, reject, queue or leave"),
            };
            let matches = matches.trim().to_owned();
            Ok(Kind::Outcome { always: word == "always", outcome, matches })
        }
        "same" if !rest.trim().is_empty() => Ok(Kind::Same(beside(file, rest.trim()))),
        "reach" => reach(rest),
        _ => Err("a claim begins with never, always, reach or same"),
    }
}

/// A file that a line of another one names.
fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// `reach FROM -> TO`: what begins a connection, unless the matches are about `ct state`.
fn reach(text: &str) -> Result<Kind, &'static str> {
    let (from, to) = text.split_once("->").ok_or("`reach` takes FROM -> TO")?;
    let (from, to) = (from.trim(), to.trim());
    let to = to.strip_prefix("oifname ").map_or(to, str::trim_start);
    let (to, matches) = to.split_once(char::is_whitespace).unwrap_or((to, ""));
    let of_host = from == "host";
    if to.is_empty() || from.is_empty() {
        return Err("`reach` takes FROM -> TO");
    }
    let mut words = vec![if of_host { "" } else { from }, matches.trim()];
    if !words.iter().any(|words| words.contains("ct state")) {
        words.push("ct state new");
    }
    words.retain(|words| !words.is_empty());
    let to = (to != "host").then(|| to.trim_matches('"').to_owned());
    Ok(Kind::Reach { of_host, to, matches: words.join(" ") })
}

#[cfg(test)]
mod tests {
    use penstock_program::{Family, Hook};

    use super::*;

    #[test]
    fn claims_are_about_what_the_line_before_them_says() {
        let text = "never accept tcp dport 22 # nobody\nhook forward\nalways drop\n\n\
                    chain inet filter input\nnever drop ct state established\n\
                    hook ingress on \"lan\"\nnever accept\n\
                    net some.ip net.ipv4.conf.all.rp_filter=1\nreach iifname lan -> host\n\
                    never leave wan";
        let claims = Claims::new("of/claims", text).unwrap();
        let hook = |family, hook, device: Option<&str>| {
            About::Hook(HookName { family, hook, device: device.map(str::to_owned) })
        };
        let way = About::Way(Net {
            file: "of/some.ip".into(),
            sysctls: vec![("net.ipv4.conf.all.rp_filter".to_owned(), 1)],
        });
        let expected = [
            (1, About::Given),
            (3, hook(Family::Inet, Hook::Forward, None)),
            (6, About::Chain(["inet", "filter", "input"].map(str::to_owned))),
            (8, hook(Family::Netdev, Hook::Ingress, Some("lan"))),
            (10, way.clone()),
            (11, way),
        ];
        assert_eq!(claims.network_files(), [Path::new("of/some.ip")].into());
        let found: Vec<_> =
            claims.lines.into_iter().map(|line| (line.number, line.about)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn wrong_lines_are_told_with_their_place() {
        for (text, message) in [
            ("", "claims: there are no claims in it"),
            ("# nothing\nhook input", "claims: there are no claims in it"),
            ("sometimes accept", "claims:1: a claim begins with never, always, reach or same"),
            ("never pass", "claims:1: expected accept, drop, reject, queue or leave"),
            ("never leave", "claims:1: `leave` takes a device"),
            ("\nhook here", "claims:2: `here` is no hook"),
            ("hook bridge in put", "claims:1: `hook` takes [FAMILY] HOOK [on DEVICE]"),
            ("hook ip input", "claims:1: packets of ip pass hooks of inet"),
            ("hook input on lan", "claims:1: packets pass this hook whatever their device is"),
            ("chain filter input", "claims:1: `chain` takes a family, a table and a chain"),
            ("net", "claims:1: `net` takes a file"),
            ("net some.ip rp_filter", "claims:1: `rp_filter` is no NAME=VALUE"),
            ("reach iifname lan", "claims:1: `reach` takes FROM -> TO"),
            ("reach -> host", "claims:1: `reach` takes FROM -> TO"),
        ] {
            let error = Claims::new("claims", text).err().unwrap_or_default();
            assert!(error.starts_with(&format!("Error: {message}")), "{text}: {error}");
        }
    }
}
