// SPDX-License-Identifier: Apache-2.0

//! The page.

use std::collections::BTreeMap;

use crate::markup::{Markup, bytes, number};
use crate::rules::{Chain, Counted, Rule, Table};
use crate::timeline::Timelines;
use crate::{Dropped, Flow, Port, Report, Way, calls_drawing, hooks_drawing};

/// Colours and drawings: what a drawing alone needs, too.
pub const DRAWING_STYLE: &str = include_str!("drawing.css");
/// All of it.
pub const STYLE: &str = concat!(include_str!("drawing.css"), include_str!("page.css"));

/// Rules that a page shows at most: a browser has to lay them out.
const RULES: usize = 20_000;
/// Rules that no packet met and that are named in their list.
const UNMET: usize = 500;

/// Nothing is fetched, and nothing runs: not even a hole in the escaping would let a text of a
/// ruleset do anything.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = Markup::default();
    start(report, Some(POLICY), &mut out);
    out.raw("</head><body><main>");
    body(report, &mut out);
    out.raw("</main></body></html>\n");
    out.into_string()
}

/// The whole page with its script. Its policy is that of the server.
pub fn live_page(report: &Report, devices: &[String]) -> String {
    let mut out = Markup::default();
    start(report, None, &mut out);
    out.raw(
        "<script src=\"live.js\" defer></script></head><body><main><div class=\"status\">\
         <span>as of <output id=\"state\">now</output></span>\
         <label><input type=\"checkbox\" id=\"paused\"> pause</label></div>\
         <details class=\"ask\" open><summary>What happens to a packet?</summary>\
         <form id=\"packet\"><label>from <select name=\"from\">",
    );
    for device in devices {
        out.element("option", |_| {}, device);
    }
    out.raw(
        "</select></label><input name=\"packet\" required autocomplete=\"off\" spellcheck=\"false\" \
         placeholder=\"ip saddr 198.18.0.10 ip daddr 198.19.0.2 tcp dport 443\" aria-label=\"packet\">\
         <button>Show its way</button></form>\
         <p class=\"about\">Written like the matches of a rule. It passes a copy of the ruleset as the first \
         packet of its connection; nothing is sent.</p><pre id=\"answer\" hidden></pre></details>\
         <div id=\"live\">",
    );
    body(report, &mut out);
    out.raw("</div></main></body></html>\n");
    out.into_string()
}

fn start(report: &Report, policy: Option<&'static str>, out: &mut Markup) {
    out.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    if let Some(policy) = policy {
        out.open("meta", |a| {
            a.set("http-equiv", "Content-Security-Policy").set("content", policy);
        });
    }
    out.raw(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">",
    );
    out.element("title", |_| {}, &report.title);
    out.raw("<style>");
    out.raw(STYLE);
    out.raw("</style>");
}

/// What is in the page's `<main>`.
pub fn body(report: &Report, out: &mut Markup) {
    head(report, out);
    way(report, out);
    ports(&report.ports, out);
    drops(report, out);
    flows(report, out);
    rules(report, out);
    calls(report, out);
    unmet(report, out);
    ways(report, out);
}

fn head(report: &Report, out: &mut Markup) {
    out.raw("<header>");
    out.element("h1", |_| {}, &report.title);
    out.element(
        "p",
        |a| {
            a.set("class", "subtitle");
        },
        &report.subtitle,
    );
    if !report.facts.is_empty() {
        out.raw("<dl class=\"facts\">");
        for (name, count) in &report.facts {
            let class = if name == "dropped" && *count > 0 { "drops" } else { "" };
            out.open("div", |a| {
                a.set("class", class);
            });
            out.element("dt", |_| {}, name);
            out.element("dd", |_| {}, number(*count));
            out.raw("</div>");
        }
        out.raw("</dl>");
    }
    for note in &report.notes {
        out.element(
            "p",
            |a| {
                a.set("class", "note");
            },
            note,
        );
    }
    let sections = [
        ("#hooks", "Hooks", true),
        ("#ports", "Devices", !report.ports.is_empty()),
        ("#drops", "Drops", !report.drops.is_empty()),
        ("#flows", "Flows", !report.flows.is_empty()),
        ("#rules", "Rules", true),
        ("#calls", "Chains", true),
        ("#unmet", "Rules never met", report.rules.counted != Counted::Nothing),
        ("#ways", "Traces", !report.ways.is_empty()),
    ];
    out.raw("<nav>");
    for (target, name, _) in sections.into_iter().filter(|(_, _, shown)| *shown) {
        out.element(
            "a",
            |a| {
                a.set("href", target);
            },
            name,
        );
    }
    out.raw("</nav></header>");
}

