// SPDX-License-Identifier: Apache-2.0

//! Which chain leads to which, table by table.
//!
//! A chain stands right of all chains that lead to it: in the column of the longest way from a base
//! chain. The kernel refuses loops, so there is such a column. Inside a column chains stand at the
//! height of those that lead to them, as far as there is room.

use std::collections::HashMap;

use crate::hooks_drawing::cut;
use crate::markup::{Markup, number};
use crate::rules::{Chain, Rules, Table};

const BOX: f64 = 212.0;
const HEIGHT: f64 = 38.0;
const COLUMN: f64 = 300.0;
const ROW: f64 = 50.0;
const MARGIN: f64 = 12.0;
const TITLE: f64 = 26.0;
/// Characters of a chain's name that fit a box.
const NAME: usize = 26;
/// Chains of a table that are drawn: more are no picture.
const CHAINS: usize = 400;

/// The drawing, with its size in pixels.
pub struct Drawing<'a> {
    pub width: f64,
    pub height: f64,
    tables: Vec<TableDrawing<'a>>,
    most: u64,
}

struct TableDrawing<'a> {
    table: &'a Table,
    /// Top of it.
    y: f64,
    boxes: Vec<ChainBox<'a>>,
    /// Numbers of boxes, packets, and whether all of it is `goto`.
    edges: Vec<(usize, usize, Option<u64>, bool)>,
}

struct ChainBox<'a> {
    chain: &'a Chain,
    column: usize,
    y: f64,
    is_reached: bool,
}

impl<'a> Drawing<'a> {
    pub fn new(rules: &'a Rules) -> Self {
        let (mut y, mut width) = (0.0, 0.0_f64);
        let mut tables = Vec::new();
        for table in rules.tables.iter().filter(|t| !t.chains.is_empty()) {
            let drawing = TableDrawing::new(table, y);
            let bottom = drawing.boxes.iter().map(|b| b.y + HEIGHT).fold(y + TITLE, f64::max);
            let columns = drawing.boxes.iter().map(|b| b.column).max().unwrap_or_default();
            width = width.max(MARGIN * 2.0 + columns as f64 * COLUMN + BOX);
            y = bottom + 26.0;
            tables.push(drawing);
        }
        Drawing { width, height: y, tables, most: rules.most() }
    }

