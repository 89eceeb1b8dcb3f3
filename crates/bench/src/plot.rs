// SPDX-License-Identifier: Apache-2.0

//! Figures as a bar chart in SVG.

use std::fmt::Write;

use crate::Figure;

const LABELS: u32 = 220;
const BARS: u32 = 480;
const ROW: u32 = 24;

/// A chart of the rates of a benchmark: one bar per variant, with its rate and ratio.
pub fn svg(bench: &str, figures: &[Figure]) -> String {
    let (width, height) = (LABELS + BARS + 160, (figures.len() as u32 + 2) * ROW);
    let figures: Vec<_> = figures.iter().filter(|f| f.bytes.is_none()).collect();
    let most = figures.iter().copied().map(Figure::mops).fold(f64::MIN_POSITIVE, f64::max);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"{ROW}\" font-weight=\"bold\">{bench}: million packets per second</text>\n"
    );
    for (row, f) in (1..).zip(figures) {
        let y = row * ROW + ROW / 2;
        let bar = f.mops() / most * f64::from(BARS);
        let ratio =
            f.ratio.map_or(String::new(), |(against, ratio)| format!(" ({ratio:.2} of {against})"));
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABELS}\" y=\"{y}\" width=\"{bar:.1}\" height=\"{}\" fill=\"#3b6ea5\"/>\
             <text x=\"{:.1}\" y=\"{}\">{:.2}{ratio}</text>",
            LABELS - 8,
            y + ROW / 2 + 4,
            f.variant,
            ROW - 6,
            f64::from(LABELS) + bar + 6.0,
            y + ROW / 2 + 4,
            f.mops(),
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_variant_has_the_longest_bar() {
        let figure = |variant: &str, ns| Figure {
            variant: variant.into(),
            ns,
            least_ns: ns,
            ratio: None,
            bytes: None,
            published: None,
        };
        let svg = svg("rules", &[figure("linear-10", 10.0), figure("linear-100", 20.0)]);
        assert!(svg.contains("width=\"480.0\"") && svg.contains("width=\"240.0\""), "{svg}");
    }
}
