// SPDX-License-Identifier: Apache-2.0

//! A matrix as a page for a browser, which needs nothing but itself.

use std::fmt::Write as _;

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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page.
pub fn page(matrix: &Matrix) -> String {
    let (rules, about) = (escaped(&matrix.rules), escaped(&matrix.about));
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Who reaches whom: {rules}</title>\n<style>\n{STYLE}</style>\n\
         <h1>Who reaches whom</h1>\n<p>{rules}, from row to column: {about}</p>\n\
         <div class=\"wide\"><table>\n<thead><tr><th></th>"
    );
    for side in &matrix.sides {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escaped(side.name()));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for (from, row) in matrix.sides.iter().zip(&matrix.cells) {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escaped(from.name()));
        for passes in row {
            let _ = match passes {
                Passes::NoWay => write!(text, "<td class=\"no\"></td>"),
                Passes::All => write!(text, "<td class=\"all\">all</td>"),
                Passes::Nothing => write!(text, "<td class=\"none\">none</td>"),
                Passes::Some(lines) => {
                    let lines = lines.iter().map(|line| format!("<code>{}</code>", escaped(line)));
                    write!(text, "<td class=\"some\">{}</td>", lines.collect::<String>())
                }
            };
        }
        text.push_str("</tr>\n");
    }
    text + "</tbody>\n</table></div>\n</html>\n"
}
