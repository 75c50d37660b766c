#!/usr/bin/env bash
# Asks svcfs mcp, and svcd at /mcp, by the reference inspector of the Model Context Protocol, from npm, in its
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

# The service itself, at /mcp. This inspector sends no headers of its own, so a relay adds the key.
cat >"$work/relay.js" <<'EOF'
const http = require("http"), fs = require("fs"), [url, key] = process.argv.slice(2);
const credentials = {"x-api-key": fs.readFileSync(key, "utf8").trim(), "x-account-id": "alice.svc.testnet"};
const relay = http.createServer((q, a) => q.pipe(http.request(url + q.url, {method: q.method, headers: {...q.headers, ...credentials}}, r => {
  a.writeHead(r.statusCode, r.headers);
  r.pipe(a);
})));
relay.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${relay.address().port}`));
EOF
node "$work/relay.js" "$url" "$work/alice.key" >"$work/relay" &
relay=$!
trap 'kill "${service:-}" "${relay:-}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
for _ in $(seq 300); do [[ -s "$work/relay" ]] && break; sleep 0.1; done
ask_service() { "$work/node_modules/.bin/mcp-inspector" --cli "$(cat "$work/relay")/mcp" "$@"; }
ask_service --method tools/list >"$work/answer"
check "tools/list of the service: none gives content" '(.tools | length) == 19 and all(.tools[]; .name | test("retrieve|upload|key|delete") | not)'
ask_service --method tools/call --tool-name get_group_transactions --tool-arg group_id=team >"$work/answer"
check "get_group_transactions" '.structuredContent | tostring | contains("today.txt")'
