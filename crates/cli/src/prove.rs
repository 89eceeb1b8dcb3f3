// SPDX-License-Identifier: Apache-2.0

//! `penstock prove`: whether what is claimed of all packets holds.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{errln, out};
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_symbolic::{
    Claim, Decider, Example, Fate, Outcome, Proof, Side, Unproved, check, diff, parts, prove,
};

use crate::diff::{failed, rule_text};
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::recognise::{self, hinted};
use crate::setup::sentence;
use crate::symbolic::hooks::{Station, stations};
use crate::symbolic::load::{Devices, Loaded};
use crate::symbolic::words::Words;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (symbolic::TITLE, symbolic::OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("rules", "the ruleset, as for `nft -f`, or a state file").takes("RULES", Values::Files),
    long("junit", "write the results to FILE, as CI systems read them")
        .takes("FILE", Values::Files),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock prove [OPTIONS] --rules RULES CLAIMS\n\n\
         Proves of all packets what the file CLAIMS says of one hook, or shows a packet for which it\n\
         does not hold. A claim is a line, `#` begins a comment:\n\n  \
           never accept MATCHES...\n  \
           always accept MATCHES...\n  \
           same FILE\n\n\
         In place of accept: drop, reject, queue. MATCHES are matches of rules; `same` says that the\n\
         ruleset of FILE does the same with all packets.\n\n\
         {}\n{}:\n{}\n\
         The exit status is 0 if all claims hold, 1 if one does not, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::TITLE,
        usage_lines(symbolic::OPTIONS, 28)
    )
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    rules: PathBuf,
    claims: PathBuf,
    junit: Option<PathBuf>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut rules, mut claims, mut junit) = (None, None, None);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("rules") => rules = Some(parser.value().map_err(sentence)?.into()),
            Long("junit") => junit = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(file) if claims.is_none() => claims = Some(PathBuf::from(file)),
            other => return Err(sentence(other.unexpected())),
        }
    }
    let rules = rules.ok_or("--rules is missing")?;
    let claims = claims.ok_or("the file of claims is missing")?;
    Ok(Some(Asked { rules, claims, junit, settings }))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("prove", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    symbolic::status(all(&asked))
}

/// What a line of the file claims.
enum Kind {
    /// Always or never an outcome, for packets that matches are about.
    Outcome { always: bool, outcome: Outcome, matches: String },
    /// The same as another ruleset.
    Same(PathBuf),
}

struct Line {
    number: usize,
    text: String,
    kind: Kind,
}

/// The claims of a file.
fn claims(file: &Path) -> Result<Vec<Line>, String> {
    let name = file.display();
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let text = text.map_err(|e| format!("Error: {name}: {e}"))?;
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let wrong = |what: &str| format!("Error: {name}:{number}: {what}\n{line}");
        let kind = match word {
            "never" | "always" => {
                let rest = rest.trim_start();
                let (outcome, matches) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let outcome = match outcome {
                    "accept" => Outcome::Accept,
                    "drop" => Outcome::Drop,
                    "reject" => Outcome::Reject,
                    "queue" => Outcome::Queue,
                    "leave" | "reach" => {
                        return Err(wrong(
                            "claims about the way through a network are not \
                                          decided yet",
                        ));
                    }
                    _ => return Err(wrong("expected accept, drop, reject or queue")),
                };
                let matches = matches.trim().to_owned();
                Kind::Outcome { always: word == "always", outcome, matches }
            }
            "same" if !rest.trim().is_empty() => {
                let dir = file.parent().unwrap_or(Path::new(""));
                Kind::Same(dir.join(rest.trim()))
            }
            "reach" => {
                return Err(wrong("claims about the way through a network are not decided yet"));
            }
            _ => return Err(wrong("a claim begins with never, always or same")),
        };
        all.push(Line { number, text: line.to_owned(), kind });
    }
    match all.is_empty() {
        true => Err(format!("Error: {name}: there are no claims in it")),
        false => Ok(all),
    }
}

/// A line without the comment at its end; `#` in quotes is none.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '#' && !quoted
    });
    end.map_or(line, |(at, _)| &line[..at])
}

