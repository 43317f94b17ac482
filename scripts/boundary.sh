#!/usr/bin/env bash
# Who stands on whom: our crates on each other, and which of them may know an operating system.
set -euo pipefail
cd "$(dirname "$0")/.."

# A crate of ours; whether it is `pure`, which is without I/O, or knows a `system`; and all crates of ours
# that it may depend on. Its tests may depend on more. ARCHITECTURE.md has the reasons.
crates='
abuse        pure
slots        pure
sip          pure
balance      pure
overload     pure
custody      pure
topology     pure
lqn          pure
report       pure
settings     pure
location     pure    sip
transaction  pure    slots sip
stream       pure    slots sip transaction
load         pure    sip transaction
capture      pure    lqn sip
import       pure    sip
recorder     pure    sip balance node
node         pure    abuse slots sip balance custody location overload transaction
sim          pure    sip balance location node load topology stream
shadow       pure    balance capture node sim sip
tls          system  stream
websocket    system  stream
wire         system  stream tls transaction websocket
socket       system
names        system
admin-client system
tidy         system
testbed      system
store        system  location
net          system  sip socket stream tls websocket wire node
traffic      system  sip socket net load stream tls transaction wire
workbench    system  admin-client sip balance node load lqn capture sim report settings socket tls topology traffic
sipyard      system  all
bench        system  load lqn report sip socket net node traffic testbed
'

# The folder that may have unsafe code: the kernel's calls for batches of datagrams have no safe wrapper.
unsafe_folders='crates/socket'

# Crates of others that know an operating system.
system='libc|linux-raw-sys|rustix|nix|mio|polling|socket2|tokio|async-std|smol|getrandom|rand_core'

status=0

complain() {
    echo "$*"
    status=1
}

# What cargo knows below our packages on Linux, with these options.
tree() {
    cargo tree ${CI:+--locked} --edges normal,build --prefix none --no-dedupe \
        --target x86_64-unknown-linux-gnu "$@"
}

declare -A kinds allowed
while read -r crate kind others; do
    [ -n "$crate" ] || continue
    kinds[$crate]=$kind
    allowed[$crate]=$others
done <<<"$crates"

for crate in $(tree --workspace --depth 0 --format '{p}' | cut -d' ' -f1); do
    if [ -z "${kinds[$crate]:-}" ]; then
        complain "$crate is not in the table of scripts/boundary.sh: add it with what it may depend on"
        continue
    fi
    for other in $(tree --package "$crate" --depth 1 --format '{p}' | grep -F "($PWD/" | cut -d' ' -f1); do
        [ "${allowed[$crate]}" = all ] || [[ " $crate ${allowed[$crate]} " == *" $other "* ]] ||
            complain "$crate depends on $other: move what it needs, or allow it in scripts/boundary.sh and say why"
    done
    if [ "${kinds[$crate]}" = pure ] &&
        found=$(tree --package "$crate" --format '{lib}' | grep -xE "$system" | sort -u | xargs); then
        complain "$crate stands on $found: it must not know an operating system"
    fi
done

for file in $(grep -rlw unsafe --include='*.rs' --exclude-dir=target crates bench fuzz || true); do
    [[ " $unsafe_folders " == *" $(cut -d/ -f1-2 <<<"$file") "* ]] ||
        complain "$file has unsafe code: move it to crates/socket"
done
exit $status
