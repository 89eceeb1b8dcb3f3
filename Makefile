# make run    build, and send a capture of real traffic through a router ruleset
# make test   all tests; those against the kernel where the rights are there
# make lint   formatting and clippy, warnings are errors
# make bench  measure the packet path in memory and write docs/performance.md
# make record record the example captures again (root; see examples/record.sh)
# make clean  remove what was built

export PATH := $(PATH):$(HOME)/.cargo/bin

EXAMPLE = examples/router

.PHONY: run test lint bench record clean

run:
	@scripts/setup run
	cargo build --release --quiet
	target/release/penstock run --net $(EXAMPLE)/net.ip --rules $(EXAMPLE)/rules.nft \
	    --read lan=$(EXAMPLE)/lan.pcap guest=$(EXAMPLE)/guest.pcap wan=$(EXAMPLE)/wan.pcap

test:
	@scripts/setup test
	cargo test --workspace --quiet

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

bench:
	@scripts/setup run
	cargo build --release --quiet
	scripts/performance target/release/penstock > docs/performance.md

record:
	examples/record.sh
	examples/record-host.sh

clean:
	cargo clean
