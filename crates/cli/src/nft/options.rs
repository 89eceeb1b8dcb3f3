// SPDX-License-Identifier: Apache-2.0

//! The command line of nft(8), in getopt_long(3)'s manner, and two options of our own.

use std::path::PathBuf;
use std::time::Duration;

use penstock_lang::release::Release;
use penstock_lang::session::{Debug, Options};

use crate::options::{Opt, Values, flag, long};

/// What is asked for.
#[derive(Debug)]
pub enum Parsed {
    /// To run something.
    Run(Box<Call>),
    /// To print this.
    Show(String),
    /// Nothing that makes sense; the message for standard error.
    Wrong(String),
}

/// A call that runs something.
#[derive(Debug)]
pub struct Call {
    /// How.
    pub options: Options,
    /// What.
    pub source: Source,
    /// On what.
    pub state: State,
    /// Whether definitions may run commands.
    pub allow_exec: bool,
    /// A change is rolled back unless it is confirmed in that time.
    pub confirm: Option<Duration>,
    /// A file of claims that are to hold after a change.
    pub claims: Option<String>,
    /// Whether what a change does to packets is printed.
    pub diff: bool,
}

/// Where commands come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// `-f`; `-` is standard input.
    File(String),
    /// The arguments, joined by blanks.
    Commands(String),
    /// `-i`
    Interactive,
}

/// Where the ruleset is.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// In a dataplane.
    None,
    /// In this process, empty at first.
    Offline,
    /// In a file.
    File(PathBuf),
}

const fn with(
    short: char,
    long: &'static str,
    argument: &'static str,
    values: Values,
    help: &'static str,
) -> Opt {
    flag(short, long, help).takes(argument, values)
}

const GENERAL: [Opt; 3] = [
    flag('h', "help", "Show this help"),
    flag('v', "version", "Show version information"),
    Opt { short: Some('V'), long: None, argument: None, help: "Show extended version information" },
];

const INPUT: [Opt; 16] = [
    with('f', "file", "<filename>", Values::Files, "Read input from <filename>"),
    with('D', "define", "<name=value>", Values::Any, "Define variable, e.g. --define foo=1.2.3.4"),
    flag('i', "interactive", "Read input from interactive CLI"),
    with(
        'I',
        "includepath",
        "<directory>",
        Values::Directories,
        "Add <directory> to the paths searched for include files. Default is: /etc",
    ),
    long("no-includepath", "Search no directory for include files but those of later -I."),
    flag('c', "check", "Check commands validity without actually applying the changes."),
    flag('o', "optimize", "Optimize ruleset"),
    long("json-input", "Read input as JSON where it is that, and list as text"),
    long("lint", "Warn of likely mistakes: unused names, rules that never match"),
    long("allow-exec", "Let definitions run commands: define NAME = exec(\"command\")"),
    long("offline", "Work on an empty ruleset in this process"),
    long("state", "Work on a ruleset kept in <filename>").takes("<filename>", Values::Files),
    long("claims", "Refuse a change after which a claim of <filename> does not hold")
        .takes("<filename>", Values::Files),
    long("diff", "Print what the change does to packets"),
    long("confirm", "Roll the change back unless it is confirmed within <time>, e.g. 60s")
        .takes("<time>", Values::Any),
    long("timeout", "Roll each change made with -i back unless it is confirmed within <time>")
        .takes("<time>", Values::Any),
];

const FORMAT: [Opt; 13] = [
    flag('a', "handle", "Output rule handle."),
    flag('s', "stateless", "Omit stateful information of ruleset."),
    flag('t', "terse", "Omit contents of sets."),
    flag('S', "service", "Translate ports to service names as described in /etc/services."),
    flag('N', "reversedns", "Translate IP addresses to names."),
    flag('u', "guid", "Print UID/GID as defined in /etc/passwd and /etc/group."),
    flag('n', "numeric", "Print fully numerical output."),
    flag('y', "numeric-priority", "Print chain priority numerically."),
    flag('p', "numeric-protocol", "Print layer 4 protocols numerically."),
    flag('T', "numeric-time", "Print time values numerically."),
    long("numeric-symbols", "Print constants of types numerically, such as ct states."),
    long("backend", "Print the backend of each set, and its cost."),
    long("compat", "List in the form of nft 1.0.6 (the default) or 1.1.")
        .takes("<release>", Values::OneOf(&Release::NAMES)),
];

