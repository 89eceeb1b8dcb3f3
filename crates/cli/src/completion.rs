// SPDX-License-Identifier: Apache-2.0

//! `penstock completion`: scripts that complete commands and options in bash, zsh and fish, made of
//! the tables of all commands.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use penstock_daemon::err;

use crate::command::Command;
use crate::options::{Opt, Values, flag};

/// What is completed.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    /// All commands.
    pub commands: &'a [Command],
    /// Options in place of a command.
    pub options: &'a [Opt],
}

/// The shells, as they are named on the command line.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The options of the command.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", &[flag('h', "help", "print this text")])];

const USAGE: &str = "\
Usage: penstock completion bash|zsh|fish

Prints a script that completes commands and options, to be read by the shell:

  bash   source <(penstock completion bash)
  zsh    source <(penstock completion zsh), or as _penstock in a directory of $fpath
  fish   penstock completion fish | source
";

/// Runs the command with the arguments after its name.
pub fn main(args: &mut dyn Iterator<Item = OsString>, all: Table<'_>) -> ExitCode {
    let args: Vec<String> = args.map(|a| a.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let script = match words[..] {
        ["bash"] => bash(all),
        ["zsh"] => zsh(all),
        ["fish"] => fish(all),
        ["-h" | "--help"] => USAGE.into(),
        _ => {
            err!(
                "penstock completion: the name of one shell is needed: bash, zsh or fish\n\n{USAGE}"
            );
            return ExitCode::from(2);
        }
    };
    // A reader that has seen enough is no error.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), script.as_bytes());
    ExitCode::SUCCESS
}

fn names<'a>(options: impl IntoIterator<Item = &'a Opt>) -> String {
    options.into_iter().flat_map(Opt::names).collect::<Vec<_>>().join(" ")
}

/// A text between single quotes of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn one_line(help: &str) -> String {
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn bash(all: Table<'_>) -> String {
    let commands: Vec<&str> = all.commands.iter().map(|c| c.name).collect();
    let (mut arguments, mut words) = (String::new(), String::new());
    for command in all.commands {
        for option in command.options() {
            let Some(argument) = option.argument else { continue };
            let patterns: Vec<String> =
                option.names().map(|n| format!("{}:{n}", command.name)).collect();
            let action = match argument.values {
                Values::Any => "return".into(),
                Values::Files => "_penstock_files -f; return".into(),
                Values::Directories => "_penstock_files -d; return".into(),
                Values::OneOf(values) => {
                    format!("_penstock_words {}; return", quoted(&values.join(" ")))
                }
            };
            let _ = writeln!(arguments, "        {}) {action} ;;", patterns.join("|"));
        }
        let operands = match command.operands {
            Values::OneOf(values) => values.join(" "),
            _ => String::new(),
        };
        let _ = writeln!(
            words,
            "        {}) if [[ $cur == -* ]]; then _penstock_words {}; else _penstock_words {}; fi ;;",
            command.name,
            quoted(&names(command.options())),
            quoted(&operands),
        );
    }
    format!(
        "\
# bash completion of penstock: source <(penstock completion bash)
_penstock_words() {{
    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")
}}

_penstock_files() {{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")
}}

_penstock() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        _penstock_words {commands}
        return
    fi
    # A `=` is a word of its own: before it stands an option, or what a file is given for.
    [[ $cur == = ]] && prev=$cur cur=
    if [[ $prev == = ]]; then
        local at=$COMP_CWORD
        [[ ${{COMP_WORDS[at]}} == = ]] || (( at-- ))
        prev=${{COMP_WORDS[at-1]}}
        [[ $prev == --* ]] || {{ _penstock_files -f; return; }}
    fi
    case $command:$prev in
{arguments}    esac
    case $command in
{words}    esac
}}

complete -F _penstock penstock
",
        commands = quoted(&format!("{} {}", commands.join(" "), names(all.options))),
    )
}

