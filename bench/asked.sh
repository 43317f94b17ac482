#!/usr/bin/env bash
# What seeing and asking costs, for docs/results/operator.md:
#
#   bench/asked.sh recorder [ROUNDS]     CPU per call at 10,000 calls/s, without and with the recorder
#   bench/asked.sh search [MIB]          how long a search takes at 10,000 calls/s, with so much memory for calls:
#                                        of somebody who comes unexpected, and of one who opened the dashboard
#   bench/asked.sh servers [NUMBER]      the dashboard and /metrics of a node with so many servers
#
# It needs target/release/sipyard (or SIPYARD); the second one also node, chromium, curl, and npm ci in
# crates/sipyard/tests/dashboard. The node has core 0, all others core 1.
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/common.sh
base=${PORT:-33100} seconds=5 memory=''
edge=127.0.0.1:$base admin=127.0.0.1:$((base + 1)) first=$((base + 10))

# start_node SERVERS RECORD [ADMIN]: its number is in `program`.
start_node() {
    local servers
    servers=$(seq -f "\"127.0.0.1:%.0f\"," "$first" $((first + $1 - 1)))
    cat >"$folder/edge.toml" <<END
node = { name = "bench", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [ { transport = "udp", address = "$edge" } ]
calls = { record = $2$memory }
admin = { address = "$admin", socket = "admin.sock"${3:-} }
route = [ { to = "app" } ]
[pool.app]
policy = "tlwl"
probe = false
servers = [ $servers ]
END
    on 0 "$sipyard" serve --config "$folder/edge.toml"
    program=$last
    listening "$admin"
}

# call SECONDS RATE: makes calls and waits for them.
call() {
    on 1 "$sipyard" load call --to "$edge" --rate "$2" --duration "$1s" --ports 8
    wait "$last"
}

recorder() {
    local rounds=${1:-10} rate=10000 before record
    on 1 "$sipyard" load serve --servers 2 --address "127.0.0.1:$first"
    for round in $(seq "$rounds"); do
        for record in false true; do
            start_node 2 "$record"
            call 2 "$rate"
            before=$(cpu "$program")
            call "$seconds" "$rate"
            echo "$record $(($(cpu "$program") - before))" >>"$folder/figures"
            end "$program"
        done
        echo "round $round of $rounds" >&2
    done
    awk -v calls=$((rate * seconds)) '
        { us = $2 / calls; n[$1]++; sum[$1] += us; squares[$1] += us * us }
        END { for (record in n) {
            mean = sum[record] / n[record]; error = sqrt((squares[record] / n[record] - mean * mean) / n[record])
            printf "record = %-5s  %.2f us a call, standard error %.2f, %d runs\n", record, mean, error, n[record]
        } }' "$folder/figures"
}

search() {
    local opens
    memory=", memory_mib = ${1:-900}"
    on 1 "$sipyard" load serve --servers 2 --address "127.0.0.1:$first"
    for opens in false true; do
        start_node 2 true
        on 1 "$sipyard" load call --to "$edge" --rate 10000 --duration 20s --ports 8
        sleep 12
        echo "the dashboard was opened: $opens"
        if $opens; then
            ask --max-time 2 "http://node/api/v1/live" || true
        fi
        for words in '' callers 127.0.0.1 486 nobody; do
            ask --write-out "'$words': %{time_total} s, " "http://node/api/v1/calls?search=$words"
            jq --raw-output '"\(.matching) of \(.kept) calls, \(.kept_bytes) bytes"' "$folder/answer"
        done
        wait "$last"
        end "$program"
    done
}

ask() {
    curl --silent --output "$folder/answer" --unix-socket "$folder/admin.sock" "$@"
}

servers() {
    local number=${1:-1000} made token before
    made=$("$sipyard" token read)
    token=$(awk 'NR == 1 { print $NF }' <<<"$made")
    on 1 "$sipyard" load serve --servers "$number" --address "127.0.0.1:$first"
    start_node "$number" true ", tokens = [ $(grep --only-matching '"[^"]*"' <<<"$made" | head -1) ]"
    on 1 "$sipyard" load call --to "$edge" --rate 1000 --duration 60s
    sleep 3
    before=$(cpu "$program") && sleep 8
    echo "the node, not watched: $((($(cpu "$program") - before) / 8000)) ms a second at 1,000 calls/s"
    node crates/sipyard/tests/dashboard/cost.mjs "http://$admin" "$token" "$number" &
    local watcher=$!
    sleep 12 && before=$(cpu "$program") && sleep 5
    echo "the node, watched: $((($(cpu "$program") - before) / 5000)) ms a second"
    wait "$watcher"
    for what in metrics api/v1/status; do
        curl --silent --output /dev/null --header "Authorization: Bearer $token" \
            --write-out "/$what: %{time_total} s, %{size_download} bytes\n" "http://$admin/$what"
    done
}

case ${1:-} in
recorder | search | servers) "$@" ;;
*) sed -n '2,10s/^# \?//p' "$0" && exit 2 ;;
esac
