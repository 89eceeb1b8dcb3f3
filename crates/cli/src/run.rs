//! `penstock run`: captures go through a ruleset; frames, verdicts and counters come out.

mod options;

use std::ffi::OsString;
use std::process::ExitCode;

use options::{Engine, Options, Wanted};

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match Options::parse(args) {
        Ok(Wanted::Run(options)) => options,
        Ok(Wanted::Help) => {
            print!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprint!("penstock run: {message}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// `Ok(false)` if a capture was broken: what came before was run, and the error was told.
fn run(options: &Options) -> Result<bool, String> {
    if options.engine == Engine::Jit {
        return Err("Error: the jit engine is not there yet; use --engine interpreter".into());
    }
    Err("Error: the packet path is not there yet".into())
}
