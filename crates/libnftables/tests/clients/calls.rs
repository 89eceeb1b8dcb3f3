// SPDX-License-Identifier: Apache-2.0

//! A program in C.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::library::{has_namespaces, here, made, run, scratch, succeeds};

/// What the program prints with this library; both outputs in one.
fn ours(folder: &Path, calls: &str, variables: &[(&str, &str)]) -> Option<String> {
    let made = made()?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" 2>&1"]).arg(made.join("calls"));
    command.env("LD_LIBRARY_PATH", made).env("PENSTOCK_EXEC", folder.join("state"));
    command.env_remove("PENSTOCK_COMPAT").envs(variables.iter().copied());
    let output = run(&mut command, calls);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{calls}\n{text}");
    Some(text)
}

/// What it prints with the distribution's, if that is the release that listings follow.
fn theirs(calls: &str) -> Option<String> {
    let release = succeeds(Command::new("nft").arg("--version")).unwrap_or_default();
    if !release.starts_with("nftables v1.0.6") {
        println!("SKIPPED: there is no nft 1.0.6");
        return None;
    }
    if !has_namespaces() {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "exec \"$0\" 2>&1"]).arg(made()?.join("calls"));
    command.env_remove("LD_LIBRARY_PATH");
    let output = run(&mut command, calls);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{calls}\n{text}");
    Some(text)
}

