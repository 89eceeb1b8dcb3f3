// SPDX-License-Identifier: Apache-2.0

//! `penstock bpf`: BPF programs at hooks of the dataplane, and their maps.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use penstock_daemon::bpf::Attach;
use penstock_daemon::control::bpf_call::BpfCall;
use penstock_daemon::control::protocol::Message;
use penstock_daemon::errln;

use crate::dataplane::ask;
use crate::options::{Opt, flag, given, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];
/// What can be asked for.
pub const WORDS: [&str; 4] = ["attach", "detach", "show", "map"];

const OPTIONS: &[Opt] = &[flag('j', "json", "list as JSON"), flag('h', "help", "print this text")];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock bpf attach HOOK=FILE[:PROGRAM]\n       \
         penstock bpf detach HOOK | id ID\n       \
         penstock bpf show [--json]\n       \
         penstock bpf map dump [MAP]\n       \
         penstock bpf map update MAP KEY VALUE\n\n\
         Attaches BPF programs to hooks of the dataplane of this network namespace: `xdp:DEV`, `tc-ingress:DEV`,\n\
         `tc-egress:DEV`, or `[FAMILY:]HOOK[@PRIORITY]` of ip and ip6. Lists programs, those of chains too, and the\n\
         elements of their maps; keys and values are bytes in hexadecimal.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 12));
    out
}

/// What is asked for; the object is still to be read.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Attach(Attach),
    Call(BpfCall),
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let (mut words, mut json) = (Vec::new(), false);
    for arg in args {
        match arg.to_str() {
            Some("-j" | "--json") => json = true,
            Some("-h" | "--help") => return Ok(None),
            Some(option) if option.starts_with('-') => {
                return Err(format!("unexpected argument `{option}`"));
            }
            _ => words.push(arg),
        }
    }
    let texts: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    if json && texts != ["show"] {
        return Err("--json is for `show`".into());
    }
    let text = |word: &str| word.to_owned();
    let call = match texts[..] {
        ["attach", _] => {
            let attach = Attach::parse(&words[1]);
            return attach.map(|attach| Some(Asked::Attach(attach))).map_err(|why| {
                why.strip_prefix("--bpf").map_or(why.clone(), |rest| format!("attach{rest}"))
            });
        }
        ["detach", "id", id] => {
            let id = id.parse().map_err(|_| format!("`{id}` is not the number of a program"))?;
            BpfCall::DetachId(id)
        }
        ["detach", hook] => BpfCall::Detach { hook: text(hook) },
        ["show"] => BpfCall::Show { json },
        ["map", "dump"] => BpfCall::Dump { map: None },
        ["map", "dump", map] => BpfCall::Dump { map: Some(text(map)) },
        ["map", "update", map, key, value] => BpfCall::Update(format!("{map} {key} {value}")),
        [] => return Err("attach, detach, show or map is missing".into()),
        _ => return Err(format!("`{}` is not understood", texts.join(" "))),
    };
    Ok(Some(Asked::Call(call)))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("bpf", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    let call = match asked {
        Asked::Call(call) => call,
        Asked::Attach(attach) => match read(attach) {
            Ok(call) => call,
            Err(message) => {
                errln!("Error: {message}");
                return ExitCode::FAILURE;
            }
        },
    };
    ask(&Message::Bpf(call))
}

fn read(attach: Attach) -> Result<BpfCall, String> {
    let Attach { place, file, program } = attach;
    let object = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    // As others see it, who do not know this directory.
    let file: PathBuf = std::path::absolute(&file).unwrap_or(file);
    let file = file.display().to_string();
    Ok(BpfCall::Attach { hook: place.to_string(), file, program, object })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Result<Option<Asked>, String> {
        parse(line.split(' ').filter(|word| !word.is_empty()).map(OsString::from))
    }

    #[test]
    fn commands_are_read() {
        let is = |call| Ok(Some(Asked::Call(call)));
        assert_eq!(call("show -j"), is(BpfCall::Show { json: true }));
        assert_eq!(call("detach id 7"), is(BpfCall::DetachId(7)));
        assert_eq!(call("detach xdp:lan"), is(BpfCall::Detach { hook: "xdp:lan".into() }));
        assert_eq!(call("map dump"), is(BpfCall::Dump { map: None }));
        assert_eq!(call("map update m 00 01"), is(BpfCall::Update("m 00 01".into())));
        let Ok(Some(Asked::Attach(attach))) = call("attach forward@-50=fw.o:judge") else {
            panic!("not understood");
        };
        assert_eq!(attach.place.to_string(), "forward@-50");
        assert_eq!(call("-h"), Ok(None));
        for (line, message) in [
            ("", "attach, detach, show or map is missing"),
            ("attach", "`attach` is not understood"),
            (
                "attach lan=x.o",
                "attach takes HOOK[@PRIORITY][:DEV]=FILE[:PROGRAM], not `lan=x.o`: there is no hook `lan`",
            ),
            ("detach id x", "`x` is not the number of a program"),
            ("map dump -j", "--json is for `show`"),
            ("map update m 00", "`map update m 00` is not understood"),
        ] {
            assert_eq!(call(line), Err(message.to_owned()), "{line}");
        }
    }
}
