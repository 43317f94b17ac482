#!/usr/bin/env bash
# Two stages of real nodes, each held to a part of a core, against the formula of paper 001 §5.2. Writes
# docs/results/paper-001-live.md. As root, with a cgroup v1 `cpu` controller; about 20 minutes.
#
#   experiments/001/live.sh
#   SIPYARD=/usr/local/bin/sipyard experiments/001/live.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

sipyard=${SIPYARD:-target/release/sipyard}
group=/sys/fs/cgroup/cpu/sipyard-001
# Of each 20 ms an edge may work 1.2 ms, a node 1 ms: at most .22 of a core in all.
period_us=20000
edge_us=1200
node_us=1000
probe=${PROBE:-10s}
work=$(mktemp -d)
pids=()

stop() {
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    pids=()
    for held in "$group"-*; do
        [ ! -d "$held" ] || rmdir "$held" || true
    done
}
trap 'stop; rm -rf "$work"' EXIT

# Writes a node's configuration: its name, its port, the ports behind it.
configure() {
    local name=$1 port=$2 servers=
    shift 2
    for server in "$@"; do
        servers+="{ address = \"127.0.0.1:$server\" }, "
    done
    cat >"$work/$name.toml" <<END
[node]
name = "$name"
secret = "two stages that are measured on one machine alone"
workers = 1
[[listen]]
transport = "udp"
address = "127.0.0.1:$port"
[pool.next]
policy = "user-hash"
servers = [ $servers]
probe = false
answer_timeout = "32s"
[[route]]
to = "next"
[admin]
address = "127.0.0.1:$((port + 1000))"
END
}

# Starts a node in a cgroup of its own.
start() {
    local name=$1 quota_us=$2
    mkdir "$group-$name"
    echo $period_us >"$group-$name/cpu.cfs_period_us"
    echo "$quota_us" >"$group-$name/cpu.cfs_quota_us"
    echo 20480 >"$group-$name/cpu.shares" # what it may have, it gets, whatever else runs
    bash -c 'echo $$ >"$1/cgroup.procs" && exec "$2" serve --config "$3"' - \
        "$group-$name" "$sipyard" "$work/$name.toml" 2>"$work/$name.log" &
    pids+=($!)
}

# Starts n edges and m nodes; fills `entrances`.
cluster() {
    local edges=$1 nodes=$2 behind=()
    "$sipyard" load serve --address 127.0.0.1:17600 --servers 4 >"$work/serve.log" 2>&1 &
    pids+=($!)
    for ((j = 1; j <= nodes; j++)); do
        configure "node-$j" $((17610 + j)) 17600 17601 17602 17603
        start "node-$j" $node_us
        behind+=($((17610 + j)))
    done
    entrances=("${behind[@]}")
    [ "$edges" -eq 0 ] || entrances=()
    for ((i = 1; i <= edges; i++)); do
        configure "edge-$i" $((17620 + i)) "${behind[@]}"
        start "edge-$i" $edge_us
        entrances+=($((17620 + i)))
    done
    sleep 1
}

# Whether all callers together carry so many calls per second, 95 % of them as SIPstone wants.
carries() {
    local rate=$1 callers=() all=0
    for port in "${entrances[@]}"; do
        "$sipyard" load call --to "127.0.0.1:$port" --rate "$(awk "BEGIN { print $rate / ${#entrances[@]} }")" \
            --duration "$probe" --timers sipstone --success 95% >>"$work/calls.log" 2>&1 &
        callers+=($!)
    done
    for caller in "${callers[@]}"; do
        wait "$caller" || all=1
    done
    return $all
}

# Whether n edges and m nodes, started anew as in the paper, carry a rate: lost INVITEs are kept for 32 s.
tries() {
    local status=0
    cluster "$1" "$2"
    carries "$3" || status=1
    stop
    return $status
}

# Bisects for the highest rate that n edges and m nodes carry, to 3 %; leaves it in `peak`.
find_peak() {
    local low=0 high=900
    while tries "$1" "$2" $high; do
        low=$high
        high=$((2 * high))
    done
    while [ $((100 * (high - low))) -gt $((3 * high)) ]; do
        local middle=$(((low + high) / 2))
        if tries "$1" "$2" $middle; then low=$middle; else high=$middle; fi
    done
    peak=$low
}

# Searches three times, and writes the row with what the formula says: `expected`, or nothing. Leaves the
# median in `peak`.
measure() {
    local name=$1 edges=$2 nodes=$3 expected=${4:-} off='' peaks=()
    for _ in 1 2 3; do
        find_peak "$edges" "$nodes"
        peaks+=("$peak")
    done
    peak=$(printf '%s\n' "${peaks[@]}" | sort -n | sed -n 2p)
    [ -z "$expected" ] || off=$(awk "BEGIN { printf \"%+.1f %%\", 100 * ($peak / $expected - 1) }")
    echo "| $name | ${peaks[*]} | $peak | $expected | $off |" | tee -a "$work/rows"
}

least() {
    [ "$1" -lt "$2" ] && echo "$1" || echo "$2"
}

node_us=-1 measure "an edge before two nodes that are not held (Cs)" 1 2
cs=$peak
measure "S0P1: a node alone (Cp)" 0 1
cp=$peak
measure S1P2 1 2 "$(least "$cs" $((2 * cp)))"
measure S2P2 2 2 "$(least $((2 * cs)) $((2 * cp)))"

{
    echo "## Live: the same with real processes"
    echo
    echo "\`experiments/001/live.sh\` on $(date -u +%F), commit $(git rev-parse --short HEAD)," \
        "$(nproc) cores of $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1), busy with other work. Each \`sipyard serve\` has one" \
        "worker, and a cgroup holds it to a part of a core: $((100 * edge_us / period_us)) % an edge, $((100 * node_us / period_us)) % a node. Both stages" \
        "pass calls on without state, by \`user-hash\` over 10,000 users. The peak is the highest rate at which" \
        "95 % of the calls of $probe are carried. A call is carried if it is answered within 2 s and nothing is sent again" \
        "(SIPstone). The search is exact to 3 %, and starts the cluster anew for each rate."
    echo
    echo "| cluster | peaks, calls/s | median | by the formula | off |"
    echo "|---|---|---:|---:|---:|"
    cat "$work/rows"
} >docs/results/paper-001-live.md
