#!/usr/bin/env bash
# Callers whom nobody tells how much to send, before one node that a quota holds to a part of a core, over TCP or TLS.
# bench/crowd.sh needs root, target/release/sipyard (or SIPYARD) and, for TLS, openssl. The node has core 0, all others core 1.
# TRANSPORTS, CONNECTIONS, TIMES, SHARE, DURATION and CAPACITY choose. TRUSTED=1 makes the callers `[trust] peers`.
# What is told is that of the time after the first 5 s.
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/common.sh
base=${PORT:-20200} duration=${DURATION:-15} share=${SHARE:-0.1}
core=127.0.0.1:$base node=127.0.0.1:$((base + 1)) node_tls=127.0.0.1:$((base + 2))
trusted=${TRUSTED:+'"127.9.0.0/16"'}
callers=$(seq -s, -f 127.9.0.%g 10)
cage crowd "$share"

certify

start_node() {
    cat >"$folder/node.toml" <<END
node = { name = "node", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [
    { transport = "udp", address = "$node" },
    { transport = "tcp", address = "$node" },
    { transport = "tls", address = "$node_tls", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
]
admin = { address = "127.0.0.1:$((base + 3))", socket = "node.sock" }
trust = { peers = [$trusted] }
pool.app = { policy = "hash", probe = false, learn_room = false, servers = [ "$core" ] }
[[route]]
to = "app"
END
    on 0 "$sipyard" serve "$folder/node.toml"
    program=$last
    listening "$node_tls"
}

# call TRANSPORT CONNECTIONS ARGUMENTS...: calls that are cut off at the end. They come once all connections are open.
call() {
    local to=$node tls=()
    [ "$1" != tls ] || { to=$node_tls; tls=(--authorities "$folder/chain.pem"); }
    taskset --cpu-list 1 "$sipyard" load call --to "$to" --from "$callers" --transport "$1" --connections "$2" "${tls[@]}" \
        --success 0 --json "$folder/calls.json" --duration "${duration}s" "${@:3}" >/dev/null 2>&1 &
    local calling=$!
    sleep "$((duration + 1))"
    kill -INT "$calling" 2>/dev/null || true
    sleep 0.3
    kill -INT "$calling" 2>/dev/null || true
    wait "$calling" || true
}

# What the callers had from 5 s on, beside a capacity if that is not 0.
outcome() {
    python3 - "$folder/calls.json" "$duration" "$1" <<'END'
import json, sys
path, duration, capacity = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
tree = json.load(open(path))
seconds = [at for at in tree["samples"] if 5.5 < at["at_s"] < duration - 0.5]
mean = lambda name: sum(at[name] or 0 for at in seconds) / len(seconds)
median = lambda name: sorted(at[name] or 0 for at in seconds)[len(seconds) // 2]
share = "" if capacity == 0 else "%.0f %% of it, " % (100 * mean("succeeded_per_s") / capacity)
print("%.0f calls/s of %.0f, %sp50 %.0f ms, p99 %.0f ms (medians of the seconds), %.0f/s refused or failed" % (
    mean("succeeded_per_s"), mean("offered_per_s"), share, median("p50_ms"), median("p99_ms"), mean("failed_per_s")))
END
    rm -f "$folder/calls.json"
}

on 1 "$sipyard" load serve --address "$core"
core_process=$last
listening "$core"
for transport in ${TRANSPORTS:-tcp}; do
    for number in ${CONNECTIONS:-4 64 1000}; do
        capacity=${CAPACITY:-0}
        for times in $([ -n "${CAPACITY:-}" ] || echo window) ${TIMES:-2 5 10}; do
            start_node
            echo "$program" >"$caged/cgroup.procs"
            if [ "$times" = window ]; then
                call "$transport" "$number" --window 48
                result=$(outcome 0)
                capacity=${result%% *}
                echo "$transport, $number connections: capacity $result"
            else
                call "$transport" "$number" --rate "$(awk "BEGIN { print $times * $capacity }")"
                echo "$transport, $number connections, $times x: $(outcome "$capacity")"
            fi
            end "$program"
        done
    done
done
end "$core_process"
