// SPDX-License-Identifier: Apache-2.0

//! `penstock run --report` and `penstock draw` as their users see them.

use std::path::Path;
use std::process::Command;

use penstock_io::LinkType;

use crate::place::{T, TestDir, frame, text};

/// A comment that would be markup if it was not escaped, and a prefix that would leave an attribute.
const HOSTILE: &str = "table inet t {\n\
    chain f {\n\
    type filter hook forward priority 0; policy drop;\n\
    udp dport 53 counter accept comment \"</pre></style><script>document.title='owned'</script>\"\n\
    udp dport 9 log prefix \"<img src=x onerror=alert(1)>'\" jump never-b\n\
    udp dport 77 goto never\n\
    }\n\
    chain never { counter\n}\n\
    chain never-b { udp sport 5000 drop\n}\n\
    chain lost { accept\n}\n\
    }\n";

fn reported(name: &str, more: &str) -> (TestDir, String) {
    let place = TestDir::new(name);
    let frames = [53, 9, 53, 53, 7, 9].map(|port| (T, frame(port)));
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    place.write("hostile.nft", HOSTILE.as_bytes());
    let out = place.run(&format!(
        "--net net.ip --rules hostile.nft --read lan=lan.pcap --report page.html {more}"
    ));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let page = std::fs::read_to_string(place.0.join("page.html")).unwrap();
    (place, page)
}

/// What is shown: text without tags, a blank for each.
fn shown(page: &str) -> String {
    let body = page.split_once("<main>").unwrap().1;
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        out.push(' ');
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    let out = out.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let out = out.replace("&#39;", "'").replace("&amp;", "&");
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_report_counts_packets_by_rule_hook_flow_and_reason() {
    let (place, page) = reported("report", "--report-frame 5");
    let shown = shown(&page);
    for part in [
        "in 6 transmitted 3 delivered 0 dropped 3 forwarded 6",
        "policy drop; t f 3 stopped",
        "2 rule inet t never-b handle 9 at hostile.nft:10: udp sport 5000 drop",
        "1 policy inet t f",
        "3 udp dport 53 counter accept comment \"</pre></style><script>",
        "2 udp dport 9 log prefix \"<img src=x onerror=alert(1)>'\" jump never-b",
        "0 udp dport 77 goto never",
        "1 policy drop",
        "inet t lost accept hostile.nft:12 What packets met",
        "frame 5 from lan: dropped: policy: inet t f",
        "3 from lan: sent on wan by hostile.nft:4 Frame 1:",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    // The run itself prints what it prints without a report.
    let run = |more: &str| {
        let out =
            place.run(&format!("--net net.ip --rules hostile.nft --read lan=lan.pcap {more}"));
        let told = text(&out.stderr);
        let told: Vec<_> = told.lines().filter(|l| !l.starts_with("rate ")).collect();
        (text(&out.stdout), told.join("\n"))
    };
    assert_eq!(run("--report page.html"), run(""));
}

#[test]
fn a_page_refers_to_nothing_and_has_no_tag_of_a_ruleset() {
    let (_place, page) = reported("report-alone", "");
    let lower = page.to_lowercase();
    for forbidden in
        ["<script", "<img", "<iframe", "<link", "src=\"", "url(h", "http://", "https://", "@import"]
    {
        assert!(!lower.contains(forbidden), "{forbidden}");
    }
    let targets = page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for target in targets {
        let id = target.strip_prefix('#').expect(target);
        assert!(page.contains(&format!("id=\"{id}\"")), "nothing has the id {id}");
    }
    assert!(page.contains("default-src &#39;none&#39;"), "no policy");
}

#[test]
fn drawings_have_all_chains_and_jumps() {
    let place = TestDir::new("draw");
    place.write("hostile.nft", HOSTILE.as_bytes());
    let out = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .args(["draw", "--rules", "hostile.nft"])
        .current_dir(&place.0)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let svg = text(&out.stdout);
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
    assert!(svg.ends_with("</svg>"));
    for part in
        ["hostile.nft", ">never-b<", ">lost<", "nothing leads here", "forward · drop · 3 rules"]
    {
        assert!(svg.contains(part), "{part}");
    }
    assert_eq!(svg.matches("class=\"call\"").count(), 1, "a jump");
    assert_eq!(svg.matches("class=\"call goto\"").count(), 1, "a goto");
}

/// The page at an address after a browser has read it, and scripts on it have had five seconds.
/// `None` if there is no browser.
pub fn in_browser(address: &str, profile: &Path) -> Option<String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let out = names.into_iter().find_map(|name| {
        Command::new(name)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg("--virtual-time-budget=5000")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(address)
            .output()
            .ok()
    })?;
    assert!(out.status.success(), "{}", text(&out.stderr));
    Some(text(&out.stdout))
}

#[test]
fn a_browser_shows_the_page_and_runs_nothing_of_it() {
    let (place, page) = reported("report-browser", "");
    let address = format!("file://{}", place.0.join("page.html").display());
    let Some(dom) = in_browser(&address, &place.0.join("profile")) else {
        eprintln!("skipped: there is no chromium (Debian: chromium)");
        return;
    };
    assert!(dom.contains("<title>hostile.nft</title>"), "a script has run:\n{dom}");
    assert!(!dom.contains("<script") && !dom.contains("<img"), "{dom}");
    // The browser finds the elements that were written.
    for tag in ["<tr", "<section", "<svg", "<details", "<rect"] {
        assert_eq!(dom.matches(tag).count(), page.matches(tag).count(), "{tag}");
    }
}
