// SPDX-License-Identifier: Apache-2.0

//! Sections and clauses (`read_config_yy.y`).

use super::links::{self, Transport};
use super::nats::Nats;
use super::own::Own;
use super::words::Words;
use super::{Config, Expectations, Filter, Mode};

/// Connections of the peer that are kept at most, if the file says nothing: as many as a table has
/// at most by default, and some more.
const LIMIT: usize = 4 << 20;
/// `PurgeTimeout`, if the file says nothing.
const PURGE: u32 = 60;

/// Clauses of `General` that are about the process of conntrackd, or the kernel's netlink.
const OF_THE_PROCESS: [&str; 20] = [
    "Systemd",
    "Nice",
    "HashSize",
    "LogFile",
    "Syslog",
    "LockFile",
    "Lockfile",
    "UNIX",
    "NetlinkBufferSize",
    "NetlinkBufferSizeMaxGrowth",
    "NetlinkBufferSizeMaxGrown",
    "SocketBufferSize",
    "SocketBufferSizeMaxGrowth",
    "SocketBufferSizeMaxGrown",
    "NetlinkOverrunResync",
    "NetlinkEventsReliable",
    "EventIterationLimit",
    "Scheduler",
    "Family",
    "PollSecs",
];

/// What is read so far.
#[derive(Default)]
struct Reading {
    mode: Option<Mode>,
    links: Vec<super::Link>,
    transport: Option<Transport>,
    window_tracking: bool,
    expectations: Expectations,
    direct: bool,
    startup_resync: bool,
    commit_timeout: Option<u32>,
    purge_timeout: Option<u32>,
    limit: Option<usize>,
    filter: Filter,
    own: Own,
    nats: Option<Nats>,
    warnings: Vec<String>,
    /// Clauses without a meaning, which are named together.
    unused: Vec<String>,
}

impl Reading {
    fn sync(&mut self, words: &mut Words<'_>, clause: &str) -> Result<(), String> {
        match clause {
            "Mode" => self.mode(words),
            "Multicast" => self.link(words, Transport::Multicast),
            "UDP" => self.link(words, Transport::Unicast),
            "TCP" => Err(words.error("links by TCP are not there: use UDP or Multicast")),
            "Options" => words.section(|words, clause| self.option(words, clause)),
            "CommitTimeout" | "PurgeTimeout" => self.timeout(words, clause),
            _ => Err(words.error(format_args!("Sync has no clause `{clause}`"))),
        }
    }

    fn link(&mut self, words: &mut Words<'_>, transport: Transport) -> Result<(), String> {
        if self.transport.is_some_and(|other| other != transport) {
            return Err(words.error("links are either all Multicast, or all UDP"));
        }
        self.transport = Some(transport);
        links::read(words, transport, &mut self.links, &mut self.warnings)
    }

    fn option(&mut self, words: &mut Words<'_>, clause: &str) -> Result<(), String> {
        match clause {
            "TCPWindowTracking" => self.window_tracking = words.switch()?,
            "ExpectationSync" if words.peek() == Some("{") => {
                let mut names = Vec::new();
                words.section(|_, name| {
                    names.push(name.to_owned());
                    Ok(())
                })?;
                self.expectations = Expectations::Of(names);
            }
            "ExpectationSync" => {
                let all = words.switch()?;
                self.expectations = if all { Expectations::All } else { Expectations::None };
            }
            _ => return Err(words.error(format_args!("Options has no clause `{clause}`"))),
        }
        Ok(())
    }

    fn timeout(&mut self, words: &mut Words<'_>, clause: &str) -> Result<(), String> {
        let seconds: u32 = words.value("a number of seconds")?;
        match clause {
            "CommitTimeout" => self.commit_timeout = Some(seconds).filter(|seconds| *seconds != 0),
            _ => self.purge_timeout = Some(seconds),
        }
        Ok(())
    }

