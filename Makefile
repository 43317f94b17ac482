# The commands of README.md. Each installs what it needs, and says so first.

export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help demo test bench release

help:
	@echo 'make demo    a whole cluster on this machine; DURATION=20s make demo ends by itself'
	@echo 'make test    every check and test'
	@echo 'make release target/release/sipyard, guided by a profile of replayed experiments'
	@echo 'make bench   Sipyard beside its peers, for minutes; WHAT=quick for half a minute'

demo:
	@scripts/setup.sh demo
	@cargo run --package sipyard -- demo

test:
	@scripts/setup.sh test
	@scripts/gate.sh

release:
	@scripts/setup.sh demo
	@scripts/release.sh

bench:
	@scripts/setup.sh test
	@cargo run --release --package bench --bin bench -- $(WHAT)
