// SPDX-License-Identifier: Apache-2.0

//! `make install`: what it puts where.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{TestDir, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn install(destdir: &Path, prefix: &str) {
    let out = Command::new(root().join("scripts/install"))
        .env("DESTDIR", destdir)
        .env("PREFIX", prefix)
        .env("BINARY", env!("CARGO_BIN_EXE_penstock"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn everything_is_installed_below_a_prefix_and_configuration_stays() {
    let place = TestDir::new("install");
    let dest = place.0.join("dest");
    install(&dest, "/usr");
    let read =
        |path: &str| fs::read_to_string(dest.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let shown = Command::new(dest.join("usr/bin/penstock")).arg("--version").output().unwrap();
    assert!(text(&shown.stdout).starts_with("penstock "));
    for page in fs::read_dir(root().join("man")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let section = name.rsplit('.').next().unwrap();
        assert!(!read(&format!("usr/share/man/man{section}/{name}")).is_empty());
    }
    for (path, part) in [
        ("usr/share/bash-completion/completions/penstock", "translate"),
        ("usr/share/zsh/vendor-completions/_penstock", "#compdef penstock"),
        ("usr/share/fish/vendor_completions.d/penstock.fish", "complete -c penstock"),
        ("usr/lib/systemd/system/penstock.service", "ExecStart=/usr/bin/penstock up"),
        ("usr/lib/sysusers.d/penstock.conf", "u penstock"),
        ("etc/default/penstock", "#PENSTOCK_ARGS="),
        ("usr/share/doc/penstock/README.md", "# Penstock"),
        ("usr/share/doc/penstock/docs/install.md", "# Installing"),
        ("usr/share/doc/penstock/examples/router/net.ip", "link add"),
    ] {
        assert!(read(path).contains(part), "{path} has no `{part}`");
    }
    // What an administrator wrote is kept; another prefix is another place.
    fs::write(dest.join("etc/default/penstock"), "PENSTOCK_ARGS=eth7\n").unwrap();
    install(&dest, "/opt/penstock");
    assert_eq!(read("etc/default/penstock"), "PENSTOCK_ARGS=eth7\n");
    let unit = read("opt/penstock/lib/systemd/system/penstock.service");
    assert!(unit.contains("ExecStart=/opt/penstock/bin/penstock up"), "{unit}");
    let _ = fs::remove_dir_all(&place.0);
}

#[test]
fn scripts_are_sound_for_the_shell() {
    for script in
        ["install", "install-dev", "static", "deb", "package-check", "service-check", "dist"]
    {
        let out = Command::new("sh").arg("-n").arg(root().join("scripts").join(script)).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{script}: {}", text(&out.stderr));
    }
}
