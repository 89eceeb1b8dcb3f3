// SPDX-License-Identifier: Apache-2.0

//! The command line of `penstock trace`.

use std::ffi::OsString;

use lexopt::Arg::{Long, Short, Value};

use crate::input::{Captures, Read, Source};
use crate::options::{Opt, Values, flag, long, usage_lines};
use crate::setup::{self, Setup, once, sentence};

use super::outcome::Fate;
use super::pretended::Pretended;

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (setup::TITLE, setup::OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("read", "captures, as for `penstock run`; the frames before the traced one pass first")
        .takes("[DEV=]FILE...", Values::Any),
    long("as-is", "all frames arrive as they are, as for `penstock run`"),
    long("frame", "number of the frame to trace; the first is 1").takes("N", Values::Any),
    long(
        "live",
        "take the rules of the running dataplane, and the network of this namespace: the packet is traced\n\
         beside the dataplane, and changes nothing there",
    ),
    long(
        "ct",
        "pretend that the packet belongs to a connection that is: established (its original direction),\n\
         reply (established, the other direction), or related (its first packet)",
    )
    .takes("STATE", Values::OneOf(&["established", "reply", "related"])),
    long(
        "expect",
        "exit with 1 if the packet ends otherwise: accept (it is sent or delivered) or drop",
    )
    .takes("FATE", Values::OneOf(&["accept", "drop"])),
    flag('h', "help", "print this text"),
];

/// What `--help` prints, and what follows a usage error.
pub fn usage() -> String {
    format!(
        "Usage: penstock trace --net NET --rules RULES DEV MATCH\n\
         \x20      penstock trace --live DEV MATCH\n\
         \x20      penstock trace [--net NET] --rules RULES --read [DEV=]FILE... --frame N\n\n\
         Sends one packet through a ruleset. Prints each rule that the packet meets, as `nft monitor trace`\n\
         does, and what happens to the packet.\n\n\
         DEV is the device that the packet arrives on, `host` for a packet that the host sends, `host:DEV`\n\
         for a raw frame that it sends. MATCH describes the packet in the words of a rule that matches it:\n\n\
         \x20   penstock trace --net net.ip --rules rules.nft lan ip saddr 198.18.0.5 ip daddr 198.19.0.9 tcp dport 443\n\n\
         {}:\n{}\nOptions:\n{}",
        setup::TITLE,
        usage_lines(setup::OPTIONS, 21),
        usage_lines(OPTIONS, 21)
    )
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub setup: Setup,
    pub wanted: Wanted,
    /// What is to become of the packet.
    pub expected: Option<Fate>,
    /// Rules and network are those of the running dataplane.
    pub live: bool,
    /// The connection that the packet is said to belong to.
    pub pretended: Option<Pretended>,
}

/// Which packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One that matches.
    Match {
        source: Source,
        text: String,
    },
    /// A frame of captures, by its number from 1.
    Frame {
        captures: Captures,
        number: u64,
    },
    Help,
}

