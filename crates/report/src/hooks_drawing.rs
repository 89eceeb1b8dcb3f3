// SPDX-License-Identifier: Apache-2.0

//! The way of packets through the hooks, with the base chains at each and what passed.
//!
//! Boxes have fixed places; only their heights follow the number of chains. The picture is that of
//! `docs/architecture.md`.

use penstock_program::Hook;
use penstock_syntax::hooks::name as hook_name;

use crate::hooks::{Hooks, Layer};
use crate::markup::{Markup, number, short};
use crate::rules::{Chain, Rules, Table};

/// Width of the box of a hook.
const WIDTH: f64 = 156.0;
/// Height of a line of text in a box.
const LINE: f64 = 16.0;
/// Height of the head of a box.
const HEAD: f64 = 26.0;
/// Chains that are named in a box; of more, only their number is said.
const CHAINS: usize = 8;
/// Characters of a chain's name that fit a box.
const NAME: usize = 20;
/// Free room above the boxes of a row, for the arcs.
const ABOVE: f64 = 44.0;
/// Between the rows.
const BETWEEN: f64 = 62.0;

/// The drawing, with its size in pixels.
pub struct Drawing<'a> {
    pub width: f64,
    pub height: f64,
    boxes: Vec<HookBox<'a>>,
    hooks: &'a Hooks,
    /// Middle of the upper row and of the lower one.
    rows: [f64; 2],
    /// Rows of bridges and ARP: their layer and their middle.
    more: Vec<(Layer, f64)>,
}

/// A hook with its base chains, in the order in which they run.
struct HookBox<'a> {
    layer: Layer,
    hook: Hook,
    chains: Vec<(&'a Table, &'a Chain)>,
    x: f64,
    y: f64,
    height: f64,
}

/// Left edges of the boxes of the upper row.
const INGRESS: f64 = 140.0;
const PREROUTING: f64 = 352.0;
const ROUTE: f64 = 586.0;
const FORWARD: f64 = 716.0;
const POSTROUTING: f64 = 950.0;
const EGRESS: f64 = 1184.0;
const OUT: f64 = 1418.0;
/// Left edges in the lower row.
const INPUT: f64 = 540.0;
const HOST: f64 = 774.0;
const OUTPUT: f64 = 904.0;
/// Width of round nodes.
const NODE: f64 = 60.0;

/// Where hooks are drawn: layer, hook, row and left edge.
const PLACES: [(Layer, Hook, usize, f64); 7] = [
    (Layer::Device, Hook::Ingress, 0, INGRESS),
    (Layer::Ip, Hook::Prerouting, 0, PREROUTING),
    (Layer::Ip, Hook::Forward, 0, FORWARD),
    (Layer::Ip, Hook::Postrouting, 0, POSTROUTING),
    (Layer::Device, Hook::Egress, 0, EGRESS),
    (Layer::Ip, Hook::Input, 1, INPUT),
    (Layer::Ip, Hook::Output, 1, OUTPUT),
];

/// Those of rows that are drawn only if they have chains.
const BRIDGE: [(Hook, f64); 5] = [
    (Hook::Prerouting, PREROUTING),
    (Hook::Input, INPUT),
    (Hook::Forward, 728.0),
    (Hook::Output, POSTROUTING - 20.0),
    (Hook::Postrouting, EGRESS - 40.0),
];
const ARP: [(Hook, f64); 2] = [(Hook::Input, INPUT), (Hook::Output, OUTPUT)];