/// A text without the numbers of processes.
fn without_processes(text: &str) -> String {
    let mut parts = text.split("by process ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "by process N";
        out += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out
}

const BUFFERS: &str = "
get_output_buffer
unbuffer_output
from_buffer add table inet t
buffer_output
buffer_error
from_buffer add chain inet t c { type filter hook input priority 0; }
from_buffer add rule inet t c tcp dport 22 counter accept
from_buffer list ruleset
get_output_buffer
get_output_buffer
from_buffer list tables
from_buffer list tables
get_output_buffer
from_buffer list tables
buffer_output
get_output_buffer
from_buffer frob
get_error_buffer
get_error_buffer
unbuffer_output
unbuffer_output
from_buffer list tables
from_buffer frob
unbuffer_error
from_buffer frob
from_buffer
from_buffer    # nothing
set_output
set_output DIR/out
from_buffer list tables
set_error DIR/err
from_buffer frob
set_output DIR/out2
";

const ERRORS: &str = "
buffer_error
from_buffer add rule ip nowhere c accept
get_error_buffer
from_buffer add table ip a\\nadd chain ip a b\\nadd rule ip a nowhere accept
get_error_buffer
from_buffer add table ip a; add chain ip a b; add rule ip a b tcp dport 99999 accept
get_error_buffer
from_buffer list tables
from_buffer add rule ip a b accept)
get_error_buffer
from_buffer delete table ip a
get_error_buffer
from_filename DIR/missing.nft
get_error_buffer
from_filename DIR/wrong.nft
get_error_buffer
output_set_flags 16
from_buffer {\"nftables\": [{\"add\": {\"chain\": {\"family\": \"ip\", \"table\": \"x\", \"name\": \"c\"}}}]}
get_error_buffer
from_buffer {\"nftables\": [{\"frob\": {}}]}
get_error_buffer
from_buffer {\"nftables\": 
get_error_buffer
";

const FORMS: &str = "
from_buffer add table inet t
from_buffer add chain inet t c { type filter hook forward priority filter; }
from_buffer add rule inet t c tcp dport { 22, 80 } ct state established counter accept
from_buffer add set inet t s { type ipv4_addr; timeout 1h; elements = { 198.18.0.1 timeout 90s } }
from_buffer add rule inet t c meta skuid 0 meta l4proto udp drop
output_set_flags 2
from_buffer list chain inet t c
output_set_flags 4
from_buffer list chain inet t c
output_set_flags 8
from_buffer list chain inet t c
output_set_flags 64
from_buffer list chain inet t c
output_set_flags 128
from_buffer list chain inet t c
output_set_flags 256
from_buffer list chain inet t c
output_set_flags 512
from_buffer list chain inet t c
output_set_flags 0x780
from_buffer list chain inet t c
output_set_flags 2048
from_buffer list set inet t s
output_set_flags 2064
from_buffer list ruleset
output_set_flags 16
from_buffer list chain inet t c
from_buffer {\"nftables\": [{\"list\": {\"chains\": null}}]}
from_buffer list tables
output_set_flags 48
from_buffer {\"nftables\": [{\"add\": {\"table\": {\"family\": \"ip\", \"name\": \"j\"}}}]}
from_buffer {\"nftables\": [{\"add\": {\"chain\": {\"family\": \"ip\", \"table\": \"j\", \"name\": \"c\"}}}]}
output_set_flags 32
from_buffer add rule inet t c udp dport 53 accept
output_set_flags 40
from_buffer insert rule inet t c udp dport 54 accept
output_set_flags 0
output_set_debug 8
from_buffer add rule inet t c udp dport 55 accept
output_set_debug 0
from_buffer describe tcp dport
";

const DRY_RUNS: &str = "
set_dry_run 1
from_buffer add table ip t
from_buffer list tables
from_buffer add table ip u; add chain ip u c; add rule ip u c drop
from_buffer add rule ip nowhere c accept
set_dry_run 0
from_buffer list tables
from_buffer add table ip t
set_dry_run 1
from_filename DIR/more.nft
from_buffer flush ruleset
set_dry_run 0
from_buffer list ruleset
from_filename DIR/more.nft
from_buffer list ruleset
set_optimize 1
from_filename DIR/merged.nft
from_buffer list ruleset
set_dry_run 1
from_filename DIR/merged.nft
";

const NAMES: &str = "
from_buffer add table ip t; add chain ip t c
from_buffer define port = 25
from_buffer add rule ip t c tcp dport $port accept
from_buffer define port = 26
from_buffer add rule ip t c tcp dport $other accept
from_filename DIR/defines.nft
from_buffer add rule ip t c tcp dport $port accept
from_buffer add rule ip t c tcp dport $fileport accept
add_var nothing
add_var value=33
from_filename DIR/variable.nft
new
from_filename DIR/variable.nft
from_buffer include \"included.nft\"
add_include_path DIR
from_buffer include \"included.nft\"
from_buffer include \"missing.nft\"
from_buffer list ruleset
";

/// Files of the folder that the calls name `DIR`.
const FILES: [(&str, &str); 6] = [
    ("wrong.nft", "add table ip a\n\nadd chain ip x y\nadd rule ip t c foo\n"),
    ("more.nft", "table ip t {\n\tchain c {\n\t\tcounter accept\n\t}\n}\n"),
    (
        "merged.nft",
        "table ip o {\n\tchain c {\n\t\ttcp dport 1 accept\n\t\ttcp dport 2 accept\n\t}\n}\n",
    ),
    ("defines.nft", "define fileport = 44\nadd rule ip t c tcp dport $fileport drop\n"),
    ("variable.nft", "add rule ip t c udp dport $value drop\n"),
    ("included.nft", "add table ip included\n"),
];

#[test]
fn both_libraries_answer_the_same_calls_in_the_same_way() {
    for (name, calls) in [
        ("buffers", BUFFERS),
        ("errors", ERRORS),
        ("forms", FORMS),
        ("dry-runs", DRY_RUNS),
        ("names", NAMES),
    ] {
        let folder = scratch(name);
        for (file, content) in FILES {
            std::fs::write(folder.join(file), content).expect("the folder is writable");
        }
        let calls = calls.replace("DIR", &folder.display().to_string());
        let written =
            || ["out", "err", "out2"].map(|file| std::fs::read_to_string(folder.join(file)).ok());
        let Some(ours) = ours(&folder, &calls, &[]) else { return };
        let ours_in_files = written();
        let Some(theirs) = theirs(&calls) else { return };
        assert_eq!(without_processes(&ours), without_processes(&theirs), "{name}");
        assert_eq!(ours_in_files, written(), "{name}");
    }
}

#[test]
fn the_environment_names_ruleset_and_release() {
    let folder = scratch("environment");
    let calls = "
from_buffer add table ip t; add set ip t s { type ipv4_addr; }; add chain ip t c
output_set_flags 2064
from_buffer list ruleset
";
    let Some(old) = ours(&folder, calls, &[]) else { return };
    let Some(new) = ours(&folder, calls, &[("PENSTOCK_COMPAT", "1.1")]) else { return };
    let place = |text: &str, what: &str| text.find(what).expect("it is listed");
    assert!(place(&old, "\"set\"") < place(&old, "\"chain\""), "{old}");
    assert!(place(&new, "\"set\"") > place(&new, "\"chain\""), "{new}");
    for (variables, said) in [
        (("PENSTOCK_COMPAT", "7"), "unknown release '7', expected one of 1.0.6, 1.1"),
        (("PENSTOCK_EXEC", "/"), "Could not open file \"/\""),
        (("PENSTOCK_EXEC", "/dev/null/state"), "Not a directory"),
    ] {
        let Some(text) = ours(&folder, "from_buffer list ruleset", &[variables]) else { return };
        assert!(text.contains(said) && text.ends_with("-1\n"), "{variables:?}: {text}");
    }
}

#[test]
fn flags_of_input_are_kept_and_work() {
    let folder = scratch("input");
    let calls = "
input_set_flags 2
input_set_flags 3
from_buffer {\"nftables\": [{\"add\": {\"table\": {\"family\": \"ip\", \"name\": \"j\"}}}]}
from_buffer list tables
from_buffer add table ip k; add chain ip k c
from_buffer add rule ip k c ip saddr localhost accept
input_set_flags 0
from_buffer add rule ip k c ip saddr localhost accept
from_buffer list chain ip k c
";
    let Some(text) = ours(&folder, calls, &[]) else { return };
    assert!(text.contains("input_set_flags: 0\ninput_set_flags: 2\nfrom_buffer: 0\n"), "{text}");
    assert!(text.contains("from_buffer: table ip j\n0\n"), "{text}");
    assert!(text.contains("from_buffer: Error: Could not resolve hostname"), "{text}");
    assert!(text.contains("ip saddr 127.0.0.1 accept"), "{text}");
}

/// The library of nft 1.0.6 frees variables twice if they were cleared.
#[test]
fn variables_and_include_paths_are_forgotten() {
    let folder = scratch("forgotten");
    std::fs::write(folder.join("f.nft"), "add rule ip t c tcp dport $value\n")
        .expect("the folder is writable");
    let calls = "
from_buffer add table ip t; add chain ip t c
add_var value=1
from_filename DIR/f.nft
clear_vars
from_filename DIR/f.nft
add_var value=2
from_filename DIR/f.nft
add_include_path DIR
clear_include_paths
from_buffer include \"f.nft\"
from_buffer list chain ip t c
";
    let calls = calls.replace("DIR", &folder.display().to_string());
    let Some(text) = ours(&folder, &calls, &[]) else { return };
    assert!(text.contains("unknown identifier 'value'"), "{text}");
    assert!(text.contains("File not found: f.nft"), "{text}");
    assert!(text.contains("\t\ttcp dport 1\n\t\ttcp dport 2\n\t}\n"), "{text}");
}

/// Words that begin with `nft_` and stand before `(`.
fn functions(text: &str) -> BTreeSet<&str> {
    let word = |head: &str| head.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    text.match_indices('(')
        .map(|(at, _)| &text[word(&text[..at]).map_or(0, |before| before + 1)..at])
        .filter(|name| name.starts_with("nft_"))
        .collect()
}

#[test]
fn header_and_library_have_the_functions_of_libnftables() {
    let read = |path: &str| std::fs::read_to_string(here().join(path)).expect("a file");
    let (header, sources, map) =
        (read("include/nftables/libnftables.h"), read("src/lib.rs"), read("libnftables.map"));
    let of_map = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let of_map: BTreeSet<&str> = of_map.filter(|name| name.starts_with("nft_")).collect();
    assert_eq!(of_map.len(), 26);
    assert_eq!(functions(&header), of_map);
    let exported: Vec<&str> = sources.split("extern \"C\" fn ").skip(1).collect();
    let exported: BTreeSet<&str> =
        exported.iter().filter_map(|text| text.split('(').next()).collect();
    assert_eq!(exported, of_map);
}

#[test]
fn the_library_exports_them_in_their_versions_and_nothing_else() {
    let Some(folder) = made() else { return };
    let listed = |library: &Path| {
        let text = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
        let names = text.lines().filter_map(|line| line.split_whitespace().last());
        Some(names.map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let Some(ours) = listed(&folder.join("libnftables.so.1")) else {
        println!("SKIPPED: there is no nm");
        return;
    };
    assert_eq!(ours.iter().filter(|name| name.contains("@@LIBNFTABLES_")).count(), 26, "{ours:?}");
    assert!(ours.iter().all(|name| name.contains("LIBNFTABLES_")), "{ours:?}");
    for system in ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"] {
        if let Some(theirs) = listed(&Path::new(system).join("libnftables.so.1")) {
            assert!(ours.is_superset(&theirs), "{theirs:?}");
        }
    }
}
