#!/usr/bin/env bash
# Sending nodes before one receiving node that a quota holds to a part of a core, over TCP, TLS or UDP: the scene of
# paper 002 on sockets. bench/held.sh RECEIVER..., where each is sipyard or kamailio. It needs root, target/release/sipyard
# (or SIPYARD), openssl, and kamailio with kamailio-tls-modules. The receiving node has core 0, all others core 1.
#
#   SHARE, PERIOD          the quota: a part of the core (0.1), and in which time it has that, in ms (10)
#   STATE                  our receiving node's route: stateless (if not set) or stateful; registrar: of those who are called
#   TRANSPORTS, SENDERS    to the receiving node (tcp tls), and how many senders there are (1 3 10)
#   TIMES, DURATION        of the capacity (0.5 2 5 10; none), for so many seconds each (8)
#   CAPACITY               calls/s; if not set, what 48 calls at a time carry, or one for each sender
#   ARRIVALS               of calls (poisson), as for `sipyard load call`
#   CONTROL                lines of the senders' pool, such as 'answer_timeout = "32s", overload_control = true,'
#   BY=kamailio            senders are Kamailio's, which know no such control and no TLS here
#   OFFERED="3 2 1"        in which proportion senders offer calls
#   WEIGHTS="3 2 1"        in which proportion they shall carry them
#   IGNORE=1               so many of them take no part in overload control
#   CHANGES="step halved"  runs of 20 s: the load goes from 0.5 to 10 times the capacity and back; at 1.5 times of it, half of the
#                          quota is taken away and given back
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/common.sh
base=${PORT:-20100} duration=${DURATION:-8} share=${SHARE:-0.1} by=${BY:-sipyard}
core=127.0.0.1:$base receiver=127.0.0.1:$((base + 1)) receiver_tls=127.0.0.1:$((base + 2))
cage held "$share"

certify

hold() {
    local process
    for process in "$1" $(pgrep -P "$1" || true); do echo "$process" >"$caged/cgroup.procs"; done
}

# Each sender has an address of its own.
address_of() {
    echo "127.1.$(($1 / 250)).$((1 + $1 % 250))"
}

# nth NUMBER WORD...: the word of a sender's number; they repeat. The first sender is 1.
nth() {
    local words=("${@:2}")
    echo "${words[$((($1 - 1) % ${#words[@]}))]}"
}

users=1000
case ${STATE:-stateless} in
    registrar) route='registrar = { domains = [ "example.com" ], store = "memory", auth = false }
route = [ { to = "registrar" } ]' ;;
    *) route="pool.app = { policy = \"hash\", probe = false, learn_room = false, servers = [ \"$core\" ] }
