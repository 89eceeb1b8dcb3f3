// SPDX-License-Identifier: Apache-2.0

//! `penstock fleet`: publishes rulesets for many nodes, and shows what became of them.
//!
//! | file | is |
//! | --- | --- |
//! | [`options`] | the command line |
//! | [`source`] | which store is asked, and how |
//! | [`publication`] | a ruleset with its files: read, evaluated, tested |
//! | [`heads`] | publish, canary, promote, roll back, prune |
//! | [`sets`] | elements of sets |
//! | [`compare`] | the head and a file |
//! | [`status`] | who runs what |

mod compare;
mod heads;
pub mod options;
mod publication;
mod sets;
pub mod source;
mod status;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use penstock_daemon::{errln, out};
use penstock_fleet::key::{PublicKey, SecretKey, public_file};

use crate::options::given;
use heads::Publisher;
use options::{Asked, Command};

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("fleet", options::parse(args), options::usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match run(asked) {
        Ok(status) => status,
        Err(message) => {
            let message = message.trim_end();
            let prefix = if message.contains("Error: ") { "" } else { "Error: " };
            errln!("{prefix}{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(asked: Asked) -> Result<ExitCode, String> {
    let Asked { command, source, key, note, keep, published } = asked;
    let open = || source.open().map_err(|e| e.to_string());
    let publisher = || {
        let (store, secret) = (open()?, SecretKey::read(&key)?);
        let trusted = trusted(&key, &secret)?;
        Ok::<_, String>(Publisher { store, key: secret, trusted, note: note.clone(), keep })
    };
    match command {
        Command::Key(file) => make_key(&file)?,
        Command::Publish(rules) => publisher()?.publish(&rules, &published)?,
        Command::Canary { label, percent, rules } => {
            publisher()?.canary(&label, percent, rules.as_deref(), &published)?;
        }
        Command::Promote => publisher()?.promote()?,
        Command::Rollback => publisher()?.rollback()?,
        Command::Set { verb, title, file } => sets::change(&publisher()?, verb, &title, &file)?,
        Command::Prune(heads) => heads::prune(&*open()?, &public(&key)?, heads)?,
        Command::Diff { rules, json } => {
            return compare::compare(&*open()?, &public(&key)?, &rules, &published, json);
        }
        Command::Status(form) => return status::status(&*open()?, &public(&key)?, form),
    }
    Ok(ExitCode::SUCCESS)
}

/// Keys whose heads may be replaced: those of the file beside the secret key, if there is one.
fn trusted(file: &Path, secret: &SecretKey) -> Result<Vec<PublicKey>, String> {
    let public = public_file(file);
    match public.exists() {
        true => PublicKey::read_all(&public),
        false => Ok(vec![secret.public()]),
    }
}

/// The public keys of a file; of one with a secret key, its public key.
fn public(file: &Path) -> Result<Vec<PublicKey>, String> {
    PublicKey::read_all(file).or_else(|e| match SecretKey::read(file) {
        Ok(key) => Ok(vec![key.public()]),
        Err(_) => Err(e),
    })
}

fn make_key(file: &Path) -> Result<(), String> {
    let key = SecretKey::new()?;
    let public = key.write(file).map_err(|e| e.to_string())?;
    out!("{}: the secret key\n{}: the public key\n", file.display(), public.display());
    Ok(())
}
