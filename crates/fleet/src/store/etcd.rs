// SPDX-License-Identifier: Apache-2.0

//! etcd, by the JSON gateway of its v3 API (etcd 3.4 and later; api/etcdserverpb/rpc.proto says what
//! messages mean): bytes are in base64, and numbers of 64 bits are texts.
//!
//! Below the prefix, `head` is the head, `blobs/DIGEST` a blob, `reports/NODE` a report, which is put
//! under a lease. The tag of a head is the revision in which it was written, so that replacing it is
//! one transaction, and waiting is a watch from the revision after. Reads are linearizable: a member
//! without a leader does not answer, and the next one is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use penstock_fetch::{Client, Options};
use serde_json::{Value, json};

use super::{Access, Error, Store, Version, failed};
use crate::report::is_node_name;
use crate::{Digest, limits};

/// So many blobs are asked for in one transaction. The gateway's answers are bounded by 4 MiB.
const READ_AT_ONCE: usize = 8;
/// Bytes of blobs that are put in one transaction: etcd takes requests of 1.5 MiB.
const PUT_AT_ONCE: usize = 512 << 10;
/// So many keys are asked about in one transaction, which may have 128.
const ASKED_AT_ONCE: usize = 100;
/// Reports of one answer.
const REPORTS: usize = 500;
/// Names of blobs of one answer.
const NAMES: usize = 10_000;
/// A member that does not answer in that time is not waited for: the next one is asked.
const PATIENCE: Duration = Duration::from_secs(5);
/// After that time without a change the head is read again, maybe from another member: a watch on a
/// member that is cut off says nothing.
const WATCH: Duration = Duration::from_secs(5);
/// Bytes of a line of a watch.
const LINE: u64 = 4 << 20;

/// A cluster of etcd.
pub struct Etcd {
    /// Addresses of members, with scheme and port.
    members: Vec<String>,
    /// The member that answered last.
    member: AtomicUsize,
    prefix: String,
    client: Client,
    /// User and password.
    login: Option<(String, String)>,
    token: Mutex<Option<String>>,
    leases: Mutex<HashMap<String, Lease>>,
}

/// A report under a lease.
#[derive(Clone)]
struct Lease {
    id: String,
    report: Vec<u8>,
    time: Duration,
}

impl Etcd {
    /// The store of an address: `etcd://HOST:PORT[,HOST:PORT]/PREFIX`, or `etcds://` with TLS.
    ///
    /// # Errors
    /// The address has no host or no prefix, or files cannot be used.
    pub fn new(address: &str, access: &Access) -> Result<Etcd, Error> {
        let wrong = || Error::Refused("etcd is etcd://HOST:PORT[,HOST:PORT]/PREFIX".into());
        let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
        let scheme = if scheme == "etcds" { "https" } else { "http" };
        let (hosts, prefix) = rest.split_once('/').ok_or_else(wrong)?;
        let prefix = prefix.trim_matches('/').to_owned();
        if prefix.is_empty() || hosts.split(',').any(str::is_empty) || hosts.contains('@') {
            return Err(wrong());
        }
        let members = hosts.split(',').map(|host| format!("{scheme}://{host}")).collect();
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
        Ok(Etcd {
            members,
            member: AtomicUsize::new(0),
            prefix,
            client,
            login: login.transpose()?,
            token: Mutex::new(None),
            leases: Mutex::new(HashMap::new()),
        })
    }

    fn key(&self, name: &str) -> String {
        BASE64.encode(format!("{}/{name}", self.prefix))
    }

