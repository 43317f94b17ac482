#!/usr/bin/env bash
# Builds target/release/sipyard guided by a profile: an instrumented build replays experiments, which
# run the node's own code, and the profile tells the second build which paths are hot.
#
#   scripts/release.sh         needs llvm-profdata of rustc's LLVM: `rustup component add llvm-tools`,
#                              or LLVM_PROFDATA=PATH
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}
profile=$PWD/$target/profile
[ "${target#/}" = "$target" ] || profile=$target/profile

find_profdata() {
    local tool
    tool=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
    for tool in "${LLVM_PROFDATA:-}" "$tool" "$(command -v llvm-profdata || true)"; do
        if [ -x "$tool" ] && same_llvm "$tool"; then
            echo "$tool"
            return
        fi
    done
    return 1
}

# Profiles are read by the LLVM that wrote them.
same_llvm() {
    local ours theirs
    ours=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    theirs=$("$1" --version 2>/dev/null | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p')
    [ "$ours" = "$theirs" ]
}

build() {
    RUSTFLAGS="${RUSTFLAGS:-} $1" cargo build --release --target "$host" \
        --target-dir "$target/$2" --package sipyard
}

profdata=$(find_profdata) || {
    echo "release: no llvm-profdata of rustc's LLVM: run \`rustup component add llvm-tools\`," \
        "or set LLVM_PROFDATA; without it, \`cargo build --release\` makes a plain build" >&2
    exit 1
}
rm -rf "$profile"
mkdir -p "$profile"
# Names stay as they are: not every llvm-profdata reads compressed ones.
echo "release: builds with counters"
build "-Cprofile-generate=$profile -Cllvm-args=-enable-name-compression=false" instrumented
echo "release: replays experiments"
"$target/instrumented/$host/release/sipyard" sim digests --worlds 20 \
    experiments/*.toml experiments/00[01]/*.toml >/dev/null
"$profdata" merge --output "$profile/merged" "$profile"/*.profraw
echo "release: builds with the profile"
build "-Cprofile-use=$profile/merged" guided
mkdir -p "$target/release"
cp "$target/guided/$host/release/sipyard" "$target/release/sipyard"
echo "release: $target/release/sipyard"
