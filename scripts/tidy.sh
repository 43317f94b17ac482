#!/usr/bin/env bash
# Files and functions stay short, imports don't go in circles, and the paths that documents name exist.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0

complain() {
    echo "$*"
    status=1
}

cargo run ${CI:+--locked} --quiet --package tidy || status=1

while read -r path; do
    [ -e "$path" ] || complain "ARCHITECTURE.md names $path, which is not there"
done < <(grep -oE '\b(crates|bench|fuzz|scripts|docs|etc)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' ARCHITECTURE.md | sort -u)

for document in README.md ARCHITECTURE.md CHANGELOG.md; do
    while read -r path; do
        [ -e "$path" ] || complain "$document links to $path, which is not there"
    done < <(grep -oE '\]\([^):#]+' "$document" | cut -c3- | sort -u)
done

# The pages of the site link to each other, and each is in the summary. Those of reference/ are made by `make site`.
while read -r page; do
    folder=$(dirname "$page")
    while read -r path; do
        [ -e "$folder/$path" ] || [[ "$path" == *reference/* || "$path" == http* ]] || complain "$page links to $path, which is not there"
    done < <(grep -oE '\]\([^):#]+' "$page" | cut -c3- | sort -u)
    name=${page#docs/}
    [ "$name" = SUMMARY.md ] || grep -qF "($name)" docs/SUMMARY.md || complain "$page is not in docs/SUMMARY.md"
done < <(git ls-files 'docs/*.md' | sort)

# What is large and made by a command is not kept, but made again.
while read -r size path; do
    [ "$size" -le 200000 ] || [[ "$path" != docs/* ]] || complain "$path has $size bytes; name the command that makes it instead"
done < <(git ls-files -z docs | xargs -0 stat --format '%s %n' 2>/dev/null)
exit $status