    /// Asks the members in turn, beginning with the one that answered last.
    fn any<T>(&self, ask: impl Fn(&str) -> Result<T, Error>) -> Result<T, Error> {
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

    fn ask(&self, path: &str, message: &Value, limit: u64) -> Result<Value, Error> {
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

    /// Values of keys, in order.
    fn values(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let ranges: Vec<Value> = names
            .iter()
            .map(|name| json!({ "request_range": { "key": self.key(name) } }))
            .collect();
        let limit = (limits::BLOB * 4 / 3 + 4096) * names.len() as u64;
        let answer = self.ask("/v3/kv/txn", &json!({ "success": ranges }), limit)?;
        let responses = answer["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        if responses.len() != names.len() {
            return Err(Error::Wrong("etcd answers with another number of keys".into()));
        }
        responses
            .iter()
            .map(|response| {
                let kv = &response["response_range"]["kvs"][0];
                if kv.is_null() { Ok(None) } else { bytes(&kv["value"]).map(Some) }
            })
            .collect()
    }

    /// The head, and the revision of the whole store at which it was that.
    fn head_at(&self) -> Result<(Option<Version>, u64), Error> {
        let limit = limits::HEAD * 4 / 3 + 4096;
        let answer = self.ask("/v3/kv/range", &json!({ "key": self.key("head") }), limit)?;
        let revision = number(&answer["header"]["revision"])?;
        let kv = &answer["kvs"][0];
        if kv.is_null() {
            return Ok((None, revision));
        }
        let tag = number(&kv["mod_revision"])?.to_string();
        Ok((Some(Version { bytes: bytes(&kv["value"])?, tag }), revision))
    }

    /// Waits for a change of the head after a revision: `false` if there is none for a time.
    fn watch(&self, revision: u64, end: Instant) -> Result<bool, Error> {
        let message = json!({ "create_request": {
            "key": self.key("head"), "start_revision": (revision + 1).to_string(),
        } });
        self.any(|member| {
            let url = format!("{member}/v3/watch");
            let mut request = self.client.post(&url).limit(LINE).body(message.to_string());
            if let Some(token) = self.token(member, false)? {
                request = request.header("authorization", token);
            }
            let mut lines = match request.lines() {
                Ok(lines) => lines,
                Err(penstock_fetch::Error::Late) => return Ok(false),
                Err(e) => return Err(told(e)),
            };
            while Instant::now() < end {
                match lines.next_line() {
                    Ok(Some(line)) => {
                        let line: Value = serde_json::from_slice(&line)
                            .map_err(|e| Error::Wrong(format!("etcd: {e}")))?;
                        let result = &line["result"];
                        // A watch that etcd ends, as when the revision is compacted, is a reason to
                        // read the head again.
                        if result["events"].is_array() || result["canceled"] == true {
                            return Ok(true);
                        }
                    }
                    Ok(None) | Err(penstock_fetch::Error::Late) => return Ok(false),
                    Err(e) => return Err(failed(e)),
                }
            }
            Ok(false)
        })
    }

    /// Takes all keys below a name, as what follows it, with their values in base64, page by page,
    /// until `take` gives `false`.
    fn each_below(
        &self,
        name: &str,
        page: usize,
        keys_only: bool,
        mut take: impl FnMut(&str, &Value) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let prefix = format!("{}/{name}/", self.prefix);
        // The first key that does not begin with the prefix: `0` is after `/`.
        let end = format!("{}/{name}0", self.prefix);
        let mut from = prefix.clone();
        loop {
            let message = json!({
                "key": BASE64.encode(&from), "range_end": BASE64.encode(&end),
                "limit": page.to_string(), "keys_only": keys_only,
            });
            let limit = limits::REPORT * 2 * REPORTS as u64;
            let answer = self.ask("/v3/kv/range", &message, limit)?;
            let found = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
            for kv in found {
                let key = bytes(&kv["key"])?;
                let key = String::from_utf8_lossy(&key).into_owned();
                let rest = key.strip_prefix(&prefix);
                if let Some(rest) = rest
                    && !take(rest, &kv["value"])?
                {
                    return Ok(());
                }
                from = key + "\0";
            }
            if found.len() < page {
                return Ok(());
            }
        }
    }

    /// Renews the lease of a report; `false` if it has ended.
    fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": lease.id }), 4096)?;
        Ok(number(&answer["result"]["TTL"]).is_ok_and(|time| time > 0))
    }
}

impl Store for Etcd {
    fn address(&self) -> String {
        let tls = self.members.iter().any(|member| member.starts_with("https"));
        let hosts = self.members.iter().filter_map(|m| m.split_once("://").map(|(_, host)| host));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("{}://{hosts}/{}", if tls { "etcds" } else { "etcd" }, self.prefix)
    }

