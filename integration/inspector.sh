#!/usr/bin/env bash
# Asks svcfs mcp by the reference inspector of the Model Context Protocol, from npm, in its
# command-line form: the tools, a list and the content of a file, of a service made for it.
# Needs node, npm and jq, the programs in bin (make build), and npm's registry.
set -euo pipefail
cd "$(dirname "$0")/.."

# The newest that runs on node 20; later ones need node 22.
inspector="@modelcontextprotocol/inspector@0.15.0"

for tool in node npm jq; do
	command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install nodejs npm jq" >&2; exit 1; }
done
bin="$PWD/bin"
work="$(mktemp -d)"
trap 'kill "${service:-}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

(cd "$work" && npm install --silent --no-audit --no-fund --no-save --ignore-scripts "$inspector")

"$bin/svcd" serve --data "$work/data" --listen 127.0.0.1:0 >"$work/url" 2>"$work/service.log" &
service=$!
for _ in $(seq 300); do grep -q '^listening on ' "$work/url" && break; sleep 0.1; done
url="$(sed -n 's/^listening on //p' "$work/url")"
[[ -n "$url" ]] || { cat "$work/service.log" >&2; exit 1; }
"$bin/svcd" account create alice --data "$work/data" --balance 10 --api-key-file "$work/alice.key" >/dev/null

settings=(--url "$url" --account alice.svc.testnet --api-key-file "$work/alice.key")
export XDG_STATE_HOME="$work/state"
"$bin/svcfs" group create team "${settings[@]}" >/dev/null
echo "Meet at nine." | "$bin/svcfs" put team - --name today.txt "${settings[@]}" >/dev/null

# The inspector takes all flags for its own: a program without flags starts the server.
printf '#!/bin/sh\nexec "%s" mcp --groups team' "$bin/svcfs" >"$work/server"
printf ' "%s"' "${settings[@]}" >>"$work/server"
chmod 0700 "$work/server"
ask() { "$work/node_modules/.bin/mcp-inspector" --cli "$work/server" "$@"; }

check() { # what, and the jq expression that holds for the answer
	if jq -e "$2" "$work/answer" >/dev/null; then echo "ok  $1"; else echo "wrong: $1" >&2; cat "$work/answer" >&2; exit 1; fi
}
ask --method tools/list >"$work/answer"
check "tools/list: nine tools, each with its hints" '(.tools | length) == 9 and all(.tools[]; .annotations | has("destructiveHint") and has("openWorldHint") and has("readOnlyHint"))'
ask --method resources/templates/list >"$work/answer"
check "resources/templates/list" '.resourceTemplates[0].uriTemplate == "svc://{group}/{+name}"'
ask --method tools/call --tool-name list_files --tool-arg group=team >"$work/answer"
check "list_files" '.structuredContent.files[0].name == "today.txt"'
ask --method tools/call --tool-name read_file --tool-arg group=team name=today.txt >"$work/answer"
check "read_file" '.content[1].text == "Meet at nine.\n" and .content[1]._meta["svcfs/untrusted"]'
ask --method resources/read --uri svc://team/today.txt >"$work/answer"
check "resources/read" '.contents[0].text == "Meet at nine.\n"'
