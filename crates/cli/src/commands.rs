// SPDX-License-Identifier: Apache-2.0

//! The commands of the program: the table that finds them, and that usage, completion and manual
//! pages are made of.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::command::Command;
use crate::completion::Table;
use crate::options::{Opt, Values, flag};
use crate::{
    agent, ask, attach, bench, bpf, capture, check, completion, confirm, cover, detach, diff, down,
    draw, exec, failover, feed, fleet, monitor, net, nft, port, prove, run, show, table, test, top,
    trace, translate, up, web,
};

/// All commands.
pub const COMMANDS: [Command; 34] = [
    Command {
        name: "nft",
        about: "nft(8) on the ruleset of the dataplane, of a file, or of this process",
        sections: &nft::options::SECTIONS,
        operands: Values::OneOf(&[
            "add", "create", "insert", "replace", "delete", "list", "flush", "reset", "rename",
            "get", "describe", "monitor",
        ]),
        main: |args| nft::main(args),
    },
    Command {
        name: "run",
        about: "run captures through a ruleset; report frames, verdicts and counters",
        sections: &run::options::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| run::main(args),
    },
    Command {
        name: "trace",
        about: "show what a ruleset does with one packet, rule by rule",
        sections: &trace::options::SECTIONS,
        operands: Values::Any,
        main: |args| trace::main(args),
    },
    Command {
        name: "test",
        about: "run tests of a ruleset: packets, and what is to become of them",
        sections: &test::options::SECTIONS,
        operands: Values::Files,
        main: |args| test::main(args),
    },
    Command {
        name: "diff",
        about: "show for which packets a change of a ruleset matters, and how",
        sections: &diff::SECTIONS,
        operands: Values::Files,
        main: |args| diff::main(args),
    },
    Command {
        name: "prove",
        about: "prove of a ruleset what is claimed of all packets, or show one that refutes it",
        sections: &prove::SECTIONS,
        operands: Values::Files,
        main: |args| prove::main(args),
    },
    Command {
        name: "ask",
        about: "show what becomes of all packets that matches are about",
        sections: &ask::SECTIONS,
        operands: Values::Any,
        main: |args| ask::main(args),
    },
    Command {
        name: "cover",
        about: "find packets that meet every rule, and the rules that none can meet",
        sections: &cover::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| cover::main(args),
    },
    Command {
        name: "draw",
        about: "draw hooks, chains and jumps of a ruleset as SVG",
        sections: &draw::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| draw::main(args),
    },
    Command {
        name: "translate",
        about: "print rules of iptables and sets of ipset as a ruleset of nft",
        sections: &translate::SECTIONS,
        operands: Values::Files,
        main: |args| translate::main(args),
    },
    Command {
        name: "net",
        about: "print the network of a host as lines for --net",
        sections: &net::SECTIONS,
        operands: Values::OneOf(&net::WORDS),
        main: |args| net::main(args),
    },
    Command {
        name: "up",
        about: "start the dataplane of this network namespace on devices",
        sections: &up::SECTIONS,
        operands: Values::Any,
        main: |args| up::main(args),
    },
    Command {
        name: "check",
        about: "check a configuration file of the dataplane",
        sections: &check::SECTIONS,
        operands: Values::Files,
        main: |args| check::main(args),
    },
    Command {
        name: "port",
        about: "add ports to the running dataplane, remove them, list them",
        sections: &port::SECTIONS,
        operands: Values::OneOf(&port::WORDS),
        main: |args| port::main(args),
    },
    Command {
        name: "show",
        about: "show the state of the dataplane: ports, drops, connections, flows",
        sections: &show::SECTIONS,
        operands: Values::OneOf(&penstock_print::show::WORDS),
        main: |args| show::main(args),
    },
    Command {
        name: "conntrack",
        about: "list, delete, flush or watch connections of the dataplane",
        sections: &table::SECTIONS,
        operands: Values::OneOf(&table::WORDS),
        main: |args| table::conntrack(args),
    },
    Command {
        name: "flows",
        about: "list or watch flows in flowtables, or give them back to connection tracking",
        sections: &table::SECTIONS,
        operands: Values::OneOf(&table::WORDS),
        main: |args| table::flows(args),
    },
    Command {
        name: "failover",
        about: "tell a firewall of a pair that it is primary or backup, or show its peer",
        sections: &failover::SECTIONS,
        operands: Values::OneOf(&failover::WORDS),
        main: |args| failover::main(args),
    },
    Command {
        name: "feed",
        about: "keep sets and rules as block lists, CrowdSec or BGP have them; announce sets",
        sections: &feed::options::SECTIONS,
        operands: Values::OneOf(&feed::options::WORDS),
        main: |args| feed::main(args),
    },
    Command {
        name: "fleet",
        about: "publish rulesets for many nodes; show what became of them",
        sections: &fleet::options::SECTIONS,
        operands: Values::OneOf(&fleet::options::WORDS),
        main: |args| fleet::main(args),
    },
    Command {
        name: "agent",
        about: "keep the dataplane on what a fleet has published",
        sections: &agent::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| agent::main(args),
    },
    Command {
        name: "confirm",
        about: "confirm a change, so that it is not rolled back",
        sections: &confirm::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| confirm::main(args),
    },
    Command {
        name: "down",
        about: "stop the dataplane and give its devices back",
        sections: &down::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| down::main(args),
    },
    Command {
        name: "attach",
        about: "run a ruleset in the kernel: chains become BPF programs at its hooks and devices",
        sections: &attach::SECTIONS,
        operands: Values::Any,
        main: |args| attach::main(args),
    },
    Command {
        name: "detach",
        about: "take the attached ruleset away",
        sections: &detach::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| detach::main(args),
    },
    Command {
        name: "bpf",
        about: "attach BPF programs to hooks of the dataplane; list them and their maps",
        sections: &bpf::SECTIONS,
        operands: Values::OneOf(&bpf::WORDS),
        main: |args| bpf::main(args),
    },
    Command {
        name: "bench",
        about: "measure the packet path in memory",
        sections: &bench::SECTIONS,
        operands: Values::OneOf(&bench::NAMES),
        main: |args| bench::main(args),
    },
    Command {
        name: "completion",
        about: "print a script that completes commands and options in a shell",
        sections: &completion::SECTIONS,
        operands: Values::OneOf(&completion::SHELLS),
        main: complete,
    },
    Command {
        name: "capture",
        about: "write the packets that pass a hook of the dataplane to a pcapng file",
        sections: &capture::SECTIONS,
        operands: Values::Any,
        main: |args| capture::main(args),
    },
    Command {
        name: "top",
        about: "show rates of the dataplane: ports, rules, flows, drops",
        sections: &top::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| top::main(args),
    },
    Command {
        name: "web",
        about: "serve a page about the dataplane to a browser on this machine",
        sections: &web::SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| web::main(args),
    },
    Command {
        name: "monitor",
        about: "print changes of the ruleset, or packet traces, as they happen",
        sections: &monitor::SECTIONS,
        operands: monitor::WATCHED,
        main: |args| monitor::main(args),
    },
    Command {
        name: "exec",
        about: "run a program that speaks to the kernel's netfilter on the ruleset of a file",
        sections: &exec::SECTIONS,
        operands: Values::Files,
        main: |args| exec::main(args),
    },
    Command {
        name: "shell",
        about: "start a shell whose programs run as with exec",
        sections: &exec::SHELL_SECTIONS,
        operands: Values::OneOf(&[]),
        main: |args| exec::shell(args),
    },
];

