// SPDX-License-Identifier: Apache-2.0

//! Figures as a table, and as JSON lines.

use std::fmt::Write;

use crate::Figure;

/// A table for people.
pub fn table(bench: &str, figures: &[Figure]) -> String {
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
/// without one.
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
        let _ = writeln!(
            out,
            "{{\"bench\": \"{bench}\", \"variant\": \"{}\", \"mpps\": {:.4}, \"ns_per_packet\": {:.3}, \
             \"least_ns\": {:.3}, \"against\": {against}, \"ratio\": {ratio}}}",
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

    #[test]
    fn both_forms_name_bench_variant_and_ratio() {
        let figure = Figure {
            variant: "set384".into(),
            ns: 10.0,
            least_ns: 9.0,
            ratio: Some(("one-hot", 0.97)),
            bytes: None,
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
}
