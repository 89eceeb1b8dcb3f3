// SPDX-License-Identifier: Apache-2.0

//! `penstock net save`: the network of a host as a network file, the lines that `--net` takes.

mod ipsec;
mod links;
mod routes;
mod said;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{errln, out};
use penstock_net::Network;

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use said::Said;

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

/// What there is to do.
pub const WORDS: [&str; 1] = ["save"];

const OPTIONS: &[Opt] = &[
    long(
        "remote",
        "take what ip(8) and bridge(8) printed elsewhere with `-j -d`, in place of this namespace;\n\
         `-` is standard input",
    )
    .takes("FILE...", Values::Files),
    long("keys", "save states of IPsec, too, with their keys"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let commands: String = said::COMMANDS
        .iter()
        .map(|(command, _)| *command)
        .chain(said::IPSEC)
        .map(|command| format!("    {command}\n"))
        .collect();
    format!(
        "Usage: penstock net save [--remote FILE...]\n\n\
         Prints the network of this namespace as lines for --net: links, addresses, routes, rules,\n\
         neighbours, VLANs of bridges, policies of IPsec.\n\n{}\n\
         For another host, give what these commands print there, in one file or several:\n\n{commands}",
        usage_lines(OPTIONS, 18),
    )
}

/// What is to be saved.
type Wanted = (Vec<PathBuf>, bool);

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Wanted>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut remote, mut save, mut keys) = (Vec::new(), false, false);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Long("remote") => {
                remote.extend(parser.values().map_err(sentence)?.map(PathBuf::from));
            }
            Long("keys") => keys = true,
            Short('h') | Long("help") => return Ok(None),
            Value(word) if word == "save" && !save => save = true,
            Value(word) => return Err(format!("unexpected argument `{}`", word.display())),
            other => return Err(sentence(other.unexpected())),
        }
    }
    match save {
        true => Ok(Some((remote, keys))),
        false => Err("`save` is missing".to_owned()),
    }
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (remote, keys) = match given("net", parse(args), usage) {
        Ok(wanted) => wanted,
        Err(status) => return status,
    };
    match save(&remote, keys) {
        Ok(text) => {
            out!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            errln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The lines of the network that these files are about, or of this namespace if there are none.
///
/// # Errors
/// What ip(8) says, or what of its output cannot be read.
pub fn save(remote: &[PathBuf], keys: bool) -> Result<String, String> {
    let said = match remote {
        [] => Said::here()?,
        files => Said::of_files(files)?,
    };
    let text = lines(&said, keys);
    // What is printed can be read.
    match Network::from_batch("the network", &text) {
        Ok(_) => Ok(text),
        Err(e) => Err(format!("{e}\nThe lines were:\n{text}")),
    }
}

/// The lines of a network.
fn lines(said: &Said, keys: bool) -> String {
    let mut out = String::new();
    links::links(said, &mut out);
    links::addresses(said, &mut out);
    links::vlans(said, &mut out);
    routes::routes(said, &mut out);
    routes::rules(said, &mut out);
    routes::neighbours(said, &mut out);
    ipsec::lines(&said.ipsec, keys, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Option<Wanted>, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_line_names_what_to_read() {
        assert_eq!(options("save"), Ok(Some((vec![], false))));
        let files = vec!["a".into(), "b".into()];
        assert_eq!(options("save --keys --remote a b"), Ok(Some((files, true))));
        assert_eq!(options(""), Err("`save` is missing".into()));
        assert_eq!(options("load"), Err("unexpected argument `load`".into()));
        assert_eq!(options("save -h"), Ok(None));
    }

    /// What hosts print, and what it becomes.
    #[test]
    fn what_ip_prints_becomes_lines() {
        for (json, expected) in [
            (
                r#"[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"link_type":"loopback"},
                    {"ifindex":2,"ifname":"eth0","flags":["BROADCAST","UP"],"mtu":1500,
                     "link_type":"ether","address":"02:00:00:00:00:02","group":"default",
                     "addr_info":[
                       {"family":"inet","local":"198.18.0.1","prefixlen":24,
                        "broadcast":"198.18.0.255","scope":"global"},
                       {"family":"inet6","local":"fe80::ff:fe00:2","prefixlen":64,"scope":"link",
                        "protocol":"kernel_ll"},
                       {"family":"inet6","local":"2001:db8::1","prefixlen":64,"scope":"global"}]},
                    {"ifindex":7,"link":"eth0","ifname":"eth0.5","flags":["UP"],"mtu":1500,
                     "link_type":"ether","address":"02:00:00:00:00:02",
                     "linkinfo":{"info_kind":"vlan","info_data":{"protocol":"802.1Q","id":5}}},
                    {"ifindex":9,"ifname":"wg0","flags":["NOARP"],"mtu":1420,"link_type":"none",
                     "linkinfo":{"info_kind":"wireguard"}},
                    {"ifindex":10,"ifname":"gretap0","flags":[],"mtu":1462,"link_type":"ether",
                     "address":"00:00:00:00:00:00","linkinfo":{"info_kind":"gretap"}},
                    {"ifindex":11,"ifname":"tunl0","flags":["NOARP"],"mtu":1480,"link_type":"ipip",
                     "linkinfo":{"info_kind":"ipip",
                      "info_data":{"proto":"any","remote":"any","local":"any","ttl":0}}}]"#,
                "link add name eth0 index 2 address 02:00:00:00:00:02 mtu 1500 type dummy\n\
                 link add link eth0 name eth0.5 index 7 mtu 1500 type vlan protocol 802.1Q id 5\n\
                 # wg0 is a link of type wireguard; here it is a plain wire.\n\
                 link add name wg0 index 9 mtu 1420 type dummy\n\
                 # gretap0 is a link of type gretap; here it is a plain wire.\n\
                 link add name gretap0 index 10 mtu 1462 type dummy\n\
                 # tunl0 is a link of type ipip; here it is a plain wire.\n\
                 link add name tunl0 index 11 mtu 1480 type dummy\n\
                 link set dev eth0 up\n\
                 link set dev eth0.5 up\n\
                 addr add 198.18.0.1/24 broadcast 198.18.0.255 dev eth0\n\
                 addr add 2001:db8::1/64 dev eth0\n",
            ),
            (
                r#"[{"ifindex":2,"ifname":"a","flags":["UP"],"link_type":"ether",
                     "address":"02:00:00:00:00:02"}]
                   [{"dst":"default","gateway":"198.18.0.9","dev":"a","flags":["onlink"],
                     "metric":100,"protocol":"static"},
                    {"dst":"198.18.0.0/24","dev":"a","protocol":"kernel","scope":"link","flags":[]},
                    {"type":"blackhole","dst":"198.19.9.0/24","flags":[],"table":"55"},
                    {"type":"local","table":"local","dst":"198.18.0.1","dev":"a","flags":[],
                     "protocol":"kernel"},
                    {"dst":"198.19.0.0/16","flags":[],"nexthops":[
                      {"gateway":"198.18.0.3","dev":"a","weight":2,"flags":["onlink"]},
                      {"via":{"family":"inet6","host":"fe80::9"},"dev":"a","weight":1,"flags":[]}]}]
                   [{"dst":"default","gateway":"fe80::1","dev":"a","flags":[],"pref":"medium",
                     "metric":1024}]
                   [{"priority":0,"src":"all","table":"local"},
                    {"priority":99,"src":"198.18.5.0","srclen":24,"fwmark":"0x5","table":"55"},
                    {"priority":32766,"src":"all","table":"main"}]
                   [{"priority":100,"src":"all","iif":"a","action":"unreachable"}]
                   [{"dst":"198.18.0.9","dev":"a","lladdr":"02:00:00:00:01:09","state":["STALE"]},
                    {"dst":"198.18.0.8","dev":"a","state":["FAILED"]}]"#,
                "link add name a index 2 address 02:00:00:00:00:02 type dummy\n\
                 link set dev a up\n\
                 route add default via 198.18.0.9 dev a onlink metric 100\n\
                 route add blackhole 198.19.9.0/24 table 55\n\
                 route add 198.19.0.0/16 nexthop via 198.18.0.3 dev a weight 2 onlink nexthop via \
                 inet6 fe80::9 dev a weight 1\n\
                 -6 route add default via fe80::1 dev a metric 1024\n\
                 rule add pref 99 from 198.18.5.0/24 fwmark 0x5 lookup 55\n\
                 -6 rule add pref 100 iif a unreachable\n\
                 neigh add 198.18.0.9 lladdr 02:00:00:00:01:09 dev a nud permanent\n",
            ),
        ] {
            let said = Said::parse("test", json).expect("JSON");
            assert_eq!(lines(&said, false), expected);
        }
    }

    #[test]
    fn text_for_people_is_refused_with_the_command() {
        let text =
            "2: eth0: <BROADCAST,UP> mtu 1500 qdisc noqueue state UP group default qlen 1000\n";
        let message = Said::parse("pasted.txt", text).expect_err("no JSON");
        assert!(message.starts_with("pasted.txt:1: this is not what `ip -j` prints"), "{message}");
        let message =
            Said::parse("x", r#"[{"kind":"htb","handle":"1:"}]"#).expect_err("no network");
        assert!(message.contains("neither"), "{message}");
    }
}
