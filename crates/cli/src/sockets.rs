// SPDX-License-Identifier: Apache-2.0

//! `--sockets FILE`: the host's sockets, a line each.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use penstock_dataplane::{ListedSocket, SocketList};
use penstock_net::Network;

/// Reads a file of lines
/// `tcp LOCAL:PORT [peer REMOTE:PORT] [dev DEVICE] [mark N] [transparent] [cgroup ID…]`. The error
/// is a sentence for the user.
pub fn read(file: &Path, net: &Network) -> Result<SocketList, String> {
    let text =
        std::fs::read_to_string(file).map_err(|e| format!("Error: {}: {e}", file.display()))?;
    let mut list = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            let at = |what| format!("Error: {}:{number}: {what}", file.display());
            list.push(socket(&words, net).map_err(at)?);
        }
    }
    Ok(SocketList(list))
}

fn socket(words: &[&str], net: &Network) -> Result<ListedSocket, String> {
    let (protocol, local, mut rest) = match words {
        ["tcp", local, rest @ ..] => (6, local, rest),
        ["udp", local, rest @ ..] => (17, local, rest),
        _ => return Err("a socket is `tcp` or `udp` and where it is bound to".into()),
    };
    let mut socket = ListedSocket {
        protocol,
        local: bound(local)?,
        remote: None,
        device: None,
        transparent: false,
        mark: 0,
        cgroups: Vec::new(),
    };
    while let Some((&word, behind)) = rest.split_first() {
        rest = behind;
        if word == "transparent" {
            socket.transparent = true;
            continue;
        }
        let Some((&value, behind)) = rest.split_first() else {
            return Err(format!("`{word}` of what?"));
        };
        rest = behind;
        match word {
            "peer" => {
                let peer: SocketAddr =
                    value.parse().map_err(|_| format!("`{value}` is no address and port"))?;
                socket.remote = Some((peer.ip(), peer.port()));
            }
            "dev" => {
                let link = net
                    .link_by_name(value)
                    .ok_or_else(|| format!("there is no device `{value}`"))?;
                socket.device = Some(link.index);
            }
            "mark" => socket.mark = number(value)? as u32,
            "cgroup" => socket.cgroups.push(number(value)?),
            _ => return Err(format!("`{word}` says nothing about a socket")),
        }
    }
    Ok(socket)
}

/// `*:PORT` for all addresses.
fn bound(text: &str) -> Result<(Option<IpAddr>, u16), String> {
    let wrong = || format!("`{text}` is no address and port");
    if let Some(port) = text.strip_prefix("*:") {
        return Ok((None, port.parse().map_err(|_| wrong())?));
    }
    let address: SocketAddr = text.parse().map_err(|_| wrong())?;
    Ok((Some(address.ip()).filter(|ip| !ip.is_unspecified()), address.port()))
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x");
    let number = digits.map_or_else(|| text.parse().ok(), |d| u64::from_str_radix(d, 16).ok());
    number.ok_or_else(|| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ListedSocket, String> {
        let net = Network::from_batch("net.ip", "link add name lan type veth").unwrap();
        socket(&line.split_whitespace().collect::<Vec<_>>(), &net)
    }

    #[test]
    fn socket_lines_give_binding_and_properties() {
        let all = parse("tcp *:3000 transparent mark 0x10 dev lan cgroup 7 cgroup 9").unwrap();
        assert_eq!(
            (all.protocol, all.local, all.transparent, all.mark),
            (6, (None, 3000), true, 16)
        );
        assert_eq!((all.device.is_some(), all.cgroups), (true, vec![7, 9]));
        let one = parse("udp [2001:db8::1]:53 peer [2001:db8::2]:1000").unwrap();
        assert_eq!(one.local, (Some("2001:db8::1".parse().unwrap()), 53));
        assert_eq!(one.remote, Some(("2001:db8::2".parse().unwrap(), 1000)));
        assert_eq!(parse("tcp 0.0.0.0:80").unwrap().local, (None, 80));
        for (line, message) in [
            ("sctp *:1", "a socket is `tcp` or `udp` and where it is bound to"),
            ("tcp 198.18.0.1", "`198.18.0.1` is no address and port"),
            ("tcp *:1 dev wan", "there is no device `wan`"),
            ("tcp *:1 mark", "`mark` of what?"),
            ("tcp *:1 mark x", "`x` is no number"),
            ("tcp *:1 old yes", "`old` says nothing about a socket"),
        ] {
            assert_eq!(parse(line), Err(message.to_owned()), "{line}");
        }
    }
}