fn zsh(all: Table<'_>) -> String {
    let mut commands = String::new();
    let mut cases = String::new();
    for command in all.commands {
        let _ = writeln!(
            commands,
            "            {}",
            quoted(&format!("{}:{}", command.name, command.about))
        );
        let _ = writeln!(cases, "        {})\n            _arguments -s \\", command.name);
        for option in command.options() {
            let help = one_line(option.help).replace('[', "\\[").replace(']', "\\]");
            let tail = match option.argument {
                None => String::new(),
                Some(argument) => {
                    let name: String =
                        argument.name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
                    let action = match argument.values {
                        Values::Any => " ".into(),
                        Values::Files => "_files".into(),
                        Values::Directories => "_files -/".into(),
                        Values::OneOf(values) => format!("({})", values.join(" ")),
                    };
                    format!(":{name}:{action}")
                }
            };
            let repeated = if option.argument.is_some() { "*" } else { "" };
            for name in option.names() {
                let joined = match (option.argument, name.starts_with("--")) {
                    (None, _) => "",
                    (Some(_), true) => "=",
                    (Some(_), false) => "+",
                };
                let _ = writeln!(
                    cases,
                    "                {} \\",
                    quoted(&format!("{repeated}{name}{joined}[{help}]{tail}"))
                );
            }
        }
        let operands = match command.operands {
            Values::OneOf(values) => format!("*:command:({})", values.join(" ")),
            _ => "*: : ".into(),
        };
        let _ = writeln!(cases, "                {}\n            ;;", quoted(&operands));
    }
    format!(
        "\
#compdef penstock
# zsh completion of penstock: source <(penstock completion zsh), or as _penstock in a directory of $fpath
_penstock() {{
    if (( CURRENT == 2 )); then
        local -a commands=(
{commands}        )
        _describe command commands
        [[ $PREFIX == -* ]] && compadd -- {options}
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}    esac
}}

if [[ ${{funcstack[1]}} == _penstock ]]; then
    _penstock \"$@\"
else
    compdef _penstock penstock
fi
",
        options = names(all.options),
    )
}

