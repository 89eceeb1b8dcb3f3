// SPDX-License-Identifier: Apache-2.0

//! A cluster whose nodes tell each other by NATS JetStream ([`crate::cluster`]): the section `Nats`.

use std::path::PathBuf;

use super::words::Words;
use crate::node_name::is_node_name;

/// Servers at most.
const MOST_SERVERS: usize = 16;
/// Shards, if the file says nothing, and at most.
const SHARDS: [usize; 2] = [8, 64];
/// Seconds that a message is kept, if the file says nothing; at least and at most.
const AGE: [u64; 3] = [3600, 60, 7 * 24 * 3600];
/// Bytes that are kept, if the file says nothing; at least.
const BYTES: [i64; 2] = [1 << 30, 16 << 20];
/// Copies of the log in a cluster of servers at most.
const MOST_REPLICAS: usize = 5;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nats {
    /// Where servers are: `nats://HOST[:PORT]` or `tls://HOST[:PORT]`; at least one (`Server`).
    pub servers: Vec<String>,
    /// The name of the cluster (`Cluster`).
    pub cluster: String,
    /// The name of this node (`Node`).
    pub node: String,
    /// A file with user and password, as `USER:PASSWORD` (`Credentials`).
    pub credentials: Option<PathBuf>,
    /// A file with certificates of authorities, in PEM (`CA`); `None` for those of the system.
    pub authorities: Option<PathBuf>,
    /// The file of the key that all nodes share (`Key`); without one, messages are neither encrypted
    /// nor authenticated but by TLS.
    pub key: Option<PathBuf>,
    /// Subjects that connections are spread over (`Shards`).
    pub shards: usize,
    /// Elements of sets that packets change are told (`Elements`).
    pub elements: bool,
    /// Seconds that messages are kept (`MaxAge`).
    pub max_age: u64,
    /// Bytes of messages that are kept (`MaxBytes`).
    pub max_bytes: i64,
    /// Messages are kept in memory, and not in files of the server (`Storage`).
    pub in_memory: bool,
    /// Servers that have the messages (`Replicas`).
    pub replicas: usize,
}

/// A number within limits.
fn number<T: Copy + std::str::FromStr + PartialOrd + std::fmt::Display>(
    words: &mut Words<'_>,
    clause: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let value: T = words.value("a number")?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(words.error(format_args!("{clause} is from {least} to {most}")))
}

fn name(words: &mut Words<'_>) -> Result<String, String> {
    let word = words.need("a name")?;
    if is_node_name(word) {
        return Ok(word.to_owned());
    }
    Err(words.error(format_args!("`{word}` is no name: 1 to 63 letters, digits, - and _")))
}

fn server(words: &mut Words<'_>) -> Result<String, String> {
    let word = words.need("a server")?;
    let rest = word.strip_prefix("nats://").or_else(|| word.strip_prefix("tls://"));
    let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
        return Err(words.error(format_args!(
            "`{word}` is no server: nats://HOST:PORT or tls://HOST:PORT is expected"
        )));
    };
    if rest.contains('@') {
        return Err(words.error("user and password are in the file of Credentials"));
    }
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    if host.is_empty() || !host.chars().all(good) || port.is_some_and(|port| !is_port(port)) {
        return Err(words.error(format_args!("`{word}` has no host, or a wrong port")));
    }
    Ok(word.to_owned())
}

impl Nats {
    /// Reads what follows `Nats`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let begin = words.line();
        let (mut cluster, mut node) = (None, None);
        let mut out = Nats {
            servers: Vec::new(),
            cluster: String::new(),
            node: String::new(),
            credentials: None,
            authorities: None,
            key: None,
            shards: SHARDS[0],
            elements: true,
            max_age: AGE[0],
            max_bytes: BYTES[0],
            in_memory: false,
            replicas: 1,
        };
        words.section(|words, clause| {
            match clause {
                "Server" if out.servers.len() < MOST_SERVERS => out.servers.push(server(words)?),
                "Server" => {
                    return Err(
                        words.error(format_args!("there are more than {MOST_SERVERS} servers"))
                    );
                }
                "Cluster" => cluster = Some(name(words)?),
                "Node" => node = Some(name(words)?),
                "Credentials" => out.credentials = Some(words.need("a file")?.into()),
                "CA" => out.authorities = Some(words.need("a file")?.into()),
                "Key" => out.key = Some(words.need("a file")?.into()),
                "Shards" => out.shards = number(words, clause, 1, SHARDS[1])?,
                "Elements" => out.elements = words.switch()?,
                "MaxAge" => out.max_age = number(words, clause, AGE[1], AGE[2])?,
                "MaxBytes" => out.max_bytes = number(words, clause, BYTES[1], i64::MAX)?,
                "Storage" => {
                    out.in_memory = match words.need("`file` or `memory`")? {
                        "file" => false,
                        "memory" => true,
                        other => {
                            return Err(words.error(format_args!(
                                "`file` or `memory` is expected, and not `{other}`"
                            )));
                        }
                    }
                }
                "Replicas" => out.replicas = number(words, clause, 1, MOST_REPLICAS)?,
                _ => return Err(words.error(format_args!("Nats has no clause `{clause}`"))),
            }
            Ok(())
        })?;
        let missing = |what: &str| format!("line {begin}: the section Nats has no {what}");
        if out.servers.is_empty() {
            return Err(missing("Server"));
        }
        out.cluster = cluster.ok_or_else(|| missing("Cluster"))?;
        out.node = node.ok_or_else(|| missing("Node"))?;
        Ok(out)
    }
}
