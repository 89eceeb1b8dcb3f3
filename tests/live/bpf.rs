// SPDX-License-Identifier: Apache-2.0

//! BPF programs in user space at the hooks of the live dataplane, with machine code and without.

use crate::net::{Net, sh};

#[test]
fn bpf_programs_run_by_both_engines_and_go() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("clang") {
        return;
    }
    let (object, directory) = (net.directory.join("hooks.o"), env!("CARGO_MANIFEST_DIR"));
    sh(&format!(
        "clang -O2 -g -target bpf -I/usr/include/{}-linux-gnu -c {directory}/../../examples/bpf/hooks.c -o {}",
        std::env::consts::ARCH,
        object.display()
    ));
    for engine in ["jit", "interpreter"] {
        net.up(&format!("r0 r1 --engine {engine}"));
        let r = net.r.clone();
        let attach = format!("$PENSTOCK bpf attach forward@-50={}:judge", object.display());
        assert_eq!(net.ok(&r, &attach), "id 1\n");
        let ping = |net: &Net| net.run(&net.a, "ping -c 3 -i 0.2 -W 1 198.18.1.2");
        for _ in 0..3 {
            assert!(ping(&net).0);
        }
        // 12 packets at least: requests, and replies, at hook 2.
        let seen = net.ok(&r, "$PENSTOCK bpf map dump seen");
        let forwarded = seen.lines().find(|line| line.starts_with("seen 02000000"));
        let count = forwarded.and_then(|line| line.split_whitespace().nth(2)).unwrap_or("0");
        assert!(!count.starts_with("00"), "{seen}");
        let text = net.ok(&r, "$PENSTOCK bpf show; $PENSTOCK show");
        assert!(text.contains("passed") && !text.contains("no machine code"), "{text}");
        net.ok(&r, "$PENSTOCK bpf detach forward@-50");
        assert!(ping(&net).0);
        assert!(!net.ok(&r, "$PENSTOCK bpf show").contains("judge"));
        net.down();
    }
}
