//! The `penstock` command: the packet path of nftables as a program.

mod files;
mod names;
mod run;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: penstock COMMAND [OPTIONS]

Commands:
  run    send captures through a ruleset: frames, verdicts and counters come out

`penstock COMMAND --help` tells the options of a command.
";

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_ref().and_then(|a| a.to_str()) {
        Some("run") => run::main(args),
        Some("-h" | "--help") => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some("-V" | "--version") => {
            println!("penstock {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(other) => {
            eprint!("penstock: unknown command `{other}`\n\n{USAGE}");
            ExitCode::from(2)
        }
        None => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
