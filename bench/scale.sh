#!/usr/bin/env bash
# Figures that `sipyard plan scale` needs and no other bench gives: bench/scale.sh changes|keep-alives|registers
# It needs target/release/sipyard, redis-server with its tools, openssl and python3. The program that is measured has
# core 0, the load core 1.
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/common.sh
base=${PORT:-31200}
count=${COUNT:-200000}
records=100000
pipeline=${PIPELINE:-1}

per() {
    awk -v us=$(($2 - $1)) -v n="$3" 'BEGIN { printf "%.1f us", us / n }'
}

start_redis() {
    on 0 redis-server --port "$1" --save '' --dir "$folder" "${@:2}"
    within redis-cli -p "$1" ping
}

# The script of crates/store/src/redis, which compares, sets and publishes.
script=$(sed -n '/Script::new(/,/^    )/p' crates/store/src/redis/mod.rs | sed '1d;$d' | tr -d '"' | sed '$s/,$//')
value=$(printf 'x%.0s' $(seq 142))
news=$(printf 'n%.0s' $(seq 43))
later=9999999999999

# changes_at PORT TAG: as many changes as `count`, of records that exist.
changes_at() {
    local sha
    sha=$(redis-cli -p "$1" script load "$script")
    taskset --cpu-list 1 redis-benchmark -p "$1" -n "$count" -c 50 -P "$pipeline" -r "$records" -q \
        evalsha "$sha" 1 "sipyard:${2:-}binding:user-__rand_int__" "$value" "$value" "$later" sipyard:changed "$news" \
        >>"$folder/log"
}

fill() {
    local number
    for number in $(seq 0 $((records - 1))); do
        printf 'SET sipyard:%sbinding:user-%012d %s PXAT %s\r\n' "${2:-}" "$number" "$value" "$later"
    done | redis-cli -p "$1" --pipe >>"$folder/log"
}

