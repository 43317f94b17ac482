#!/usr/bin/env bash
# Figures of connections, side by side with Kamailio: bench/connected.sh calls|handshakes|idle|avalanche|stalled
# It needs target/release/sipyard, kamailio, kamailio-tls-modules and openssl. The program that is measured has core 0,
# the load core 1.
set -euo pipefail
cd "$(dirname "$0")/.."

ulimit -n 100000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
. bench/common.sh
base=${PORT:-31100}
edge=127.0.0.1:$base edge_tls=127.0.0.1:$((base + 1)) admin=127.0.0.1:$((base + 2)) core=127.0.0.1:$((base + 3))
edge_ws=127.0.0.1:$((base + 4)) edge_wss=127.0.0.1:$((base + 5))
target=127.0.0.1

certify

limits='total = 200000, per_source = 100000, handshakes = 65536, handshake = "60s"'

# start_sipyard SERVER [SECTIONS]: on UDP, TCP, TLS, WS and WSS, one worker; its number is in `program`.
start_sipyard() {
    cat >"$folder/edge.toml" <<END
node = { name = "bench", secret = "a secret for benchmarks, of no use elsewhere", workers = 1 }
listen = [
    { transport = "udp", address = "$edge" },
    { transport = "tcp", address = "$edge" },
    { transport = "tls", address = "$edge_tls", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
    { transport = "ws", address = "$edge_ws" },
    { transport = "wss", address = "$edge_wss", certificates = [ { chain = "chain.pem", key = "key.pem" } ] },
]
admin = { address = "$admin", socket = "admin.sock" }
calls = { record = ${RECORD:-true} }
connections = { $limits }
tls = { ca = "chain.pem", names = "web" }
pool.app = { policy = "hash", probe = false, servers = [ "$1" ] }
${2:-}
[[route]]
to = "app"
END
    on 0 "$sipyard" serve "$folder/edge.toml"
    program=$last
    listening "$edge"
}

# start_kamailio TARGET: on UDP, TCP and TLS, one worker each.
start_kamailio() {
    cat >"$folder/kamailio.cfg" <<END
$(kamailio_head)
tcp_children=1
tcp_max_connections=65536
tls_max_connections=65536
enable_tls=yes
listen=udp:$edge
listen=tcp:$edge
listen=tls:$edge_tls
loadmodule "tls.so"
modparam("tls", "certificate", "$folder/chain.pem")
modparam("tls", "private_key", "$folder/key.pem")
modparam("tls", "tls_method", "TLSv1.2+")
modparam("rr", "enable_double_rr", 0)
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (has_totag()) { if (loose_route()) { \$du = "sip:$1"; forward(); exit; } }
  else { if (is_method("INVITE")) record_route(); }
  \$du = "sip:$1";
  forward();
  exit;
}
END
    on 0 "${kamailio_command[@]}"
    program=$last
    listening "$edge"
}

# call TO ARGUMENTS...: makes calls; the outcome is in $folder/calls.json. They go before all else on their core.
call() {
    local to=$1
    shift
    taskset --cpu-list 1 chrt --rr 1 "$sipyard" load call --to "$to" --json "$folder/calls.json" --success 0 "$@" >/dev/null 2>&1 || true
}

figure() {
    grep -o "\"$1\":[^,}]*" "$folder/calls.json" | head -1 | cut -d: -f2
}

# The median and the 99 % quantile from an INVITE to its answer.
answer() {
    tr -d ' \n' <"$folder/calls.json" | grep -o '"answer":{[^}]*}' | grep -oE '"(p50|p99)":[0-9.]*' | tr '\n' ' '
}

# CPU of a call over one connection each side, or over UDP (TRANSPORTS), and the time to its answer.
calls() {
    local rate=${RATE:-1000} duration=${DURATION:-8s}
    awake 0
    for round in 1 2; do
        for transport in ${TRANSPORTS:-tcp tls}; do
            local at=(--transport "$transport") to=$edge way=(--transport "$transport" --connections 1)
            case $transport in
                udp) way=() ;;
                tls) at+=(--chain "$folder/chain.pem" --key "$folder/key.pem"); to=$edge_tls; way+=(--authorities "$folder/chain.pem") ;;
            esac
            for who in sipyard kamailio; do
                on 1 "$sipyard" load serve --address "$core" "${at[@]}"
                local server=$last
                listening "$core"
                if [ $who = kamailio ]; then start_kamailio "$core;transport=$transport"
                elif [ "$transport" = udp ]; then start_sipyard "$core"
                else start_sipyard "$transport:$core"; fi
                local pace=(--rate "$rate" --duration "$duration")
                [ "$rate" != window ] || pace=(--window 256 --duration "$duration")
                call "$to" "${way[@]}" --rate 200 --duration 2s
                local before after
                before=$(cpu "$program")
                call "$to" "${way[@]}" "${pace[@]}"
                local carried
                carried=$(figure carried)
                after=$(cpu "$program")
                echo "round $round $transport $who: $(((after - before) / (carried > 0 ? carried : 1))) us/call, $carried carried, $(figure failed) failed; $(answer)"
                end "$program"
                end "$server"
            done
        done
    done
}