fn section(out: &mut Markup, id: &'static str, title: &'static str, about: &str) {
    out.open("section", |a| {
        a.set("id", id);
    });
    out.element("h2", |_| {}, title);
    if !about.is_empty() {
        out.element(
            "p",
            |a| {
                a.set("class", "about");
            },
            about,
        );
    }
}

fn way(report: &Report, out: &mut Markup) {
    let about = match report.hooks.passed.is_empty() {
        true => "Base chains at each hook, in the order in which they run.",
        false => {
            "Base chains at each hook, in the order in which they run; packets on the arrows. \
             What stopped at a hook was dropped there, or taken over by a rule."
        }
    };
    section(out, "hooks", "The way through the hooks", about);
    let drawing = hooks_drawing::Drawing::new(&report.rules, &report.hooks);
    svg(out, drawing.width, drawing.height, |out| drawing.write(out));
    out.raw("</section>");
}

fn svg(out: &mut Markup, width: f64, height: f64, write: impl FnOnce(&mut Markup)) {
    out.raw("<div class=\"picture\">");
    out.open("svg", |a| {
        a.set("class", "drawing").set("viewBox", format_args!("0 0 {width} {height}"));
        a.set("width", width).set("height", height).set("role", "img");
    });
    write(out);
    out.raw("</svg></div>");
}

