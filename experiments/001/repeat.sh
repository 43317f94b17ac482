#!/usr/bin/env bash
# Repeats the figures of paper 001 in the simulator: docs/results/paper-001.{md,html,json,csv}.
#
#   experiments/001/repeat.sh            about 10 min of two cores
#   SIPYARD=sipyard experiments/001/repeat.sh    the same with an installed sipyard
set -euo pipefail
cd "$(dirname "$0")/../.."

read -ra sipyard <<<"${SIPYARD:-cargo run --quiet --release --package sipyard --}"
"${sipyard[@]}" sim experiments/001/*.toml --out docs/results --name paper-001 --title "Paper 001, reproduced"
# What live.sh has measured, if it has.
live=docs/results/paper-001-live.md
[ ! -e $live ] || { echo && cat $live; } >>docs/results/paper-001.md