/// Reads the arguments after `trace`. The error is a sentence for the user.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Asked, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut setup = Setup::default();
    let (mut captures, mut frame, mut words) = (Captures::default(), None, Vec::new());
    let (mut expected, mut live, mut pretended) = (None, false, None);
    while let Some(arg) = parser.next().map_err(sentence)? {
        let name = match arg {
            Long(name) => name.to_owned(),
            Short('h') => "help".to_owned(),
            Value(word) => {
                let word =
                    word.into_string().map_err(|w| format!("`{}` is not text", w.display()))?;
                words.push(word);
                continue;
            }
            other @ Short(_) => return Err(sentence(other.unexpected())),
        };
        if setup.take(&name, &mut parser)? {
            continue;
        }
        match &*name {
            "read" => {
                for value in parser.values().map_err(sentence)? {
                    captures.reads.push(Read::parse(&value)?);
                }
            }
            "live" => live = true,
            "ct" => {
                let value = parser.value().map_err(sentence)?;
                let state = value.to_str().and_then(Pretended::of).ok_or_else(|| {
                    let value = value.display();
                    format!("--ct takes established, reply or related, not `{value}`")
                })?;
                once(&mut pretended, "--ct", state)?;
            }
            "as-is" => captures.as_is = true,
            "frame" => {
                let value = parser.value().map_err(sentence)?;
                let number = value.to_str().and_then(|v| v.parse().ok()).filter(|n| *n > 0);
                let wrong =
                    || format!("--frame takes a number from 1 on, not `{}`", value.display());
                once(&mut frame, "--frame", number.ok_or_else(wrong)?)?;
            }
            "expect" => {
                let value = parser.value().map_err(sentence)?;
                let fate = match value.to_str() {
                    Some("accept") => Fate::Accepted,
                    Some("drop") => Fate::Dropped,
                    _ => {
                        let value = value.display();
                        return Err(format!("--expect takes accept or drop, not `{value}`"));
                    }
                };
                once(&mut expected, "--expect", fate)?;
            }
            "help" => {
                return Ok(Asked { setup, wanted: Wanted::Help, expected, live, pretended });
            }
            _ => return Err(format!("invalid option '--{name}'")),
        }
    }
    if live {
        setup.take_live()?;
    }
    setup.check(&captures)?;
    if pretended.is_some() && !captures.reads.is_empty() {
        return Err("--ct is for a packet that is described; frames of captures have theirs".into());
    }
    let wanted = match (captures.reads.is_empty(), frame, words.split_first()) {
        (true, None, Some((source, [first, rest @ ..]))) => {
            let source =
                Source::parse(source).ok_or_else(|| format!("`{source}` is not a device"))?;
            Wanted::Match {
                source,
                text: rest.iter().fold(first.clone(), |text, word| text + " " + word),
            }
        }
        (true, None, _) => return Err("a device and a packet are missing".to_owned()),
        (_, _, Some((word, _))) => return Err(format!("unexpected argument `{word}`")),
        (false, Some(number), None) => Wanted::Frame { captures, number },
        (false, None, None) => return Err("--frame is missing".to_owned()),
        (true, Some(_), None) => return Err("--read is missing".to_owned()),
    };
    Ok(Asked { setup, wanted, expected, live, pretended })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::assert_known;

    #[test]
    fn wrong_command_lines_are_refused_with_a_message() {
        for (line, message) in [
            ("lan tcp dport 80", "--net is missing"),
            ("--net n --rules r", "a device and a packet are missing"),
            ("--net n --rules r lan", "a device and a packet are missing"),
            ("--net n --rules r --frame 0", "--frame takes a number from 1 on, not `0`"),
            ("--net n --rules r --frame 3", "--read is missing"),
            ("--net n --rules r --read a=b", "--frame is missing"),
            ("--net n --rules r --frame 3 lan tcp", "unexpected argument `lan`"),
            ("--net n --rules r host: tcp", "`host:` is not a device"),
            ("--expect deny", "--expect takes accept or drop, not `deny`"),
            (
                "--live --net n lan tcp",
                "--live has the network and the rules: no --net, --rules or --state",
            ),
            ("--ct new", "--ct takes established, reply or related, not `new`"),
            (
                "--live --ct reply --read a=b --frame 1",
                "--ct is for a packet that is described; frames of captures have theirs",
            ),
            ("--speed", "invalid option '--speed'"),
        ] {
            let parsed = parse(line.split_whitespace().map(OsString::from));
            assert_eq!(parsed, Err(message.to_owned()), "{line}");
        }
    }

    #[test]
    fn every_option_in_the_usage_text_is_accepted() {
        assert_known(OPTIONS.iter().chain(setup::OPTIONS), |line| {
            parse(line.split_whitespace().map(OsString::from))
        });
    }
}
