// SPDX-License-Identifier: Apache-2.0

//! The command line of `penstock feed`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value as Word};
use penstock_feeds::bgp::rib::Bounds;
use penstock_feeds::bgp::table::{BLACKHOLE, Settings};

use crate::options::{Opt, Values, flag, long};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 4] =
    [("", GENERAL), ("of lists and decisions", SOURCES), ("of BGP", BGP), ("of export", EXPORT)];

/// What can be a feed.
pub const WORDS: [&str; 5] = ["list", "crowdsec", "exabgp", "gobgp", "export"];

const GENERAL: &[Opt] = &[
    long("verify", "compare with what is there each SECONDS (60), and repair it")
        .takes("SECONDS", Values::Any),
    long("limit", "refuse more than N entries or routes (2000000)").takes("N", Values::Any),
    long("metrics", "write metrics to FILE after each change").takes("FILE", Values::Files),
    flag('v', "verbose", "say what is changed"),
    flag('h', "help", "print this text"),
];

const SOURCES: &[Opt] = &[
    long("set", "the set that is fed, such as \"inet filter blocked\"; may be given again")
        .takes("SET", Values::Any),
    long("interval", "read the source each SECONDS (3600; 10 for decisions)")
        .takes("SECONDS", Values::Any),
    long("once", "end when the elements are those of the list"),
    long("lenient", "pass over lines that are no entries"),
    long("allow-empty", "take a list without entries"),
    long("ca", "authorities to trust, in PEM, in place of the system's")
        .takes("FILE", Values::Files),
    long("key-file", "the key of the bouncer at CrowdSec's API").takes("FILE", Values::Files),
];

const BGP: &[Opt] = &[
    long("table", "the table of family inet that routes become (bgp)").takes("NAME", Values::Any),
    long("priority", "of its base chains (-450)").takes("N", Values::Any),
    long("device", "run them at ingress of DEVICE, not at prerouting; may be given again")
        .takes("DEVICE", Values::Any),
    long("community", "of routes to what is dropped, or to be exported (65535:666)")
        .takes("A:B", Values::Any),
    long("source-community", "of routes to sources whose packets are dropped (none)")
        .takes("A:B", Values::Any),
    long("stale", "keep routes of a peer that restarts for SECONDS at most (300)")
        .takes("SECONDS", Values::Any),
    long("inherit", "keep what another process has left for SECONDS (60)")
        .takes("SECONDS", Values::Any),
    long("keep", "leave the table as it is at SIGTERM"),
];

const EXPORT: &[Opt] = &[
    long("next-hop", "of announced routes; once for each family").takes("ADDRESS", Values::Any),
    flag('f', "follow", "go on, with what changes in the set"),
];

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// A list at an address or in a file becomes elements.
    List(String),
    /// Decisions at this address do.
    CrowdSec(String),
    /// Lines of ExaBGP become a table.
    ExaBgp,
    /// Lines of GoBGP do.
    GoBgp,
    /// Elements of a set become lines for ExaBGP.
    Export(String),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    pub job: Job,
    pub sets: Vec<String>,
    pub interval: Option<Duration>,
    pub verify: Duration,
    pub limit: usize,
    pub metrics: Option<PathBuf>,
    pub verbose: bool,
    pub once: bool,
    pub lenient: bool,
    pub allow_empty: bool,
    pub ca: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub bgp: Settings,
    pub bounds: Bounds,
    pub inherit: u64,
    pub keep: bool,
    pub next_hops: Vec<IpAddr>,
    pub follow: bool,
}

/// Which options a job has.
fn sections_of(job: &Job) -> &'static [&'static [Opt]] {
    match job {
        Job::List(_) | Job::CrowdSec(_) => &[GENERAL, SOURCES],
        Job::ExaBgp | Job::GoBgp => &[GENERAL, BGP],
        Job::Export(_) => &[EXPORT],
    }
}

/// Options of the sources that only one of the two has.
const OF_LISTS: [&str; 3] = ["once", "lenient", "allow-empty"];

