# `make run` starts a gateway on a fresh Debian machine, `make test` runs every test there.
# What they install is said by scripts/setup before it is done; an ordinary user needs sudo for Debian packages.

.PHONY: run test unit system foreign python guest lint bench profile conformance soak setup install-libkurma
.NOTPARALLEL:

# The shell that scripts/setup may just have given a Rust toolchain.
CARGO = PATH="$$HOME/.cargo/bin:$$PATH" cargo
DATA ?= kurma-data

# Always with the whole workspace, or else everything that it shares is built again with other features.
TEST = $(CARGO) test --locked --workspace
# Those of the vectorized client that a server of another make is asked for as well, as far as it has what they need.
PLAIN = $(addsuffix ::,attributes blocking cache data descriptors listing names scalars symbolic_links trees writer) what_is_chained_to_files
# Ganesha serves folders, which outlast it, to root alone.
ROOT = $(if $(filter 0,$(shell id -u)),,--skip open_files_are_reclaimed)
# What is tested, as the tests have it, at target/debug/kurma; and who makes the transactions that a guest looks at.
KURMA = $(TEST) --no-run --test transactions

run:
	@scripts/setup build
	$(CARGO) build --locked --release --bin kurma
	MIMALLOC_PURGE_DELAY=30000 target/release/kurma up --data $(DATA)

# All that is missing is said, and asked for, before the long part.
test:
	@scripts/setup build test foreign python guest
	@$(MAKE) --no-print-directory unit system foreign python guest

# Everything inside the crates.
unit:
	@scripts/setup build test
	scripts/suites unit
	$(TEST) --doc

# The real binary: crashes, lying clouds, bad input.
system:
	@scripts/setup build test
	scripts/suites system

# NFS clients of other makers, in user space, and the vectorized client with a server of another make.
foreign:
	@scripts/setup build foreign
	$(TEST) --test wire --test files -- --ignored $(ROOT)
	KURMA_SERVER=ganesha $(TEST) --test api -- $(PLAIN)
	$(KURMA)
	PATH="$$HOME/.cargo/bin:$$PATH" tests/foreign/all

# The Python package: its wheel, and its tests against the gateway.
python:
	@scripts/setup build python
	$(KURMA)
	$(CARGO) build --locked --workspace --example memory_server
	PATH="$$HOME/.cargo/bin:$$PATH" python/test

# The real Linux client in an emulated machine.
guest:
	@scripts/setup build test guest
	$(KURMA)
	PATH="$$HOME/.cargo/bin:$$PATH" tests/guest/all

lint:
	@scripts/setup build lint
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) deny --offline check licenses bans sources 2>/dev/null || $(CARGO) deny check licenses bans sources

# Load on this gateway and on NFS-Ganesha, and a page about it: docs/benchmarks.md.
bench:
	@scripts/setup build bench
	$(CARGO) build --locked --release --workspace --bins
	target/release/kurma-bench compare --out bench-report

# Flame graphs of the gateway under a workload, by default WORKLOAD=create CLIENTS=4.
WORKLOAD ?= create
CLIENTS ?= 4
profile:
	@scripts/setup build profile
	scripts/profile "$(WORKLOAD)" "$(CLIENTS)"

# pynfs, which has to be fetched from its repository: see tests/pynfs/README.md.
conformance:
	@scripts/setup build test
	PATH="$$HOME/.cargo/bin:$$PATH" tests/pynfs/run

# What is too slow for every change.
soak:
	@scripts/setup build test guest soak
	tests/soak

# The library for C with its header, pkg-config file and manual page.
PREFIX ?= /usr/local
install-libkurma:
	@scripts/setup build
	$(CARGO) build --locked --release -p libkurma
	crates/libkurma/install $(PREFIX) target/release

setup:
	@scripts/setup build test foreign python guest lint bench