const OUTPUT: [Opt; 3] = [
    flag('e', "echo", "Echo what has been added, inserted or replaced."),
    flag('j', "json", "Format output in JSON"),
    with(
        'd',
        "debug",
        "<level [,level...]>",
        Values::OneOf(&[
            "scanner",
            "parser",
            "eval",
            "netlink",
            "mnl",
            "proto-ctx",
            "segtree",
            "all",
        ]),
        "Specify debugging level (scanner, parser, eval, netlink, mnl, proto-ctx, segtree, all)",
    ),
];

/// All of them, by the titles they stand under.
pub const SECTIONS: [(&str, &[Opt]); 4] = [
    ("general", &GENERAL),
    ("ruleset input handling", &INPUT),
    ("ruleset list formatting", &FORMAT),
    ("command output formatting", &OUTPUT),
];

fn all() -> impl Iterator<Item = &'static Opt> {
    SECTIONS.iter().flat_map(|(_, options)| options.iter())
}

fn help() -> String {
    let mut out = String::from("Usage: nft [ options ] [ cmds... ]\n");
    for (title, options) in SECTIONS {
        out.push_str(&format!("\nOptions ({title}):\n"));
        for option in options {
            let short = option.short.map_or("  ".into(), |c| format!("-{c}"));
            let long = option.long.map_or(String::new(), |l| {
                let comma = if option.short.is_some() { ", " } else { "  " };
                format!("{comma}--{l}")
            });
            let argument = option.argument.map_or(String::new(), |a| format!(" {}", a.name));
            let left = format!("{short}{long}{argument}");
            out.push_str(&format!("  {left:<30}  {}\n", option.help));
        }
    }
    out.push('\n');
    out
}

const VERSION: &str = concat!("nftables v1.0.6 (penstock ", env!("CARGO_PKG_VERSION"), ")\n");
const BUILD: &str = "  cli:\t\tno\n  json:\t\tyes\n  minigmp:\tno\n  libxtables:\tno\n";

/// An option as given, with its argument.
struct Given {
    option: &'static Opt,
    argument: String,
}

/// Parses the arguments after the program's name.
pub fn parse(args: &[String]) -> Parsed {
    match read(args) {
        Ok(parsed) => parsed,
        Err(message) => Parsed::Wrong(message),
    }
}

/// Refuses options after commands, as nft does: a word with a dash is probably meant as an option.
fn check_order(args: &[String]) -> Result<(), String> {
    let mut position = "nft ".len();
    let (mut commands, mut skip) = (false, false);
    for arg in args {
        if arg.starts_with('{') {
            break;
        }
        if skip {
            skip = false;
        } else if let Some(name) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            if commands {
                let line: String = std::iter::once("nft")
                    .chain(args.iter().map(|a| &**a))
                    .map(|a| format!("{a} "))
                    .collect();
                return Err(format!(
                    "Error: syntax error, options must be specified before commands\n{line}\n{:>4}{:>width$}\n",
                    '^',
                    "~~",
                    width = position - 2
                ));
            }
            let takes = |o: &&Opt| o.argument.is_some();
            let short = |o: &Opt| o.short.is_some_and(|c| name.chars().eq([c]));
            let long = |o: &Opt| o.long.is_some() && name.strip_prefix('-') == o.long;
            skip = all().filter(takes).any(|o| short(o) || long(o));
        } else {
            commands = true;
        }
        position += arg.len() + 1;
    }
    Ok(())
}

