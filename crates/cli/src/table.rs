// SPDX-License-Identifier: Apache-2.0

//! `penstock conntrack` and `penstock flows`: connections of the running dataplane.

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::control::protocol::Message;
use penstock_daemon::control::{ConnectionTable, TableCall};

use crate::dataplane::ask;
use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options of both.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

/// What can be done with connections, and with flows.
pub const WORDS: [&str; 5] = ["list", "delete", "flush", "events", "count"];

const fn short(short: char, name: &'static str, argument: &'static str, help: &'static str) -> Opt {
    flag(short, name, help).takes(argument, Values::Any)
}

const OPTIONS: &[Opt] = &[
    short('p', "proto", "PROTOCOL", "of this protocol: a name or a number"),
    short('f', "family", "ipv4|ipv6", "of this family"),
    short('s', "src", "ADDRESS[/BITS]", "with this source of the original direction"),
    short('d', "dst", "ADDRESS[/BITS]", "with this destination of the original direction"),
    short('r', "reply-src", "ADDRESS[/BITS]", "with this source of the reply direction"),
    short('q', "reply-dst", "ADDRESS[/BITS]", "with this destination of the reply direction"),
    long("sport", "with this source port of the original direction").takes("PORT", Values::Any),
    long("dport", "with this destination port of the original direction")
        .takes("PORT", Values::Any),
    long("reply-port-src", "with this source port of the reply direction")
        .takes("PORT", Values::Any),
    long("reply-port-dst", "with this destination port of the reply direction")
        .takes("PORT", Values::Any),
    long("icmp-type", "with this type of ICMP").takes("N", Values::Any),
    long("icmp-code", "with this code of ICMP").takes("N", Values::Any),
    long("state", "in this state of TCP, SCTP or DCCP").takes("STATE", Values::Any),
    short(
        'u',
        "status",
        "STATUS,...",
        "with these: ASSURED, SEEN_REPLY, UNREPLIED, OFFLOAD and so on",
    ),
    short('m', "mark", "MARK[/MASK]", "with this mark"),
    short('l', "label", "BIT", "with this label"),
    short('w', "zone", "N", "in this zone"),
    long("orig-zone", "with this zone of the original direction").takes("N", Values::Any),
    long("reply-zone", "with this zone of the reply direction").takes("N", Values::Any),
    flag('n', "src-nat", "with a translated source"),
    flag('g', "dst-nat", "with a translated destination"),
    flag('j', "any-nat", "with a translated address"),
    short('e', "event-mask", "KIND,...", "events of these kinds: NEW, UPDATES, DESTROY"),
    short('o', "output", "FORM,...", "extended, id, labels, ktimestamp"),
    long("json", "print JSON; events as one object a line"),
    flag('h', "help", "print this text"),
];

fn usage(table: ConnectionTable) -> String {
    let mut out = String::from(match table {
        ConnectionTable::Connections => {
            "Usage: penstock conntrack [list | delete | flush | events | count] [OPTIONS]\n\n\
             Lists connections of the running dataplane as `conntrack -L` does, removes those that are chosen\n\
             (-D), or all of them (-F), tells of what happens to them (-E), or counts them (-C).\n\n\
             Connections are chosen as by conntrack(8):\n\n"
        }
        ConnectionTable::Flows => {
            "Usage: penstock flows [list | delete | flush | events | count] [OPTIONS]\n\n\
             Lists flows in flowtables of the running dataplane, and connections that were to be there; gives\n\
             those that are chosen, or all of them, back to connection tracking, so that their packets pass\n\
             the rules again; tells of flows that are added, offloaded to a device, removed; or counts them.\n\n\
             Flows are chosen by their connections, as by conntrack(8):\n\n"
        }
    });
    out.push_str(&usage_lines(OPTIONS, 29));
    out
}

fn parse(
    table: ConnectionTable,
    args: impl Iterator<Item = OsString>,
) -> Result<Option<Message>, String> {
    let words: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return Ok(None);
    }
    TableCall::parse(table, &words)?;
    Ok(Some(match table {
        ConnectionTable::Connections => Message::Conntrack(words),
        ConnectionTable::Flows => Message::Flows(words),
    }))
}

fn run(name: &str, table: ConnectionTable, args: impl Iterator<Item = OsString>) -> ExitCode {
    match given(name, parse(table, args), || usage(table)) {
        Ok(message) => ask(&message),
        Err(status) => status,
    }
}

/// Runs `penstock conntrack` with the arguments after its name.
pub fn conntrack(args: impl Iterator<Item = OsString>) -> ExitCode {
    run("conntrack", ConnectionTable::Connections, args)
}

/// Runs `penstock flows` with the arguments after its name.
pub fn flows(args: impl Iterator<Item = OsString>) -> ExitCode {
    run("flows", ConnectionTable::Flows, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known() {
        for option in OPTIONS.iter().filter(|option| option.short != Some('h')) {
            for name in option.names() {
                let words = match option.argument {
                    None => vec![name.clone()],
                    Some(_) => vec![name.clone(), "1".to_owned()],
                };
                let said = TableCall::parse(ConnectionTable::Connections, &words);
                let said = said.err().unwrap_or_default();
                assert!(!said.contains("unknown option"), "{name}: {said}");
            }
        }
    }
}
