# Sourced by the scripts beside it: a folder, programs on their cores, what they cost. All that was started ends with
# the script.

sipyard=${SIPYARD:-$PWD/target/release/sipyard}
folder=$(mktemp -d)
started=()

clear_up() {
    kill "${started[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
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

# listening ADDRESS: waits until somebody does.
listening() {
    for _ in $(seq 100); do
        if grep -q ":$(printf %04X "${1##*:}") " /proc/net/tcp /proc/net/udp; then return; fi
        sleep 0.1
    done
    cat "$folder/log" >&2
    exit 1
}

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

# A certificate of this host, by its own authority: chain.pem and key.pem in the folder.
certify() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=bench \
        -keyout "$folder/key.pem" -out "$folder/chain.pem" -addext subjectAltName=IP:127.0.0.1,DNS:localhost \
        -addext basicConstraints=critical,CA:FALSE 2>/dev/null
}
