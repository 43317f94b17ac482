#!/usr/bin/env bash
# Makes the image `sipyard` of a static program: scripts/image.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
strip -o "$folder/sipyard" "$1"
buildah build --file etc/Containerfile --tag sipyard "$folder"
