#!/usr/bin/env bash
# Makes docs/book, the documentation as pages, and follows its links.
#
#   scripts/site.sh sipyard    a built program, which writes the reference
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

"${1:?usage: scripts/site.sh PROGRAM}" manual --pages docs/reference
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