/// Splits the arguments into options and the rest.
fn split(args: &[String]) -> Result<(Vec<Given>, Vec<String>), String> {
    let mut given = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.as_slice().first() {
        if arg == "--" {
            rest.next();
            break;
        }
        let Some(name) = arg.strip_prefix('-').filter(|name| !name.is_empty()) else { break };
        rest.next();
        if let Some(long) = name.strip_prefix('-') {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let fits = |o: &&'static Opt| o.long.is_some_and(|l| l.starts_with(name));
            let exact = all().find(|o| o.long == Some(name));
            let candidates: Vec<_> =
                exact.into_iter().chain(all().filter(fits).filter(|_| exact.is_none())).collect();
            let option = match candidates[..] {
                [] => return Err(format!("nft: unrecognized option '{arg}'\n")),
                [only] => only,
                _ => {
                    let names: Vec<_> = candidates
                        .iter()
                        .filter_map(|o| o.long)
                        .map(|l| format!("'--{l}'"))
                        .collect();
                    return Err(format!(
                        "nft: option '{arg}' is ambiguous; possibilities: {}\n",
                        names.join(" ")
                    ));
                }
            };
            let long = option.long.unwrap_or_default();
            let argument = match (option.argument, value) {
                (None, Some(_)) => {
                    return Err(format!("nft: option '--{long}' doesn't allow an argument\n"));
                }
                (None, None) => String::new(),
                (Some(_), Some(value)) => value,
                (Some(_), None) => match rest.next() {
                    Some(value) => value.clone(),
                    None => return Err(format!("nft: option '--{long}' requires an argument\n")),
                },
            };
            given.push(Given { option, argument });
            continue;
        }
        for (at, letter) in name.char_indices() {
            let Some(option) = all().find(|o| o.short == Some(letter)) else {
                return Err(format!("nft: invalid option -- '{letter}'\n"));
            };
            if option.argument.is_none() {
                given.push(Given { option, argument: String::new() });
                continue;
            }
            let attached = &name[at + letter.len_utf8()..];
            let argument = if !attached.is_empty() {
                attached.to_owned()
            } else {
                match rest.next() {
                    Some(value) => value.clone(),
                    None => {
                        return Err(format!("nft: option requires an argument -- '{letter}'\n"));
                    }
                }
            };
            given.push(Given { option, argument });
            break;
        }
    }
    Ok((given, rest.cloned().collect()))
}

fn read(args: &[String]) -> Result<Parsed, String> {
    check_order(args)?;
    let (given, rest) = split(args)?;
    let mut options = Options { include_paths: vec!["/etc".into()], ..Options::default() };
    let mut file = None;
    let mut interactive = false;
    let mut state = State::None;
    let mut allow_exec = false;
    let (mut confirm, mut timeout) = (None, None);
    let (mut claims, mut diff) = (None, false);
    for Given { option, argument } in given {
        let format = &mut options.format;
        match (option.short, option.long) {
            (Some('h'), _) => return Ok(Parsed::Show(help())),
            (Some('v'), _) => return Ok(Parsed::Show(VERSION.into())),
            (Some('V'), _) => return Ok(Parsed::Show(format!("{VERSION}{BUILD}"))),
            (Some('f'), _) => file = Some(argument),
            (Some('D'), _) => match argument.split_once('=') {
                Some((name, value)) if is_name(name) => {
                    options.defines.push((name.into(), value.into()))
                }
                _ => return Err(format!("Failed to define variable '{argument}'\n")),
            },
            (Some('i'), _) => interactive = true,
            (Some('I'), _) => options.include_paths.push(argument),
            (_, Some("no-includepath")) => options.include_paths.clear(),
            (_, Some("json-input")) => options.json_input = true,
            (Some('c'), _) => options.check = true,
            (Some('o'), _) => options.optimize = true,
            (_, Some("allow-exec")) => allow_exec = true,
            (_, Some("confirm")) => confirm = Some(time(&argument)?),
            (_, Some("timeout")) => timeout = Some(time(&argument)?),
            (_, Some("claims")) => claims = Some(argument),
            (_, Some("diff")) => diff = true,
            (_, Some("lint")) => options.lint = true,
            (_, Some("offline")) => state = State::Offline,
            (_, Some("state")) => state = State::File(argument.into()),
            (Some('a'), _) => format.handles = true,
            (Some('s'), _) => format.stateless = true,
            (Some('t'), _) => format.terse = true,
            (Some('S'), _) => format.service_names = true,
            (Some('N'), _) => format.host_names = true,
            (Some('u'), _) => format.user_names = true,
            (Some('n'), _) => {
                format.numeric_symbols = true;
                format.numeric_priority = true;
                format.numeric_protocol = true;
                format.numeric_time = true;
            }
            (Some('y'), _) => format.numeric_priority = true,
            (Some('p'), _) => format.numeric_protocol = true,
            (Some('T'), _) => format.numeric_time = true,
            (_, Some("numeric-symbols")) => format.numeric_symbols = true,
            (_, Some("backend")) => format.backends = true,
            (_, Some("compat")) => {
                format.release = Release::of(&argument).ok_or_else(|| {
                    let known = Release::NAMES.join(", ");
                    format!("Unknown release '{argument}', expected one of {known}\n")
                })?;
            }
            (Some('e'), _) => options.echo = true,
            (Some('j'), _) => options.json = true,
            (Some('d'), _) => options.debug = debug(&argument)?,
            (short, long) => unreachable!("an option without meaning: {short:?} {long:?}"),
        }
    }
    if !options.defines.is_empty() && file.is_none() {
        return Err("Error: -D/--define can only be used with -f/--filename\n".into());
    }
    let source = if !rest.is_empty() {
        Source::Commands(rest.join(" "))
    } else if let Some(file) = file {
        Source::File(file)
    } else if interactive {
        Source::Interactive
    } else {
        return Err("nft: no command specified\n".into());
    };
    if timeout.is_some() && source != Source::Interactive {
        return Err(
            "Error: --timeout can only be used with -i/--interactive; --confirm with the others\n"
                .into(),
        );
    }
    let confirm = confirm.or(timeout);
    if confirm.is_some() && state != State::None {
        return Err("Error: --confirm and --timeout work on a dataplane only\n".into());
    }
    if diff && options.json {
        return Err("Error: --diff prints text, and -j/--json JSON\n".into());
    }
    let call = Call { options, source, state, allow_exec, confirm, claims, diff };
    Ok(Parsed::Run(Box::new(call)))
}

