// SPDX-License-Identifier: Apache-2.0

//! Commands of nft for the dataplane of the network namespace, and news of its tables.

use std::io;
use std::sync::mpsc::Sender;
use std::time::Duration;

use penstock_daemon::control::client::{Caller, Client};
use penstock_daemon::control::protocol::Message;
use penstock_lang::source::{Files, NoFiles};

/// Why commands did not run.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no dataplane, or it went away: it may come back.
    Away(String),
    /// What nft says of the commands.
    Refused(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Away(why) | Failure::Refused(why) => f.write_str(why),
        }
    }
}

/// The name under which the dataplane asks for the commands.
const NAME: &str = "feed";

/// Commands as the only file.
struct Commands<'c>(&'c str);

impl Files for Commands<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        if path == NAME { Ok(self.0.to_owned()) } else { NoFiles.read(path) }
    }

    fn glob(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Keeps what is said.
#[derive(Default)]
struct Kept {
    out: String,
    err: String,
}

impl Caller for Kept {
    fn out(&mut self, text: &str) -> io::Result<()> {
        self.out.push_str(text);
        Ok(())
    }

    fn err(&mut self, text: &str) {
        self.err.push_str(text);
    }
}

/// Runs commands in one transaction.
///
/// # Errors
/// [`Failure`]: nothing has changed, unless the connection ended while the commands ran.
pub fn run(commands: &str) -> Result<(), Failure> {
    ask(&["-f", NAME], commands).map(drop)
}

/// The answer to a command that lists something.
///
/// # Errors
/// [`Failure`]
pub fn list(arguments: &[&str]) -> Result<String, Failure> {
    ask(arguments, "")
}

fn ask(arguments: &[&str], commands: &str) -> Result<String, Failure> {
    let away = |e: io::Error| Failure::Away(format!("the dataplane does not answer: {e}"));
    let mut client = match Client::connect() {
        Ok(Some(client)) => client,
        Ok(None) => return Err(Failure::Away("no dataplane is running here".into())),
        Err(e) => return Err(away(e)),
    };
    let message = Message::Nft(arguments.iter().map(|&a| a.to_owned()).collect());
    let mut kept = Kept::default();
    let status = client.ask_for(&message, &Commands(commands), &mut kept).map_err(away)?;
    if status == 0 {
        return Ok(kept.out);
    }
    // The first line says what is wrong, later ones quote commands, which may be long.
    let line = kept.err.lines().next().unwrap_or("the dataplane refuses it");
    Err(Failure::Refused(line.chars().take(300).collect()))
}

/// Tells of changes.
struct Changes<'s, T> {
    news: &'s Sender<T>,
    make: fn() -> T,
}

impl<T> Caller for Changes<'_, T> {
    fn out(&mut self, text: &str) -> io::Result<()> {
        // Lines that begin with # tell of every transaction.
        if text.lines().any(|line| !line.starts_with('#')) {
            self.news.send((self.make)()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(())
    }

    fn err(&mut self, _text: &str) {}
}

/// Watches what `nft monitor` tells of, such as `tables`, on another thread: sends something when
/// one has come or gone, and when the dataplane has gone and come back.
pub fn watch<T: Send + 'static>(what: &'static str, news: Sender<T>, make: fn() -> T) {
    const PAUSE: Duration = Duration::from_secs(1);
    std::thread::spawn(move || {
        let mut was_there = true;
        loop {
            if let Ok(Some(mut client)) = Client::connect() {
                if !was_there && news.send(make()).is_err() {
                    return;
                }
                let mut changes = Changes { news: &news, make };
                let message = Message::Nft(vec!["monitor".into(), what.into()]);
                // However it ends, it is tried again.
                let _ = client.ask_for(&message, &NoFiles, &mut changes);
            }
            was_there = false;
            std::thread::sleep(PAUSE);
        }
    });
}
