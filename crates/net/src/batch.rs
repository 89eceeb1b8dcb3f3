// SPDX-License-Identifier: Apache-2.0

//! Reading of `ip -batch` files.
//!
//! The words are ip(8)'s; a line that begins with `bridge` has those of bridge(8), and one that
//! begins with `sysctl` sets [settings of devices](crate::Devconf). A line may begin with `-4` or `-6` (and `ip` before it), which `ip` itself takes only on its command line: IPv6
//! rules cannot be said otherwise. What is known but cannot be done yet is refused as clearly as
//! what is unknown.

use penstock_iproute2::Error;

use crate::config::{Config, Mode};
use crate::lines::{Words, lines, unknown};
use crate::tunnel_lines::{sixrd_line, tunnel_change_line, tunnel_line};
use crate::{
    Network, address_lines, bridge_lines, link_lines, neighbour_lines, route_lines, rule_lines,
    xfrm_lines,
};

impl Network {
    /// Applies the lines in order to a namespace that has only `lo`. `file` is for messages. The
    /// first line that fails ends it, as with `ip -batch`.
    pub fn from_batch(file: &str, text: &str) -> Result<Network, Error> {
        let mut config = Config::new();
        for (line, words) in lines(text) {
            apply(&mut config, &words).map_err(|message| Error {
                file: file.to_owned(),
                line,
                message,
            })?;
        }
        Ok(config.finish())
    }
}

type Done = Result<(), String>;

/// Takes any unambiguous beginning, as `ip` does: the first of `names` that starts with `word`.
fn abbreviated<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    names.iter().find(|n| !word.is_empty() && n.starts_with(word)).copied()
}

/// `sysctl NAME=VALUE...`, with the names of settings of devices; `-w` may stand before them.
fn sysctl_line(config: &mut Config, words: &mut Words<'_>) -> Done {
    words.take("-w");
    let mut some = false;
    while let Some(word) = words.next() {
        let split = word.split_once('=');
        let (name, value) = split
            .and_then(|(name, value)| Some((name, value.parse().ok()?)))
            .ok_or_else(|| format!("sysctl takes NAME=VALUE, a number, not \"{word}\""))?;
        if !config.sysctls.set(name, value)? {
            return Err(format!("{name} is no setting of devices"));
        }
        some = true;
    }
    let missing = config.sysctls.devices().find(|name| config.link(name).is_err());
    match missing {
        Some(name) => Err(format!("Cannot find device \"{name}\"")),
        None => some.then_some(()).ok_or_else(|| "sysctl takes NAME=VALUE".to_owned()),
    }
}

fn apply(config: &mut Config, words: &[String]) -> Done {
    let mut words = Words::new(words);
    if words.take("bridge") {
        return bridge_lines::line(config, &mut words);
    }
    if words.take("sysctl") {
        return sysctl_line(config, &mut words);
    }
    words.take("ip");
    let mut v6 = None;
    loop {
        if words.take("-6") {
            v6 = Some(true);
        } else if words.take("-4") {
            v6 = Some(false);
        } else {
            break;
        }
    }
    let objects = ["address", "route", "rule", "neighbor", "neighbour", "link", "tunnel"];
    let later = ["maddress", "mroute", "tuntap", "nexthop", "netns", "vrf", "l2tp", "sr"];
    let word = words.next().unwrap_or("");
    let object = match abbreviated(word, &objects) {
        _ if word == "xfrm" || word == "x" => return xfrm_lines::line(config, &mut words, v6),
        Some(o) => o,
        None if later.contains(&word) => return Err(format!("\"{word}\" is not supported yet")),
        None => return Err(unknown(word)),
    };
    let verbs: &[&str] = match object {
        "link" => &["add", "set"],
        "address" => &["add", "change", "replace"],
        "rule" => &["add", "delete"],
        "tunnel" => &["add", "change", "6rd"],
        _ => &["add", "change", "replace", "append", "prepend"],
    };
    let other = [
        "delete", "del", "show", "list", "lst", "flush", "get", "save", "restore", "change",
        "replace", "append",
    ];
    let word = words.next().ok_or_else(|| format!("\"{object}\" needs a command"))?;
    let verb = match abbreviated(word, verbs) {
        Some(v) => v,
        None if other.contains(&word) => {
            return Err(format!("\"{object} {word}\" is not supported yet"));
        }
        None => return Err(unknown(word)),
    };
    let mode = match verb {
        "change" => Mode::Change,
        "replace" => Mode::Replace,
        "append" => Mode::Append,
        "prepend" => Mode::Prepend,
        _ => Mode::Add,
    };
    match object {
        "link" if verb == "add" => link_lines::add(config, &mut words),
        "link" => link_lines::set(config, &mut words),
        "address" => address_lines::line(config, &mut words, mode),
        "route" => route_lines::line(config, &mut words, mode, v6),
        "rule" => rule_lines::line(config, &mut words, verb == "delete", v6),
        "tunnel" if verb == "change" => {
            let (index, tunnel) = tunnel_change_line(config, &mut words, v6)?;
            config.change_tunnel(index, tunnel, true)
        }
        "tunnel" if verb == "6rd" => {
            let (index, tunnel) = sixrd_line(config, &mut words)?;
            config.change_tunnel(index, tunnel, true)
        }
        "tunnel" => {
            let (name, tunnel) = tunnel_line(config, &mut words, v6)?;
            link_lines::add_named_tunnel(config, name, tunnel)
        }
        _ => neighbour_lines::line(config, &mut words, mode),
    }
}
