// SPDX-License-Identifier: Apache-2.0

//! `penstock up`: the dataplane of the network namespace, in the foreground.
//!
//! | file | is |
//! | --- | --- |
//! | [`settings`] | the table of options and keys |
//! | [`file`] | the configuration file |

pub mod file;
pub mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::errln;
use penstock_daemon::{Config, run};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use settings::{Form, Given, SETTINGS, Setting};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", &OPTIONS)];

/// Options that are no settings.
const OWN: [Opt; 2] = [
    long(
        "config",
        "read settings from this file, in TOML: a key for each option; options count instead of keys, and\n\
         devices are added to those of the file; without devices, the file is /etc/penstock/penstock.toml",
    )
    .takes("FILE", Values::Files),
    flag('h', "help", "print this text"),
];

const OPTIONS: [Opt; SETTINGS.len() + OWN.len()] = {
    let mut all = [OWN[1]; SETTINGS.len() + OWN.len()];
    all[0] = OWN[0];
    let mut at = 0;
    while at < SETTINGS.len() {
        all[at + 1] = SETTINGS[at].option;
        at += 1;
    }
    all
};

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock up DEV[=NAME]... [OPTIONS]\n       penstock up [--config FILE] [OPTIONS]\n\n\
         Makes each device a port of the dataplane. The host sees a TAP in its place, with the same name or with\n\
         NAME, and with the addresses, routes and other settings of the device. If the device is a TAP that no\n\
         program has open, the port is its other end. Runs until `penstock down`, SIGTERM or SIGINT.\n\n",
    );
    out.push_str(&usage_lines(&OPTIONS, 23));
    out
}

/// The command line.
#[derive(Clone, Default)]
struct Line {
    /// The configuration file.
    config: Option<PathBuf>,
    ports: Vec<String>,
    /// Settings and their values.
    settings: Vec<(&'static str, String)>,
}

impl Line {
    /// `None` if help is asked for.
    fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Line>, String> {
        let mut line = Line::default();
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(sentence)? {
            match arg {
                Short('h') | Long("help") => return Ok(None),
                Long("config") => {
                    line.config = Some(parser.value().map_err(sentence)?.into());
                }
                Long(name) => {
                    let Some(setting) = Setting::of(name) else {
                        return Err(sentence(Long(name).unexpected()));
                    };
                    let text = |value: OsString| value.to_string_lossy().into_owned();
                    let name = setting.name();
                    match setting.form {
                        Form::Flag => line.settings.push((name, String::new())),
                        Form::One => {
                            let value = parser.value().map_err(sentence)?;
                            line.settings.push((name, text(value)));
                        }
                        // Ports may follow a driver.
                        Form::Several if name == "driver" => {
                            let value = parser.value().map_err(sentence)?;
                            line.settings.push((name, text(value)));
                        }
                        Form::Several => {
                            let values = parser.values().map_err(sentence)?;
                            line.settings.extend(values.map(|value| (name, text(value))));
                        }
                    }
                }
                Value(value) => line.ports.push(value.to_string_lossy().into_owned()),
                other @ Short(_) => return Err(sentence(other.unexpected())),
            }
        }
        Ok(Some(line))
    }

    /// The configuration file, if there is to be one.
    fn file(&self) -> Option<&Path> {
        let own = self.ports.is_empty() && self.settings.iter().all(|(name, _)| *name != "ports");
        let default = || Some(Path::new(file::DEFAULT)).filter(|path| own && path.exists());
        self.config.as_deref().or_else(default)
    }

    /// What is given by file and line together, as far as it is read.
    fn given(&self) -> Result<Given, Failure> {
        let mut given = Given::default();
        if let Some(path) = self.file() {
            file::read(path, &mut given).map_err(Failure::File)?;
        }
        let mut taken = || {
            self.ports.iter().try_for_each(|port| given.port(port, false))?;
            for (name, text) in &self.settings {
                if let Some(setting) = Setting::of(name) {
                    given.take(setting, text).map_err(|e| format!("--{name}{e}"))?;
                }
            }
            Ok(())
        };
        taken().map_err(Failure::Usage)?;
        Ok(given)
    }

