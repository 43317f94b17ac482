#!/usr/bin/env bash
# Tries what `make package` and `make image` have made: the package in a chroot of Debian 12, the image in a container
# without a network. As root; needs lintian, debootstrap, systemd, podman, and a runtime that this machine's control
# groups allow (RUNTIME=runc where they are of version 1).
set -euo pipefail
cd "$(dirname "$0")/.."

package=$(ls target/debian/sipyard_*.deb)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

say() {
    printf '== %s\n' "$*"
}

say "lintian: $(stat --format %s "$package") bytes"
lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs "$package"

say 'install in a chroot'
root=$folder/root
debootstrap --variant=minbase --include=systemd,procps bookworm "$root" >"$folder/debootstrap.log"
cp "$package" "$root/sipyard.deb"
within=(chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive)
as_user=("${within[@]}" setpriv --reuid sipyard --regid sipyard --clear-groups --inh-caps=-all --no-new-privs)
"${within[@]}" apt-get install -qq ./sipyard.deb >"$folder/apt.log"
[ "$("${within[@]}" stat --format '%U %a' /etc/sipyard/secret)" = 'sipyard 600' ]
[ "$("${within[@]}" stat --format '%U %a' /var/lib/sipyard)" = 'sipyard 700' ]

say 'the unit'
systemd-analyze verify --man=no --root="$root" sipyard.service
systemd-analyze security --offline=true --root="$root" --threshold=20 --no-pager sipyard.service | tail -1

say 'the first call'
"${within[@]}" sipyard init --role edge --listen 127.0.0.1:25060 --servers 127.0.0.1:27001 --probe no \
    --out /etc/sipyard/sipyard.toml >/dev/null
"${within[@]}" chown -R sipyard:sipyard /etc/sipyard
"${within[@]}" install -d -o sipyard -g sipyard -m 700 /run/sipyard
"${as_user[@]}" sipyard check /etc/sipyard/sipyard.toml
"${as_user[@]}" sipyard load serve --address 127.0.0.1:27001 >"$folder/servers.log" 2>&1 &
servers=$!
"${as_user[@]}" sipyard serve --config /etc/sipyard/sipyard.toml >"$folder/node.log" 2>&1 &
node=$!
trap 'kill $servers $node 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    grep -q 'has started' "$folder/node.log" && break
    sleep 0.1
done
"${within[@]}" sipyard load call --to 127.0.0.1:25060 --rate 50 --duration 2s | tee "$folder/calls.log"
kill $node $servers
wait $node
grep -q 'failed *0' "$folder/calls.log"

say 'remove and purge'
"${within[@]}" dpkg --purge sipyard >/dev/null
[ ! -e "$root/var/lib/sipyard" ] && [ ! -e "$root/etc/sipyard/secret" ] && [ ! -e "$root/usr/bin/sipyard" ]

say "image: $(buildah inspect --type image --format '{{.OCIv1.Config.User}}' sipyard) is its user"
runtime=(--cgroup-manager cgroupfs)
[ -z "${RUNTIME:-}" ] || runtime+=(--runtime "$RUNTIME")
mkdir "$folder/etc"
printf '%s\n' '[node]' 'name = "edge"' 'secret = "env:SIPYARD_SECRET"' '[[listen]]' 'transport = "udp"' \
    'address = "127.0.0.1:5060"' '[pool.app]' 'policy = "tlwl"' 'servers = [ { address = "127.0.0.1:7000" } ]' \
    '[[route]]' 'to = "app"' '[admin]' 'socket = "/tmp/admin.sock"' >"$folder/etc/sipyard.toml"
chmod -R a+rX "$folder" "$folder/etc"
name=sipyard-try-$$
podman "${runtime[@]}" run --detach --name "$name" --read-only --network none --tmpfs /tmp \
    --ulimit nofile=4096:4096 --ulimit nproc=1000:1000 --env SIPYARD_SECRET="$(openssl rand -hex 32)" \
    --volume "$folder/etc:/etc/sipyard:ro" sipyard >/dev/null
trap 'podman "${runtime[@]}" rm --force "$name" >/dev/null; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    podman "${runtime[@]}" exec "$name" /sipyard ctl --admin /tmp/admin.sock status >"$folder/status" 2>/dev/null && break
    sleep 0.1
done
cat "$folder/status"
podman "${runtime[@]}" stop --time 20 "$name" >/dev/null
[ "$(podman "${runtime[@]}" inspect --format '{{.State.ExitCode}}' "$name")" = 0 ]
say 'all good'
