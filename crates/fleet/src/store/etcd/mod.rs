// SPDX-License-Identifier: Apache-2.0

//! etcd, by the JSON gateway of its v3 API (etcd 3.4 and later; api/etcdserverpb/rpc.proto says what
//! messages mean): bytes are in base64, and numbers of 64 bits are texts.
//!
//! Below the prefix, `head` is the head, `blobs/DIGEST` a blob, `reports/NODE` a report, which is put
//! under a lease. The tag of a head is the revision in which it was written, so that replacing it is
//! one transaction, and waiting is a watch from the revision after. Reads are linearizable: a member
//! without a leader does not answer, and the next one is asked.

mod members;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use members::{Members, bytes, number, told};

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
/// After that time without a change the head is read again, maybe from another member: a watch on a
/// member that is cut off says nothing.
const WATCH: Duration = Duration::from_secs(5);

/// A cluster of etcd.
pub struct Etcd {
    members: Members,
    prefix: String,
    leases: Mutex<HashMap<String, Lease>>,
}

/// What a watch has seen in its time.
enum Seen {
    Nothing,
    /// The head has to be read again.
    Something,
    /// A later head.
    Head(Version),
}

/// A report under a lease.
#[derive(Clone)]
struct Lease {
    id: String,
    time: Duration,
    renewed: Instant,
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
        let members = Members::new(members, access)?;
        Ok(Etcd { members, prefix, leases: Mutex::new(HashMap::new()) })
    }

    fn key(&self, name: &str) -> String {
        BASE64.encode(format!("{}/{name}", self.prefix))
    }

    /// Values of keys, in order.
    fn values(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let ranges: Vec<Value> = names
            .iter()
            .map(|name| json!({ "request_range": { "key": self.key(name) } }))
            .collect();
        let limit = (limits::BLOB * 4 / 3 + 4096) * names.len() as u64;
        let answer = self.members.ask("/v3/kv/txn", &json!({ "success": ranges }), limit)?;
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
        let answer =
            self.members.ask("/v3/kv/range", &json!({ "key": self.key("head") }), limit)?;
        let revision = number(&answer["header"]["revision"])?;
        let kv = &answer["kvs"][0];
        if kv.is_null() {
            return Ok((None, revision));
        }
        let tag = number(&kv["mod_revision"])?.to_string();
        Ok((Some(Version { bytes: bytes(&kv["value"])?, tag }), revision))
    }

    /// Waits for a change of the head after a revision.
    fn watch(&self, revision: u64, end: Instant) -> Result<Seen, Error> {
        let message = json!({ "create_request": {
            "key": self.key("head"), "start_revision": (revision + 1).to_string(),
        } });
        self.members.any(|member| {
            let mut lines = match self.members.lines(member, "/v3/watch", &message, end)? {
                Ok(lines) => lines,
                Err(penstock_fetch::Error::Late) => return Ok(Seen::Nothing),
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
                        if result["canceled"] == true {
                            return Ok(Seen::Something);
                        }
                        if let Some(last) = result["events"].as_array().and_then(|all| all.last()) {
                            return Ok(put_of(last).map_or(Seen::Something, Seen::Head));
                        }
                    }
                    Ok(None) | Err(penstock_fetch::Error::Late) => return Ok(Seen::Nothing),
                    Err(e) => return Err(failed(e)),
                }
            }
            Ok(Seen::Nothing)
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
            let answer = self.members.ask("/v3/kv/range", &message, limit)?;
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

    /// Puts a report under a lease; `false` if that has ended.
    fn put_report(&self, node: &str, report: &[u8], lease: &str) -> Result<bool, Error> {
        let key = self.key(&format!("reports/{node}"));
        let message = json!({ "key": key, "value": BASE64.encode(report), "lease": lease });
        match self.members.ask("/v3/kv/put", &message, 4096) {
            Err(Error::Refused(why)) if why.contains("requested lease not found") => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Renews the lease of a report; `false` if it has ended.
    fn renew(&self, lease: &str) -> Result<bool, Error> {
        let answer = self.members.ask("/v3/lease/keepalive", &json!({ "ID": lease }), 4096)?;
        Ok(number(&answer["result"]["TTL"]).is_ok_and(|time| time > 0))
    }
}

impl Store for Etcd {
    fn address(&self) -> String {
        format!("{}/{}", self.members.address(), self.prefix)
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
            self.members.ask("/v3/kv/txn", &json!({ "success": puts }), 1 << 20)?;
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
            let answer = self.members.ask("/v3/kv/txn", &json!({ "success": ranges }), 1 << 20)?;
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
            let answer = self.members.ask("/v3/kv/txn", &message, 1 << 20)?;
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
        Ok(self.members.ask("/v3/kv/txn", &message, 4096)?["succeeded"] == true)
    }

    fn wait(&self, tag: Option<&str>, time: Duration) -> Result<Option<Version>, Error> {
        let end = Instant::now() + time.min(WATCH);
        loop {
            let (head, revision) = self.head_at()?;
            if head.as_ref().map(|head| head.tag.as_str()) != tag {
                return Ok(head);
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            match self.watch(revision, end)? {
                Seen::Nothing => return Ok(None),
                Seen::Something => {}
                Seen::Head(head) => return Ok(Some(head)),
            }
        }
    }

    fn report(&self, node: &str, report: &[u8], time: Duration) -> Result<(), Error> {
        if !is_node_name(node) {
            return Err(Error::Refused(format!("{node:?} is no name of a node")));
        }
        let leases = || self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let known = leases().get(node).cloned().filter(|lease| lease.time == time);
        if let Some(lease) = known {
            // The time of a lease does not begin again with what is put under it.
            let is_due = lease.renewed.elapsed() >= time / 4;
            let is_there = !is_due || self.renew(&lease.id)?;
            if is_there && self.put_report(node, report, &lease.id)? {
                if is_due {
                    let lease = Lease { renewed: Instant::now(), ..lease };
                    leases().insert(node.to_owned(), lease);
                }
                return Ok(());
            }
        }
        let message = json!({ "TTL": time.as_secs().max(1).to_string() });
        let answer = self.members.ask("/v3/lease/grant", &message, 4096)?;
        let id = number(&answer["ID"])?.to_string();
        if !self.put_report(node, report, &id)? {
            return Err(Error::Away("the lease of the report has ended at once".into()));
        }
        leases().insert(node.to_owned(), Lease { id, time, renewed: Instant::now() });
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

/// The head that an event of a watch has put.
fn put_of(event: &Value) -> Option<Version> {
    let kv = &event["kv"];
    // Of one that deletes the head, there is no value.
    let bytes = bytes(&kv["value"]).ok().filter(|bytes| !bytes.is_empty())?;
    Some(Version { bytes, tag: number(&kv["mod_revision"]).ok()?.to_string() })
}
