// SPDX-License-Identifier: Apache-2.0

//! Figures as a table, and as JSON lines.

use std::fmt::Write;

use crate::Figure;

/// A table for people. Where others have published figures, it has a line for each of these;
/// otherwise a line for each variant.
pub fn table(bench: &str, figures: &[Figure]) -> String {
    match figures.iter().any(|f| f.published.is_some()) {
        true => published(bench, figures),
        false => measured(bench, figures),
    }
}

/// Millions of operations a second, or their gigabits.
fn rate(ns: f64, bits: Option<u64>) -> f64 {
    bits.map_or(1e3 / ns, |bits| bits as f64 / ns)
}

/// A line for each figure that others have published: theirs, the reference's here, and ours. Rates
/// are medians; the best of all rounds stands in brackets.
fn published(bench: &str, figures: &[Figure]) -> String {
    let lines = figures.iter().filter_map(|f| Some((f, f.published?)));
    let width = lines.clone().map(|(f, _)| bench.len() + 1 + f.variant.len()).max().unwrap_or(0);
    let mut out = format!(
        "{:width$} {:>18} {:>22} {:>22}  ratio\n",
        "bench/variant", "published", "kernel (best)", "ours (best)"
    );
    for (figure, published) in lines {
        let cell = |f: &Figure| {
            let [median, best] = [f.ns, f.least_ns].map(|ns| rate(ns, published.bits));
            format!("{median:.2} ({best:.2})")
        };
        let name = format!("{bench}/{}", figure.variant);
        let reference = figure.ratio.and_then(|(of, ratio)| {
            Some((figures.iter().find(|f| f.variant == of).map(cell)?, ratio))
        });
        let (kernel, ratio) = match reference {
            Some((kernel, ratio)) => (kernel, format!("  {ratio:.1}")),
            None => ("-".into(), String::new()),
        };
        let ours = cell(figure);
        let _ =
            writeln!(out, "{name:width$} {:>18} {kernel:>22} {ours:>22}{ratio}", published.figure);
    }
    out
}

/// A line for each variant.
fn measured(bench: &str, figures: &[Figure]) -> String {
    let width =
        figures.iter().map(|f| bench.len() + 1 + f.variant.len()).max().unwrap_or(0).max(16);
    let mut out = format!(
        "{:width$} {:>9} {:>12} {:>12}  ratio\n",
        "bench/variant", "Mpps", "ns/packet", "least ns"
    );
    for f in figures {
        let name = format!("{bench}/{}", f.variant);
        if let Some(bytes) = f.bytes {
            let _ = writeln!(out, "{name:width$} {bytes:.1} bytes per flow");
            continue;
        }
        let _ = write!(out, "{name:width$} {:9.2} {:12.2} {:12.2}", f.mops(), f.ns, f.least_ns);
        if let Some((against, ratio)) = f.ratio {
            let _ = write!(out, "  {ratio:.3} of {against}");
        }
        out.push('\n');
    }
    out
}

/// One JSON object per line. `ratio` is the rate against the variant `against`; both are null
/// without one. `published` is what others have published, where they have.
pub fn json_lines(bench: &str, figures: &[Figure]) -> String {
    let mut out = String::new();
    for f in figures {
        if let Some(bytes) = f.bytes {
            let _ = writeln!(
                out,
                "{{\"bench\": \"{bench}\", \"variant\": \"{}\", \"mpps\": null, \"ns_per_packet\": null, \
                 \"bytes_per_flow\": {bytes:.1}, \"against\": null, \"ratio\": null}}",
                f.variant
            );
            continue;
        }
        let (against, ratio) = match f.ratio {
            Some((against, ratio)) => (format!("\"{against}\""), format!("{ratio:.4}")),
            None => ("null".into(), "null".into()),
        };
        let published = f.published.map_or(String::new(), |published| {
            format!(", \"published\": \"{}\"", published.figure)
        });
        let _ = writeln!(
            out,
            "{{\"bench\": \"{bench}\", \"variant\": \"{}\", \"mpps\": {:.4}, \"ns_per_packet\": {:.3}, \
             \"least_ns\": {:.3}, \"against\": {against}, \"ratio\": {ratio}{published}}}",
            f.variant,
            f.mops(),
            f.ns,
            f.least_ns
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Published;

    #[test]
    fn both_forms_name_bench_variant_and_ratio() {
        let figure = Figure {
            variant: "set384".into(),
            ns: 10.0,
            least_ns: 9.0,
            ratio: Some(("one-hot", 0.97)),
            bytes: None,
            published: None,
        };
        let table = table("ingress", std::slice::from_ref(&figure));
        assert!(
            table.contains("ingress/set384")
                && table.contains("100.00")
                && table.contains("0.970 of one-hot")
        );
        assert_eq!(
            json_lines("ingress", &[figure]),
            "{\"bench\": \"ingress\", \"variant\": \"set384\", \"mpps\": 100.0000, \"ns_per_packet\": 10.000, \
             \"least_ns\": 9.000, \"against\": \"one-hot\", \"ratio\": 0.9700}\n"
        );
    }

    #[test]
    fn what_others_have_published_stands_beside_both_rates() {
        let figure = |variant: &str, ns, ratio, published| Figure {
            variant: variant.into(),
            ns,
            least_ns: ns / 2.0,
            ratio,
            bytes: None,
            published,
        };
        let published = Published { figure: "32.5 Gbit/s", bits: Some(8000) };
        let figures = [
            figure("kernel/tcp", 1000.0, None, None),
            figure("tcp", 100.0, Some(("kernel/tcp", 10.0)), Some(published)),
        ];
        let table = table("seeds", &figures);
        let line = table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "seeds/tcp 32.5 Gbit/s 8.00 (16.00) 80.00 (160.00) 10.0");
        assert_eq!(table.lines().count(), 2, "{table}");
        assert!(json_lines("seeds", &figures).ends_with("\"published\": \"32.5 Gbit/s\"}\n"));
    }
}
