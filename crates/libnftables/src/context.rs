// SPDX-License-Identifier: Apache-2.0

//! A context: runs texts, and remembers what was set and defined.

use std::io;
use std::net::IpAddr;

use penstock_daemon::control::client::{Caller, Client};
use penstock_daemon::control::protocol::Message;
use penstock_daemon::now;
use penstock_lang::names::Names;
use penstock_lang::release::Release;
use penstock_lang::scope::Scope;
use penstock_lang::session::Session;
use penstock_lang::source::Origin;
use penstock_state::call::Held;
use penstock_state::place::{Place, VARIABLE};
use penstock_system::{CalledFiles, SystemFiles, SystemNames, words};

use crate::names::WithoutHosts;
use crate::settings::Settings;
use crate::stream::Stream;

/// The variable that says which release of nft listings have the form of.
const RELEASE: &str = "PENSTOCK_COMPAT";

/// No commands of texts run: a program that links a library has not asked for it.
const FILES: SystemFiles = SystemFiles { allow_exec: false };

/// A text to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// Commands.
    Buffer(String),
    /// A file with commands; `-` is standard input.
    File(String),
}

/// Where a context writes to.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) output: Stream,
    pub(crate) error: Stream,
}

/// What `struct nft_ctx` is.
#[derive(Debug)]
pub(crate) struct Context {
    place: Place,
    pub(crate) settings: Settings,
    pub(crate) streams: Streams,
    /// What buffers have defined.
    scope: Scope,
    /// What is wrong with the environment.
    wrong: Option<String>,
}

/// Tells the streams what a run says.
struct Listener<'a> {
    streams: &'a mut Streams,
    resolves: bool,
}

impl Caller for Listener<'_> {
    fn out(&mut self, text: &str) -> io::Result<()> {
        self.streams.output.write(text)
    }

    fn err(&mut self, text: &str) {
        // There is nobody to tell of an error stream that does not work.
        let _ = self.streams.error.write(text);
    }

    fn addresses(&mut self, host: &str) -> Vec<IpAddr> {
        if self.resolves { SystemNames::default().host_addresses(host) } else { Vec::new() }
    }
}

impl Context {
    pub(crate) fn new() -> Self {
        let name = std::env::var(RELEASE).unwrap_or_default();
        let release = if name.is_empty() { Some(Release::default()) } else { Release::of(&name) };
        let wrong = match release {
            Some(_) => None,
            None => {
                let known = Release::NAMES.join(", ");
                Some(format!("{RELEASE}: unknown release '{name}', expected one of {known}"))
            }
        };
        Context {
            place: Place::of_environment(),
            settings: Settings::new(release.unwrap_or_default()),
            streams: Streams { output: Stream::stdout(), error: Stream::stderr() },
            scope: Scope::default(),
            wrong,
        }
    }

    /// Runs a text. Whether all went well.
    pub(crate) fn run(&mut self, text: Text) -> bool {
        let ran = match (&self.wrong, self.place.clone()) {
            (Some(wrong), _) => Err(wrong.clone()),
            (None, Place::Dataplane) => self.run_in_dataplane(text),
            (None, Place::File(path)) => self.run_in_file(text, &path),
        };
        ran.unwrap_or_else(|sentence| {
            self.listener().err(&format!("Error: {sentence}\n"));
            false
        })
    }

    fn listener(&mut self) -> Listener<'_> {
        Listener { streams: &mut self.streams, resolves: self.settings.resolves() }
    }

    fn run_in_file(&mut self, text: Text, path: &std::path::Path) -> Result<bool, String> {
        let options = self.settings.options(matches!(text, Text::File(_)))?;
        let check = options.check;
        let mut held = Held::take(path, check, now()).map_err(|e| e.to_string())?;
        let (all, without_hosts) = (SystemNames::default(), WithoutHosts::default());
        let names: &dyn Names = if self.settings.resolves() { &all } else { &without_hosts };
        let mut session = Session::new(options, &FILES, names);
        session.go_back(std::mem::take(&mut self.scope));
        let ruleset = &mut held.state.ruleset;
        let outcome = match text {
            Text::Buffer(commands) => session.run(Origin::CommandLine, commands, ruleset, now()),
            Text::File(name) => {
                let outcome = session.run_file(&name, ruleset, now());
                // What a file defines ends with it, and with it all that was defined before.
                session.go_back(Scope::default());
                outcome
            }
        };
        self.scope = session.scope();
        // Those that hear of it find it in the file.
        let kept = if outcome.changed && !check { held.put(now()) } else { Ok(()) };
        kept.map_err(|e| e.to_string())?;
        self.listener().outcome(&outcome);
        Ok(outcome.ok)
    }

    fn run_in_dataplane(&mut self, text: Text) -> Result<bool, String> {
        let mut args = self.settings.words(matches!(text, Text::File(_)))?;
        let own = match text {
            Text::Buffer(commands) => {
                args.extend(["--".to_owned(), commands]);
                None
            }
            Text::File(name) => {
                args.push(format!("--file={name}"));
                Some(name)
            }
        };
        let files = CalledFiles { files: FILES, own: own.as_deref() };
        let mut client = Client::connect().map_err(|e| words(&e))?.ok_or_else(|| {
            format!(
                "no dataplane is running in this network namespace; {VARIABLE} can have the path \
                 of a state file"
            )
        })?;
        let asked = client.ask_for(&Message::Nft(args), &files, &mut self.listener());
        let status = asked.map_err(|e| format!("the dataplane does not answer: {}", words(&e)))?;
        Ok(status == 0)
    }
}
