// SPDX-License-Identifier: Apache-2.0

//! A matrix as a page for a browser, which needs nothing but itself.

use penstock_report::markup::Markup;

use super::matrix::{Matrix, Passes};

const STYLE: &str = "\
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif }
body { margin: 2rem }
h1 { font-size: 1.25rem; margin: 0 0 .25rem }
p { margin: 0 0 1.25rem; opacity: .75 }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { border: 1px solid #8886; padding: .4rem .6rem; text-align: left; vertical-align: top }
th { font-weight: 600; white-space: nowrap }
thead th { position: sticky; top: 0; background: Canvas }
tbody th { position: sticky; left: 0; background: Canvas }
code { font: 13px/1.45 ui-monospace, monospace; display: block; max-width: 34rem }
code + code { border-top: 1px dotted #8886; margin-top: .25rem; padding-top: .25rem }
.all { background: #2a92; }
.none { background: #c332 }
.some { background: #db22 }
.no { background: #8881 }
";

/// The page.
pub fn page(matrix: &Matrix) -> String {
    let mut out = Markup::default();
    out.raw(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Who reaches whom: ",
    );
    out.text(&matrix.rules);
    out.raw("</title>\n<style>\n");
    out.raw(STYLE);
    out.raw("</style>\n<h1>Who reaches whom</h1>\n<p>");
    out.text(format_args!("{}, from row to column: {}", matrix.rules, matrix.about));
    out.raw("</p>\n<div class=\"wide\"><table>\n<thead><tr><th></th>");
    for side in &matrix.sides {
        out.element(
            "th",
            |of| {
                of.set("scope", "col");
            },
            side.name(),
        );
    }
    out.raw("</tr></thead>\n<tbody>\n");
    for (from, row) in matrix.sides.iter().zip(&matrix.cells) {
        out.raw("<tr>");
        out.element(
            "th",
            |of| {
                of.set("scope", "row");
            },
            from.name(),
        );
        for passes in row {
            match passes {
                Passes::NoWay => out.raw("<td class=\"no\"></td>"),
                Passes::All => out.raw("<td class=\"all\">all</td>"),
                Passes::Nothing => out.raw("<td class=\"none\">none</td>"),
                Passes::Some(lines) => {
                    out.raw("<td class=\"some\">");
                    for line in lines {
                        out.element("code", |_| {}, line);
                    }
                    out.raw("</td>");
                }
            }
        }
        out.raw("</tr>\n");
    }
    out.raw("</tbody>\n</table></div>\n</html>\n");
    out.into_string()
}
