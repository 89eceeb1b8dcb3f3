//! The `penstock` command: the packet path of nftables as a program.

mod files;
mod names;
mod nft;
mod run;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: penstock COMMAND [OPTIONS]

Commands:
  nft    nft(8) on a ruleset in a file or in the process
  run    send captures through a ruleset: frames, verdicts and counters come out

`penstock COMMAND --help` tells the options of a command.
";

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next();
    if name.as_ref().is_some_and(|n| std::path::Path::new(n).file_name().is_some_and(|n| n == "nft")) {
        return nft::main(args);
    }
    match args.next().as_ref().and_then(|a| a.to_str()) {
        Some("nft") => nft::main(args),
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