impl<'a> Drawing<'a> {
    pub fn new(rules: &'a Rules, hooks: &'a Hooks) -> Self {
        let chains_of = |layer: Layer, hook: Hook| {
            let mut chains: Vec<(&Table, &Chain)> = rules
                .tables
                .iter()
                .flat_map(|table| table.chains.iter().map(move |chain| (table, chain)))
                .filter(|(table, chain)| {
                    chain.base.as_ref().is_some_and(|base| {
                        base.hook == hook && Layer::of(table.family, base.hook) == layer
                    })
                })
                .collect();
            chains.sort_by_key(|(_, chain)| {
                chain.base.as_ref().map(|base| (base.priority, u64::MAX - base.registered))
            });
            chains
        };
        let height_of = |chains: usize| {
            let lines = if chains > CHAINS { CHAINS + 1 } else { chains };
            HEAD + LINE * lines.max(1) as f64 + 8.0
        };
        let mut heights = [0.0_f64; 2];
        let mut boxes: Vec<HookBox<'_>> = PLACES
            .iter()
            .map(|&(layer, hook, row, x)| {
                let chains = chains_of(layer, hook);
                let height = height_of(chains.len());
                heights[row] = heights[row].max(height);
                HookBox { layer, hook, chains, x, y: row as f64, height }
            })
            .collect();
        let upper = ABOVE + heights[0] / 2.0;
        let lower = ABOVE + heights[0] + BETWEEN + heights[1] / 2.0;
        for own in &mut boxes {
            own.y = if own.y == 0.0 { upper } else { lower } - own.height / 2.0;
        }
        let mut end = lower + heights[1] / 2.0 + 26.0;
        let mut more = Vec::new();
        for (layer, places) in [(Layer::Bridge, &BRIDGE[..]), (Layer::Arp, &ARP[..])] {
            let row: Vec<_> =
                places.iter().map(|&(hook, x)| (hook, x, chains_of(layer, hook))).collect();
            if row.iter().all(|(_, _, chains)| chains.is_empty()) {
                continue;
            }
            let height = row.iter().map(|(_, _, c)| height_of(c.len())).fold(0.0, f64::max);
            let middle = end + 20.0 + height / 2.0;
            more.push((layer, middle));
            boxes.extend(row.into_iter().map(|(hook, x, chains)| {
                let height = height_of(chains.len());
                HookBox { layer, hook, chains, x, y: middle - height / 2.0, height }
            }));
            end = middle + height / 2.0 + 26.0;
        }
        Drawing { width: OUT + NODE + 12.0, height: end, boxes, hooks, rows: [upper, lower], more }
    }

    /// Writes what is inside `<svg>`.
    pub fn write(&self, out: &mut Markup) {
        out.raw(
            "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" \
             markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>",
        );
        self.arrows(out);
        let [upper, lower] = self.rows;
        node(out, 12.0, upper, "wire");
        node(out, ROUTE, upper, "route");
        node(out, OUT, upper, "wire");
        node(out, HOST, lower, "host");
        for (layer, middle) in &self.more {
            let name = if *layer == Layer::Bridge { "bridge" } else { "ARP" };
            out.element(
                "text",
                |a| {
                    a.set("class", "row").set("x", 14).set("y", middle + 4.0);
                },
                name,
            );
        }
        self.boxes.iter().for_each(|own| self.hook(own, out));
    }

    fn arrows(&self, out: &mut Markup) {
        let [upper, lower] = self.rows;
        let hooks = self.hooks;
        let end = |x: f64| x + WIDTH;
        let ip = |hook| (hooks.entered(Layer::Ip, hook), hooks.left(Layer::Ip, hook));
        let across = [
            (12.0 + NODE, INGRESS, upper, hooks.received),
            (end(INGRESS), PREROUTING, upper, ip(Hook::Prerouting).0),
            (end(PREROUTING), ROUTE, upper, ip(Hook::Prerouting).1),
            (ROUTE + NODE, FORWARD, upper, ip(Hook::Forward).0.or(hooks.forwarded)),
            (end(FORWARD), POSTROUTING, upper, ip(Hook::Forward).1),
            (end(POSTROUTING), EGRESS, upper, ip(Hook::Postrouting).1),
            (end(EGRESS), OUT, upper, hooks.transmitted),
            (end(INPUT), HOST, lower, ip(Hook::Input).1.or(hooks.delivered)),
            (HOST + NODE, OUTPUT, lower, ip(Hook::Output).0.or(hooks.from_host)),
        ];
        for (from, to, y, count) in across {
            let path = format!("M{from} {y}H{}", to - 1.0);
            self.arrow(out, &path, count, ((from + to) / 2.0, y - 6.0), "middle");
        }
        // Down from the route to input, and up from output to postrouting.
        let box_of = |hook| self.boxes.iter().find(|b| b.layer == Layer::Ip && b.hook == hook);
        if let (Some(input), Some(output), Some(post)) =
            (box_of(Hook::Input), box_of(Hook::Output), box_of(Hook::Postrouting))
        {
            let x = ROUTE + NODE / 2.0;
            let path = format!("M{x} {}V{}", upper + 16.0, input.y - 1.0);
            let between = (upper + 16.0 + input.y) / 2.0;
            self.arrow(out, &path, ip(Hook::Input).0, (x + 8.0, between), "start");
            let (x, bottom) = (POSTROUTING + 60.0, post.y + post.height);
            let path = format!("M{x} {}V{}", output.y, bottom + 1.0);
            let count = ip(Hook::Output).1;
            self.arrow(out, &path, count, (x + 8.0, (output.y + bottom) / 2.0 + 4.0), "start");
        }
        // What flowtables forward leaves the rules out.
        if let Some(count) = hooks.flowtable.filter(|count| *count > 0) {
            let top = 20.0;
            let (from, to) = (INGRESS + WIDTH / 2.0, EGRESS + WIDTH / 2.0);
            let y = |hook| {
                let found = self.boxes.iter().find(|b| b.layer == Layer::Device && b.hook == hook);
                found.map_or(ABOVE, |b| b.y)
            };
            let path = format!(
                "M{from} {}C{from} {top} {} {top} {} {top}H{}C{} {top} {to} {top} {to} {}",
                y(Hook::Ingress),
                from + 10.0,
                from + 60.0,
                to - 60.0,
                to - 10.0,
                y(Hook::Egress) - 1.0,
            );
            self.arrow(out, &path, None, (0.0, 0.0), "middle");
            out.element(
                "text",
                |a| {
                    a.set("class", "count")
                        .set("x", (from + to) / 2.0)
                        .set("y", top - 6.0)
                        .set("text-anchor", "middle");
                },
                format_args!("flowtable {}", number(count)),
            );
        }
    }

