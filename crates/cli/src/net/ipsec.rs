// SPDX-License-Identifier: Apache-2.0

//! IPsec: what `ip xfrm policy` and `ip xfrm state` print, as lines. They have no `-j`, and print
//! nearly what they take.

use std::fmt::Write;

use penstock_net::Network;

/// Whether a text is what `ip xfrm` prints.
pub fn is_listing(text: &str) -> bool {
    text.trim_start().starts_with("src ") && (text.contains(" dir ") || text.contains(" spi "))
}

/// Lines for policies, and for states with their keys if those are wanted.
pub fn lines(listings: &str, keys: bool, out: &mut String) {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in listings.lines().filter(|line| !line.trim().is_empty()) {
        match blocks.last_mut() {
            Some(block) if line.starts_with(char::is_whitespace) => block.push(line),
            _ => blocks.push(vec![line]),
        }
    }
    // The newest comes first.
    let blocks = blocks.into_iter().rev();
    let (states, policies): (Vec<_>, Vec<_>) = blocks.partition(|block| is_state(block));
    let left_out = if keys { 0 } else { states.len() };
    for block in states.iter().filter(|_| keys) {
        put(&format!("xfrm state add {}", state(block)), out);
    }
    for block in policies.iter().filter(|block| !is_of_socket(block)) {
        put(&format!("xfrm policy add {}", policy(block)), out);
    }
    if left_out > 0 {
        let _ = writeln!(
            out,
            "# {left_out} states of IPsec are left out; --keys saves them with their keys"
        );
    }
}

/// Appends a line if it can be read, and otherwise as a comment.
fn put(line: &str, out: &mut String) {
    // A selector may name a device.
    let devices = match line.contains(" dev ") {
        true => out.lines().filter(|line| line.starts_with("link ")).collect(),
        false => Vec::new(),
    };
    match Network::from_batch("ip xfrm", &[&devices[..], &[line]].concat().join("\n")) {
        Ok(_) => {
            let _ = writeln!(out, "{line}");
        }
        Err(e) => {
            let reason = e.message.lines().next().unwrap_or_default();
            let _ = writeln!(out, "# not saved: {line} ({reason})");
        }
    }
}

fn is_state(block: &[&str]) -> bool {
    block.get(1).is_some_and(|line| line.trim_start().starts_with("proto "))
}

/// Policies of sockets are their programs'.
fn is_of_socket(block: &[&str]) -> bool {
    block.get(1).is_some_and(|line| line.trim_start().starts_with("socket "))
}

/// The words of a policy, as `ip xfrm policy add` takes them.
fn policy(block: &[&str]) -> String {
    let mut out = Vec::new();
    let mut words = block.iter().flat_map(|line| line.split_whitespace());
    while let Some(word) = words.next() {
        out.push(word);
        if word == "mark" {
            out.extend(mark(words.next().unwrap_or_default()));
        }
    }
    out.join(" ")
}

/// A mark, which is printed as `VALUE/MASK` and taken as `VALUE mask MASK`.
fn mark(text: &str) -> Vec<&str> {
    match text.split_once('/') {
        Some((value, mask)) => vec![value, "mask", mask],
        None => vec![text],
    }
}

