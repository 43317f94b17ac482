#!/usr/bin/env bash
# Files stay short, and the paths that documents name exist.
set -euo pipefail
cd "$(dirname "$0")/.."

lines_max=1000
status=0

complain() {
    echo "$*"
    status=1
}

while read -r lines file; do
    [ "$file" = total ] || [ "$lines" -le $lines_max ] ||
        complain "$file has $lines lines, more than $lines_max: split it by noun"
done < <(find crates bench fuzz -name target -prune -o -name '*.rs' -print0 | xargs -0 wc -l)

while read -r path; do
    [ -e "$path" ] || complain "ARCHITECTURE.md names $path, which is not there"
done < <(grep -oE '\b(crates|bench|fuzz|scripts|docs|etc)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' ARCHITECTURE.md | sort -u)

for document in README.md ARCHITECTURE.md CHANGELOG.md; do
    while read -r path; do
        [ -e "$path" ] || complain "$document links to $path, which is not there"
    done < <(grep -oE '\]\([^):#]+' "$document" | cut -c3- | sort -u)
done
exit $status