    /// Writes what is inside `<svg>`.
    pub fn write(&self, out: &mut Markup) {
        out.raw(
            "<defs><marker id=\"call\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" \
             markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>",
        );
        self.tables.iter().for_each(|table| table.write(self.most, out));
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

impl<'a> TableDrawing<'a> {
    fn new(table: &'a Table, top: f64) -> Self {
        let chains: Vec<&Chain> = table.chains.iter().take(CHAINS).collect();
        let number: HashMap<&str, usize> =
            chains.iter().enumerate().map(|(i, chain)| (&*chain.name, i)).collect();
        let mut edges: Vec<(usize, usize, Option<u64>, bool)> = Vec::new();
        for (from, chain) in chains.iter().enumerate() {
            for rule in &chain.rules {
                for (called, goto) in &rule.calls {
                    let Some(&to) = number.get(&**called) else { continue };
                    // A verdict map counts for all of its chains together.
                    let packets = rule.packets.filter(|_| rule.calls.len() == 1);
                    match edges.iter_mut().find(|e| (e.0, e.1) == (from, to)) {
                        Some((_, _, sum, all)) => {
                            *sum = sum.zip(packets).map(|(a, b)| a + b);
                            *all &= goto;
                        }
                        None => edges.push((from, to, packets, *goto)),
                    }
                }
            }
        }
        // The longest way from a chain that nothing leads to; in a ruleset there are no loops, so
        // this ends before each chain was moved as often as there are chains.
        let mut columns = vec![0; chains.len()];
        for _ in 0..chains.len() {
            let mut moved = false;
            for &(from, to, ..) in &edges {
                if columns[to] <= columns[from] {
                    columns[to] = columns[from] + 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let mut reached: Vec<bool> = chains.iter().map(|chain| chain.base.is_some()).collect();
        for _ in 0..chains.len() {
            edges.iter().for_each(|&(from, to, ..)| reached[to] |= reached[from]);
        }
        // Column by column, each chain at the mean height of those that lead to it.
        let mut heights = vec![0.0; chains.len()];
        let last = columns.iter().max().copied().unwrap_or_default();
        for column in 0..=last {
            let mut own: Vec<(f64, usize)> = (0..chains.len())
                .filter(|i| columns[*i] == column)
                .map(|i| {
                    let callers: Vec<f64> =
                        edges.iter().filter(|e| e.1 == i).map(|e| heights[e.0]).collect();
                    let wanted = match callers.len() {
                        0 => i as f64 * ROW,
                        n => callers.iter().sum::<f64>() / n as f64,
                    };
                    (wanted, i)
                })
                .collect();
            own.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let several = own.len() as f64;
            let center = own.iter().map(|(wanted, _)| wanted).sum::<f64>() / several.max(1.0);
            let mut free = match column {
                0 => 0.0,
                _ => (center - (several - 1.0) / 2.0 * ROW).max(0.0),
            };
            for (wanted, i) in own {
                let y = if column == 0 { free } else { wanted.max(free).min(free + 3.0 * ROW) };
                heights[i] = y;
                free = y + ROW;
            }
        }
        let boxes = chains.into_iter().enumerate().map(|(i, chain)| ChainBox {
            chain,
            column: columns[i],
            y: top + TITLE + heights[i],
            is_reached: reached[i],
        });
        TableDrawing { table, y: top, boxes: boxes.collect(), edges }
    }

    fn write(&self, most: u64, out: &mut Markup) {
        let more = self.table.chains.len().saturating_sub(self.boxes.len());
        let more = if more > 0 { format!(" ({more} more chains)") } else { String::new() };
        out.element(
            "text",
            |a| {
                a.set("class", "heading").set("x", MARGIN).set("y", self.y + 14.0);
            },
            format_args!("table {} {}{more}", self.table.family.name(), self.table.name),
        );
        for &(from, to, packets, goto) in &self.edges {
            let (from, to) = (&self.boxes[from], &self.boxes[to]);
            let (x1, y1) = (from.left() + BOX, from.y + HEIGHT / 2.0);
            let (x2, y2) = (to.left() - 1.0, to.y + HEIGHT / 2.0);
            let bend = ((x2 - x1) / 2.0).max(30.0);
            let class = match (packets, goto) {
                (Some(0), false) => "call none",
                (Some(0), true) => "call none goto",
                (_, true) => "call goto",
                (_, false) => "call",
            };
            out.open("path", |a| {
                a.set("class", class).set("marker-end", "url(#call)");
                let (b1, b2) = (x1 + bend, x2 - bend);
                a.set("d", format_args!("M{x1} {y1}C{b1} {y1} {b2} {y2} {x2} {y2}"));
            });
            out.close("path");
        }
        self.boxes.iter().for_each(|own| own.write(most, out));
    }
}

impl ChainBox<'_> {
    fn left(&self) -> f64 {
        MARGIN + self.column as f64 * COLUMN
    }

    fn write(&self, most: u64, out: &mut Markup) {
        let chain = self.chain;
        let class = match (&chain.base, self.is_reached) {
            (Some(base), _) if !base.accepts => "box base drops",
            (Some(_), _) => "box base",
            (None, true) => "box",
            (None, false) => "box unused",
        };
        let x = self.left();
        out.open("a", |a| {
            a.set("href", format_args!("#{}", chain.id));
        });
        out.open("g", |a| {
            a.set("class", class);
        });
        out.open("rect", |a| {
            a.set("x", x).set("y", self.y).set("width", BOX).set("height", HEIGHT).set("rx", 5);
        });
        out.close("rect");
        let name = if chain.anonymous { "{ … }" } else { &chain.name };
        out.open("text", |a| {
            a.set("class", "name").set("x", x + 9.0).set("y", self.y + 16.0);
        });
        out.element("title", |_| {}, &chain.name);
        out.text(cut(name, NAME));
        out.close("text");
        let rules = match chain.rules.len() {
            1 => "1 rule".to_owned(),
            n => format!("{n} rules"),
        };
        let decided: u64 = chain.rules.iter().filter_map(|rule| rule.packets).sum();
        let words = match (&chain.base, self.is_reached) {
            (Some(base), _) => {
                // `type filter hook input priority filter; policy drop;`
                let words: Vec<&str> = base.text.split_whitespace().collect();
                let after = |word: &str| {
                    let at = words.iter().position(|w| *w == word);
                    at.and_then(|at| words.get(at + 1)).map_or("", |w| w.trim_end_matches(';'))
                };
                format!("{} · {} · {rules}", after("hook"), after("policy"))
            }
            (None, true) => rules,
            (None, false) => format!("{rules} · nothing leads here"),
        };
        out.element(
            "text",
            |a| {
                a.set("class", "small").set("x", x + 9.0).set("y", self.y + 31.0);
            },
            words,
        );
        if decided > 0 && most > 0 {
            out.element(
                "text",
                |a| {
                    a.set("class", "small")
                        .set("x", x + BOX - 8.0)
                        .set("y", self.y + 31.0)
                        .set("text-anchor", "end");
                },
                number(decided),
            );
        }
        out.close("g");
        out.close("a");
    }
}