/// A claim's matches as a ruleset of one rule.
fn compiled(
    line: &Line,
    matches: &str,
    station: &Station,
    file: &Path,
    devices: &Devices,
    now: u64,
) -> Result<Loaded, String> {
    let family = station.place.family.name();
    let hook = station.name.split(' ').nth(1).unwrap_or("forward");
    let hook = hook_word(station).unwrap_or(hook);
    let device = match station.place.hook {
        penstock_program::Hook::Ingress | penstock_program::Hook::Egress => " device \"claims\"",
        _ => "",
    };
    let text = format!(
        "table {family} claims {{\nchain claims {{\ntype filter hook {hook}{device} priority 0;\n\
         {matches} accept\n}}\n}}\n"
    );
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name: file.display().to_string(), from: None };
    let options = Options { runnable_only: true, ..Options::default() };
    let outcome = Session::new(options, &NoFiles, devices).run(origin, text, &mut ruleset, now);
    if !outcome.ok {
        // The lines of the ruleset are not those of the file.
        let message = outcome.stderr.split_once("Error: ").map_or(&*outcome.stderr, |(_, m)| m);
        return Err(format!("Error: {}:{}: {message}", file.display(), line.number));
    }
    let generation = ruleset.generation();
    let linked = Linked::new(&generation)
        .map_err(|e| format!("Error: {}:{}: {e}", file.display(), line.number))?;
    Ok(Loaded { file: file.display().to_string(), generation, linked, now })
}

fn hook_word(station: &Station) -> Option<&'static str> {
    use penstock_program::Hook::*;
    Some(match station.place.hook {
        Ingress => "ingress",
        Prerouting => "prerouting",
        Input => "input",
        Forward => "forward",
        Output => "output",
        Postrouting => "postrouting",
        Egress => "egress",
    })
}

/// A claim that was decided: its line, and why it does not hold.
struct Decided {
    number: usize,
    text: String,
    wrong: Option<String>,
}

/// Whether all claims hold; prints which do.
fn all(asked: &Asked) -> Result<bool, String> {
    let devices = Devices::default();
    let now = SystemTime::now();
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let lines =
        claims(&asked.claims).map_err(|e| hinted(&e, &asked.claims, recognise::Given::Other))?;
    let rules = Loaded::new(&asked.rules, &devices, now)?;
    let found = stations(&[&rules], &asked.settings)?;
    let [station] = &found[..] else {
        let names: Vec<&str> = found.iter().map(|station| &*station.name).collect();
        return Err(match names.is_empty() {
            true => format!("Error: {}: there are no base chains", rules.file),
            false => format!(
                "Error: claims are about one hook: --hook or --chain says which of {}",
                names.join(", ")
            ),
        });
    };
    let mut compiled_claims = Vec::new();
    for line in &lines {
        if let Kind::Outcome { matches, .. } = &line.kind {
            let claim = compiled(line, matches, station, &asked.claims, &devices, now)?;
            compiled_claims.push(claim);
        }
    }
    let mut decided: Vec<Decided> = Vec::new();
    let outcomes = decide(&lines, &compiled_claims, station, &rules, asked, &devices)?;
    let mut outcomes = outcomes.into_iter();
    for line in &lines {
        let wrong = match &line.kind {
            Kind::Outcome { .. } => outcomes.next().flatten(),
            Kind::Same(file) => same(file, station, &rules, asked, &devices, now)?,
        };
        decided.push(Decided { number: line.number, text: line.text.clone(), wrong });
    }
    let mut held = true;
    for Decided { number, text, wrong } in &decided {
        match wrong {
            None => out!("holds     {}:{number}: {text}\n", asked.claims.display()),
            Some(wrong) => {
                held = false;
                out!("refuted   {}:{number}: {text}\n{wrong}", asked.claims.display());
            }
        }
    }
    if let Some(file) = &asked.junit {
        let text = junit(&asked.claims, &decided);
        std::fs::write(file, text).map_err(|e| format!("Error: {}: {e}", file.display()))?;
    }
    Ok(held)
}