    fn blobs(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Error> {
        let mut blobs = Vec::with_capacity(digests.len());
        for digests in digests.chunks(READ_AT_ONCE) {
            let names: Vec<String> = digests.iter().map(|d| format!("blobs/{d}")).collect();
            for (digest, value) in digests.iter().zip(self.values(&names)?) {
                blobs.push(value.ok_or(Error::Missing(*digest))?);
            }
        }
        Ok(blobs)
    }

    fn put_blobs(&self, blobs: &[&[u8]]) -> Result<(), Error> {
        let mut rest = blobs;
        while !rest.is_empty() {
            let mut size = 0;
            let fits = rest.iter().take(ASKED_AT_ONCE).take_while(|blob| {
                size += blob.len();
                size <= PUT_AT_ONCE
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            let puts: Vec<Value> = now
                .iter()
                .map(|blob| {
                    let key = self.key(&format!("blobs/{}", Digest::of(blob)));
                    json!({ "request_put": { "key": key, "value": BASE64.encode(blob) } })
                })
                .collect();
            self.ask("/v3/kv/txn", &json!({ "success": puts }), 1 << 20)?;
            rest = later;
        }
        Ok(())
    }

    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, Error> {
        let mut missing = Vec::new();
        for digests in digests.chunks(ASKED_AT_ONCE) {
            let ranges: Vec<Value> = digests
                .iter()
                .map(|digest| {
                    let key = self.key(&format!("blobs/{digest}"));
                    json!({ "request_range": { "key": key, "count_only": true } })
                })
                .collect();
            let answer = self.ask("/v3/kv/txn", &json!({ "success": ranges }), 1 << 20)?;
            for (number_of, digest) in digests.iter().enumerate() {
                let count = &answer["responses"][number_of]["response_range"]["count"];
                if !number(count).is_ok_and(|count| count > 0) {
                    missing.push(*digest);
                }
            }
        }
        Ok(missing)
    }

    fn names(&self) -> Result<Vec<Digest>, Error> {
        let mut names = Vec::new();
        self.each_below("blobs", NAMES, true, |name, _| {
            // What is no blob is not this store's.
            names.extend(name.parse::<Digest>().ok());
            Ok(true)
        })?;
        Ok(names)
    }

    fn remove(&self, tag: &str, digests: &[Digest]) -> Result<bool, Error> {
        let key = self.key("head");
        let mut tag = tag.to_owned();
        for digests in digests.chunks(ASKED_AT_ONCE) {
            let Some(head) = self.head()?.filter(|head| head.tag == tag) else { return Ok(false) };
            let compare =
                json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": tag });
            let put = json!({ "request_put": { "key": key, "value": BASE64.encode(head.bytes) } });
            let removed = digests.iter().map(|digest| {
                let key = self.key(&format!("blobs/{digest}"));
                json!({ "request_delete_range": { "key": key } })
            });
            let all: Vec<Value> = removed.chain([put]).collect();
            let message = json!({ "compare": [compare], "success": all });
            let answer = self.ask("/v3/kv/txn", &message, 1 << 20)?;
            if answer["succeeded"] != true {
                return Ok(false);
            }
            tag = number(&answer["header"]["revision"])?.to_string();
        }
        Ok(true)
    }

    fn head(&self) -> Result<Option<Version>, Error> {
        Ok(self.head_at()?.0)
    }

    fn swap_head(&self, tag: Option<&str>, bytes: &[u8]) -> Result<bool, Error> {
        let key = self.key("head");
        let compare = match tag {
            Some(tag) => {
                json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": tag })
            }
            None => {
                json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" })
            }
        };
        let put = json!({ "request_put": { "key": key, "value": BASE64.encode(bytes) } });
        let message = json!({ "compare": [compare], "success": [put] });
        Ok(self.ask("/v3/kv/txn", &message, 4096)?["succeeded"] == true)
    }

    fn wait(&self, tag: Option<&str>, time: Duration) -> Result<Option<Version>, Error> {
        let end = Instant::now() + time.min(WATCH);
        loop {
            let (head, revision) = self.head_at()?;
            if head.as_ref().map(|head| head.tag.as_str()) != tag {
                return Ok(head);
            }
            if Instant::now() >= end || !self.watch(revision, end)? {
                return Ok(None);
            }
        }
    }

    fn report(&self, node: &str, report: &[u8], time: Duration) -> Result<(), Error> {
        if !is_node_name(node) {
            return Err(Error::Refused(format!("{node:?} is no name of a node")));
        }
        let leases = || self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let known = leases().get(node).cloned().filter(|lease| lease.time == time);
        let alive = match &known {
            Some(lease) => self.renew(lease)?,
            None => false,
        };
        let id = match known {
            Some(lease) if alive && lease.report == report => return Ok(()),
            Some(lease) if alive => lease.id,
            _ => {
                let message = json!({ "TTL": time.as_secs().max(1).to_string() });
                let answer = self.ask("/v3/lease/grant", &message, 4096)?;
                number(&answer["ID"])?.to_string()
            }
        };
        let key = self.key(&format!("reports/{node}"));
        let message = json!({ "key": key, "value": BASE64.encode(report), "lease": id });
        self.ask("/v3/kv/put", &message, 4096)?;
        leases().insert(node.to_owned(), Lease { id, report: report.to_vec(), time });
        Ok(())
    }

    fn reports(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut reports = Vec::new();
        self.each_below("reports", REPORTS, false, |node, value| {
            if is_node_name(node) {
                reports.push((node.to_owned(), bytes(value)?));
            }
            Ok(reports.len() < limits::REPORTS)
        })?;
        Ok(reports)
    }
}

/// What etcd says is wrong.
fn told(error: penstock_fetch::Error) -> Error {
    if let penstock_fetch::Error::Status { status, body } = &error
        && let Ok(Value::Object(message)) = serde_json::from_str::<Value>(body)
        && let Some(text) = message.get("error").and_then(Value::as_str)
    {
        let text = format!("etcd: {}", text.trim_start_matches("etcdserver: "));
        return if *status >= 500 { Error::Away(text) } else { Error::Refused(text) };
    }
    failed(error)
}

fn bytes(value: &Value) -> Result<Vec<u8>, Error> {
    let text = value.as_str().unwrap_or_default();
    BASE64.decode(text).map_err(|_| Error::Wrong("etcd: a value is not in base64".into()))
}

/// A number of 64 bits, which is a text.
fn number(value: &Value) -> Result<u64, Error> {
    let number = value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_u64());
    number.ok_or_else(|| Error::Wrong("etcd: a number is missing".into()))
}