    fn mode(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        if self.mode.is_some() {
            return Err(words.error("there are two modes"));
        }
        let name = words.need("a mode")?;
        let upper = name.to_ascii_uppercase();
        let (mut window, mut resend_queue, mut refresh, mut cache_timeout) =
            (300, 131_072, 60, 180);
        words.section(|words, clause| {
            match (upper.as_str(), clause) {
                (_, "CommitTimeout" | "PurgeTimeout") => self.timeout(words, clause)?,
                ("FTFW", "ACKWindowSize") => window = words.value("a number of messages")?,
                ("FTFW", "ResendQueueSize") => {
                    resend_queue = words.value("a number of messages")?;
                }
                ("FTFW", "ResendBufferSize") => self.unused(words, clause)?,
                ("ALARM", "RefreshTime") => refresh = words.value("a number of seconds")?,
                ("ALARM", "CacheTimeout") => cache_timeout = words.value("a number of seconds")?,
                ("ALARM", "RelaxTransitions" | "DelayDestroyMessages") => {
                    self.unused.push(clause.to_owned());
                }
                ("FTFW" | "NOTRACK", "DisableExternalCache") => self.direct = words.switch()?,
                ("FTFW" | "NOTRACK", "StartupResync") => self.startup_resync = words.switch()?,
                // The table itself is read: there is no cache of it.
                ("NOTRACK", "DisableInternalCache") => {
                    words.switch()?;
                    self.unused.push(clause.to_owned());
                }
                _ => {
                    return Err(words.error(format_args!("Mode {name} has no clause `{clause}`")));
                }
            }
            Ok(())
        })?;
        let positive = |number: u32, what: &str| match number {
            0 => Err(words.error(format_args!("{what} cannot be 0"))),
            number => Ok(number),
        };
        self.mode = Some(match upper.as_str() {
            "FTFW" => Mode::FtFw { window: positive(window, "ACKWindowSize")?, resend_queue },
            "ALARM" => Mode::Alarm {
                refresh: positive(refresh, "RefreshTime")?,
                cache_timeout: positive(cache_timeout, "CacheTimeout")?,
            },
            "NOTRACK" => Mode::NoTrack,
            _ => return Err(words.error(format_args!("there is no mode `{name}`"))),
        });
        Ok(())
    }

    fn unused(&mut self, words: &mut Words<'_>, clause: &str) -> Result<(), String> {
        self.unused.push(clause.to_owned());
        words.skip()
    }

    fn general(&mut self, words: &mut Words<'_>, clause: &str) -> Result<(), String> {
        match clause {
            "HashLimit" => {
                let limit: usize = words.value("a number of connections")?;
                self.limit = Some(limit);
                Ok(())
            }
            "Filter" => {
                self.filter = Filter::read(words)?;
                Ok(())
            }
            _ if OF_THE_PROCESS.contains(&clause) => self.unused(words, clause),
            _ => Err(words.error(format_args!("General has no clause `{clause}`"))),
        }
    }
}

/// Reads the text of a file.
pub(super) fn read(text: &str) -> Result<Config, String> {
    let (mut words, mut reading) = (Words::of(text), Reading::default());
    let mut synced = false;
    while let Some(section) = words.next() {
        match section {
            "Sync" => {
                synced = true;
                words.section(|words, clause| reading.sync(words, clause))?;
            }
            "General" => words.section(|words, clause| reading.general(words, clause))?,
            "Penstock" => reading.own = Own::read(&mut words)?,
            "Nats" if reading.nats.is_some() => {
                return Err(words.error("there are two sections Nats"));
            }
            "Nats" => reading.nats = Some(Nats::read(&mut words)?),
            "Stats" => return Err(words.error("Stats is not there: `penstock show` has counts")),
            "Helper" => {
                return Err(words.error("Helper is not there: rules give connections helpers"));
            }
            _ => return Err(words.error(format_args!("there is no section `{section}`"))),
        }
    }
    let secure = reading.own.secure.complete()?;
    if secure.is_some() && reading.nats.is_some() {
        return Err("peers of Penstock and Nats do not go together: choose one".into());
    }
    let by_records = secure.is_some() || reading.nats.is_some();
    if by_records && (reading.mode.is_some() || !reading.links.is_empty()) {
        return Err(
            "Mode and links are conntrackd's: with peers of Penstock or Nats there are none".into(),
        );
    }
    if !synced && !by_records {
        return Err("there is no section Sync".to_owned());
    }
    if !reading.unused.is_empty() {
        reading.warnings.push(format!("without meaning here: {}", reading.unused.join(", ")));
    }
    let mode = reading.mode.unwrap_or(Mode::FtFw { window: 300, resend_queue: 131_072 });
    if reading.links.is_empty() && !by_records {
        return Err("there is no link: Sync has neither Multicast nor UDP".to_owned());
    }
    Ok(Config {
        mode,
        links: reading.links,
        window_tracking: reading.window_tracking,
        expectations: reading.expectations,
        direct: reading.direct,
        startup_resync: reading.startup_resync,
        commit_timeout: reading.commit_timeout,
        purge_timeout: reading.purge_timeout.unwrap_or(PURGE),
        limit: reading.limit.unwrap_or(LIMIT),
        filter: reading.filter,
        announce: reading.own.announce,
        secure,
        nats: reading.nats,
        warnings: reading.warnings,
    })
}
