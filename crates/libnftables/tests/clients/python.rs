// SPDX-License-Identifier: Apache-2.0

//! The Python module of nftables (package python3-nftables).

use std::process::Command;

use crate::library::{has_namespaces, made, run, scratch, succeeds};

/// Calls of all kinds; prints what comes of each.
pub const SCRIPT: &str = r#"
import json
import nftables

nft = nftables.Nftables()


def show(what, result):
    print(what, json.dumps(result, sort_keys=True))


table = {"family": "inet", "name": "t"}
chain = dict(table="t", family="inet", name="c", type="filter", hook="input", prio=0, policy="drop")
match = {"left": {"payload": {"protocol": "tcp", "field": "dport"}}, "op": "==", "right": 22}
rule = {"family": "inet", "table": "t", "chain": "c", "expr": [{"match": match}, {"accept": None}]}
ruleset = {"nftables": [{"add": {"table": table}}, {"add": {"chain": chain}}, {"add": {"rule": rule}}]}
show("validate", nft.json_validate(ruleset))
nft.set_echo_output(True)
nft.set_handle_output(True)
show("add", nft.json_cmd(ruleset))
nft.set_echo_output(False)
show("list", nft.json_cmd({"nftables": [{"list": {"ruleset": None}}]}))
nft.set_handle_output(False)
show("text", nft.cmd("list ruleset"))
show("again", nft.cmd("create table inet t"))
show("wrong", nft.cmd("add rule inet t nowhere accept"))
show("wrong json", nft.json_cmd({"nftables": [{"add": {"chain": {"family": "ip", "table": "x", "name": "y"}}}]}))
nft.set_dry_run(True)
show("dry", (nft.get_dry_run(), nft.cmd("flush ruleset")))
nft.set_dry_run(False)
for name in ("stateless", "service", "guid", "numeric_prio", "numeric_proto", "numeric_symbol", "numeric_time"):
    getattr(nft, "set_" + name + "_output")(True)
    show(name, (getattr(nft, "get_" + name + "_output")(), nft.cmd("list ruleset")))
nft.set_debug("netlink")
show("debug", (list(nft.get_debug()), nft.cmd("add rule inet t c udp dport 53 accept")))
nft.set_debug(0)
show("rules", nft.cmd("-- list"))
show("flush", nft.cmd("flush ruleset; add table ip u\nadd chain ip u v"))
show("empty", nft.cmd("list ruleset"))
"#;

/// The distribution's Python has the distribution's modules.
pub const PYTHON: &str = "/usr/bin/python3";

/// Whether the module is there; says so if not.
pub fn has_module() -> bool {
    let imports = ["-c", "import nftables; nftables.Nftables()"];
    let has = succeeds(Command::new(PYTHON).args(imports)).is_some();
    if !has {
        println!("SKIPPED: there is no Python module nftables");
    }
    has
}

#[test]
fn the_python_module_gets_the_same_from_both_libraries() {
    if !has_module() {
        return;
    }
    let Some(library) = made() else { return };
    let mut ours = Command::new(PYTHON);
    ours.arg("-").env("LD_LIBRARY_PATH", library).env_remove("PENSTOCK_COMPAT");
    ours.env("PENSTOCK_EXEC", scratch("python").join("state"));
    let ours = run(&mut ours, SCRIPT);
    let text = String::from_utf8_lossy(&ours.stdout);
    let errors = String::from_utf8_lossy(&ours.stderr);
    assert!(ours.status.success() && errors.is_empty(), "{text}{errors}");
    assert!(text.contains("table inet t"), "{text}");
    let release = succeeds(Command::new("nft").arg("--version")).unwrap_or_default();
    if !release.starts_with("nftables v1.0.6") || !has_namespaces() {
        println!("SKIPPED: nothing to compare with");
        return;
    }
    let mut theirs = Command::new("unshare");
    theirs.args(["--net", PYTHON, "-"]).env_remove("LD_LIBRARY_PATH");
    let theirs = run(&mut theirs, SCRIPT);
    let pairs = text.lines().zip(std::str::from_utf8(&theirs.stdout).expect("UTF-8").lines());
    pairs.for_each(|(ours, theirs)| assert_eq!(ours, theirs));
    assert_eq!(text.lines().count(), theirs.stdout.split(|byte| *byte == b'\n').count() - 1);
}