/// The words of a state, as `ip xfrm state add` takes them.
fn state(block: &[&str]) -> String {
    /// Lines about what has happened since.
    const PAST: [&str; 4] = ["anti-replay", "lastused", "crypto", "stats:"];
    // With extended numbers, the window's size is among the details only.
    let extended = block.iter().find_map(|line| line.trim().strip_prefix("replay_window "));
    let window = extended.and_then(|details| details.split(',').next());
    let mut out = Vec::new();
    for line in block {
        let mut line_words: Vec<&str> = line.split_whitespace().collect();
        // A key of no bytes is printed as nothing.
        if let ["enc", _] | ["auth-trunc", _, _] = line_words[..] {
            line_words.insert(2, "\"\"");
        }
        // Details of a line before are indented by a tab and a blank.
        if line.starts_with("\t ") || line_words.first().is_some_and(|word| PAST.contains(word)) {
            continue;
        }
        let mut at = line_words.iter();
        while let Some(word) = at.next() {
            match *word {
                // Where the window stands.
                "seq" => drop(at.next()),
                "replay-window" => {
                    out.push(*word);
                    let own = at.next().copied();
                    out.extend(window.or(own));
                }
                "mark" | "output-mark" => {
                    out.push(*word);
                    out.extend(mark(at.next().copied().unwrap_or_default()));
                }
                // `encap type T sport S dport D addr A` is taken without these words.
                "type" | "sport" | "dport" | "addr" if line_words.first() == Some(&"encap") => {}
                word => out.push(word),
            }
        }
    }
    out.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "src 198.18.1.1 dst 198.18.1.2
\tproto esp spi 0x00000100 reqid 5 mode tunnel
\treplay-window 0 seq 0x00000000 flag esn
\tmark 0x5/0xff 
\taead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128
\tanti-replay esn context:
\t seq-hi 0x0, seq 0x0, oseq-hi 0x0, oseq 0x0
\t replay_window 32, bitmap-length 1
\t 00000000 
\tsel src 0.0.0.0/0 dst 0.0.0.0/0 
src 198.18.1.2 dst 198.18.1.1
\tproto esp spi 0x00000101 reqid 5 mode tunnel
\treplay-window 0 
\tauth-trunc hmac(sha256) 0x0102030405060708090a0b0c0d0e0f100102030405060708090a0b0c0d0e0f10 128
\tenc cbc(aes) 0x000102030405060708090a0b0c0d0e0f
\tencap type espinudp sport 4500 dport 4500 addr 0.0.0.0
\tlastused 2026-11-25 10:00:00
\tanti-replay context: seq 0x0, oseq 0x7, bitmap 0x00000000
src 198.18.0.0/24 dst 198.19.0.0/24 proto tcp dport 80 
\tdir fwd action block priority 0 ptype main 
src 198.18.0.0/24 dst 198.19.0.0/24 
\tdir out priority 7 ptype main 
\ttmpl src 198.18.1.1 dst 198.18.1.2
\t\tproto esp reqid 5 mode tunnel
src 0.0.0.0/0 dst 0.0.0.0/0 
\tsocket in priority 0 ptype main 
";

    #[test]
    fn policies_and_states_become_lines_that_can_be_read() {
        assert!(is_listing(LISTING));
        let policies = "xfrm policy add src 198.18.0.0/24 dst 198.19.0.0/24 dir out priority 7 ptype main tmpl src \
                        198.18.1.1 dst 198.18.1.2 proto esp reqid 5 mode tunnel\n\
                        xfrm policy add src 198.18.0.0/24 dst 198.19.0.0/24 proto tcp dport 80 dir fwd action block \
                        priority 0 ptype main\n";
        let mut without = String::new();
        lines(LISTING, false, &mut without);
        let note = "# 2 states of IPsec are left out; --keys saves them with their keys\n";
        assert_eq!(without, format!("{policies}{note}"));
        let mut with = String::new();
        lines(LISTING, true, &mut with);
        assert!(with.ends_with(policies), "{with}");
        assert_eq!(with.matches("xfrm state add src").count(), 2, "{with}");
        assert!(!with.contains('#'), "{with}");
        assert!(with.contains("encap espinudp 4500 4500 0.0.0.0"), "{with}");
        assert!(
            with.contains(
                "mode tunnel replay-window 32 flag esn mark 0x5 mask 0xff aead rfc4106(gcm(aes)) 0x"
            ),
            "{with}"
        );
        // A cipher without a key.
        let null = "src 198.18.1.2 dst 198.18.1.1\n\tproto esp spi 0x00000101 reqid 5 mode tunnel\n\treplay-window 0\n\
                    \tauth-trunc hmac(sha1) 0x0102030405060708090a0b0c0d0e0f1011121314 96\n\tenc ecb(cipher_null) \n";
        let mut keyless = String::new();
        lines(null, true, &mut keyless);
        assert!(keyless.ends_with(" enc ecb(cipher_null) \"\"\n"), "{keyless}");
        // A mark, and a device among those of the network.
        let listing =
            "src 198.18.0.1/32 dst 198.18.0.2/32 dev lan\n\tdir out priority 0\n\tmark 0x1/0x3\n";
        let mut marked = "link add name lan type veth\n".to_owned();
        lines(listing, false, &mut marked);
        let line = "xfrm policy add src 198.18.0.1/32 dst 198.18.0.2/32 dev lan dir out priority 0 mark 0x1 mask 0x3\n";
        assert!(marked.ends_with(line), "{marked}");
        // A line that means nothing here stays as a comment.
        let mut odd = String::new();
        lines("src 198.18.0.1/32 dst 198.18.0.2/32\n\tdir out odd 7\n", false, &mut odd);
        assert!(odd.starts_with("# not saved: xfrm policy add"), "{odd}");
    }
}
