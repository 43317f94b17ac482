#!/usr/bin/env bash
# Installs what `make demo` or `make test` needs and this machine lacks; silent if that is nothing.
#
#   scripts/setup.sh demo    a linker, and Rust
#   scripts/setup.sh test    these, Rust's lints and format, and the programs of the tests and of `make bench`
set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:?usage: scripts/setup.sh demo|test}
rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# System programs are out of the path of some users, cargo's out of that of most.
cargo_bin=${CARGO_HOME:-${HOME:?is where Rust is looked for: set it, or CARGO_HOME}/.cargo}/bin
export PATH=$cargo_bin:$PATH:/usr/sbin:/sbin

say() {
    printf 'setup: %s\n' "$*" >&2
}

refuse() {
    say "$@"
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Debian's packages that are missing, one a line.
missing_packages() {
    has cc || echo gcc
    [ -e /usr/include/stdlib.h ] || echo libc6-dev
    if ! rust_is_new_enough && ! has rustup; then
        has curl || echo curl
        [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
    fi
    if [ "$purpose" = test ]; then
        has sipp || echo sip-tester
        has kamailio || echo kamailio
        [ -n "$(find /usr/lib -path '*/kamailio/modules/tls.so' 2>/dev/null)" ] || echo kamailio-tls-modules
        has stunnel || echo stunnel4
        has openssl || echo openssl
        has curl || echo curl
        has sipsak || echo sipsak
        has baresip || echo baresip-core
        has redis-server || echo redis-server
        has nsd || echo nsd
        has keepalived || echo keepalived
        has tcpdump || echo tcpdump
        has nft || echo nftables
        has ip || echo iproute2
        has curl || echo curl
        has promtool || echo prometheus
        has sngrep || echo sngrep
        has tmux || echo tmux
        has chromium || echo chromium
        has node || echo nodejs
        has npm || echo npm
    fi
}

rust_is_new_enough() {
    local version
    version=$(rustc --version 2>/dev/null | cut -d' ' -f2) && has cargo &&
        [ "$(printf '%s\n' "$rust_wanted" "$version" | sort -V | head -n1)" = "$rust_wanted" ]
}

install_packages() {
    local packages=$1 as_root=
    local command="apt-get install --no-install-recommends $packages"
    if ! has apt-get; then
        refuse "Missing: $packages. These are Debian's names, and this is no Debian: install their" \
            "like, then try again."
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! has sudo || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
            refuse "Missing: $packages. Installing them takes root or sudo, and here is neither." \
                "Have an administrator run: $command"
        fi
        as_root=sudo
    fi
    say "installs Debian packages: $packages${as_root:+ (sudo may ask for your password)}"
    $as_root apt-get update -qq || true
    if ! without_services "$as_root" "$packages"; then
        refuse "apt-get failed, see above. Without a network, install these by other means:" \
            "$packages"
    fi
}

# The packages of these would start a server each, at each boot again. The tests start their own.
without_services() {
    local as_root=$1 packages=$2 policy=/usr/sbin/policy-rc.d ours=no status=0
    local services
    services=$(tr ' ' '
' <<<"$packages" | grep -xE 'kamailio|keepalived|nsd|prometheus|redis-server|stunnel4' || true)
    if [ -n "$services" ] && [ ! -e "$policy" ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
        $as_root chmod 755 "$policy"
    fi
    # shellcheck disable=SC2086 # The packages are words.
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $packages >&2 || status=$?
    [ $ours = no ] || $as_root rm -f "$policy"
    if [ -n "$services" ] && [ $status = 0 ] && has systemctl; then
        local service
        for service in $services; do
            say "the service $service stays off: systemctl disable --now $service"
            $as_root systemctl disable "$service" >/dev/null 2>&1 || true
            $as_root systemctl stop "$service" >/dev/null 2>&1 || true
        done
    fi
    return $status
}

install_rust() {
    if has rustup; then
        say "installs Rust $rust_wanted for this folder: rustup toolchain install $rust_wanted"
        if rustup toolchain install "$rust_wanted" --profile minimal --component clippy,rustfmt >&2 &&
            rustup override set "$rust_wanted" >&2; then
            return
        fi
        refuse "rustup failed, see above. With a network, run again."
    fi
    say "installs Rust $rust_wanted into $cargo_bin, by the script of https://rustup.rs;" \
        "your shell's files stay as they are"
    script=$(mktemp) # Not local: the trap needs it when the function is over.
    trap 'rm -f "$script"' EXIT
    if curl --proto '=https' --tlsv1.2 -sSfo "$script" https://sh.rustup.rs &&
        sh "$script" -y -q --profile minimal --component clippy,rustfmt \
            --default-toolchain "$rust_wanted" --no-modify-path >&2; then
        return
    fi
    refuse "Rust can't be fetched, see above. Where there is no way to https://sh.rustup.rs, install" \
        "Rust $rust_wanted or later by other means (Debian 12's own is too old), so that cargo is" \
        "in the path, then try again."
}

install_components() {
    if ! has rustup; then
        refuse "cargo clippy or cargo fmt is missing, and there is no rustup to add it: install them" \
            "from where your Rust came from."
    fi
    say "installs Rust's lints and format: rustup component add clippy rustfmt"
    rustup component add clippy rustfmt >&2 || refuse "rustup failed, see above. With a network, run again."
}

packages=$(missing_packages | xargs)
[ -z "$packages" ] || install_packages "$packages"
rust_is_new_enough || install_rust
# The dashboard's test looks at the pages by these; the product has none of them.
if [ "$purpose" = test ] && [ ! -e crates/sipyard/tests/dashboard/node_modules/puppeteer-core ]; then
    say "installs the dashboard's checkers: npm ci in crates/sipyard/tests/dashboard"
    npm ci --silent --no-audit --no-fund --prefix crates/sipyard/tests/dashboard >&2 ||
        say "npm failed, see above: the dashboard's pages will not be looked at. With a network, run again."
fi
if [ "$purpose" = test ] && ! { cargo clippy --version && cargo fmt --version; } >/dev/null 2>&1; then
    install_components
fi
if [ "$purpose" = test ] && ! has mdbook; then
    say "installs mdBook, which makes the pages of the documentation: cargo install mdbook"
    cargo install --quiet --locked mdbook --version 0.5.4 --no-default-features --features search >&2 ||
        refuse "mdBook can't be installed, see above. With a network, run again."
fi