/// A time as nft writes it: `60s`, `5m`, or seconds.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("Error: `{text}' is not a time such as 60s or 5m\n");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match text.get(digits.len()..) {
        Some("" | "s") => number,
        Some("m") => number.saturating_mul(60),
        Some("h") => number.saturating_mul(3600),
        _ => return Err(wrong()),
    };
    match seconds {
        1..=86_400 => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong()),
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/'))
}

fn debug(levels: &str) -> Result<Debug, String> {
    let mut debug = Debug::default();
    for level in levels.split(',') {
        match level {
            "netlink" | "all" => debug.netlink = true,
            "scanner" | "parser" | "eval" | "mnl" | "proto-ctx" | "segtree" => {
                return Err(format!(
                    "Error: debug level `{level}' traces a part of nft that is not here; `netlink' is\n"
                ));
            }
            _ => return Err(format!("invalid debug parameter `{level}'\n")),
        }
    }
    Ok(debug)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn wrong_calls_are_refused_with_the_messages_of_nft() {
        for (line, message) in [
            (
                "list ruleset -a",
                "Error: syntax error, options must be specified before commands\nnft list ruleset -a \n   ^             ~~\n",
            ),
            ("-D x=1 list ruleset", "Error: -D/--define can only be used with -f/--filename\n"),
            ("", "nft: no command specified\n"),
            ("-x", "nft: invalid option -- 'x'\n"),
            ("--foo", "nft: unrecognized option '--foo'\n"),
            ("-f", "nft: option requires an argument -- 'f'\n"),
            ("-D x -f y", "Failed to define variable 'x'\n"),
            ("-d foo list ruleset", "invalid debug parameter `foo'\n"),
            (
                "--de=netlink list ruleset",
                "nft: option '--de=netlink' is ambiguous; possibilities: '--define' '--debug'\n",
            ),
        ] {
            match parse(&words(line)) {
                Parsed::Wrong(got) => assert_eq!(got, message, "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn options_are_read_in_every_form() {
        for line in [
            "-asc -f x --debug=netlink --offline -D a=1 -I /x",
            "-a -s -c -fx --debug netlink --offline --define a=1 --includepath=/x",
            "--handle --stateless --check --file x -dnetlink --off --def=a=1 --incl=/x",
        ] {
            let Parsed::Run(call) = parse(&words(line)) else { panic!("{line}") };
            let o = &call.options;
            assert!(o.format.handles && o.format.stateless && o.check && o.debug.netlink, "{line}");
            assert_eq!(o.defines, [("a".to_owned(), "1".to_owned())]);
            assert_eq!(o.include_paths, ["/etc", "/x"]);
            assert_eq!((&call.source, &call.state), (&Source::File("x".into()), &State::Offline));
        }
        let Parsed::Run(call) = parse(&words("--state /tmp/s list ruleset")) else { panic!() };
        assert_eq!(call.source, Source::Commands("list ruleset".into()));
        assert_eq!(call.state, State::File("/tmp/s".into()));
    }
}
