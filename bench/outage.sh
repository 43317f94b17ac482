#!/usr/bin/env bash
# The storm of experiments/outages on sockets: a node that a quota holds to a part of a core dies in the middle of its calls. When it is
# back, all its phones register within 5 s (WITHIN). With DOWN=0 it does not die: an avalanche of phones.
# bench/outage.sh PROGRAM..., where each is sipyard or kamailio. It needs root,
# target/release/sipyard (or SIPYARD) and kamailio. The node has core 0, all others core 1. Sipyard asks for digest and has users in a file;
# Kamailio takes any phone, and its bindings are in memory. DOWN is how long it is dead, in seconds; PHONES, RATE (calls/s) and
# SHARE choose the rest. With TRANSPORT=tls phones connect over TLS, each with a full handshake; calls stay on UDP. Kamailio needs
# kamailio-tls-modules then.
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/common.sh
base=${PORT:-20300} down=${DOWN:-180} phones=${PHONES:-25000} rate=${RATE:-700} share=${SHARE:-0.1}
before=20 after=60 within=${WITHIN:-5}
core=127.0.0.1:$base node=127.0.0.1:$((base + 1)) node_tls=127.0.0.1:$((base + 3))
certify
cage outage "$share"

registrar=$node way=() of_kamailio=disable_tcp=yes
if [ "${TRANSPORT:-udp}" = tls ]; then
    registrar=$node_tls way=(--transport tls --authorities "$folder/chain.pem")
    of_kamailio="tcp_children=1
tcp_max_connections=65536
tls_max_connections=65536
enable_tls=yes
listen=tls:$node_tls
loadmodule \"tls.so\"
modparam(\"tls\", \"certificate\", \"$folder/chain.pem\")
modparam(\"tls\", \"private_key\", \"$folder/key.pem\")
modparam(\"tls\", \"tls_method\", \"TLSv1.2+\")"
fi

cat >"$folder/node.toml" <<END
node = { name = "node", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [
    { transport = "udp", address = "$node" },
    { transport = "tls", address = "$node_tls", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
]
admin = { address = "127.0.0.1:$((base + 2))", socket = "node.sock" }
registrar = { domains = ["example.com"], store = "file:users" }
pool.app = { policy = "hash", probe = false, servers = [ "$core" ] }
[[route]]
hosts = ["example.com"]
to = "registrar"
[[route]]
to = "app"
END

cat >"$folder/kamailio.cfg" <<END
$(kamailio_head)
listen=udp:$node
$of_kamailio
loadmodule "usrloc.so"
loadmodule "registrar.so"
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (is_method("REGISTER")) { save("location"); exit; }
  if (has_totag()) { loose_route(); \$du = "sip:$core"; forward(); exit; }
  if (is_method("INVITE")) record_route();
  \$du = "sip:$core";
  forward();
  exit;
}
END

start_sipyard() {
    on_caged "$sipyard" serve "$folder/node.toml"
}

start_kamailio() {
    on_caged "${kamailio_command[@]}"
}

start_node() {
    start_"$1"
    program=$last
    listening "$node"
}

kill_node() {
    kill -9 "$program" $(pgrep -P "$program" || true)
    wait "$program" 2>/dev/null || true
}

(
    echo username,domain,password
    seq 0 $((phones - 1)) | sed 's/.*/user-&,example.com,secret-user-&/'
) | "$sipyard" user import --config "$folder/node.toml" - >/dev/null

on 1 "$sipyard" load serve --address "$core"
listening "$core"

# storm PROGRAM: what became of the calls and the phones is in calls.json and phones.json.
storm() {
    start_node "$1"
    taskset --cpu-list 1 "$sipyard" load call --to "$node" --from "$(seq -s, -f 127.9.0.%g 10)" --ports 4 --domain calls.example \
        --rate "$rate" --duration "$((before + down + after))s" --success 0 --json "$folder/calls.json" >/dev/null 2>&1 &
    local calling=$!
    sleep "$before"
    if [ "$down" != 0 ]; then
        kill_node
        sleep "$down"
        start_node "$1"
    fi
    local used
    used=$(cpu "$program")
    taskset --cpu-list 1 "$sipyard" load register --to "$registrar" --from "$(seq -s, -f 127.8.0.%g 250)" "${way[@]}" --users "$phones" \
        --rate $((phones / within)) --password 'secret-{user}' --expires 3600s --duration "${after}s" --stay --success 0 --json "$folder/phones.json" >/dev/null 2>&1 || true
    echo "$((($(cpu "$program") - used) / phones)) us of CPU for each phone, with the calls' share"
    wait "$calling" || true
    kill_node
}

outcome() {
    python3 - "$folder" "$before" "$down" "$after" "$phones" <<'END'
import json, sys
folder, (before, down, after, phones) = sys.argv[1], map(int, sys.argv[2:])
samples = lambda name: json.load(open(folder + "/" + name))["samples"]
calls, logins = samples("calls.json"), samples("phones.json")
def number(of, name, begin, end):
    """The integral of a rate between two times."""
    total = last = 0.0
    for at in of:
        total += (at[name] or 0) * max(0.0, min(end, at["at_s"]) - max(begin, last))
        last = at["at_s"]
    return total
def row(name, begin, end, registered=""):
    offered, carried = (number(calls, of, begin, end) / (end - begin) for of in ("offered_per_s", "succeeded_per_s"))
    p99 = max([at["p99_ms"] or 0 for at in calls if begin < at["at_s"] <= end] or [0])
    print("%-24s %5.0f calls/s of %5.0f, worst p99 of a second %6.0f ms %s" % (name, carried, offered, p99, registered))
row("before", 5, before)
if down: row("while it is dead", before + 1, before + down)
back = before + down
for at in range(0, after, 5):
    row("%d to %d s after" % (at, at + 5), back + at, back + at + 5, "%6.0f of %d phones" % (number(logins, "succeeded_per_s", 0, at + 5), phones))
END
}

for who in "$@"; do
    echo "$who:"
    storm "$who"
    outcome
done
