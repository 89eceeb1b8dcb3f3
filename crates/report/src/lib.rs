// SPDX-License-Identifier: Apache-2.0

//! What became of packets as one HTML page, and rulesets as SVG drawings. Both stand alone: no
//! script, no request for another file. [`Report::live_page`] is the same page for a server that
//! knows more from moment to moment.
//!
//! A [`Report`] is plain data. Whoever has counted something fills in what is known; what is not
//! known is `None` or empty, and its part of the page is left out. [`Report::page`] makes the page,
//! [`Report::body`] the part of it that changes while packets pass, [`draw`] a drawing alone.
//!
//! | module | is |
//! | --- | --- |
//! | [`rules`] | tables, chains and rules as the page shows them, of a generation |
//! | [`hooks`] | the way through the hooks, with what passed each of them |
//! | [`timeline`] | counts over time in a bounded number of steps |
//! | `markup` | the only writer of tags: text in it is always escaped |
//! | `page`, `hooks_drawing`, `calls_drawing` | the page and its drawings |
//!
//! Texts of rulesets, names of devices and lines of traces come from other people. They reach the
//! page as text only: [`markup::Markup`] takes tags and names of attributes as `&'static str`, and
//! escapes everything else.
//!
//! ```
//! use penstock_report::{Report, draw};
//! use penstock_report::rules::Rules;
//!
//! let report = Report { title: "a <b>".to_owned(), ..Report::default() };
//! assert!(report.page().contains("<title>a &lt;b&gt;</title>"));
//! assert!(draw("empty", &Rules::default()).starts_with("<svg "));
//! ```

mod calls_drawing;
pub mod hooks;
mod hooks_drawing;
pub mod markup;
mod page;
pub mod rules;
pub mod timeline;

use hooks::Hooks;
use markup::Markup;
use rules::Rules;
use timeline::Timelines;

/// Everything that a page shows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What the page is about: the name of a ruleset.
    pub title: String,
    /// When and from what, in a line.
    pub subtitle: String,
    /// Numbers at the head, each with its name.
    pub facts: Vec<(String, u64)>,
    /// What the reader has to know about the numbers.
    pub notes: Vec<String>,
    /// What passed the hooks.
    pub hooks: Hooks,
    /// The ruleset.
    pub rules: Rules,
    /// Why packets ended, the most frequent reason first.
    pub drops: Vec<Dropped>,
    /// Drops over time; lines by [`Dropped::line`].
    pub drops_over_time: Timelines,
    /// Flows, those with most packets first.
    pub flows: Vec<Flow>,
    /// Flows that are not among them.
    pub more_flows: usize,
    /// Devices, in their order.
    pub ports: Vec<Port>,
    /// What packets met, each with one packet as an example, the most frequent first.
    pub ways: Vec<Way>,
    /// Ways that are not among them.
    pub more_ways: usize,
}

/// A reason for which packets ended, with its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Why, as counters call it.
    pub reason: String,
    /// Where: chain, rule, file and line; empty if no rule did it.
    pub place: String,
    /// [`rules::Rule::id`] of the rule that did it.
    pub rule: Option<String>,
    /// How many packets.
    pub packets: u64,
    /// Number of its line in [`Report::drops_over_time`].
    pub line: Option<usize>,
}

/// Packets between two ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Where its packets came in, if that is known.
    pub from: String,
    /// Addresses and ports.
    pub ends: String,
    /// Packets of both directions.
    pub packets: u64,
    /// Bytes of both directions.
    pub bytes: u64,
    /// What became of its packets, each with a number if it is known.
    pub became: Vec<(String, Option<u64>)>,
}

/// What passed a device, in frames and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Frames received.
    pub received: u64,
    /// Bytes of them, if they are counted.
    pub received_bytes: Option<u64>,
    /// Frames transmitted.
    pub sent: u64,
    /// Bytes of them, if they are counted.
    pub sent_bytes: Option<u64>,
}

/// What some packets met: the same rules decided about all of them, with the same result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Where they came in, and what became of them.
    pub words: String,
    /// Whether the packet itself was dropped.
    pub dropped: bool,
    /// How many packets.
    pub packets: u64,
    /// What the example is: a frame of a capture, or what a user described.
    pub example: String,
    /// The trace of the example, in lines.
    pub trace: String,
}

impl Report {
    /// The page.
    pub fn page(&self) -> String {
        page::page(self)
    }

    /// A page for [`script`], which fetches [`Report::body`] from `body` again and again, and sends a
    /// described packet that comes from one of these devices to `packet`.
    pub fn live_page(&self, devices: &[String]) -> String {
        page::live_page(self, devices)
    }

    /// What stands in the page's `<main>`.
    pub fn body(&self) -> String {
        let mut out = Markup::default();
        page::body(self, &mut out);
        out.into_string()
    }
}

/// The script of [`Report::live_page`], which asks for it as `live.js`.
pub fn script() -> &'static str {
    include_str!("live.js")
}

/// Hooks, chains and jumps of a ruleset as an SVG file.
pub fn draw(title: &str, rules: &Rules) -> String {
    let mut out = Markup::default();
    let nothing = Hooks::default();
    let hooks = hooks_drawing::Drawing::new(rules, &nothing);
    let calls = calls_drawing::Drawing::new(rules);
    const GAP: f64 = 28.0;
    let width = hooks.width.max(calls.width);
    let height = GAP + hooks.height + GAP + calls.height;
    out.open("svg", |a| {
        a.set("xmlns", "http://www.w3.org/2000/svg");
        a.set("viewBox", format_args!("0 0 {width} {height}"));
        a.set("width", width);
        a.set("height", height);
        a.set("class", "drawing alone");
        a.set("role", "img");
    });
    out.element("title", |_| {}, title);
    out.element("style", |_| {}, page::DRAWING_STYLE);
    out.open("rect", |a| {
        a.set("class", "paper");
        a.set("width", "100%");
        a.set("height", "100%");
    });
    out.close("rect");
    out.element(
        "text",
        |a| {
            a.set("class", "heading");
            a.set("x", 12).set("y", 20);
        },
        title,
    );
    out.open("g", |a| {
        a.set("transform", format_args!("translate(0 {GAP})"));
    });
    hooks.write(&mut out);
    out.close("g");
    out.open("g", |a| {
        a.set("transform", format_args!("translate(0 {})", GAP + hooks.height + GAP));
    });
    calls.write(&mut out);
    out.close("g");
    out.close("svg");
    out.into_string()
}