    fn arrow(
        &self,
        out: &mut Markup,
        path: &str,
        count: Option<u64>,
        at: (f64, f64),
        anchor: &'static str,
    ) {
        let most = self.hooks.received.unwrap_or_default().max(1);
        // From one to five pixels, by the logarithm.
        let share = count.map_or(0.0, |n| (1.0 + n as f64).ln() / (1.0 + most as f64).ln());
        let class = match count {
            Some(0) => "way none",
            Some(_) => "way",
            None => "way plain",
        };
        out.open("path", |a| {
            a.set("class", class).set("d", path).set("marker-end", "url(#arrow)");
            a.set("stroke-width", format_args!("{:.1}", 1.2 + 2.0 * share.min(1.0)));
        });
        out.close("path");
        if let Some(count) = count {
            out.element(
                "text",
                |a| {
                    a.set("class", "count")
                        .set("x", at.0)
                        .set("y", at.1)
                        .set("text-anchor", anchor);
                },
                short(count),
            );
        }
    }

    fn hook(&self, own: &HookBox<'_>, out: &mut Markup) {
        let used = !own.chains.is_empty();
        out.open("g", |a| {
            a.set("class", if used { "hook" } else { "hook unused" });
        });
        out.open("rect", |a| {
            a.set("x", own.x)
                .set("y", own.y)
                .set("width", WIDTH)
                .set("height", own.height)
                .set("rx", 6);
        });
        out.close("rect");
        let middle = own.x + WIDTH / 2.0;
        out.element(
            "text",
            |a| {
                a.set("class", "name")
                    .set("x", middle)
                    .set("y", own.y + 17.0)
                    .set("text-anchor", "middle");
            },
            hook_name(own.hook),
        );
        let mut y = own.y + HEAD + 11.0;
        for (table, chain) in own.chains.iter().take(CHAINS) {
            let name = format!("{} {} {}", table.family.name(), table.name, chain.name);
            let class = match chain.base.as_ref().is_some_and(|base| base.accepts) {
                true => "chain",
                false => "chain drops",
            };
            out.open("a", |a| {
                a.set("href", format_args!("#{}", chain.id));
            });
            out.open("text", |a| {
                a.set("class", class).set("x", own.x + 8.0).set("y", y);
            });
            let base = chain.base.as_ref().map_or("", |base| &base.text);
            out.element("title", |_| {}, format_args!("{name}: {base}"));
            out.text(cut(&format!("{} {}", table.name, chain.name), NAME));
            out.close("text");
            out.close("a");
            y += LINE;
        }
        let more = own.chains.len().saturating_sub(CHAINS);
        let words = match (used, more) {
            (false, _) => "no chain".to_owned(),
            (true, 0) => String::new(),
            (true, more) => format!("and {more} more"),
        };
        out.element(
            "text",
            |a| {
                a.set("class", "chain faint").set("x", own.x + 8.0).set("y", y);
            },
            words,
        );
        let stopped = self.hooks.stopped(own.layer, own.hook);
        if stopped > 0 {
            out.element(
                "text",
                |a| {
                    a.set("class", "stopped").set("x", middle).set("y", own.y + own.height + 16.0);
                    a.set("text-anchor", "middle");
                },
                format_args!("{} stopped", number(stopped)),
            );
        }
        out.close("g");
    }
}

fn node(out: &mut Markup, x: f64, middle: f64, name: &'static str) {
    out.open("g", |a| {
        a.set("class", "node");
    });
    out.open("rect", |a| {
        a.set("x", x).set("y", middle - 15.0).set("width", NODE).set("height", 30).set("rx", 15);
    });
    out.close("rect");
    out.element(
        "text",
        |a| {
            a.set("x", x + NODE / 2.0).set("y", middle + 4.5).set("text-anchor", "middle");
        },
        name,
    );
    out.close("g");
}

/// The beginning of a text, in so many characters.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
