// SPDX-License-Identifier: Apache-2.0

//! The commands of the documentation, as they stand there.
//!
//! A block that begins with <code>```sh test</code> is run in a copy of `examples/router`, beside
//! one of `examples/prove`, with the program in the path; the blocks of a page one after the other in the same place. It has to end
//! with status 0, or with the one that `exit=` names. If a block <code>```text</code> follows, the
//! block prints it: line by line, where `…` stands for lines that are left out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::text;

/// A block of a page.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    commands: String,
    exit: i32,
    /// What it prints, if that is said.
    printed: Option<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    // Whether the last block that ended is one that is run.
    let mut is_next = false;
    for (number, line) in (1..).zip(page.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((number, info, String::new())),
            (Some((_, _, body)), None) => *body += &format!("{line}\n"),
            (Some(_), Some(_)) => {
                let Some((line, info, body)) = open.take() else { continue };
                let mut words = info.split(' ');
                match (words.next(), words.next()) {
                    (Some("sh"), Some("test")) => {
                        let exit = words.next().map_or(0, |word| {
                            let status = word.strip_prefix("exit=").and_then(|n| n.parse().ok());
                            status.unwrap_or_else(|| panic!("line {line}: what is `{word}`?"))
                        });
                        out.push(Block { line, commands: body, exit, printed: None });
                        is_next = true;
                        continue;
                    }
                    (Some("text"), None) if is_next => {
                        if let Some(last) = out.last_mut() {
                            last.printed = Some(body);
                        }
                    }
                    _ => {}
                }
                is_next = false;
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => is_next = false,
        }
    }
    out
}

/// Whether text is what a page says.
fn is_as_said(printed: &str, said: &str) -> bool {
    let mut lines = printed.lines().map(str::trim_end);
    let mut skips = false;
    for line in said.lines().map(str::trim_end) {
        if line == "…" {
            skips = true;
            continue;
        }
        let found = match skips {
            true => lines.any(|own| own == line),
            false => lines.next() == Some(line),
        };
        if !found {
            return false;
        }
        skips = false;
    }
    skips || lines.next().is_none()
}

fn run(page: &Path, blocks: &[Block]) {
    let name = page.file_stem().unwrap().to_str().unwrap().to_lowercase();
    let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("documented-{name}"));
    let _ = fs::remove_dir_all(&top);
    fs::create_dir_all(top.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_penstock"), top.join("bin/penstock")).unwrap();
    let place = top.join("router");
    for example in ["router", "prove"] {
        fs::create_dir_all(top.join(example)).unwrap();
        for file in fs::read_dir(root().join("examples").join(example)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), top.join(example).join(file.file_name())).unwrap();
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    for block in blocks {
        let out = Command::new("sh")
            .args(["-e", "-c", &block.commands])
            .current_dir(&place)
            .env("PATH", format!("{}:{path}", top.join("bin").display()))
            .output()
            .unwrap();
        let at = format!("{}:{}", page.display(), block.line);
        let (printed, told) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(block.exit), "{at}:\n{printed}{told}");
        if let Some(said) = &block.printed {
            assert!(is_as_said(&printed, said), "{at} prints:\n{printed}");
        }
    }
    let _ = fs::remove_dir_all(&top);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn commands_of_the_documentation_do_what_it_says() {
    let mut pages = vec![root().join("README.md")];
    for page in fs::read_dir(root().join("docs")).unwrap() {
        pages.push(page.unwrap().path());
    }
    pages.sort();
    let mut all = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|e| e == "md")) {
        let blocks = blocks(&fs::read_to_string(page).unwrap());
        all += blocks.len();
        if !blocks.is_empty() {
            run(page, &blocks);
        }
    }
    assert!(all >= 6, "only {all} blocks are run");
}

#[test]
fn blocks_of_pages_are_found_with_their_output() {
    let page = "a\n```sh\nno\n```\n```sh test exit=1\none\n```\n\n```text\nsaid\n…\n```\n\
                ```sh test\ntwo\n```\nand then\n```text\nnot said\n```\n";
    let block = |line, commands: &str, exit, printed: Option<&str>| Block {
        line,
        commands: commands.to_owned(),
        exit,
        printed: printed.map(str::to_owned),
    };
    assert_eq!(
        blocks(page),
        [block(5, "one\n", 1, Some("said\n…\n")), block(13, "two\n", 0, None)]
    );
    for (printed, said, is) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\nb\n", "a\n", false),
        ("a\nb\nc\n", "a\n…\n", true),
        ("a\nb\nc\n", "…\nc\n", true),
        ("a\nb\nc\n", "…\nb\n", false),
        ("a\n", "…\nb\n", false),
    ] {
        assert_eq!(is_as_said(printed, said), is, "{printed:?} {said:?}");
    }
}
