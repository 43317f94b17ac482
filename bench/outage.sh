#!/usr/bin/env bash
# The storm of experiments/outages on sockets: a node that a quota holds to a part of a core dies in the middle of its calls. When it is
# back, all its phones register within 5 s. bench/outage.sh PROGRAM..., where each is sipyard or kamailio. It needs root,
# target/release/sipyard (or SIPYARD) and kamailio. The node has core 0, all others core 1. Sipyard asks for digest and has users in a file;
# Kamailio takes any phone, and its bindings are in memory. DOWN is how long it is dead, in seconds; PHONES, RATE (calls/s) and
# SHARE choose the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/common.sh
base=${PORT:-20300} down=${DOWN:-180} phones=${PHONES:-25000} rate=${RATE:-700} share=${SHARE:-0.1}
before=20 after=60
core=127.0.0.1:$base node=127.0.0.1:$((base + 1))
cage outage "$share"

cat >"$folder/node.toml" <<END
node = { name = "node", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [ { transport = "udp", address = "$node" } ]
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
#!KAMAILIO
debug=-1
log_stderror=yes
children=1
auto_aliases=no
listen=udp:$node
disable_tcp=yes
dns=no
rev_dns=no
mpath="/usr/lib/x86_64-linux-gnu/kamailio/modules/"
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "siputils.so"
loadmodule "textops.so"
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

program_of() {
    case $1 in
        sipyard) echo "$sipyard serve $folder/node.toml" ;;
        kamailio) echo "/usr/sbin/kamailio -f $folder/kamailio.cfg -m 512 -M 32 -x tlsf -X tlsf -DD -E -P $folder/pid -Y $folder -w $folder" ;;
    esac
}

# The node and its children are held from their first instruction on.
start_node() {
    on 0 sh -c "echo \$\$ >$caged/cgroup.procs; exec $(program_of "$1")"
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
storm() {
    start_node "$1"
    taskset --cpu-list 1 "$sipyard" load call --to "$node" --from "$(seq -s, -f 127.9.0.%g 10)" --ports 4 --domain calls.example \
        --rate "$rate" --duration "$((before + down + after))s" --success 0 --json "$folder/calls.json" >/dev/null 2>&1 &
    local calling=$!
    sleep "$before"
    kill_node
    sleep "$down"
    start_node "$1"
    taskset --cpu-list 1 "$sipyard" load register --to "$node" --from "$(seq -s, -f 127.8.0.%g 10)" --ports 4 --users "$phones" \
        --rate $((phones / 5)) --password 'secret-{user}' --expires 3600s --stay --success 0 --json "$folder/phones.json" >/dev/null 2>&1 || true
    wait "$calling" || true
    kill_node
}

outcome() {
    python3 - "$folder" "$before" "$down" "$after" "$phones" <<'END'
import json, sys
folder, (before, down, after, phones) = sys.argv[1], map(int, sys.argv[2:])
samples = lambda name: {round(at["at_s"]): at for at in json.load(open(folder + "/" + name))["samples"]}
calls, logins = samples("calls.json"), samples("phones.json")
def mean(of, name, seconds):
    found = [of[at][name] or 0 for at in seconds if at in of]
    return sum(found) / max(len(found), 1)
def row(name, seconds, registered=""):
    offered, carried = (mean(calls, of, seconds) for of in ("offered_per_s", "succeeded_per_s"))
    p99 = max([calls[at]["p99_ms"] or 0 for at in seconds if at in calls] or [0])
    print("%-24s %5.0f calls/s of %5.0f, worst p99 of a second %6.0f ms %s" % (name, carried, offered, p99, registered))
row("before", range(6, before))
row("while it is dead", range(before + 2, before + down))
total = 0
for at in range(0, after, 5):
    total += sum(logins[second]["succeeded_per_s"] for second in range(at + 1, at + 6) if second in logins)
    row("%d to %d s after" % (at, at + 5), range(before + down + at + 1, before + down + at + 6), "%6.0f of %d phones" % (total, phones))
END
}

for who in "$@"; do
    echo "$who:"
    storm "$who"
    outcome
done
