#!/usr/bin/env bash
# The crates without I/O stand on no crate that knows an operating system.
set -euo pipefail
cd "$(dirname "$0")/.."

system='libc|linux-raw-sys|rustix|nix|mio|polling|socket2|tokio|async-std|smol|getrandom|rand_core'
status=0
for crate in sip transaction balance node load sim lqn capture location; do
    below=$(cargo tree --package "$crate" --edges normal --prefix none --no-dedupe \
        --target x86_64-unknown-linux-gnu --format '{lib}')
    if found=$(grep -xE "$system" <<<"$below"); then
        echo "$crate stands on $(sort -u <<<"$found" | paste -sd ' ')"
        status=1
    fi
done
exit $status