route = [ { to = \"app\", state = \"${STATE:-stateless}\" } ]" ;;
esac
weights=''
if [ -n "${WEIGHTS:-}" ]; then
    for number in $(seq 120); do weights+="\"$(address_of "$number")\" = $(nth "$number" $WEIGHTS), "; done
    weights=", weights = { ${weights%, } }"
fi

# The receiving node; its number is in `program`.
start_sipyard() {
    cat >"$folder/receiver.toml" <<END
node = { name = "receiver", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [
    { transport = "udp", address = "$receiver" },
    { transport = "tcp", address = "$receiver" },
    { transport = "tls", address = "$receiver_tls", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
]
admin = { address = "127.0.0.1:$((base + 3))", socket = "receiver.sock" }
trust = { peers = ["127.1.0.0/16"]$weights }
$route
END
    on 0 "$sipyard" serve "$folder/receiver.toml"
    program=$last
    listening "$receiver_tls"
    [ "${STATE:-}" != registrar ] \
        || on_1 load register --to "$receiver" --from 127.0.0.4 --users "$users" --rate 1000 --contact "$core" --expires 3600s --stay
}

start_kamailio() {
    cat >"$folder/kamailio.cfg" <<END
$(kamailio_head)
tcp_children=1
enable_tls=yes
listen=udp:$receiver
listen=tcp:$receiver
listen=tls:$receiver_tls
loadmodule "tls.so"
modparam("tls", "certificate", "$folder/chain.pem")
modparam("tls", "private_key", "$folder/key.pem")
modparam("tls", "tls_method", "TLSv1.2+")
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (has_totag()) { loose_route(); \$du = "sip:$core"; forward(); exit; }
  if (is_method("INVITE")) record_route();
  \$du = "sip:$core";
  forward();
  exit;
}
END
    on 0 "${kamailio_command[@]}"
    program=$last
    listening "$receiver_tls"
}

# start_senders NUMBER TRANSPORT: their numbers are in `senders`.
start_senders() {
    local to=$receiver number_of_senders=$1 number at
    [ "$2" != tls ] || to=$receiver_tls
    senders=()
    for number in $(seq "$1"); do
        at=$(address_of "$number"):$((base + 4))
        send_by_"$by" "$number" "$2" "$to"
        senders+=("$last")
        listening "$at"
    done
}

# send_by_sipyard NUMBER TRANSPORT ADDRESS: a sending node at `at`, behind which this address is.
send_by_sipyard() {
    local tls='' control
    [ "$2" != tls ] || tls='tls = { ca = "chain.pem" }'
    control=${CONTROL:-answer_timeout = \"32s\",}
    [ "$1" -le $((number_of_senders - ${IGNORE:-0})) ] || control=${control/overload_control = true/overload_control = false}
    cat >"$folder/sender$1.toml" <<END
node = { name = "sender$1", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [
    { transport = "udp", address = "$at" },
    { transport = "tcp", address = "$at" },
    { transport = "tls", address = "$(address_of "$1"):$((base + 5))", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
]
admin = { address = "$(address_of "$1"):$((base + 6))", socket = "sender$1.sock" }
$tls
pool.app = { policy = "hash", probe = false, $control servers = [ "$2:$3" ] }
[[route]]
to = "app"
state = "stateful"
END
    on 1 "$sipyard" serve "$folder/sender$1.toml"
}

send_by_kamailio() {
    cat >"$folder/sender$1.cfg" <<END
$(kamailio_head)
tcp_children=1
listen=udp:$at
listen=tcp:$at
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (has_totag()) { loose_route(); t_relay(); exit; }
  if (is_method("INVITE")) record_route();
  \$du = "sip:$3;transport=$2";
  if (!t_relay()) sl_reply_error();
  exit;
}
END
    mkdir -p "$folder/run$1"
    on 1 /usr/sbin/kamailio -f "$folder/sender$1.cfg" -m 512 -M 32 -x tlsf -X tlsf -DD -E -P "$folder/pid$1" -Y "$folder/run$1" -w "$folder/run$1"
}

# on_1 ARGUMENTS...: Sipyard on core 1, to its end; what it says is left.
on_1() {
    taskset --cpu-list 1 "$sipyard" "$@" >/dev/null 2>&1 || true
}

# call NUMBER ARGUMENTS...: callers of that sender; what became of them is in calls$number.json.
call() {
    local number=$1
    shift
    on_1 load call --to "$(address_of "$number"):$((base + 4))" --from "$callers" --ports 4 --users "$users" --success 0 \
        --json "$folder/$calls$number.json" "$@"
}

# call_all NUMBER RATE SECONDS [NAME ADDRESS]: callers of all senders, in files of this name and at this address.
call_all() {
    local calling=() number part parts=0 calls=${4:-calls} callers=${5:-127.0.0.2}
    for number in $(seq "$1"); do parts=$((parts + $(nth "$number" ${OFFERED:-1}))); done
    for number in $(seq "$1"); do
        part=$(nth "$number" ${OFFERED:-1})
        call "$number" --arrivals "${ARRIVALS:-poisson}" --rate "$(awk "BEGIN { print $2 * $part / $parts }")" --duration "$3s" &
        calling+=($!)
    done
    wait "${calling[@]}"
}

# What all callers had: calls/s that were carried, of those that were offered; the answers' p50 and p99 in ms, the worst
# of all callers. Of each second but the first two, in which nobody knows yet what may be sent, and the last: calls/s that were
# carried then, and the p99, its median and the worst. What is carried after the last second counts in the first figure alone.
outcome() {
    python3 - "$folder" "$1" "$2" ${WEIGHTS:-1} <<'END'
import glob, json, sys
folder, seconds, capacity = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
weights = [float(text) for text in sys.argv[4:]]
def find(tree, name):
    if isinstance(tree, dict):
        if name in tree: return tree[name]
        for value in tree.values():
            found = find(value, name)
            if found is not None: return found
offered, carried, p50, p99, parts, later, then = 0, 0, 0.0, 0.0, [], {}, 0.0
for path in glob.glob(folder + "/calls*.json"):
    tree, number = json.load(open(path)), int(path.split("/calls")[1][:-5])
    carried += find(tree, "carried")
    offered += find(tree, "offered")
    answer = find(tree, "answer") or {}
    part = find(tree, "carried") / weights[(number - 1) % len(weights)]
    parts.append((number, part, "%.0f; %.0f, %.0f" % (part, answer.get("p50") or 0, answer.get("p99") or 0)))
    for at in find(tree, "samples") or []:
        second = round(at["at_s"])
        if 2 < second < seconds:
            later[second] = max(later.get(second, 0), at["p99_ms"] or 0)
            then += at["succeeded_per_s"]
    p50, p99 = max(p50, answer.get("p50") or 0), max(p99, answer.get("p99") or 0)
rate = carried / seconds
share = "" if capacity == 0 else "%.1f %% of it, " % (100 * rate / capacity)
text = "%.0f calls/s of %.0f, %sp50 %.1f ms, p99 %.1f ms" % (rate, offered / seconds, share, p50, p99)
if later:
    later = sorted(later.values())
    text += ", later %.0f calls/s, p99 %.0f ms, at most %.0f ms" % (then / len(later), later[len(later) // 2], later[-1])
if len(parts) > 1:
    sizes = [size for _, size, _ in sorted(parts)]
    jain = sum(sizes) ** 2 / (len(sizes) * sum(size * size for size in sizes) or 1)
    text += ", Jain's index %.3f" % jain
    if len(sizes) <= 3: text += " (calls of each, over its weight; p50, p99: %s)" % " / ".join(words for _, _, words in sorted(parts))
print(text)
END
    rm -f "$folder"/calls*.json
}

# each_second FROM TO CAPACITY: what was carried in each second, in percent of what the capacity was, and the p99 of its answers. From
# one second to the other the capacity is half, or more is called from another address, as `changing` has it.
each_second() {
    python3 - "$folder" "$changing" "$@" <<'END'
import glob, json, sys
folder, changing, start, end, capacity = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
carried, p99 = {}, {}
for path in glob.glob(folder + "/calls*.json") + glob.glob(folder + "/more*.json"):
    shift = start if "/more" in path else 0
    for at in json.load(open(path))["samples"]:
        second = round(at["at_s"] + shift)
        carried[second] = carried.get(second, 0) + at["succeeded_per_s"]
        p99[second] = max(p99.get(second, 0), at["p99_ms"] or 0)
def text(second):
    whole = capacity / 2 if changing == "halved" and start < second <= end else capacity
    return "%d: %.0f %%, %.0f ms" % (second, 100 * carried[second] / whole, p99[second])
print("; ".join(text(second) for second in sorted(carried) if second <= 20))
END
    rm -f "$folder"/calls*.json "$folder"/more*.json
}

# step NUMBER CAPACITY, halved NUMBER CAPACITY: what changes in seconds 6 to 13 of 20.
step() {
    local base_load
    call_all "$1" "$(awk "BEGIN { print 0.5 * $2 }")" 20 &
    base_load=$!
    sleep 5
    call_all "$1" "$(awk "BEGIN { print 9.5 * $2 }")" 8 more 127.0.0.3
    wait "$base_load"
}

halved() {
    local base_load
    call_all "$1" "$(awk "BEGIN { print 1.5 * $2 }")" 20 &
    base_load=$!
    sleep 5
    limit "$(awk "BEGIN { print $share / 2 }")"
    sleep 8
    limit "$share"
    wait "$base_load"
}

# worked: for how long core 1 has worked since the system began, and that time, in ticks. A point tells nothing if it has no time left.
worked() {
    awk '$1 == "cpu1" { for (i = 2; i <= 9; i++) sum += $i; print sum - $5 - $6, sum }' /proc/stat
}

# busy SECONDS: which part of that time core 1 works, in %.
busy() {
    local before
    before=$(worked)
    sleep "$1"
    echo "$before $(worked)" | awk '{ printf "%.0f", 100 * ($3 - $1) / ($4 - $2) }'
}

# stop: the senders and the receiving node.
stop() {
    local process
    for process in "${senders[@]}" "$program"; do end "$process"; done
}

on 1 "$sipyard" load serve --address "$core"
core_process=$last
listening "$core"
for who in "$@"; do
    for transport in ${TRANSPORTS:-tcp tls}; do
        for number in ${SENDERS:-1 3 10}; do
            start_"$who"
            start_senders "$number" "$transport"
            call_all "$number" 50 1
            rm -f "$folder"/calls*.json
            hold "$program"
            if [ -z "${CAPACITY:-}" ]; then
                # 48 calls at a time, or one for each sender: the node is never without work.
                calling=()
                for at in $(seq "$number"); do calls=calls callers=127.0.0.2 call "$at" --window $((48 / number > 0 ? 48 / number : 1)) --duration "${duration}s" & calling+=($!); done
                wait "${calling[@]}"
                result=$(outcome "$duration" 0)
                capacity=${result%% *}
                echo "$who $transport $number senders: capacity $result"
            else
                capacity=$CAPACITY
            fi
            for changing in ${CHANGES:-}; do
                "$changing" "$number" "$capacity"
                echo "$who $transport $number senders, $changing: $(each_second 5 13 "$capacity")"
                sleep 2
            done
            [ "${TIMES:-}" != none ] || { stop; continue; }
            for times in ${TIMES:-0.5 2 5 10}; do
                busy "$duration" >"$folder/busy" &
                call_all "$number" "$(awk "BEGIN { print $times * $capacity }")" "$duration"
                echo "$who $transport $number senders, $times x: $(outcome "$duration" "$capacity"), core 1 is busy for $(cat "$folder/busy") %"
                sleep 2
            done
            stop
        done
    done
done
end "$core_process"
echo "answers that the server had to repeat: $(awk '/ retransmitted /{ for (i = 1; i <= NF; i++) if ($i == "retransmitted") at = i } $1 == "'"$core"'" { print $at }' "$folder/log")"