fn complete(args: &mut dyn Iterator<Item = OsString>) -> ExitCode {
    completion::main(args, Table { commands: &COMMANDS, options: &OPTIONS })
}

/// Options that may be given instead of a command.
pub const OPTIONS: [Opt; 2] =
    [flag('h', "help", "print this text"), flag('V', "version", "print the version")];

/// The usage text of the program.
pub fn usage() -> String {
    let mut out = String::from("Usage: penstock COMMAND [OPTIONS]\n\nCommands:\n");
    for command in &COMMANDS {
        out.push_str(&format!("  {:<11} {}\n", command.name, command.about));
    }
    out.push_str("\nOptions:\n");
    for option in &OPTIONS {
        out.push_str(&format!(
            "  {:<13}  {}\n",
            option.names().collect::<Vec<_>>().join(", "),
            option.help
        ));
    }
    out.push_str("\n`penstock COMMAND --help` prints the options of a command.\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What mdoc(7) writes for an option at the head of an item.
    fn item(option: &Opt) -> String {
        let short = option.short.map(|c| format!("Fl {c}"));
        let long = option.long.map(|l| format!("Fl -{l}"));
        let names: Vec<String> = short.into_iter().chain(long).collect();
        let argument = option.argument.map_or(String::new(), |a| {
            format!(" Ar {}", a.name.trim_start_matches('<').trim_end_matches('>').replace(' ', ""))
        });
        format!(".It {}{argument}", names.join(" , "))
    }

    #[test]
    fn manual_and_option_tables_agree() {
        let own = include_str!("../../../man/penstock.8");
        let mut pages = vec![("penstock", own, OPTIONS.iter().collect::<Vec<_>>())];
        for (name, text) in [
            ("nft", include_str!("../../../man/penstock-nft.8")),
            ("run", include_str!("../../../man/penstock-run.1")),
            ("trace", include_str!("../../../man/penstock-trace.1")),
            ("draw", include_str!("../../../man/penstock-draw.1")),
            ("translate", include_str!("../../../man/penstock-translate.1")),
            ("net", include_str!("../../../man/penstock-net.1")),
            ("bench", include_str!("../../../man/penstock-bench.1")),
            ("up", include_str!("../../../man/penstock-up.8")),
            ("attach", include_str!("../../../man/penstock-attach.8")),
            ("conntrack", include_str!("../../../man/penstock-conntrack.8")),
            ("port", include_str!("../../../man/penstock-port.8")),
            ("failover", include_str!("../../../man/penstock-failover.8")),
            ("feed", include_str!("../../../man/penstock-feed.8")),
            ("fleet", include_str!("../../../man/penstock-fleet.8")),
            ("agent", include_str!("../../../man/penstock-agent.8")),
            ("check", include_str!("../../../man/penstock-check.8")),
            ("show", include_str!("../../../man/penstock-show.8")),
            ("capture", include_str!("../../../man/penstock-capture.8")),
            ("web", include_str!("../../../man/penstock-web.8")),
            ("top", include_str!("../../../man/penstock-top.8")),
            ("exec", include_str!("../../../man/penstock-exec.1")),
            ("test", include_str!("../../../man/penstock-test.1")),
            ("diff", include_str!("../../../man/penstock-diff.1")),
            ("prove", include_str!("../../../man/penstock-prove.1")),
            ("ask", include_str!("../../../man/penstock-ask.1")),
            ("cover", include_str!("../../../man/penstock-cover.1")),
        ] {
            let command = COMMANDS.iter().find(|c| c.name == name).expect(name);
            pages.push((name, text, command.options().collect()));
        }
        for (page, text, options) in pages {
            let mut expected: Vec<String> = options.into_iter().map(item).collect();
            let mut items: Vec<String> =
                text.lines().filter(|l| l.starts_with(".It Fl")).map(str::to_owned).collect();
            expected.sort();
            items.sort();
            assert_eq!(items, expected, "{page}");
        }
        for command in &COMMANDS {
            assert!(
                own.lines().any(|l| l.starts_with(&format!(".It Cm {}", command.name))),
                "{}",
                command.name
            );
        }
    }

    #[test]
    fn option_names_are_unique() {
        for command in &COMMANDS {
            let mut names: Vec<String> = command.options().flat_map(Opt::names).collect();
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "{}", command.name);
        }
    }
}