# Handshakes of OpenSSL's s_time, which resumes no session of TLS 1.3, and of its library for those; with keys of both kinds.
handshakes() {
    for key in "" rsa:2048; do
        certify "$key"
        for round in 1 2; do
            for who in sipyard kamailio; do
                start_$who "$core"
                listening "$edge_tls"
                for how in "-new -tls1_3" "-new -tls1_2" "-reuse -tls1_2" resumed; do
                    local before after number
                    before=$(cpu "$program")
                    number=$(connect "$how")
                    after=$(cpu "$program")
                    echo "round $round $who ${key:-ec} $how: $(((after - before) / (number > 0 ? number : 1))) us CPU/connection, $number connections"
                done
                end "$program"
            done
        done
    done
}

# connect HOW: opens connections for 4 s, by s_time's options or resumed by TLS 1.3; how many.
connect() {
    if [ "$1" != resumed ]; then
        # shellcheck disable=SC2086 # The options are words.
        taskset --cpu-list 1 openssl s_time -connect "$edge_tls" $1 -time 4 >"$folder/s_time" 2>/dev/null || true
        grep -o '^[0-9]* connections in [0-9]* real' "$folder/s_time" | cut -d' ' -f1 | head -1
        return
    fi
    taskset --cpu-list 1 python3 -c "
import socket, ssl, time
context = ssl.create_default_context(cafile='$folder/chain.pem')
context.minimum_version = ssl.TLSVersion.TLSv1_3
def connect(session):
    return context.wrap_socket(socket.create_connection(('127.0.0.1', ${edge_tls##*:})), server_hostname='127.0.0.1', session=session)
with connect(None) as first:
    first.sendall(b'\r\n\r\n')
    first.recv(2)
    session = first.session
number, end = 0, time.time() + 4
while time.time() < end:
    with connect(session) as other: number += other.session_reused
print(number)"
}

slab_kb() { awk '/^Slab:/ { print $2 }' /proc/meminfo; }
rss_kb() { awk '/^VmRSS:/ { print $2 }' /proc/"$1"/status; }
connections() { "$sipyard" ctl --admin "$folder/admin.sock" status --json 2>/dev/null | tr -d ' \n' | grep -o '"connections":{[^}]*}' | grep -o '"total":[0-9]*' | cut -d: -f2; }

# Memory of 20,000 connections that carry nothing.
idle() {
    local number=${NUMBER:-$(($(ulimit -n) > 20100 ? 20000 : $(ulimit -n) - 1000))}
    for transport in ${TRANSPORTS:-tcp tls ws wss}; do
        RECORD=false start_sipyard "$core" "registrar = { domains = [\"example.com\"], store = \"memory\", auth = false }
[[route]]
hosts = [\"example.com\"]
to = \"registrar\""
        local to=$edge extra=() rss slab
        case $transport in
            tls) to=$edge_tls ;;
            ws) to=$edge_ws ;;
            wss) to=$edge_wss ;;
        esac
        case $transport in tls | wss) extra=(--authorities "$folder/chain.pem") ;; esac
        rss=$(rss_kb "$program") slab=$(slab_kb)
        on 1 "$sipyard" load register --to "$to" --transport $transport --users "$number" --rate 2000 --duration 300s --stay \
            --expires 3600s --from 127.0.0.11,127.0.0.12,127.0.0.13,127.0.0.14,127.0.0.15 "${extra[@]}"
        local phones=$last now=0
        for _ in $(seq 120); do
            now=$(connections || echo 0)
            [ "${now:-0}" -ge "$number" ] && break
            sleep 0.5
        done
        sleep 2
        echo "$transport: $now connections, $((($(rss_kb "$program") - rss) * 1024 / now)) bytes of the process each (with a binding)," \
            "$((($(slab_kb) - slab) * 1024 / now / 2)) bytes of kernel slabs each end"
        end "$phones"
        end "$program"
    done
}

# Phones that connect and register all at once, and UDP calls meanwhile.
avalanche() {
    local number=${NUMBER:-$(($(ulimit -n) > 20100 ? 20000 : $(ulimit -n) - 1000))}
    on 1 chrt --rr 1 "$sipyard" load serve --address "$core"
    local server=$last
    limits=
    start_sipyard "$core" "registrar = { domains = [\"phones.example\"], store = \"memory\", auth = false }
[[route]]
hosts = [\"phones.example\"]
to = \"registrar\""
    call "$edge" --rate 200 --duration 6s
    echo "before: $(figure carried) calls, $(figure failed) failed, p99 of the answer $(answer) ms"
    call "$edge" --rate 200 --duration 25s &
    local calls=$! began before
    sleep 2
    before=$(cpu "$program")
    began=$(date +%s%N)
    taskset --cpu-list 1 "$sipyard" load register --to "$edge_tls" --transport tls --users "$number" --rate 20000 --stay \
        --domain phones.example --json "$folder/phones.json" --success 0 --authorities "$folder/chain.pem" \
        --from "$(seq -s, -f 127.0.1.%g 250)" >/dev/null 2>&1 || true
    echo "$(((($(cpu "$program") - before)) / number)) us of CPU for each phone, with the calls' share"
    echo "$number phones: $((($(date +%s%N) - began) / 1000000)) ms, $(tr -d ' \n' <"$folder/phones.json" | grep -oE '"(carried|failed|resumed)":[0-9]+' | head -3 | tr '\n' ' ')"
    wait $calls
    echo "meanwhile: $(figure carried) calls, $(figure failed) failed, p99 of the answer $(answer) ms"
    end "$server"
    end "$program"
}

# UDP calls beside 1,000 TLS servers that answer no SYN, 200 clients that stop in the handshake, 500 that don't read.
# With TRANSPORT=tcp the calls that are measured come over connections.
stalled() {
    on 1 chrt --rr 1 "$sipyard" load serve --address "$core"
    local server=$last port=$((base + 9)) dead=()
    for round in 1 2; do
        for what in without with; do
            dead=()
            if [ $what = with ]; then
                for a in $(seq 0 3); do for b in $(seq 1 250); do dead+=("\"tls:127.9.$a.$b:$port\""); done; done
                # Nobody accepts there: after two peers the kernel drops the SYNs of the others.
                on 1 python3 -c "
import socket, time
s = socket.socket(); s.bind(('0.0.0.0', $port)); s.listen(0)
mine = [socket.socket() for _ in range(4)]
for m in mine: m.setblocking(False); m.connect_ex(('127.0.0.1', $port))
time.sleep(600)"
                local hole=$last
                sleep 0.5
            fi
            start_sipyard "$core" "pool.dead = { policy = \"round-robin\", servers = [ $(IFS=,; echo "${dead[*]:-\"udp:127.0.0.1:9\"}") ] }"
            if [ $what = with ]; then
                on 1 python3 -c "
import socket, time
def to(port): s = socket.socket(); s.connect(('127.0.0.1', port)); return s
half = [to(${edge_tls##*:}) for _ in range(200)]
for s in half: s.sendall(b'\x16\x03\x01\x02\x00\x01')
deaf = [to(${edge##*:}) for _ in range(500)]
ask = (b'OPTIONS sip:127.0.0.1:${edge##*:} SIP/2.0\r\nVia: SIP/2.0/TCP a.invalid;branch=z9hG4bK%d\r\nMax-Forwards: 70\r\n'
       b'From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>\r\nCall-ID: %d\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n')
for s in deaf: s.setblocking(False)
for i in range(100000):
    try: deaf[i % 500].send(ask % (i, i))
    except BlockingIOError: pass
    if i % 100 == 0: time.sleep(0.05)
time.sleep(600)"
                local clients=$last
                sleep 2
            fi
            call "$edge" --transport "${TRANSPORT:-udp}" --rate 300 --duration 8s
            echo "round $round $what: $(figure carried) calls, $(figure failed) failed, answer $(answer) ms; connections $(connections)"
            [ $what = without ] || { end "$clients"; end "$hole"; }
            end "$program"
        done
    done
    end "$server"
}

for what in "$@"; do "$what"; done
