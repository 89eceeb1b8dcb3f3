// SPDX-License-Identifier: Apache-2.0

//! How texts of rules are read.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use penstock_dataplane::{can_offload, can_run_chains};
use penstock_lang::scope::Scope;
use penstock_lang::session::{Options, Outcome, Refusal, Session};
use penstock_lang::source::{Files, NoFiles, Origin, cannot_read};
use penstock_ruleset::Generation;
use penstock_ruleset::link::Linked;
use penstock_system::SystemFiles;

use crate::names::NetworkNames;
use crate::{Error, Limits, Network, Ruleset, RulesetError};

/// Reads rulesets, with what may be chosen about it.
///
/// ```
/// use penstock::{Loader, Network};
///
/// let network = Network::from_text("")?;
/// let refused = Loader::new(&network).name("rules.nft").text("flush rulesett");
/// let error = refused.unwrap_err().to_string();
/// assert!(error.starts_with("rules.nft:1:7-14: Error: "), "{error}");
/// # Ok::<(), penstock::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    network: Network,
    name: String,
    options: Options,
    time_allowed: Option<Duration>,
    files: bool,
    system_names: bool,
    now: Option<u64>,
}

impl Loader {
    /// For rules that may name the devices of a network.
    pub fn new(network: &Network) -> Self {
        let options = Options {
            include_paths: vec!["/etc".to_owned()],
            runnable_only: true,
            ..Options::default()
        };
        Loader {
            network: network.clone(),
            name: "ruleset".to_owned(),
            options,
            time_allowed: None,
            files: false,
            system_names: true,
            now: None,
        }
    }

    /// What errors call the text; `ruleset` by default.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Whether a text may include files of this machine; no by default. A file that is read by
    /// [`Loader::file`] may.
    #[must_use]
    pub fn includes(mut self, allowed: bool) -> Self {
        self.files = allowed;
        self
    }

    /// Whether names of services, protocols, users and groups are those of this machine
    /// (`/etc/services` and so on); yes by default. Without them such names are refused.
    #[must_use]
    pub fn system_names(mut self, known: bool) -> Self {
        self.system_names = known;
        self
    }

    /// Defines `$name`, as `nft -D name=value` does.
    #[must_use]
    pub fn define(mut self, name: &str, value: &str) -> Self {
        self.options.defines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Bounds for texts from untrusted sources. The default is beyond any usual text: 1 GiB of
    /// text, 10,000 included files.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// How long the evaluation of a text may take; a text that takes longer is refused.
    #[must_use]
    pub fn time_allowed(mut self, time: Duration) -> Self {
        self.time_allowed = Some(time);
        self
    }

    /// The time at which the ruleset is read, in nanoseconds since the epoch: from then on timeouts
    /// of elements run. By default it is the machine's. Set it if the times of packets are others.
    #[must_use]
    pub fn time(mut self, now: u64) -> Self {
        self.now = Some(now);
        self
    }

    /// Reads a ruleset as `nft -f` does.
    ///
    /// # Errors
    /// [`Error::Ruleset`], in nft's words.
    pub fn text(&self, text: &str) -> Result<Ruleset, Error> {
        self.load(text.to_owned(), false)
    }

    /// Reads a ruleset as `nft -j -f` does.
    ///
    /// # Errors
    /// As of [`Loader::text`].
    pub fn json(&self, text: &str) -> Result<Ruleset, Error> {
        self.load(text.to_owned(), true)
    }

    /// Reads a file as `nft -f` does. It may include others.
    ///
    /// # Errors
    /// [`Error::Ruleset`], also if the file cannot be read, in nft's words.
    pub fn file(&self, path: impl AsRef<Path>) -> Result<Ruleset, Error> {
        let name = path.as_ref().display().to_string();
        let text = SystemFiles::default().include(&name).map_err(|reason| {
            RulesetError::new(format!("Error: {}", cannot_read(&name, &reason)), Vec::new())
        })?;
        Loader { name, files: true, ..self.clone() }.load(text, false)
    }

    fn load(&self, text: String, json: bool) -> Result<Ruleset, Error> {
        let names = NetworkNames::new(self.network.inner.clone(), self.system_names);
        let mut ruleset =
            Ruleset { inner: penstock_ruleset::Ruleset::default(), names: Arc::new(names) };
        let mut options = Options { json, ..self.options.clone() };
        options.deadline = self.time_allowed.map(|time| Instant::now() + time);
        let files: &dyn Files = if self.files { &SystemFiles::default() } else { &NoFiles };
        let origin = Origin::File { name: self.name.clone(), from: None };
        let names = ruleset.names.clone();
        let session = Session::new(options, files, &*names);
        let now = self.now.unwrap_or_else(machine_time);
        run(session, &self.network.inner, origin, text, &mut ruleset.inner, now)?;
        Ok(ruleset)
    }
}

/// Runs a text, and refuses what could not run here.
pub(crate) fn run(
    mut session: Session<'_>,
    network: &penstock_net::Network,
    origin: Origin,
    text: String,
    ruleset: &mut penstock_ruleset::Ruleset,
    now: u64,
) -> Result<(Outcome, Scope), RulesetError> {
    let mut gate = |generation: &Generation| {
        let linked = Linked::new(generation).map_err(Refusal::Link)?;
        // No device forwards flows or runs chains by itself.
        can_offload(network, &linked.flowtables, &[]).map_err(Refusal::Offload)?;
        can_run_chains(network, &linked, &[]).map_err(Refusal::Offload)
    };
    // The last line may have no end: a program's literal rarely has one.
    let text = if text.ends_with('\n') { text } else { text + "\n" };
    let outcome = session.run_gated(origin, text, ruleset, now, &mut gate);
    if !outcome.ok {
        return Err(RulesetError::new(outcome.stderr, outcome.messages));
    }
    Ok((outcome, session.scope()))
}

/// Nanoseconds since the epoch.
pub(crate) fn machine_time() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

impl Ruleset {
    /// Reads a ruleset as `nft -f` does, from text that includes no files. [`Loader`] has more to
    /// choose.
    ///
    /// # Errors
    /// [`Error::Ruleset`], in nft's words.
    pub fn from_text(network: &Network, text: &str) -> Result<Self, Error> {
        Loader::new(network).text(text)
    }

    /// Reads a ruleset as `nft -j -f` does.
    ///
    /// # Errors
    /// As of [`Ruleset::from_text`].
    pub fn from_json(network: &Network, text: &str) -> Result<Self, Error> {
        Loader::new(network).json(text)
    }

    /// Reads a file as `nft -f` does. It may include others, and it may run no commands.
    ///
    /// # Errors
    /// [`Error::File`], and those of [`Ruleset::from_text`].
    pub fn read(network: &Network, path: impl AsRef<Path>) -> Result<Self, Error> {
        Loader::new(network).file(path)
    }
}
