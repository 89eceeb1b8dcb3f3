// SPDX-License-Identifier: Apache-2.0

//! `penstock exec` and `penstock shell`: programs that speak to the kernel's netfilter, on the
//! ruleset of the dataplane or of a state file.

mod listen;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::errln;
use penstock_exec::{LiveService, StateService, Stored};
use penstock_launcher::Service;
use penstock_state::place::{Place, VARIABLE};

use crate::dataplane;
use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options of `penstock exec`.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];
/// All options of `penstock shell`.
pub const SHELL_SECTIONS: [(&str, &[Opt]); 1] = [("", SHELL_OPTIONS)];

const STATE: Opt =
    long("state", "the file that the ruleset is kept in, as for `penstock nft --state`")
        .takes("FILE", Values::Files);
const HELP: Opt = flag('h', "help", "print this text");
const OPTIONS: &[Opt] = &[
    STATE,
    long("listen", "answer containers, of which a runtime tells on this socket (listenerPath)")
        .takes("SOCKET", Values::Files),
    HELP,
];
const SHELL_OPTIONS: &[Opt] = &[STATE, HELP];

fn exec_usage() -> String {
    let mut out = String::from(
        "Usage: penstock exec [--state FILE] [--] COMMAND [ARGUMENT...]\n\
         \x20      penstock exec [--state FILE] --listen SOCKET\n\n\
         Runs a command whose netfilter sockets (nft, iptables-nft, libnftables and so on), and those of all that\n\
         it starts, are answered by the dataplane of the network namespace, or from a ruleset that is kept in a\n\
         file, and not by the kernel. The command is not changed. Exit status: 3 without a dataplane; otherwise\n\
         the command's; 127 if it is not there, 126 if it cannot be run.\n\n\
         With --listen the programs are those of containers: a socket that their runtime finds as\n\
         `listenerPath` in their seccomp profile.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 17));
    out
}

fn shell_usage() -> String {
    let mut out = String::from(
        "Usage: penstock shell [--state FILE]\n\n\
         Starts a shell ($SHELL, or /bin/sh) in which all commands run as with `penstock exec`. Its prompt says\n\
         `(penstock)` where the shell takes its prompt from the environment.\n\n",
    );
    out.push_str(&usage_lines(SHELL_OPTIONS, 14));
    out
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    state: Option<PathBuf>,
    listen: Option<PathBuf>,
    command: Vec<OsString>,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options::default();
    let sentence = |e: lexopt::Error| e.to_string();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Long("state") => options.state = Some(parser.value().map_err(sentence)?.into()),
            Long("listen") => options.listen = Some(parser.value().map_err(sentence)?.into()),
            Short('h') | Long("help") => return Ok(None),
            // What follows is the command's.
            Value(command) => {
                options.command.push(command);
                options.command.extend(parser.raw_args().map_err(sentence)?);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(options))
}

/// Runs `penstock exec` with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let parsed = parse(args).and_then(|options| match options {
        Some(Options { command, listen, .. }) if command.is_empty() != listen.is_some() => {
            Err(match listen {
                Some(_) => "--listen takes no command: containers have theirs".into(),
                None => "no command is given".into(),
            })
        }
        parsed => Ok(parsed),
    });
    match given("exec", parsed, exec_usage) {
        Ok(Options { state, listen: Some(socket), .. }) => listen::run(&socket, state.as_deref()),
        Ok(options) => run(options),
        Err(status) => status,
    }
}

/// Runs `penstock shell` with the arguments after its name.
pub fn shell(args: impl Iterator<Item = OsString>) -> ExitCode {
    let parsed = parse(args).and_then(|options| match options {
        Some(Options { command, .. }) if !command.is_empty() => {
            Err("a shell takes no command: use `penstock exec`".into())
        }
        Some(Options { listen: Some(_), .. }) => Err("invalid option '--listen'".into()),
        parsed => Ok(parsed),
    });
    let mut options = match given("shell", parsed, shell_usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    options.command.push(shell.unwrap_or_else(|| "/bin/sh".into()));
    hint();
    run(options)
}

/// Has the shell's prompt say where it is.
fn hint() {
    let prompt = std::env::var_os("PS1").unwrap_or_else(|| "$ ".into());
    let mut prefixed = OsString::from("(penstock) ");
    prefixed.push(prompt);
    // SAFETY: the process has one thread.
    unsafe {
        std::env::set_var("PS1", prefixed);
        // Debian's bash and zsh make their own prompt, which begins with this.
        if std::env::var_os("debian_chroot").is_none() {
            std::env::set_var("debian_chroot", "penstock");
        }
    }
}

/// Becomes the command.
fn run(options: Options) -> ExitCode {
    let (service, place) = match service(options.state.as_deref()) {
        Ok(service) => service,
        Err(status) => return status,
    };
    // SAFETY: the process has one thread.
    unsafe { std::env::set_var(VARIABLE, place.value()) };
    let Err(e) = penstock_launcher::launch(&options.command, service);
    errln!("Error: {e}");
    ExitCode::from(e.status())
}

/// What answers, and where the ruleset is; or the exit status, where there is nothing.
fn service(state: Option<&Path>) -> Result<(Box<dyn Service>, Place), ExitCode> {
    let Some(path) = state else {
        // The supervisor has a connection of its own: here it is only known that there can be one.
        drop(dataplane::connect()?);
        return Ok((Box::new(LiveService::default()), Place::Dataplane));
    };
    match Stored::open(path) {
        Ok(stored) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            Ok((Box::new(StateService::new(stored)), Place::File(path)))
        }
        Err(e) => {
            errln!("Error: {} {e}", path.display());
            Err(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').filter(|word| !word.is_empty()).map(OsString::from)
    }

    #[test]
    fn options_end_where_the_command_begins() {
        for line in [
            "--state /s nft -a --help",
            "--state=/s -- nft -a --help",
            "--state /s -- nft -a --help",
        ] {
            let options = parse(words(line)).unwrap().unwrap();
            assert_eq!(options.state, Some("/s".into()), "{line}");
            assert_eq!(options.command, ["nft", "-a", "--help"], "{line}");
        }
        // The command has a `--` of its own.
        let options = parse(words("--state /s -- nft -- list")).unwrap().unwrap();
        assert_eq!(options.command, ["nft", "--", "list"]);
        assert_eq!(parse(words("--state /s -h nft")), Ok(None));
        let options = parse(words("--listen /l --state /s")).unwrap().unwrap();
        assert_eq!((options.listen, options.state), (Some("/l".into()), Some("/s".into())));
        assert!(parse(words("--foo nft")).is_err());
        assert!(parse(words("--state")).is_err());
    }
}
