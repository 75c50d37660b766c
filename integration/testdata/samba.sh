#!/usr/bin/env bash
# Shares the working directory, and uses the share as a client does.
set -eu
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
for dir in private pid lock state cache rpc; do mkdir -p "$OUT/smb/$dir"; done
cat >"$OUT/smb/conf" <<CONF
[global]
interfaces = 127.0.0.1
bind interfaces only = yes
smb ports = $port
disable netbios = yes
map to guest = Bad User
load printers = no
printing = bsd
disable spoolss = yes
private dir = $OUT/smb/private
pid directory = $OUT/smb/pid
lock directory = $OUT/smb/lock
state directory = $OUT/smb/state
cache directory = $OUT/smb/cache
ncalrpc dir = $OUT/smb/rpc
[share]
path = $PWD
read only = no
guest ok = yes
force user = $(id -un)
CONF
# At its end smbd ends its process group.
setsid /usr/sbin/smbd --foreground --no-process-group --configfile "$OUT/smb/conf" --log-basename "$OUT/smb" >"$OUT/smb/log" 2>&1 &
trap 'kill $! && wait $! || true' EXIT
client() { smbclient //127.0.0.1/share --port "$port" --no-pass --configfile "$OUT/smb/conf" --command "$1" 2>&1; }
for _ in $(seq 100); do client quit >/dev/null && break; sleep 0.1; done
client "put $SRC/x a; rename a b; get b $OUT/smb/got" >"$OUT/smb/said" || { cat "$OUT/smb/said" "$OUT/smb/log"; exit 1; }
cat "$OUT/smb/got"