/// Reads the arguments after the command's name; `None` if the usage text is asked for.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let sentence = |e: lexopt::Error| e.to_string();
    let (mut words, mut given) = (Vec::new(), Vec::new());
    let mut o = Options {
        job: Job::ExaBgp,
        sets: Vec::new(),
        interval: None,
        verify: Duration::from_secs(60),
        limit: 2_000_000,
        metrics: None,
        verbose: false,
        once: false,
        lenient: false,
        allow_empty: false,
        ca: None,
        key_file: None,
        bgp: Settings {
            table: "bgp".into(),
            priority: -450,
            devices: Vec::new(),
            communities: Vec::new(),
            source_communities: Vec::new(),
        },
        bounds: Bounds { routes: 0, stale: 300 },
        inherit: 60,
        keep: false,
        next_hops: Vec::new(),
        follow: false,
    };
    while let Some(arg) = parser.next().map_err(sentence)? {
        let name = match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('v') => "verbose".to_owned(),
            Short('f') => "follow".to_owned(),
            Long(name) => name.to_owned(),
            Word(word) => {
                words.push(word.to_string_lossy().into_owned());
                continue;
            }
            other => return Err(other.unexpected().to_string()),
        };
        let mut text = || -> Result<String, String> {
            let value = parser.value().map_err(sentence)?;
            value.into_string().map_err(|_| format!("--{name} is no text"))
        };
        match &*name {
            "verify" => o.verify = seconds(&text()?)?,
            "limit" => o.limit = number(&text()?)?,
            "metrics" => o.metrics = Some(text()?.into()),
            "verbose" => o.verbose = true,
            "set" => o.sets.push(set(&text()?)?),
            "interval" => o.interval = Some(seconds(&text()?)?),
            "once" => o.once = true,
            "lenient" => o.lenient = true,
            "allow-empty" => o.allow_empty = true,
            "ca" => o.ca = Some(text()?.into()),
            "key-file" => o.key_file = Some(text()?.into()),
            "table" => o.bgp.table = identifier(text()?)?,
            "priority" => o.bgp.priority = number(&text()?)?,
            "device" => o.bgp.devices.push(device(text()?)?),
            "community" => o.bgp.communities.push(community(&text()?)?),
            "source-community" => o.bgp.source_communities.push(community(&text()?)?),
            "stale" => o.bounds.stale = seconds(&text()?)?.as_secs(),
            "inherit" => o.inherit = number(&text()?)?,
            "keep" => o.keep = true,
            "next-hop" => {
                let text = text()?;
                o.next_hops.push(text.parse().map_err(|_| format!("`{text}` is no address"))?);
            }
            "follow" => o.follow = true,
            _ => return Err(format!("invalid option '--{name}'")),
        }
        given.push(name);
    }
    let mut words = words.into_iter();
    let what = words.next().ok_or_else(|| format!("one of {} is missing", WORDS.join(", ")))?;
    let mut operand = |of: &str| words.next().ok_or_else(|| format!("`{what}` of which {of}?"));
    o.job = match &*what {
        "list" => Job::List(operand("address or file")?),
        "crowdsec" => Job::CrowdSec(operand("address")?),
        "exabgp" => Job::ExaBgp,
        "gobgp" => Job::GoBgp,
        "export" => Job::Export(set(&operand("set")?)?),
        _ => return Err(format!("there is no feed `{what}`: {}", WORDS.join(", "))),
    };
    if let Some(more) = words.next() {
        return Err(format!("unexpected argument \"{more}\""));
    }
    check(o, &what, &given).map(Some)
}

/// Whether what is given goes together.
fn check(mut o: Options, what: &str, given: &[String]) -> Result<Options, String> {
    for name in given {
        let mut known = sections_of(&o.job).iter().flat_map(|options| options.iter());
        let is_other = match o.job {
            Job::List(_) => name == "key-file",
            Job::CrowdSec(_) => OF_LISTS.contains(&&**name),
            Job::Export(_) if name == "community" => continue,
            _ => false,
        };
        if is_other || !known.any(|option| option.long == Some(name)) {
            return Err(format!("--{name} is not for `{what}`"));
        }
    }
    match o.job {
        Job::List(_) | Job::CrowdSec(_) if o.sets.is_empty() => {
            return Err("--set says what is fed".into());
        }
        Job::CrowdSec(_) if o.key_file.is_none() => {
            return Err("--key-file has the key of the API".into());
        }
        Job::Export(_) if o.next_hops.is_empty() => {
            return Err("--next-hop says where routes lead".into());
        }
        _ => {}
    }
    if o.bgp.communities.is_empty() {
        o.bgp.communities.push(BLACKHOLE);
    }
    o.bounds.routes = o.limit;
    Ok(o)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number that is possible here"))
}

