# Sourced by the scripts beside it: a folder, programs on their cores, what they cost. All that was started ends with
# the script.

sipyard=${SIPYARD:-$PWD/target/release/sipyard}
folder=$(mktemp -d)
started=()
caged=''

clear_up() {
    kill "${started[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
    [ -z "$caged" ] || rmdir "$caged" 2>/dev/null || true
}
trap clear_up EXIT

# on CORE COMMAND...: starts a program there; its number is in `last`.
on() {
    local at=$1
    shift
    taskset --cpu-list "$at" "$@" >>"$folder/log" 2>&1 &
    last=$!
    started+=("$last")
}

# within COMMAND...: waits until it succeeds, for 10 s at most.
within() {
    for _ in $(seq 100); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    cat "$folder/log" >&2
    exit 1
}

# listening ADDRESS: waits until somebody does.
listening() {
    within grep -q ":$(printf %04X "${1##*:}") " /proc/net/tcp /proc/net/udp
}

# awake CORE: keeps it from sleeping. To wake it up would be charged to what is measured.
awake() {
    on "$1" chrt --idle 0 sh -c 'while :; do :; done'
}

# cage NAME SHARE: makes a group of processes that together have this part of core 0, by a CFS quota with a period of PERIOD ms (10).
# Its folder is in `caged`.
cage() {
    awake 0
    caged=/sys/fs/cgroup/cpu/sipyard-$1-$$
    [ ! -e /sys/fs/cgroup/cgroup.controllers ] || caged=/sys/fs/cgroup/sipyard-$1-$$
    mkdir "$caged"
    limit "$2"
}

# limit SHARE: the group has another part from now on. A quota is 1 ms at least, so the period of a small part is longer.
limit() {
    local period quota
    period=$(awk "BEGIN { usual = 1000 * ${PERIOD:-10}; least = 1000 / $1; print int(least > usual ? least : usual) }")
    quota=$(awk "BEGIN { print int($1 * $period) }")
    if [ -e "$caged/cpu.max" ]; then
        echo "$quota $period" >"$caged/cpu.max"
    else
        echo -1 >"$caged/cpu.cfs_quota_us"
        echo "$period" >"$caged/cpu.cfs_period_us"
        echo "$quota" >"$caged/cpu.cfs_quota_us"
    fi
}

# on_caged COMMAND...: starts a program on core 0 that is held from its first instruction on, and so are its children.
on_caged() {
    on 0 sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$caged" "$@"
}

# The first lines of each configuration of Kamailio.
kamailio_head() {
    cat <<'END'
#!KAMAILIO
debug=-1
log_stderror=yes
children=1
auto_aliases=no
dns=no
rev_dns=no
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "siputils.so"
loadmodule "textops.so"
END
}

# What starts Kamailio with kamailio.cfg of the folder.
kamailio_command=(/usr/sbin/kamailio -f "$folder/kamailio.cfg" -m 1024 -M 32 -x tlsf -X tlsf -DD -E -P "$folder/pid" -Y "$folder" -w "$folder")

end() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# Microseconds of CPU that a process and its children have had, by the scheduler's account.
cpu() {
    local task child sum=0
    for task in /proc/"$1"/task/*; do
        sum=$((sum + $(cut -d' ' -f1 "$task/schedstat")))
        for child in $(cat "$task/children"); do sum=$((sum + 1000 * $(cpu "$child"))); done
    done
    echo $((sum / 1000))
}

# certify [KEY]: a certificate of this host, by its own authority: chain.pem and key.pem in the folder. KEY is what OpenSSL calls it.
certify() {
    # shellcheck disable=SC2086 # The key may be two words.
    openssl req -x509 -newkey ${1:-ec -pkeyopt ec_paramgen_curve:P-256} -nodes -days 3650 -subj /CN=bench \
        -keyout "$folder/key.pem" -out "$folder/chain.pem" -addext subjectAltName=IP:127.0.0.1,DNS:localhost \
        -addext basicConstraints=critical,CA:FALSE 2>/dev/null
}
