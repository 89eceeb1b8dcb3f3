// SPDX-License-Identifier: Apache-2.0

//! `penstock nft`: nft(8), option for option, on the ruleset of the dataplane of the network
//! namespace, of the process (`--offline`), or of a file (`--state FILE`).

pub mod options;

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_daemon::control::client::{Caller, Client, Console};
use penstock_daemon::control::protocol::Message;
use penstock_daemon::control::{self, NftCall};
use penstock_daemon::proofs::{Becoming, Proofs};
use penstock_daemon::{BatchLimits, err, errln, out};
use penstock_lang::session::{Outcome, Refusal, Session};
use penstock_lang::source::Origin;
use penstock_ruleset::{Generation, Ruleset};
use penstock_state::call::Held;
use penstock_system::{CalledFiles, SystemFiles, SystemNames, words};

use crate::dataplane::NO_DATAPLANE;
use crate::symbolic::gate;
use options::{Call, Parsed, Source, State};

/// Runs with the arguments after the program's name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<String> = args.map(|a| a.to_string_lossy().into_owned()).collect();
    match options::parse(&args) {
        Parsed::Run(call) if call.state == State::None => ask(&call, args),
        Parsed::Run(call) => run(*call),
        Parsed::Show(text) => {
            out!("{text}");
            ExitCode::SUCCESS
        }
        Parsed::Wrong(message) => {
            err!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Has the dataplane of the network namespace run it.
fn ask(call: &Call, args: Vec<String>) -> ExitCode {
    let own = match &call.source {
        Source::File(name) => Some(name.as_str()),
        Source::Commands(_) | Source::Interactive => None,
    };
    let files = CalledFiles { files: SystemFiles { allow_exec: call.allow_exec }, own };
    let asked = match Client::connect() {
        Ok(Some(mut client)) if call.source == Source::Interactive => client.interact(args, &files),
        Ok(Some(mut client)) => client.ask(&Message::Nft(args), &files),
        Ok(None) => {
            errln!(
                "Error: no dataplane is running in this network namespace; \
                 use --offline for an empty ruleset or --state FILE for one that is kept in a file"
            );
            return ExitCode::from(NO_DATAPLANE);
        }
        Err(e) => Err(e),
    };
    match asked {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            errln!("Error: the dataplane does not answer: {}", words(&e));
            ExitCode::FAILURE
        }
    }
}

/// Reads what a client of the dataplane asks for.
pub fn call_of(args: &[String]) -> Result<NftCall, String> {
    let call = match options::parse(args) {
        Parsed::Run(call) => *call,
        Parsed::Show(text) | Parsed::Wrong(text) => return Err(text),
    };
    let source = match call.source {
        Source::File(name) => control::Source::File(name),
        Source::Commands(text) => control::Source::Commands(text),
        Source::Interactive => control::Source::Interactive,
    };
    let Call { options, confirm, claims, diff, .. } = call;
    Ok(NftCall { options, source, confirm, claims, diff })
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn run(call: Call) -> ExitCode {
    let held = match &call.state {
        // Other callers wait until this one has written what it read.
        State::File(path) => Some(Held::take(path, call.options.check, now())),
        State::None | State::Offline => None,
    };
    let mut held = match held.transpose() {
        Ok(held) => held,
        Err(e) => {
            errln!("Error: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut own = Ruleset::default();
    let ruleset = held.as_mut().map_or(&mut own, |held| &mut held.state.ruleset);
    let names = SystemNames::default();
    let files = SystemFiles { allow_exec: call.allow_exec };
    let check = call.options.check;
    let proofs = match proofs(&call) {
        Ok(proofs) => proofs,
        Err(message) => {
            errln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let review = |after: &Generation| (gate::PROVER.review)(&becoming(after, &names));
    let session = Session::new(call.options, &files, &names).reviewed_by(&review);
    let mut own = Own { session, names: &names, proofs };
    let mut changed = false;
    let mut show = |outcome: &Outcome| {
        changed |= outcome.changed;
        Console.outcome(outcome);
        outcome.ok
    };
    let ok = match call.source {
        Source::File(name) => match own.session.read_file(&name) {
            Ok((origin, text)) => show(&own.run(origin, text, ruleset)),
            Err(stderr) => show(&Outcome { stderr, ..Outcome::default() }),
        },
        Source::Commands(text) => show(&own.run(Origin::CommandLine, text, ruleset)),
        Source::Interactive => interact(&mut own, ruleset, &mut show),
    };
    if let Some(held) = held.filter(|_| changed && !check)
        && let Err(e) = held.put(now())
    {
        errln!("Error: {e}");
        return ExitCode::FAILURE;
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is asked of each change.
fn proofs(call: &Call) -> Result<Proofs, String> {
    let mut claims = Vec::new();
    if let Some(name) = &call.claims {
        claims.push(gate::of_file(name).map_err(|e| format!("Error: {e}"))?);
    }
    Ok(Proofs { prover: gate::PROVER, claims, diff: call.diff })
}

/// A ruleset that is to be in force, with the usual limits for answers about it.
fn becoming<'a>(after: &'a Generation, names: &'a SystemNames) -> Becoming<'a> {
    let BatchLimits { time, memory } = BatchLimits::default();
    Becoming { after, names, now: now(), memory, time }
}

/// A session on a ruleset of this process.
struct Own<'a> {
    session: Session<'a>,
    names: &'a SystemNames,
    proofs: Proofs,
}

impl Own<'_> {
    /// Runs a text; a change is made if what is claimed of it holds.
    fn run(&mut self, origin: Origin, text: String, ruleset: &mut Ruleset) -> Outcome {
        let now = now();
        if !self.proofs.are_asked() {
            return self.session.run(origin, text, ruleset, now);
        }
        let before = ruleset.generation();
        let mut difference = None;
        let mut gate = |after: &Generation| {
            difference =
                self.proofs.of(&before, &becoming(after, self.names)).map_err(Refusal::Other)?;
            Ok(())
        };
        let mut outcome = self.session.run_gated(origin, text, ruleset, now, &mut gate);
        if let Some(difference) = difference.filter(|_| outcome.ok) {
            outcome.stdout.insert_str(0, &difference);
        }
        outcome
    }
}

/// Commands line by line until `quit` or the end.
fn interact(
    own: &mut Own<'_>,
    ruleset: &mut Ruleset,
    show: &mut impl FnMut(&Outcome) -> bool,
) -> bool {
    let prompt = std::io::stdin().is_terminal();
    let mut line = String::new();
    loop {
        if prompt {
            out!("nft> ");
        }
        line.clear();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
        // A line that ends in a backslash continues.
        while line.ends_with("\\\n")
            && std::io::stdin().lock().read_line(&mut line).is_ok_and(|n| n > 0)
        {}
        let text = line.trim_end_matches('\n');
        if text.trim() == "quit" {
            return true;
        }
        show(&own.run(Origin::CommandLine, text.to_owned(), ruleset));
    }
}