/// At least one second.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: u32 = number(text)?;
    if seconds == 0 {
        return Err("a time of 0 seconds is too short".into());
    }
    Ok(Duration::from_secs(seconds.into()))
}

/// Family, table and name of a set.
fn set(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [family, table, name] = words[..] else {
        return Err(format!(
            "`{text}` is no set: family, table and name, as in inet filter blocked"
        ));
    };
    if !["ip", "ip6", "inet", "arp", "bridge", "netdev"].contains(&family) {
        return Err(format!("`{family}` is no family of tables"));
    }
    let (table, name) = (identifier(table.to_owned())?, identifier(name.to_owned())?);
    Ok(format!("{family} {table} {name}"))
}

/// A name that needs no quotes in commands.
fn identifier(text: String) -> Result<String, String> {
    let mut chars = text.chars();
    let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    if begins && chars.all(|c| c.is_ascii_alphanumeric() || "_-./\\".contains(c)) {
        return Ok(text);
    }
    Err(format!("`{text}` is no name"))
}

fn device(text: String) -> Result<String, String> {
    let is_name = !text.is_empty()
        && text.len() < 16
        && text.chars().all(|c| c.is_ascii_graphic() && !"\"\\/{}".contains(c));
    if is_name { Ok(text) } else { Err(format!("`{text}` is no name of a device")) }
}

/// `65535:666`
fn community(text: &str) -> Result<u32, String> {
    let halves = text.split_once(':').and_then(|(system, value)| {
        let (system, value): (u16, u16) = (system.parse().ok()?, value.parse().ok()?);
        Some(u32::from(system) << 16 | u32::from(value))
    });
    halves.ok_or_else(|| format!("`{text}` is no community, such as 65535:666"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words = line.split(' ').filter(|w| !w.is_empty());
        let words = words.map(|word| OsString::from(word.replace('+', " ")));
        parse(words).map(|o| o.expect("it is no call for help"))
    }

    #[test]
    fn all_options_are_known() {
        let all = SECTIONS.iter().flat_map(|(_, options)| options.iter());
        crate::options::assert_known(all, |line| {
            parse(line.split(' ').map(OsString::from)).map(|_| ())
        });
    }

    #[test]
    fn calls_are_jobs() {
        let list = parsed("list https://x.example/l --set inet+filter+s --once").expect("a list");
        assert_eq!(list.job, Job::List("https://x.example/l".into()));
        assert_eq!((list.sets, list.once), (vec!["inet filter s".to_owned()], true));
        let bgp = parsed("exabgp --source-community 65001:100 --stale 9").expect("exabgp");
        assert_eq!(bgp.bgp.communities, [BLACKHOLE]);
        assert_eq!(bgp.bgp.source_communities, [65001 << 16 | 100]);
        assert_eq!((bgp.bounds.stale, bgp.bounds.routes), (9, 2_000_000));
        let export = parsed("export inet+t+s --next-hop 198.18.0.1 --community 1:2 -f");
        assert_eq!(export.expect("export").bgp.communities, [1 << 16 | 2]);
        for (line, message) in [
            ("", "one of list, crowdsec, exabgp, gobgp, export is missing"),
            ("frr", "there is no feed `frr`: list, crowdsec, exabgp, gobgp, export"),
            ("list", "`list` of which address or file?"),
            ("list f", "--set says what is fed"),
            ("list f g --set inet+t+s", "unexpected argument \"g\""),
            ("list f --set inet+t+s --table x", "--table is not for `list`"),
            ("list f --set inet+t+s --key-file x", "--key-file is not for `list`"),
            ("crowdsec u --set inet+t+s", "--key-file has the key of the API"),
            ("crowdsec u --set inet+t+s --key-file k --once", "--once is not for `crowdsec`"),
            ("exabgp --set inet+t+s", "--set is not for `exabgp`"),
            ("exabgp --verify 0", "a time of 0 seconds is too short"),
            ("exabgp --table a{b", "`a{b` is no name"),
            ("exabgp --device x\"y", "`x\"y` is no name of a device"),
            ("gobgp --community 65536:1", "`65536:1` is no community, such as 65535:666"),
            ("export inet+t+s", "--next-hop says where routes lead"),
            (
                "export inet+t",
                "`inet t` is no set: family, table and name, as in inet filter blocked",
            ),
            ("list f --set tcp+t+s", "`tcp` is no family of tables"),
        ] {
            assert_eq!(parsed(line).map(|_| ()), Err(message.to_owned()), "{line}");
        }
    }
}
