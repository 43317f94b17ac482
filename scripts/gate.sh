#!/usr/bin/env bash
# The one gate, here and in CI: whatever it lets through may be merged.
set -euo pipefail
cd "$(dirname "$0")/.."

# In CI what was tested is what is locked, and no later build uses what this one could keep for it.
locked=()
if [ -n "${CI:-}" ]; then
    locked=(--locked)
    export CARGO_INCREMENTAL=0
fi

target=${CARGO_TARGET_DIR:-$PWD/target}

step() {
    local name=$1 began=$SECONDS
    shift
    printf '== %s: %s\n' "$name" "$*"
    if ! "$@"; then
        printf '== %s: failed after %s s\n' "$name" $((SECONDS - began))
        exit 1
    fi
    printf '== %s: good after %s s\n' "$name" $((SECONDS - began))
}

step tidy scripts/tidy.sh
step format cargo fmt --all --check
step lints cargo clippy "${locked[@]}" --workspace --all-targets -- -D warnings
step 'fuzz targets' cargo check "${locked[@]}" --manifest-path fuzz/Cargo.toml --no-default-features \
    --target-dir "$target"
step boundary scripts/boundary.sh
step docs env RUSTDOCFLAGS='-D warnings' cargo doc "${locked[@]}" --workspace --no-deps
step tests cargo test "${locked[@]}" --workspace
# The tests have built the program. `cargo run` would build much of it again, for other features.
step site scripts/site.sh "$target/debug/sipyard"
step exploration "$target/debug/sipyard" sim explore --first 1 --duration 60s
printf '== all good after %s s\n' $SECONDS
