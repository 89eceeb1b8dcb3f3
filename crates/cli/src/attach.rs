// SPDX-License-Identifier: Apache-2.0

//! `penstock attach`: a ruleset in the kernel, as BPF programs at its hooks and devices.

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{AttachConfig, Config, Ingress};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use crate::up;
use crate::up::settings::{Form, Given, SETTINGS, Setting};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", &OPTIONS)];

/// Settings of a dataplane that an attached ruleset has, too.
const SHARED: [&str; 15] = [
    "rules",
    "claims",
    "state",
    "state-broken",
    "rules-first",
    "metrics",
    "batch-time",
    "batch-memory",
    "seccomp",
    "no-seccomp",
    "persist",
    "allow-read",
    "rule-log",
    "rule-log-size",
    "rule-log-files",
];

const PERSIST: Opt = long(
    "persist",
    "leave the programs in the kernel when the process ends, until `penstock detach`; DIR is in a file system\n\
     of type bpf",
)
.takes("DIR", Values::Directories);

const PARTIAL: Opt = long(
    "partial",
    "leave out chains that have something without BPF code, and say which (`penstock show`); without it the\n\
     ruleset is refused",
);

const WITH_KERNEL: Opt = long(
    "with-kernel",
    "chains that have something without BPF code run in the kernel's nf_tables (`penstock show`); without it\n\
     the ruleset is refused",
);

const TRANSLATE: Opt = long(
    "translate",
    "chains at several priorities of a hook become one program, at the priority of the first, if the kernel\n\
     does nothing of its own between them",
);

const OPTIONS: [Opt; SHARED.len() + 4] = {
    let mut all = [flag('h', "help", "print this text"); SHARED.len() + 4];
    all[SHARED.len()] = PARTIAL;
    all[SHARED.len() + 1] = WITH_KERNEL;
    all[SHARED.len() + 2] = TRANSLATE;
    let mut at = 0;
    while at < SHARED.len() {
        all[at] = if same(SHARED[at], "persist") { PERSIST } else { option(SHARED[at]) };
        at += 1;
    }
    all
};

/// Whether two names are equal.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The option of a setting.
const fn option(name: &str) -> Opt {
    let mut at = 0;
    loop {
        if let Some(long) = SETTINGS[at].option.long
            && same(long, name)
        {
            return SETTINGS[at].option;
        }
        at += 1;
    }
}

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock attach --rules FILE [DEV[=PLACE]]... [OPTIONS]\n\n\
         Runs a ruleset in the kernel of this network namespace: chains at ingress of a device in XDP or at tcx,\n\
         chains at egress at tcx, chains at hooks of ip, ip6 and inet tables at these hooks. Devices stay what they\n\
         are. `penstock nft` lists and changes the ruleset. Runs until `penstock detach`, SIGTERM or SIGINT.\n\n\
         With devices, the ruleset may name no others. PLACE says where chains at ingress of the device run: xdp\n\
         (in the driver), xdp-generic, or tcx; without it, in the driver if it can and need not cut super-packets\n\
         for it, and if XDP has all that the rules ask for, else at tcx.\n\n",
    );
    out.push_str(&usage_lines(&OPTIONS, 23));
    out
}

/// A device, `DEV` or `DEV=PLACE`.
fn device(text: &str) -> Result<(String, Ingress), String> {
    let (name, place) = text.split_once('=').unwrap_or((text, "auto"));
    if name.is_empty() {
        return Err(format!("`{text}` is not DEV or DEV=PLACE"));
    }
    let known = Ingress::NAMES.iter().find(|(word, _)| *word == place);
    let (_, place) = known.ok_or_else(|| format!("{text}: there is no place `{place}`"))?;
    Ok((name.to_owned(), *place))
}

/// What is asked for; `None` if help is.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Config>, String> {
    let mut taken = Given::default();
    let mut attach = AttachConfig::default();
    let (mut rules, mut state) = (false, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("partial") => attach.partial = true,
            Long("with-kernel") => attach.with_kernel = true,
            Long("translate") => attach.translate = true,
            Long(name) => {
                let setting = Setting::of(name).filter(|s| SHARED.contains(&s.name()));
                let Some(setting) = setting else {
                    return Err(sentence(Long(name).unexpected()));
                };
                rules |= setting.name() == "rules";
                state |= setting.name() == "state";
                let text = match setting.form {
                    Form::Flag => OsString::new(),
                    Form::One | Form::Several => parser.value().map_err(sentence)?,
                };
                let wrong = |e| format!("--{}{e}", setting.name());
                taken.take(setting, &text.to_string_lossy()).map_err(wrong)?;
            }
            Value(value) => {
                let (name, place) = device(&value.to_string_lossy())?;
                if attach.devices.iter().any(|(other, _)| *other == name) {
                    return Err(format!("`{name}` is given twice"));
                }
                attach.devices.push((name, place));
            }
            other @ Short(_) => return Err(sentence(other.unexpected())),
        }
    }
    if attach.partial && attach.with_kernel {
        return Err("--partial and --with-kernel exclude each other".into());
    }
    if !rules && !state {
        return Err("no ruleset is given (--rules or --state)".into());
    }
    taken.attached(attach).map(Some)
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("attach", parse(args), usage) {
        Ok(config) => up::begin(config),
        Err(status) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<AttachConfig, String> {
        let config = parse(line.split(' ').map(OsString::from))?.ok_or("help")?;
        config.attach.ok_or_else(|| "ports".into())
    }

    #[test]
    fn the_parser_knows_all_options() {
        crate::options::assert_known(OPTIONS.iter(), parsed);
    }

    #[test]
    fn devices_have_places() {
        let given = parsed("--rules f wan=tcx lan dmz=xdp-generic");
        let devices = [("wan", Ingress::Tcx), ("lan", Ingress::Auto), ("dmz", Ingress::XdpGeneric)];
        let devices = devices.map(|(name, place)| (name.to_owned(), place)).to_vec();
        let expected = AttachConfig { devices, ..AttachConfig::default() };
        assert_eq!(given, Ok(expected));
        assert!(parsed("--rules f --with-kernel").is_ok_and(|given| given.with_kernel));
        assert!(parsed("--rules f --partial").is_ok_and(|given| given.partial));
        for (line, message) in [
            ("wan", "no ruleset is given (--rules or --state)"),
            ("--rules f --partial --with-kernel", "--partial and --with-kernel exclude each other"),
            ("--rules f wan wan=xdp", "`wan` is given twice"),
            ("--rules f wan=tc", "wan=tc: there is no place `tc`"),
            ("--rules f =tcx", "`=tcx` is not DEV or DEV=PLACE"),
            ("--rules f --driver xdp", "invalid option '--driver'"),
        ] {
            assert_eq!(parsed(line), Err(message.to_owned()), "{line}");
        }
    }
}