fn fish(all: Table<'_>) -> String {
    /// A text between single quotes of fish.
    fn quoted(text: &str) -> String {
        format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
    }
    let line = |out: &mut String, condition: &str, option: &Opt| {
        let _ = write!(out, "complete -c penstock -n {}", quoted(condition));
        if let Some(short) = option.short {
            let _ = write!(out, " -s {short}");
        }
        if let Some(long) = option.long {
            let _ = write!(out, " -l {long}");
        }
        match option.argument.map(|a| a.values) {
            None => {}
            Some(Values::Any) => out.push_str(" -x"),
            Some(Values::Files) => out.push_str(" -r -F"),
            Some(Values::Directories) => out.push_str(" -x -a '(__fish_complete_directories)'"),
            Some(Values::OneOf(values)) => {
                let _ = write!(out, " -x -a {}", quoted(&values.join(" ")));
            }
        }
        let _ = writeln!(out, " -d {}", quoted(&one_line(option.help)));
    };
    let mut out = String::from(
        "# fish completion of penstock: penstock completion fish | source\ncomplete -c penstock -f\n",
    );
    for option in all.options {
        line(&mut out, "__fish_use_subcommand", option);
    }
    for command in all.commands {
        let (name, about) = (command.name, quoted(command.about));
        let _ = writeln!(out, "complete -c penstock -n __fish_use_subcommand -a {name} -d {about}");
        let condition = format!("__fish_seen_subcommand_from {name}");
        for option in command.options() {
            line(&mut out, &condition, option);
        }
        if let Values::OneOf(values) = command.operands
            && !values.is_empty()
        {
            let (condition, values) = (quoted(&condition), quoted(&values.join(" ")));
            let _ = writeln!(out, "complete -c penstock -n {condition} -a {values}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{COMMANDS, OPTIONS};

    const ALL: Table<'_> = Table { commands: &COMMANDS, options: &OPTIONS };

    #[test]
    fn bash_completes_commands_options_and_their_arguments() {
        let directory =
            std::env::temp_dir().join(format!("penstock-completion-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("some")).unwrap();
        std::fs::write(directory.join("some.nft"), "").unwrap();
        for (words, expected) in [
            ("penstock r", "run"),
            ("penstock --v", "--version"),
            (
                "penstock nft --nume",
                "--numeric --numeric-priority --numeric-protocol --numeric-time --numeric-symbols",
            ),
            ("penstock nft --state some.", "some.nft"),
            ("penstock nft --state = some.", "some.nft"),
            ("penstock nft -I so", "some"),
            ("penstock nft -d netl", "netlink"),
            ("penstock nft li", "list"),
            ("penstock run --engine i", "interpreter"),
            ("penstock run --read lan = some.", "some.nft"),
            ("penstock run x", ""),
            ("penstock completion z", "zsh"),
        ] {
            let script = format!(
                "{}\nCOMP_WORDS=({words})\nCOMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))\n_penstock\necho \"${{COMPREPLY[*]}}\"\n",
                bash(ALL)
            );
            let run = std::process::Command::new("bash")
                .arg("-c")
                .arg(script)
                .current_dir(&directory)
                .output();
            let Ok(run) = run else {
                eprintln!("bash is not installed");
                break;
            };
            let told = String::from_utf8_lossy(&run.stderr);
            assert_eq!(
                (&*String::from_utf8_lossy(&run.stdout), &*told),
                (&*format!("{expected}\n"), ""),
                "{words}"
            );
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn every_command_and_option_is_in_every_script() {
        let (bash, zsh, fish) = (bash(ALL), zsh(ALL), fish(ALL));
        for command in &COMMANDS {
            for script in [&bash, &zsh, &fish] {
                assert!(script.contains(command.name), "{}", command.name);
            }
            for option in command.options() {
                for name in option.names() {
                    assert!(
                        bash.contains(&name)
                            && zsh.contains(&format!("{name}["))
                                | zsh.contains(&format!("{name}=["))
                                | zsh.contains(&format!("{name}+[")),
                        "{name}"
                    );
                }
                if let Some(long) = option.long {
                    assert!(fish.contains(&format!("-l {long} ")), "{long}");
                }
            }
        }
    }

    /// What is typed, and the word that its last one becomes.
    const TYPED: [(&str, &str); 6] = [
        ("penstock ru", "run"),
        ("penstock nft --numeric-ti", "--numeric-time"),
        ("penstock nft li", "list"),
        ("penstock nft --state some.", "some.nft"),
        ("penstock run --engine i", "interpreter"),
        ("penstock completion z", "zsh"),
    ];

    /// Runs a shell in a directory with a file `some.nft` and the script as `script`; `None` where
    /// the shell is not installed.
    fn shell(name: &str, script: &str, arguments: &[&str]) -> Option<String> {
        let directory =
            std::env::temp_dir().join(format!("penstock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("some.nft"), "").unwrap();
        std::fs::write(directory.join("script"), script).unwrap();
        let run = std::process::Command::new(name).args(arguments).current_dir(&directory).output();
        std::fs::remove_dir_all(&directory).unwrap();
        match run {
            Ok(run) => {
                assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
                Some(String::from_utf8_lossy(&run.stdout).into_owned())
            }
            Err(_) => {
                eprintln!("SKIPPED: {name} is not installed");
                None
            }
        }
    }

    #[test]
    fn fish_completes_what_is_typed() {
        if shell("fish", &fish(ALL), &["--no-execute", "script"]).is_none() {
            return;
        }
        for (typed, word) in TYPED {
            let ask = format!("source script; complete -C {}", quoted(typed));
            let told = shell("fish", &fish(ALL), &["--no-config", "-c", &ask]).unwrap_or_default();
            let words: Vec<&str> = told.lines().filter_map(|l| l.split('\t').next()).collect();
            assert_eq!(words, [word], "{typed}");
        }
    }

    /// An interactive zsh on a pseudo terminal, where a tab is typed after `$1`, until the line
    /// ends in `$2`.
    const ZSH: &str = r#"
zmodload zsh/zpty || exit 0
zpty z env TERM=dumb zsh -f -i
zpty -w z "PS1='% '; setopt no_beep; autoload -Uz compinit; compinit -u -D; source ./script; echo REA''DY"
await() { repeat 300 { zpty -r -t z out && seen+=$out; [[ $seen == *$1* ]] && return; sleep 0.1 } }
seen=; await READY
seen=; zpty -n -w z "$1"$'\t'
await "$2"
print -r -- "$seen"
zpty -d z
"#;

    #[test]
    fn zsh_completes_what_is_typed() {
        if shell("zsh", &zsh(ALL), &["-f", "-n", "script"]).is_none() {
            return;
        }
        for (typed, word) in TYPED {
            let line =
                format!("{} {word}", typed.rsplit_once(' ').map_or("", |(before, _)| before));
            let told = shell("zsh", &zsh(ALL), &["-f", "-c", ZSH, "zsh", typed, &line])
                .unwrap_or_default();
            assert!(told.contains(&line), "{typed}: {told:?}");
        }
    }

    #[test]
    fn bash_reads_its_script() {
        shell("bash", &bash(ALL), &["-n", "script"]);
    }
}
