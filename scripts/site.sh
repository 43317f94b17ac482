#!/usr/bin/env bash
# Makes docs/book, the documentation as pages, and follows its links.
#
#   scripts/site.sh sipyard    a built program, which writes the reference
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

sipyard=$(realpath "${1:?usage: scripts/site.sh PROGRAM}")
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT

# The metrics, as a node describes them.
metrics() {
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$folder/secret")
    cat >"$folder/node.toml" <<END
node = { name = "node", secret = "file:secret" }
listen = [ { transport = "udp", address = "127.0.0.1:$((20000 + RANDOM % 10000))" } ]
registrar = { domains = ["example.com"], store = "memory" }
route = [ { to = "registrar" } ]
admin = { socket = "admin.sock" }
calls = { records = { file = "calls.jsonl" } }
END
    (cd "$folder" && exec "$sipyard" serve --config node.toml) 2>"$folder/log" &
    for _ in $(seq 100); do
        curl --silent --unix-socket "$folder/admin.sock" http://node/metrics >"$folder/metrics" && break
        sleep 0.1
    done
    printf '# Metrics\n\n`/metrics` has these; counters end in `_total` there.\n\n| metric | kind | what it counts |\n|---|---|---|\n'
    awk '/^# HELP/ { name = $3; sub(/^# HELP [^ ]+ /, ""); help[name] = $0; order[++n] = name }
        /^# TYPE/ { kind[$3] = $4 }
        END { for (i = 1; i <= n; i++) print "| `" order[i] "` | " kind[order[i]] " | " help[order[i]] " |" }' "$folder/metrics"
}

"$sipyard" manual --pages docs/reference
metrics >docs/reference/metrics.md
[ "$(wc -l <docs/reference/metrics.md)" -gt 100 ] || { cat "$folder/log" && exit 1; }
sed 's|](docs/|](../|g' ARCHITECTURE.md >docs/reference/architecture.md
mdbook build docs

status=0
while IFS=: read -r page link; do
    target=${link#*=\"}
    target=${target%%[#?]*}
    [ -z "$target" ] || [ -e "$(dirname "$page")/$target" ] || {
        echo "$page links to $target, which is not there"
        status=1
    }
done < <(grep -roE --include='*.html' --exclude=404.html --exclude=print.html '(href|src)="[^":]*' docs/book | sort -u)
exit $status
