// SPDX-License-Identifier: Apache-2.0

//! What nft 1.0.6 says of wrong texts, to the letter.

use penstock_syntax::diag::Diagnostics;
use penstock_syntax::parse::parse;
use penstock_syntax::scope::Scope;
use penstock_syntax::source::{Files, Inputs, Origin};

/// No files at all.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Result<String, String> {
        Err("No such file or directory".into())
    }

    fn glob(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Texts and messages: `%%` between cases, `----` between a text, which ends without a newline, and
/// what nft prints.
const CASES: &str = include_str!("syntax_errors.txt");

#[test]
fn syntax_errors_equal_those_of_nft() {
    let mut wrong = Vec::new();
    for case in CASES.split("%%\n") {
        let (text, expected) = case.split_once("\n----\n").expect("a text and its messages");
        let mut inputs = Inputs::default();
        let input =
            inputs.add(Origin::File { name: "/dev/stdin".into(), from: None }, text.to_string());
        let (mut scope, mut diags) = (Scope::default(), Diagnostics::default());
        parse(&mut inputs, input, &NoFiles, &["/etc".into()], &mut scope, &mut diags);
        let got = diags.render(&inputs);
        if got != expected {
            wrong.push(format!("{text}\n---- nft\n{expected}---- here\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