    /// The configuration of the dataplane.
    fn config(&self) -> Result<Config, Failure> {
        let mut config = self.given()?.config().map_err(Failure::Usage)?;
        if let Some(path) = self.file() {
            // It is found from wherever the process is, and whatever is there then.
            let path = std::path::absolute(path).map_err(|e| Failure::File(e.to_string()))?;
            let line = Line { config: Some(path), ..self.clone() };
            config.reread = Some(Arc::new(move || line.config().map_err(Failure::text)));
        }
        Ok(config)
    }
}

/// Why there is no configuration.
enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The file is.
    File(String),
}

impl Failure {
    fn text(self) -> String {
        let (Failure::Usage(text) | Failure::File(text)) = self;
        text
    }
}

/// Reads a configuration file alone.
///
/// # Errors
/// What is to be printed.
pub fn read_config(path: &Path) -> Result<Config, String> {
    Line { config: Some(path.to_owned()), ..Line::default() }.config().map_err(|e| match e {
        Failure::Usage(text) => format!("{}: Error: {text}", path.display()),
        Failure::File(text) => text,
    })
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let line = match given("up", Line::parse(args), usage) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let agent = line.given().and_then(|given| given.agent().map_err(Failure::Usage));
    let (config, agent) = match line.config().and_then(|config| Ok((config, agent?))) {
        Ok(both) => both,
        Err(Failure::File(text)) => {
            errln!("{text}");
            return ExitCode::from(2);
        }
        Err(Failure::Usage(text)) => {
            return given::<()>("up", Err(text), usage).err().unwrap_or(ExitCode::FAILURE);
        }
    };
    if let Some(agent) = agent
        && let Err(e) = agent.start()
    {
        errln!("Error: the agent does not start: {e}");
        return ExitCode::FAILURE;
    }
    begin(config)
}

/// Runs until a signal or a client ends it, and says why it could not go on.
pub fn begin(config: Config) -> ExitCode {
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            errln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_daemon::Driver;

    fn config(line: &str) -> Result<Config, String> {
        let line = Line::parse(line.split(' ').map(OsString::from))?.ok_or("help")?;
        line.config().map_err(Failure::text)
    }

    fn ports(line: &str) -> Result<Vec<(String, String)>, String> {
        let config = config(line)?;
        Ok(config.ports.named.into_iter().map(|p| (p.device, p.name)).collect())
    }

    #[test]
    fn devices_are_ports_by_their_own_or_another_name() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            ports("eth0 --driver xdp eth1=lan"),
            Ok(vec![pair("eth0", "eth0"), pair("eth1", "lan")])
        );
        let config = config("--driver tap0=tap tap0=guest --driver packet eth0 --ports veth* e9")
            .unwrap_or_else(|e| panic!("{e}"));
        let drivers: Vec<_> = config.ports.named.iter().map(|p| p.driver).collect();
        assert_eq!(drivers, [Driver::Tap, Driver::Packet, Driver::Packet]);
        let later: Vec<_> = config.ports.named.iter().map(|p| p.may_come_later).collect();
        assert_eq!(later, [false, false, true]);
        assert_eq!(config.ports.patterns[0].driver, Driver::Packet);
        for (line, message) in [
            ("--driver packet --config /dev/null", "no device is given"),
            ("eth0 eth0", "`eth0` is given twice"),
            ("eth0 eth1=eth0", "`eth1=eth0` is given twice"),
            ("eth0 --ports eth0", "--ports: `eth0` is given twice"),
            ("eth0=", "`eth0=` is not DEV or DEV=NAME"),
            ("veth*", "`veth*` is a pattern, which --ports is for"),
            ("--ports veth*=lan", "--ports: `veth*=lan` cannot give one name to several devices"),
            ("eth0 --driver dpdk", "--driver: there is no driver `dpdk`"),
            ("eth0 --driver eth0=dpdk", "--driver: there is no driver `dpdk`"),
            ("eth0 --driver eth1=xdp", "driver eth1=...: `eth1` is not among the ports"),
            ("eth0 --workers 0", "--workers takes `auto`, or a number from 1 to 64"),
            ("eth0 --workers 65", "--workers takes `auto`, or a number from 1 to 64"),
            ("eth0 --workers all", "--workers takes `auto`, or a number from 1 to 64"),
            ("eth0 --sysctl a", "--sysctl takes NAME=VALUE, a number, not `a`"),
            ("eth0 --rules-first", "rules-first: there are no rules to load first"),
        ] {
            assert_eq!(ports(line), Err(message.to_owned()), "{line}");
        }
    }
}
