// SPDX-License-Identifier: Apache-2.0

//! Requests to the members of a cluster, and their answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use penstock_fetch::{Client, Lines, Options};
use serde_json::{Value, json};

use super::{BASE64, WATCH};
use crate::store::{Access, Error, failed};

/// A member that does not answer in that time is not waited for: the next one is asked.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a line of an answer that comes line by line.
const LINE: u64 = 4 << 20;

/// The members of a cluster.
pub(super) struct Members {
    /// Addresses, with scheme and port.
    members: Vec<String>,
    /// The member that answered last.
    member: AtomicUsize,
    client: Client,
    /// User and password.
    login: Option<(String, String)>,
    token: Mutex<Option<String>>,
}

impl Members {
    /// Members at addresses, which are asked by some user or none.
    ///
    /// # Errors
    /// Files with certificates or a password cannot be used.
    pub fn new(members: Vec<String>, access: &Access) -> Result<Members, Error> {
        let time = access.http.time.min(PATIENCE);
        let http = Options { quiet: WATCH, time, ..access.http.clone() };
        let client = Client::new(&http).map_err(|e| Error::Refused(e.to_string()))?;
        let login = access.password.as_deref().map(|file| {
            let text = std::fs::read_to_string(file).map_err(|e| e.to_string());
            let pair = text.and_then(|text| {
                let pair = text.trim().split_once(':');
                let pair = pair.map(|(user, password)| (user.to_owned(), password.to_owned()));
                pair.ok_or_else(|| "it is not USER:PASSWORD".to_owned())
            });
            pair.map_err(|e| Error::Refused(format!("{}: {e}", file.display())))
        });
        Ok(Members {
            members,
            member: AtomicUsize::new(0),
            client,
            login: login.transpose()?,
            token: Mutex::new(None),
        })
    }

    /// The address of the cluster, without a prefix.
    pub fn address(&self) -> String {
        let tls = self.members.iter().any(|member| member.starts_with("https"));
        let hosts = self.members.iter().filter_map(|m| m.split_once("://").map(|(_, host)| host));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("{}://{hosts}", if tls { "etcds" } else { "etcd" })
    }

    /// Asks the members in turn, beginning with the one that answered last.
    ///
    /// # Errors
    /// No member answers, or one that does refuses.
    pub fn any<T>(&self, ask: impl Fn(&str) -> Result<T, Error>) -> Result<T, Error> {
        let first = self.member.load(Ordering::Relaxed);
        let mut why = Error::Away(String::new());
        for turn in 0..self.members.len() {
            let number = (first + turn) % self.members.len();
            match ask(&self.members[number]) {
                Err(Error::Away(reason)) => {
                    why = Error::Away(format!("{}: {reason}", self.members[number]));
                }
                other => {
                    self.member.store(number, Ordering::Relaxed);
                    return other;
                }
            }
        }
        Err(why)
    }

    /// The first message of an answer, which has at most so many bytes.
    ///
    /// # Errors
    /// As [`Members::any`], or the answer is none.
    pub fn ask(&self, path: &str, message: &Value, limit: u64) -> Result<Value, Error> {
        self.any(|member| {
            let answer = self.ask_member(member, path, message, limit, false)?;
            match answer {
                Some(answer) => Ok(answer),
                None => self
                    .ask_member(member, path, message, limit, true)?
                    .ok_or_else(|| Error::Refused("etcd does not know the user".into())),
            }
        })
    }

    /// `None` if the token is not valid any more.
    fn ask_member(
        &self,
        member: &str,
        path: &str,
        message: &Value,
        limit: u64,
        anew: bool,
    ) -> Result<Option<Value>, Error> {
        let url = format!("{member}{path}");
        let mut request = self.client.post(&url).limit(limit).body(message.to_string());
        if let Some(token) = self.token(member, anew)? {
            request = request.header("authorization", token);
        }
        let answer = request.send().map_err(failed)?;
        if answer.status == 401 && self.login.is_some() && !anew {
            return Ok(None);
        }
        let body = answer.ok().map_err(told)?;
        // Answers that come as a stream have a line for each message.
        let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice(first).map(Some).map_err(|e| Error::Wrong(format!("etcd: {e}")))
    }

    /// What stands for the user, if there is one.
    fn token(&self, member: &str, anew: bool) -> Result<Option<String>, Error> {
        let Some((user, password)) = &self.login else { return Ok(None) };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if anew {
            *token = None;
        }
        if token.is_none() {
            let message = json!({ "name": user, "password": password }).to_string();
            let url = format!("{member}/v3/auth/authenticate");
            let answer = self.client.post(&url).body(message).send().map_err(failed)?;
            let body = answer.ok().map_err(told)?;
            let answer: Value =
                serde_json::from_slice(&body).map_err(|e| Error::Wrong(format!("etcd: {e}")))?;
            *token = answer["token"].as_str().map(str::to_owned);
        }
        Ok(token.clone())
    }

    /// An answer of a member that comes line by line, and is waited for until an instant.
    /// [`penstock_fetch::Error::Late`] if it does not begin in time.
    ///
    /// # Errors
    /// The user is not known.
    pub fn lines(
        &self,
        member: &str,
        path: &str,
        message: &Value,
        end: Instant,
    ) -> Result<Result<Lines, penstock_fetch::Error>, Error> {
        /// What is due at once is worth one look.
        const LEAST: Duration = Duration::from_millis(20);
        let url = format!("{member}{path}");
        let quiet = end.saturating_duration_since(Instant::now()).max(LEAST);
        let request = self.client.post(&url).limit(LINE).quiet(quiet);
        let mut request = request.body(message.to_string());
        if let Some(token) = self.token(member, false)? {
            request = request.header("authorization", token);
        }
        Ok(request.lines())
    }
}

/// What etcd says is wrong.
pub(super) fn told(error: penstock_fetch::Error) -> Error {
    if let penstock_fetch::Error::Status { status, body } = &error
        && let Ok(Value::Object(message)) = serde_json::from_str::<Value>(body)
        && let Some(text) = message.get("error").and_then(Value::as_str)
    {
        let text = format!("etcd: {}", text.trim_start_matches("etcdserver: "));
        return if *status >= 500 { Error::Away(text) } else { Error::Refused(text) };
    }
    failed(error)
}

/// The bytes of a value.
///
/// # Errors
/// They are not in base64.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, Error> {
    let text = value.as_str().unwrap_or_default();
    BASE64.decode(text).map_err(|_| Error::Wrong("etcd: a value is not in base64".into()))
}

/// A number of 64 bits, which is a text.
///
/// # Errors
/// It is none.
pub(super) fn number(value: &Value) -> Result<u64, Error> {
    let number = value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_u64());
    number.ok_or_else(|| Error::Wrong("etcd: a number is missing".into()))
}