/// Decides the claims about outcomes, in their order: why those that do not hold do not.
fn decide(
    lines: &[Line],
    compiled: &[Loaded],
    station: &Station,
    rules: &Loaded,
    asked: &Asked,
    devices: &Devices,
) -> Result<Vec<Option<String>>, String> {
    let mut sets = HashMap::new();
    let program = station.program(rules, &asked.settings, &mut sets);
    let programs: Vec<_> = compiled
        .iter()
        .map(|claim| {
            let whole = Settings { chain: None, hook: None, ..asked.settings.clone() };
            let all = stations(&[claim], &whole)?;
            let own = all.first().ok_or("Error: a claim without a chain")?;
            Ok(own.program(claim, &whole, &mut HashMap::new()))
        })
        .collect::<Result<_, String>>()?;
    let outcome_lines: Vec<&Line> =
        lines.iter().filter(|line| matches!(line.kind, Kind::Outcome { .. })).collect();
    let claims: Vec<Claim<'_>> = outcome_lines
        .iter()
        .zip(&programs)
        .filter_map(|(line, matches)| match &line.kind {
            Kind::Outcome { always, outcome, .. } => {
                Some(Claim { matches, always: *always, outcome: *outcome })
            }
            Kind::Same(_) => None,
        })
        .collect();
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let proofs = prove(station.place, &program, &claims, asked.settings.limits);
    let proofs = proofs.map_err(|unproved| match unproved {
        Unproved::Rules(failure) => failed(station, rules, devices, &failure),
        Unproved::Claim(number, failure) => format!(
            "Error: {}:{}: {failure}\n{}",
            asked.claims.display(),
            outcome_lines[number].number,
            outcome_lines[number].text
        ),
    })?;
    let rule_name =
        |number: u32| rule_text(rules, penstock_program::image::RuleIndex(number), devices);
    let listing = rules.listing(&rules.generation, devices);
    let words = Words::new(listing, station.place, &proofs.universe, &rule_name);
    let mut all = Vec::new();
    for (line, proof) in outcome_lines.iter().zip(&proofs.proofs) {
        let Proof::Refuted { example, end, decider } = proof else {
            if *proof == Proof::NothingMatches {
                let file = asked.claims.display();
                errln!("note: {file}:{}: no packet can match this", line.number);
            }
            all.push(None);
            continue;
        };
        let fate = Fate { end: *end, written: Vec::new() };
        let such = words.example(example, &parts(&proofs.universe, example), &[]);
        let mut text = format!("          by: {such}\n");
        match Example::new(&proofs.universe, example) {
            None => text.push_str("          (no example could be made)\n"),
            Some(made) => {
                let verified = check(&made, &program, &fate, &[*decider]).map_err(|wrong| {
                    debug_assert!(false, "{wrong}");
                    format!("Error: this is a bug: an example does not do what was found: {wrong}")
                })?;
                for rule in &verified.met {
                    text.push_str(&format!("          {}\n", rule_text(rules, *rule, devices)));
                }
            }
        }
        let Decider { rule, base } = decider;
        if rule.is_none() {
            text.push_str(&format!("          policy of chain {}\n", rules.chain_name(*base)));
        }
        text.push_str(&format!("          {}\n", words.fate(&fate)));
        all.push(Some(text));
    }
    Ok(all)
}

/// Whether another ruleset does the same; if not, for which packets it does not.
fn same(
    file: &Path,
    station: &Station,
    rules: &Loaded,
    asked: &Asked,
    devices: &Devices,
    now: u64,
) -> Result<Option<String>, String> {
    let other = Loaded::new(file, devices, now)?;
    let mut sets = HashMap::new();
    let mut old = station.program(&other, &asked.settings, &mut sets);
    let mut new = station.program(rules, &asked.settings, &mut sets);
    let found = diff(station.place, &mut old, &mut new, asked.settings.limits);
    let difference = found.map_err(|(side, failure)| {
        let side = if side == Side::Old { &other } else { rules };
        failed(station, side, devices, &failure)
    })?;
    let Some(class) = difference.classes.first() else { return Ok(None) };
    let rule_name = |_: u32| "a rule".to_owned();
    let listing = rules.listing(&rules.generation, devices);
    let words = Words::new(listing, station.place, &difference.universe, &rule_name);
    let packets: Vec<String> = class.boxes.iter().map(|one| words.packets(one)).collect();
    Ok(Some(format!(
        "          by: {}\n          there: {}\n          here: {}\n",
        packets.join("\n              "),
        words.fate(&class.old),
        words.fate(&class.new)
    )))
}

fn junit(file: &Path, all: &[Decided]) -> String {
    let escaped = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let failures = all.iter().filter(|claim| claim.wrong.is_some()).count();
    let name = escaped(&file.display().to_string());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n<testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">\n",
        all.len()
    );
    for claim in all {
        let case = escaped(&claim.text);
        text.push_str(&format!("<testcase classname=\"{name}\" name=\"{case}\""));
        match &claim.wrong {
            None => text.push_str("/>\n"),
            Some(wrong) => text.push_str(&format!(
                "><failure message=\"refuted\">{}</failure></testcase>\n",
                escaped(wrong)
            )),
        }
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_are_known() {
        let all = SECTIONS.iter().flat_map(|(_, options)| options.iter());
        crate::options::assert_known(all, |line| {
            parse(line.split(' ').map(OsString::from)).map(|_| ())
        });
    }

    #[test]
    fn comments_end_lines_outside_of_quotes() {
        for (line, expected) in
            [("a # b", "a "), ("# all", ""), ("x \"a#b\" # c", "x \"a#b\" "), ("plain", "plain")]
        {
            assert_eq!(without_comment(line), expected);
        }
    }
}
