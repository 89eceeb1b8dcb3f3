// SPDX-License-Identifier: Apache-2.0

//! Other programs: the Python module of libnftables, iproute2.

use crate::side::{Scratch, both, has, in_exec, left};
use std::path::Path;
use std::process::Command;

#[test]
fn links_stay_the_kernels() {
    if !has("ip") {
        return;
    }
    let scratch = Scratch::new();
    let inside = in_exec(&scratch.state(), "ip -o link show lo");
    assert_eq!(inside, left(Command::new("sh").args(["-c", "ip -o link show lo"])));
    assert!(inside.stdout.contains("lo"), "{inside:?}");
}

#[test]
fn tables_of_owners_are_theirs_and_go_with_them() {
    if !has("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/owners.py");
    if let Some(all) = both(&format!("python3 {}", script.display())) {
        assert!(all.stdout.contains("flags 6 owner b"), "{}", all.stdout);
    }
}

#[test]
fn the_python_module_loads_and_lists() {
    // The distribution's has the distribution's modules.
    let load = ["-c", "import nftables; nftables.Nftables()"];
    let loads = |python: &&&str| left(Command::new(python).args(load)).status == Some(0);
    let pythons = ["/usr/bin/python3", "python3"];
    let Some(python) = pythons.iter().filter(|python| has(python)).find(loads) else {
        println!("SKIPPED: there is no Python module nftables");
        return;
    };
    let scratch = Scratch::new();
    let script = format!(
        "{python} - <<'END'
import json, nftables
nft = nftables.Nftables()
nft.set_handle_output(True)
nft.set_echo_output(True)
table = {{'family': 'inet', 'name': 't'}}
rc, out, err = nft.json_cmd({{'nftables': [{{'add': {{'table': table}}}}]}})
assert rc == 0, err
assert out['nftables'][0]['add']['table']['name'] == 't', out
rc, out, err = nft.cmd('list ruleset')
assert (rc, err) == (0, '') and out.startswith('table inet t'), (out, err)
rc, out, err = nft.cmd('list table ip nowhere')
assert rc == -1 and 'No such file or directory' in err, err
END"
    );
    let ran = in_exec(&scratch.state(), &script);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}