fn ports(ports: &[Port], out: &mut Markup) {
    if ports.is_empty() {
        return;
    }
    section(out, "ports", "Devices", "");
    out.raw(
        "<div class=\"wide\"><table><thead><tr><th>device</th><th class=\"n\">received</th>\
         <th class=\"n\">bytes</th><th class=\"n\">transmitted</th><th class=\"n\">bytes</th></tr></thead><tbody>",
    );
    for port in ports {
        out.raw("<tr>");
        out.element(
            "td",
            |a| {
                a.set("class", "code one-line");
            },
            &port.name,
        );
        for (frames, size) in [(port.received, port.received_bytes), (port.sent, port.sent_bytes)] {
            numeric(out, Some(frames));
            out.element(
                "td",
                |a| {
                    a.set("class", "n");
                },
                size.map(bytes).unwrap_or_default(),
            );
        }
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div></section>");
}

fn numeric(out: &mut Markup, count: Option<u64>) {
    out.element(
        "td",
        |a| {
            a.set("class", "n");
        },
        count.map(number).unwrap_or_default(),
    );
}

fn drops(report: &Report, out: &mut Markup) {
    if report.drops.is_empty() {
        return;
    }
    let lines = &report.drops_over_time;
    let about = match lines.is_empty() {
        true => String::new(),
        false => {
            format!("Bars over time, {} each; all rows have the same scale.", time(lines.step()))
        }
    };
    section(out, "drops", "Why packets were dropped", &about);
    let most = report.drops.iter().map(|drop| drop.packets).max().unwrap_or(1);
    let highest = report.drops.iter().filter_map(|drop| drop.line);
    let highest = highest.flat_map(|line| lines.line(line)).copied().max().unwrap_or_default();
    out.raw("<div class=\"wide\"><table><thead><tr><th class=\"n\">packets</th><th></th><th>reason</th><th>where</th>");
    if !lines.is_empty() {
        out.raw("<th>over time</th>");
    }
    out.raw("</tr></thead><tbody>");
    for drop in &report.drops {
        dropped(drop, most, lines, highest, out);
    }
    out.raw("</tbody></table></div></section>");
}

fn dropped(drop: &Dropped, most: u64, lines: &Timelines, highest: u64, out: &mut Markup) {
    out.raw("<tr>");
    numeric(out, Some(drop.packets));
    bar(out, drop.packets, most);
    out.element(
        "td",
        |a| {
            a.set("class", "reason");
        },
        &drop.reason,
    );
    out.raw("<td class=\"code\">");
    match &drop.rule {
        Some(id) => out.element(
            "a",
            |a| {
                a.set("href", format_args!("#{id}"));
            },
            &drop.place,
        ),
        None => out.text(&drop.place),
    }
    out.raw("</td>");
    if !lines.is_empty() {
        out.raw("<td>");
        bars(out, drop.line.map_or(&[], |line| lines.line(line)), lines.len(), highest);
        out.raw("</td>");
    }
    out.raw("</tr>");
}

/// A cell with a bar.
fn bar(out: &mut Markup, value: u64, most: u64) {
    let width = 60.0 * value as f64 / most.max(1) as f64;
    out.raw("<td class=\"bar\"><svg width=\"60\" height=\"10\"><rect class=\"track\" width=\"60\" height=\"10\" rx=\"2\"/>");
    out.open("rect", |a| {
        a.set("class", "value")
            .set("width", format_args!("{width:.1}"))
            .set("height", 10)
            .set("rx", 2);
    });
    out.raw("</rect></svg></td>");
}

/// Bars over time.
fn bars(out: &mut Markup, counts: &[u64], steps: usize, most: u64) {
    const HEIGHT: f64 = 22.0;
    let step = (240.0 / steps.max(1) as f64).min(24.0);
    out.open("svg", |a| {
        a.set("class", "bars")
            .set("width", format_args!("{:.0}", step * steps as f64))
            .set("height", HEIGHT);
    });
    for (i, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = (HEIGHT * *count as f64 / most.max(1) as f64).max(1.5);
        out.open("rect", |a| {
            a.set("x", format_args!("{:.2}", i as f64 * step))
                .set("y", format_args!("{:.2}", HEIGHT - height));
            a.set("width", format_args!("{:.2}", (step - 0.4).max(0.8)))
                .set("height", format_args!("{height:.2}"));
        });
        out.element("title", |_| {}, number(*count));
        out.close("rect");
    }
    out.close("svg");
}

/// A time in words.
fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{} s", (s * 10.0).round() / 10.0),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

fn flows(report: &Report, out: &mut Markup) {
    if report.flows.is_empty() {
        return;
    }
    let about = match report.more_flows {
        0 => String::new(),
        more => format!("{} flows with fewer packets are not shown.", number(more as u64)),
    };
    section(out, "flows", "Flows with most packets", &about);
    let most = report.flows.iter().map(|flow| flow.packets).max().unwrap_or(1);
    out.raw(
        "<div class=\"wide\"><table><thead><tr><th class=\"n\">packets</th><th></th><th class=\"n\">bytes</th>\
         <th>from</th><th>flow</th><th>became</th></tr></thead><tbody>",
    );
    for Flow { from, ends, packets, bytes: size, became } in &report.flows {
        out.raw("<tr>");
        numeric(out, Some(*packets));
        bar(out, *packets, most);
        out.element(
            "td",
            |a| {
                a.set("class", "n");
            },
            bytes(*size),
        );
        out.element(
            "td",
            |a| {
                a.set("class", "code one-line");
            },
            from,
        );
        out.element(
            "td",
            |a| {
                a.set("class", "code");
            },
            ends,
        );
        out.raw("<td>");
        for (i, (what, count)) in became.iter().enumerate() {
            if i > 0 {
                out.raw("<br>");
            }
            match count.filter(|_| became.len() > 1) {
                Some(count) => out.text(format_args!("{} {what}", number(count))),
                None => out.text(what),
            }
        }
        out.raw("</td></tr>");
    }
    out.raw("</tbody></table></div></section>");
}

/// How hot a rule is: 0 for no packet, then 1 to 9 by the logarithm.
fn heat(packets: u64, most: u64) -> usize {
    match packets {
        0 => 0,
        _ => 1 + (8.0 * (1.0 + packets as f64).ln() / (1.0 + most as f64).ln()).round() as usize,
    }
}

const HEAT: [&str; 10] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"];

fn rules(report: &Report, out: &mut Markup) {
    let about = match report.rules.counted {
        Counted::Nothing => "",
        Counted::AllRules => {
            "Packets that matched each rule, as a number and as heat. Grey rules matched none."
        }
        Counted::Counters => {
            "What the counters of rules say, as a number and as heat. Rules without a counter have no number."
        }
    };
    section(out, "rules", "The ruleset", about);
    if report.rules.counted != Counted::Nothing {
        out.raw(
            "<fieldset class=\"choose\"><label><input type=\"radio\" name=\"met\" id=\"all\" checked> all rules</label>\
             <label><input type=\"radio\" name=\"met\" id=\"met\"> with packets</label>\
             <label><input type=\"radio\" name=\"met\" id=\"never\"> never met</label></fieldset>",
        );
    }
    let most = report.rules.most();
    let mut left = RULES;
    for table in &report.rules.tables {
        out.raw("<div class=\"table\">");
        out.open("h3", |_| {});
        out.text(format_args!("table {} {}", table.family.name(), table.name));
        out.close("h3");
        definitions(table, out);
        for chain in &table.chains {
            self::chain(chain, most, &mut left, out);
        }
        out.raw("</div>");
    }
    if report.rules.tables.is_empty() {
        out.raw("<p class=\"about\">There is no table in it.</p>");
    }
    out.raw("</section>");
}

fn definitions(table: &Table, out: &mut Markup) {
    if table.definitions.is_empty() {
        return;
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, _) in &table.definitions {
        *kinds.entry(kind).or_default() += 1;
    }
    let words = kinds.iter().map(|(kind, n)| match n {
        1 => format!("1 {kind}"),
        n => format!("{n} {kind}s"),
    });
    out.raw("<details class=\"definitions\">");
    out.element("summary", |_| {}, words.collect::<Vec<_>>().join(", "));
    for (_, text) in &table.definitions {
        /// Characters of a definition: of a large set nobody reads the end.
        const SHOWN: usize = 4000;
        let mut shown = hooks_drawing::cut(text, SHOWN);
        if shown.len() < text.len() {
            shown.push_str("\n…");
        }
        out.element("pre", |_| {}, shown);
    }
    out.raw("</details>");
}

fn chain(chain: &Chain, most: u64, left: &mut usize, out: &mut Markup) {
    out.open("div", |a| {
        a.set("class", "rules").set("id", &chain.id);
    });
    out.raw("<h4>");
    match chain.anonymous {
        true => out.text("chain in a rule"),
        false => out.text(format_args!("chain {}", chain.name)),
    }
    if let Some(base) = &chain.base {
        out.raw(" <small>");
        out.text(&base.text);
        out.raw("</small>");
    }
    out.raw("</h4><table class=\"heat\"><tbody>");
    for rule in chain.rules.iter().take(*left) {
        self::rule(rule, most, out);
    }
    let more = chain.rules.len().saturating_sub(*left);
    *left = left.saturating_sub(chain.rules.len());
    if more > 0 {
        out.raw("<tr><td></td><td class=\"faint\">");
        out.text(format_args!(
            "{} more rules: a page shows {} at most",
            number(more as u64),
            number(RULES as u64)
        ));
        out.raw("</td><td></td></tr>");
    }
    if let Some(base) = &chain.base
        && chain.by_policy.is_some()
    {
        let packets = chain.by_policy.unwrap_or_default();
        let row = if packets == 0 { "policy unmet" } else { "policy" };
        out.open("tr", |a| {
            a.set("class", row);
        });
        out.element(
            "td",
            |a| {
                a.set("class", format_args!("n {}", HEAT[heat(packets, most).min(9)]));
            },
            number(packets),
        );
        let policy = if base.accepts { "policy accept" } else { "policy drop" };
        out.element(
            "td",
            |a| {
                a.set("class", if base.accepts { "code" } else { "code drop" });
            },
            policy,
        );
        out.raw("<td></td></tr>");
    }
    out.raw("</tbody></table></div>");
}

fn rule(rule: &Rule, most: u64, out: &mut Markup) {
    let class = match rule.packets {
        Some(0) => "unmet",
        Some(_) => "hit",
        None => "uncounted",
    };
    out.open("tr", |a| {
        a.set("class", class).set("id", &rule.id);
    });
    let level = rule.packets.map_or("", |packets| HEAT[heat(packets, most).min(9)]);
    out.element(
        "td",
        |a| {
            a.set("class", format_args!("n {level}"));
            if let Some(size) = rule.bytes {
                a.set("title", bytes(size));
            }
        },
        rule.packets.map(number).unwrap_or_default(),
    );
    out.element(
        "td",
        |a| {
            a.set("class", "code");
        },
        &rule.text,
    );
    out.open("td", |a| {
        a.set("class", "origin");
    });
    match &rule.origin {
        Some(origin) => out.text(origin),
        None => out.text(format_args!("handle {}", rule.handle)),
    }
    out.raw("</td></tr>");
}

fn calls(report: &Report, out: &mut Markup) {
    let drawing = calls_drawing::Drawing::new(&report.rules);
    if drawing.is_empty() {
        return;
    }
    let about = "Dashed lines are `goto`. Grey lines and boxes: no packet went there, or nothing leads there.";
    section(out, "calls", "Chains and jumps", about);
    svg(out, drawing.width, drawing.height, |out| drawing.write(out));
    out.raw("</section>");
}

fn unmet(report: &Report, out: &mut Markup) {
    if report.rules.counted == Counted::Nothing {
        return;
    }
    let all = report.rules.all();
    let unmet: Vec<_> = all.filter(|(_, _, rule)| rule.packets == Some(0)).collect();
    let about = match (unmet.len(), report.rules.counted) {
        (0, Counted::AllRules) => "Each rule matched a packet.".to_owned(),
        (0, _) => "Each counter counted a packet.".to_owned(),
        (n, _) if n > UNMET => format!("{} rules; the first {UNMET} of them:", number(n as u64)),
        (1, _) => "One rule.".to_owned(),
        (n, _) => format!("{} rules.", number(n as u64)),
    };
    section(out, "unmet", "Rules that no packet met", &about);
    if !unmet.is_empty() {
        out.raw("<div class=\"wide\"><table><thead><tr><th>chain</th><th>rule</th><th>written</th></tr></thead><tbody>");
        for (table, chain, rule) in unmet.into_iter().take(UNMET) {
            out.raw("<tr>");
            let name = if chain.anonymous { "(in a rule)" } else { &chain.name };
            out.element(
                "td",
                |a| {
                    a.set("class", "code");
                },
                format_args!("{} {} {name}", table.family.name(), table.name),
            );
            out.raw("<td class=\"code\">");
            out.element(
                "a",
                |a| {
                    a.set("href", format_args!("#{}", rule.id));
                },
                &rule.text,
            );
            out.raw("</td>");
            out.element(
                "td",
                |a| {
                    a.set("class", "origin");
                },
                rule.origin.as_deref().unwrap_or_default(),
            );
            out.raw("</tr>");
        }
        out.raw("</tbody></table></div>");
    }
    out.raw("</section>");
}

fn ways(report: &Report, out: &mut Markup) {
    if report.ways.is_empty() {
        return;
    }
    let about = match report.more_ways {
        0 => "Packets about which the same rules decided, with one packet each as an example."
            .to_owned(),
        more => format!(
            "Packets about which the same rules decided, with one packet each as an example; {} more \
             are not shown.",
            number(more as u64)
        ),
    };
    section(out, "ways", "What packets met", &about);
    for Way { words, dropped, packets, example, trace } in &report.ways {
        out.open("details", |a| {
            a.set("class", if *dropped { "trace drops" } else { "trace" });
        });
        out.raw("<summary><span class=\"n\">");
        out.text(number(*packets));
        out.raw("</span> ");
        out.text(words);
        out.raw("</summary>");
        out.element(
            "p",
            |a| {
                a.set("class", "about");
            },
            example,
        );
        out.element("pre", |_| {}, trace);
        out.raw("</details>");
    }
    out.raw("</section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_has_ten_levels() {
        for (packets, most, level) in
            [(0, 0, 0), (0, 9, 0), (1, 1, 9), (1, 1_000_000, 1), (1_000_000, 1_000_000, 9)]
        {
            assert_eq!(heat(packets, most), level, "{packets} of {most}");
        }
        assert!((0..10_000).all(|n| heat(n, 10_000) < HEAT.len()));
    }

    #[test]
    fn steps_of_time_have_a_unit() {
        for (nanoseconds, words) in [
            (1_000_000, "1 ms"),
            (1_024_000_000, "1 s"),
            (32_768_000_000, "32.8 s"),
            (1_048_576_000_000, "17 min"),
            (10_000_000_000_000, "3 h"),
        ] {
            assert_eq!(time(nanoseconds), words);
        }
    }
}
