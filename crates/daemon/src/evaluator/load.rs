// SPDX-License-Identifier: Apache-2.0

//! The ruleset's file of the dataplane itself, which is the client then.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use penstock_lang::source::Files;
use penstock_system::{SystemFiles, SystemNames};

use super::Evaluator;
use super::attend::{Attendance, End};
use super::protocol::{Call, Task};
use crate::config::Config;
use crate::control::Rights;
use crate::control::protocol::{LONGEST, Message, read, write};
use crate::rules::Rules;

/// Makes the file the whole ruleset. The error is for the user, without an "Error:" prefix.
pub(crate) fn load(
    evaluator: &Evaluator,
    rules: &Rules,
    config: &Config,
    path: &Path,
) -> Result<(), String> {
    run(evaluator, Some(rules), config, path, None)
}

/// Evaluates the file as it will be when the ports are there.
pub(crate) fn check(evaluator: &Evaluator, config: &Config, path: &Path) -> Result<(), String> {
    let ports = config.ports.named.iter().map(|port| port.name.clone()).collect();
    run(evaluator, None, config, path, Some(ports))
}

fn run(
    evaluator: &Evaluator,
    rules: Option<&Rules>,
    config: &Config,
    path: &Path,
    check: Option<Vec<String>>,
) -> Result<(), String> {
    let name = path.display().to_string();
    let text = SystemFiles::default().read(&name).map_err(|e| format!("{name}: {e}"))?;
    let failed =
        |e: io::Error| format!("the ruleset cannot be loaded: the evaluator of rule texts: {e}");
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let call = Call::of(
        config,
        Task::Load { name: name.clone(), check },
        Rights::All,
        (std::process::id(), "penstock".to_owned()),
    );
    let channel = evaluator.call(rules, theirs.as_fd(), call.clone()).map_err(failed)?;
    drop(theirs);
    let (end, said) = std::thread::scope(|scope| {
        let client = scope.spawn(|| answer(&ours, (name, text)));
        let names = Box::new(SystemNames::default());
        let end =
            Attendance { evaluator, channel, rules, tables: None, listeners: None, names, call }
                .attend();
        // Remaining listeners get nothing more.
        let _ = ours.shutdown(std::net::Shutdown::Read);
        (end, client.join())
    });
    let sentence = match (end, said) {
        (End::Done, Ok((_, Some(0)))) => return Ok(()),
        (End::Failed(sentence), _) => format!("Error: {sentence}"),
        (_, Ok((said, _))) => said,
        (_, Err(_)) => "Error: the answer could not be sent".into(),
    };
    Err(format!("the ruleset cannot be loaded:\n{}", sentence.trim_end()))
}

/// Answers what is asked of a client. Returns what is for standard error, and the exit status if
/// there was one.
fn answer(stream: &UnixStream, known: (String, String)) -> (String, Option<u8>) {
    let files = SystemFiles::default();
    let mut known = Some(known);
    let mut errors = String::new();
    let mut stream = stream;
    loop {
        let answer = match read(&mut stream, LONGEST) {
            Ok(Message::Err(text)) => {
                errors.push_str(&text);
                continue;
            }
            Ok(Message::Out(_)) => continue,
            Ok(Message::Exit(status)) => return (errors, Some(status)),
            Ok(Message::Read(path)) => match known.take_if(|(name, _)| *name == path) {
                Some((_, text)) => Ok(text.into_bytes()),
                None => files.include(&path).map(String::into_bytes),
            },
            Ok(Message::ReadBytes(path)) => files.read_bytes(&path),
            Ok(Message::Glob(pattern)) => Ok(files
                .glob(&pattern)
                .into_iter()
                .flat_map(|n| [n.as_bytes(), &[0]].concat())
                .collect()),
            Ok(Message::Exec(command)) => files.exec(&command).map(String::into_bytes),
            Ok(Message::Resolve(host)) => Ok(crate::control::client::addresses_of(&host)),
            Ok(_) | Err(_) => return (errors, None),
        };
        if write(&mut stream, &answer.map_or_else(Message::Failed, Message::Data)).is_err() {
            return (errors, None);
        }
    }
}