used() { redis-cli -p "$1" info memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p'; }

hears() { [ "$(redis-cli -p "$1" pubsub numsub sipyard:changed | tail -1)" = "$2" ]; }

has_all_slots() { redis-cli -p "$1" cluster info | grep -q cluster_state:ok; }

changes() {
    local port=$base server before memory listener listeners
    start_redis "$port"
    server=$last
    memory=$(used "$port")
    fill "$port"
    echo "memory of a record of 142 bytes: $((($(used "$port") - memory) / records)) bytes"
    before=$(cpu "$server")
    taskset --cpu-list 1 redis-benchmark -p "$port" -n "$count" -c 50 -P "$pipeline" -r "$records" -q \
        get sipyard:binding:user-__rand_int__ >>"$folder/log"
    echo "a look-up: $(per "$before" "$(cpu "$server")" "$count")"
    for listeners in 0 8 32; do
        while [ $((${#started[@]} - 1)) -lt "$listeners" ]; do
            on 1 redis-cli -p "$port" subscribe sipyard:changed
        done
        within hears "$port" "$listeners"
        before=$(cpu "$server")
        changes_at "$port"
        echo "a change, $listeners nodes listen: $(per "$before" "$(cpu "$server")" "$count")"
    done
    for listener in "${started[@]}"; do kill "$listener"; done
    started=()
    cluster
}

# Three nodes; all changes are made at the first.
cluster() {
    local first=$((base + 10)) number servers=() tag port before=()
    for number in 0 1 2; do
        start_redis $((first + number)) --cluster-enabled yes --cluster-config-file "nodes-$number.conf" \
            --bind 127.0.0.1
        servers+=("$last")
    done
    redis-cli --cluster create 127.0.0.1:{$first,$((first + 1)),$((first + 2))} --cluster-yes >>"$folder/log"
    within has_all_slots "$first"
    for tag in {a}: {b}: {c}: {d}: {e}: {f}:; do
        [ "$(redis-cli -p "$first" set "sipyard:${tag}probe" 1)" = OK ] && break
    done
    fill "$first" "$tag"
    for number in 0 1; do before+=("$(cpu "${servers[number]}")"); done
    changes_at "$first" "$tag"
    echo "a change in a cluster of three, where it is made: $(per "${before[0]}" "$(cpu "${servers[0]}")" "$count")"
    sleep 1
    echo "the same, at each of the others: $(per "${before[1]}" "$(cpu "${servers[1]}")" "$count")"
}

keep_alives() {
    local transport before program
    certify
    cat >"$folder/edge.toml" <<TOML
node = { name = "bench", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [
    { transport = "udp", address = "127.0.0.1:$base" },
    { transport = "tcp", address = "127.0.0.1:$base" },
    { transport = "tls", address = "127.0.0.1:$((base + 1))", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
]
pool.app = { policy = "hash", servers = [ { address = "127.0.0.1:$((base + 2))" } ], probe = false }
route = [ { to = "app" } ]
admin = { address = "127.0.0.1:$((base + 3))", socket = "admin.sock" }
abuse = { rate = 1000000, burst = 1000000 }
connections = { per_source = 8192 }
TOML
    on 0 "$sipyard" serve --config "$folder/edge.toml"
    program=$last
    listening "127.0.0.1:$base"
    for transport in ${TRANSPORTS:-udp tcp tls}; do
        taskset --cpu-list 1 python3 bench/keep_alives.py "$transport" "$base" "$program"
    done
}

serve() {
    on 0 "$sipyard" serve --config "$1"
    listening "127.0.0.1:$2"
}

# Phones with passwords register through an edge at a registrar with Redis; then the registrar hears news.
registers() {
    local users=${USERS:-20000} rate=${RATE:-2000} redis edge registrar before news memory
    start_redis $((base + 5))
    redis=$last
    memory=$(used $((base + 5)))
    cat >"$folder/registrar.toml" <<TOML
node = { name = "registrar", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [ { transport = "udp", address = "127.0.0.1:$((base + 6))" } ]
pool.app = { policy = "hash", servers = [ { address = "127.0.0.1:$((base + 2))" } ], probe = false }
route = [ { to = "registrar" } ]
registrar = { domains = ["example.com"], store = "redis://127.0.0.1:$((base + 5))" }
trust = { peers = ["127.0.0.1/32"] }
admin = { address = "127.0.0.1:$((base + 7))", socket = "registrar.sock" }
TOML
    cat >"$folder/edge.toml" <<TOML
node = { name = "edge", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [ { transport = "udp", address = "127.0.0.1:$base" } ]
pool.core = { policy = "user-hash", servers = [ { address = "127.0.0.1:$((base + 6))" } ], probe = false }
route = [ { to = "core" } ]
admin = { address = "127.0.0.1:$((base + 3))", socket = "edge.sock" }
abuse = { rate = 1000000, burst = 1000000 }
TOML
    (echo username,domain,password; seq 0 $((users - 1)) | sed 's/.*/user-&,example.com,secret-user-&/') |
        "$sipyard" user import --config "$folder/registrar.toml" - >>"$folder/log"
    echo "memory of a subscriber: $((($(used $((base + 5))) - memory) / users)) bytes"
    serve "$folder/registrar.toml" $((base + 6))
    registrar=$last
    serve "$folder/edge.toml" "$base"
    edge=$last
    sleep 1
    before=("$(cpu "$edge")" "$(cpu "$registrar")" "$(cpu "$redis")")
    taskset --cpu-list 1 "$sipyard" load register --to "127.0.0.1:$base" --users "$users" --rate "$rate" \
        --duration $((users / rate))s --stay --password 'secret-{user}' --from 127.0.0.11,127.0.0.12 \
        --domain example.com --json "$folder/phones.json" --success 0 >>"$folder/log" 2>&1 || true
    tr -d ' \n' <"$folder/phones.json" | grep -oE '"(offered|carried|failed|challenges)":[0-9]+' | head -4 | tr '\n' ' '
    echo
    echo "a REGISTER at $((2 * rate))/s, edge: $(per "${before[0]}" "$(cpu "$edge")" $((2 * users)))"
    echo "the same, registrar: $(per "${before[1]}" "$(cpu "$registrar")" $((2 * users)))"
    echo "a challenge and a REGISTER, Redis: $(per "${before[2]}" "$(cpu "$redis")" "$users")"
    news=$(printf 'n%.0s' $(seq 43))
    before=$(cpu "$registrar")
    taskset --cpu-list 1 redis-benchmark -p $((base + 5)) -n 100000 -c 4 -P 4 -q publish sipyard:changed "$news" \
        >>"$folder/log"
    sleep 1
    echo "news, registrar: $(per "$before" "$(cpu "$registrar")" 100000)"
}

case ${1:-} in
registers) registers ;;
changes) changes ;;
keep-alives) keep_alives ;;
*) sed -n '2,4p' "$0" && exit 2 ;;
esac
