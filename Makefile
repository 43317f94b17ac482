# The commands of README.md. demo, test, release, bench and site say what is missing on the machine and install it; for
# the others `help` says what they need.

export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help demo test bench release install manual package image try site target/release/sipyard

PREFIX ?= /usr/local
# cargo decides whether there is something to build. BUILD=scripts/release.sh builds with a profile.
BUILD ?= cargo build --release --package sipyard

help:
	@echo 'make demo    a whole cluster on this machine; DURATION=20s make demo ends by itself'
	@echo 'make test    every check and test'
	@echo 'make release target/release/sipyard, guided by a profile of replayed experiments'
	@echo 'make install the program, man pages, completions and the systemd unit; needs Rust, and root for PREFIX=/usr/local'
	@echo 'make package target/debian/sipyard_*.deb; needs Rust and cargo-deb'
	@echo 'make image   a container image from scratch; needs Rust with its musl target, buildah and musl-tools'
	@echo 'make try     what package and image made, in a chroot and a container; as root'
	@echo 'make site    docs/book, the documentation as pages'
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

target/release/sipyard:
	$(BUILD)

manual: target/release/sipyard
	rm -rf target/manual
	target/release/sipyard manual --out target/manual

install: manual
	install -D -m 755 target/release/sipyard $(DESTDIR)$(PREFIX)/bin/sipyard
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 target/manual/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -D -m 644 target/manual/completions/sipyard.bash \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sipyard
	install -D -m 644 target/manual/completions/_sipyard $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_sipyard
	install -D -m 644 target/manual/completions/sipyard.fish \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sipyard.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/bin/|$(PREFIX)/bin/|' etc/systemd/sipyard.service \
	    >$(DESTDIR)$(PREFIX)/lib/systemd/system/sipyard.service

package: manual
	gzip -9nf target/manual/man/*.1
	cargo deb --no-build --strip --package sipyard

image:
	CC_x86_64_unknown_linux_musl=musl-gcc cargo build --release --package sipyard --target x86_64-unknown-linux-musl
	scripts/image.sh target/x86_64-unknown-linux-musl/release/sipyard

try:
	scripts/try.sh

site:
	@scripts/setup.sh test
	cargo build --quiet --package sipyard
	scripts/site.sh target/debug/sipyard
