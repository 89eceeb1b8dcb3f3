# SPDX-License-Identifier: Apache-2.0
# make run            build, and run a recorded capture through a router ruleset
# make test           run all tests; those against the kernel if the rights allow it
# make lint           formatting, clippy and rustdoc (warnings are errors), the public API, and links of the documentation
# make api            compare the public API of crate penstock with crates/penstock/public-api.txt (part of lint)
# make api-update     write it there
# make deny           advisories, licences, duplicates and sources of all dependencies (cargo-deny)
# make header         the C header, from the sources of the C interface (cbindgen)
# make header-check   say whether it is current
# make libnftables    libnftables.so.1 and its header, into DIRECTORY (target/libnftables)
# make python         build the Python module in a virtual environment, and run its tests
# make release        the release binary, reproducible: see docs/release.md
# make release-check  build it twice, in two places, and compare
# make install        the program, manual pages, completions, unit and examples, below DESTDIR and PREFIX (/usr/local)
# make deb            Debian packages penstock, penstock-libnftables and libpenstock-dev: target/deb
# make package-check  try them in a fresh Debian (root; lintian, mmdebstrap)
# make static         a program for musl that needs no library: target/static/penstock
# make dist           all of these and the sources, with checksums: target/dist
# make sbom           its components, in CycloneDX form: target/sbom/penstock.cdx.json
# make loom           models of what workers share, in all orders that matter (loom and shuttle)
# make miri           unsafe code and what workers share, in Miri (needs nightly)
# make sanitize       worker tests with ThreadSanitizer and AddressSanitizer (needs nightly)
# make oracle         scenarios in a whole kernel, in QEMU: those whose names have the words of ONLY, RANDOM (10)
#                     of each random kind from SEED (1) on
# make bench          measure the packet path in memory, and write docs/performance.md;
#                     VPP=PROGRAM measures beside that VPP, too
# make soak           run the dataplane under all kinds of load and faults for HOURS (1) with SEED (1)
# make fuzz           all fuzz targets for SECONDS (600) together, or TARGET alone (docs/testing.md)
# make inject         make each system call of the dataplane fail once (20 minutes; strace)
# make fleet          faults of stores of a fleet, PUBLICATIONS (1000) in a row, and NODES (200) on one store (root; etcd)
# make record         record the example captures again (root; see examples/record.sh)
# make clean          remove build output

export PATH := $(PATH):$(HOME)/.cargo/bin

EXAMPLE = examples/router

.PHONY: run test lint api api-update deny header header-check libnftables python release release-check install install-dev library static deb package-check dist sbom bench soak inject fuzz oracle fleet record clean loom miri sanitize

run:
	@scripts/setup run
	cargo build --release --locked --quiet
	target/release/penstock run --net $(EXAMPLE)/net.ip --rules $(EXAMPLE)/rules.nft \
	    --read lan=$(EXAMPLE)/lan.pcap guest=$(EXAMPLE)/guest.pcap wan=$(EXAMPLE)/wan.pcap

# Tests of the dataplane mostly wait: more of them at a time than there are processors.
test: export RUST_TEST_THREADS ?= $(shell expr $$(nproc) + 4)
test:
	@scripts/setup test
	. scripts/python-first && cargo test --workspace --locked --quiet
	cargo test -p penstock --all-features --locked --quiet
	cargo check -p penstock --no-default-features --locked --quiet
	scripts/python

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features --locked --quiet
	scripts/api
	scripts/links

api:
	scripts/api

api-update:
	scripts/api update

deny:
	@scripts/tool cargo-deny 0.20.2
	scripts/deny

header:
	@scripts/tool cbindgen 0.29.4
	cd crates/capi && cbindgen --quiet --config cbindgen.toml --output include/penstock.h .

header-check:
	@scripts/tool cbindgen 0.29.4
	cd crates/capi && cbindgen --quiet --config cbindgen.toml --output include/penstock.h --verify .

libnftables:
	@scripts/setup run
	scripts/libnftables $(DIRECTORY)

python:
	scripts/python

release:
	@scripts/setup run
	scripts/release

release-check:
	@scripts/setup run
	scripts/release check

# Takes target/release/penstock if it is there: `sudo make install` builds nothing as root.
install:
	@test -x $(or $(BINARY),target/release/penstock) || $(MAKE) release
	scripts/install

library:
	. scripts/remap && cargo rustc -p penstock-capi --release --locked --quiet --crate-type staticlib

install-dev: library
	scripts/install-dev

static:
	@scripts/setup run
	scripts/static

deb: release library libnftables
	scripts/deb

package-check:
	scripts/package-check

dist: deb static
	scripts/dist

sbom:
	@scripts/tool cargo-cyclonedx 0.5.9
	scripts/sbom

loom:
	scripts/soundness loom

miri:
	scripts/soundness miri

sanitize:
	scripts/soundness thread
	scripts/soundness address

bench:
	@scripts/setup run
	cargo build --release --quiet
	scripts/performance target/release/penstock $(VPP) > docs/performance.md

oracle:
	@scripts/setup oracle
	PENSTOCK_ORACLE=all PENSTOCK_RANDOM=$(or $(RANDOM),10) PENSTOCK_SEED=$(SEED) \
	    cargo test --locked --quiet -p penstock-cli --test oracle -- $(ONLY)

HOURS ?= 1
SEED ?= 1

soak:
	@scripts/setup test
	cargo build --release --quiet
	PENSTOCK_PROGRAM=$(CURDIR)/target/release/penstock PENSTOCK_SOAK_HOURS=$(HOURS) PENSTOCK_SEED=$(SEED) \
	    cargo test -p penstock-cli --test soak

# Runs the live tests of failing system calls.
inject:
	@scripts/setup test
	PENSTOCK_INJECT=all PENSTOCK_INJECT_JOBS=4 cargo test -p penstock-cli --test live inject -- --nocapture

PUBLICATIONS ?= 1000
NODES ?= 200

fleet:
	@scripts/setup test
	PENSTOCK_PUBLICATIONS=$(PUBLICATIONS) PENSTOCK_NODES=$(NODES) \
	    cargo test --locked --quiet -p penstock-cli --test live fleet:: -- --ignored --nocapture

fuzz:
	@scripts/setup run
	scripts/fuzz $(or $(SECONDS),600) $(TARGET)

record:
	examples/record.sh
	examples/record-host.sh

clean:
	cargo clean
