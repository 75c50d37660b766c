# shellcheck shell=bash disable=SC2034 # the scripts use what is set here
# Sourced by the scripts beside it: settings, sign-in and calls of the service.
#
# The API key and the session token live in variables that no child inherits
# and reach curl through a pipe: never an argument, a file or an environment.
# Here documents and here strings are not used, because bash may keep those in
# temporary files. Words of the service are cleaned before they are shown.
#
# Exit codes of every script: 0 done, 1 authentication failed or not a member,
# 2 anything else, such as no such file, or content that fails its checks.

set -euo pipefail
ulimit -c 0 # a core would hold keys

api_key=${SVC_API_KEY:-}
account=${SVC_ACCOUNT_ID:-}
export -n SVC_API_KEY
unset SVC_API_KEY
token=''
reply='' # what the last call returned, JSON

# Bytes of an answer that carries no file, and of one that holds a long ledger.
small_answer=1048576
ledger_answer=134217728
max_bytes=${SVC_MAX_BYTES:-268435456} # largest plaintext
timeout=${SVC_TIMEOUT:-60}            # seconds of one call
token_timeout=15                      # seconds of a sign-in

# die CODE TEXT: one line on standard error, then the end. What the service said
# is shown without our secrets and without control characters.
die() {
	local code=$1 text=$2 LC_ALL=C
	[[ -z $token ]] || text=${text//"$token"/redacted}
	[[ -z $api_key ]] || text=${text//"$api_key"/redacted}
	text=${text//[^[:print:]]/ }
	printf '%s: %s\n' "${0##*/}" "${text:0:500}" >&2
	exit "$code"
}

# expect_arguments GIVEN WANTED USAGE
expect_arguments() {
	(($1 == $2)) || die 2 "usage: ${0##*/} $3"
}

need_programs() {
	local program
	for program in curl jq python3; do
		command -v "$program" >/dev/null || die 2 "$program is missing: install curl, jq and python3 with its package cryptography"
	done
}

# check_address NAME URL: https, or http to this machine.
check_address() {
	local name=$1 url=$2 LC_ALL=C
	[[ $url =~ ^(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]+)?(/[A-Za-z0-9._~/-]*)?$ ]] ||
		die 2 "$name is not an address such as https://files.example.org"
	[[ ${BASH_REMATCH[1]} == https || ${SVC_INSECURE_HTTP:-} == 1 ]] && return
	[[ ${BASH_REMATCH[2]} =~ ^(localhost|127(\.[0-9]{1,3}){3}|\[::1\])$ ]] ||
		die 2 "$name would send keys over plain http: use https, or set SVC_INSECURE_HTTP=1"
}

# check_settings fills in the addresses: each alone, else SVC_URL, else the
# hosted service.
check_settings() {
	local LC_ALL=C hosted_auth=https://nova-sdk.com hosted_rpc=https://rpc.mainnet.near.org hosted_contract=nova-sdk.near number
	[[ $account != '' && $account != '<'* ]] || die 1 'no account: set SVC_ACCOUNT_ID'
	[[ $api_key != '' && $api_key != '<'* ]] || die 1 'no API key: set SVC_API_KEY'
	[[ $account$api_key != *[^[:graph:]]* ]] || die 1 'SVC_ACCOUNT_ID or SVC_API_KEY holds characters that none has'
	if [[ ${SVC_NETWORK:-mainnet} != mainnet ]]; then
		hosted_auth=https://testnet.nova-sdk.com hosted_rpc=https://rpc.testnet.near.org hosted_contract=nova-sdk-7.testnet
	fi
	if [[ -n ${SVC_URL:-} ]]; then
		hosted_rpc=${SVC_URL%/}/rpc hosted_contract=svc.testnet
	fi
	auth_url=${SVC_AUTH_URL:-${SVC_URL:-$hosted_auth}}
	mcp_url=${SVC_MCP_URL:-${SVC_URL:-https://5a5223f7d1bfe777433c496b9d52ff851e927259-8000.dstack-prod5.phala.network}}
	rpc_url=${SVC_RPC_URL:-$hosted_rpc} contract=${SVC_CONTRACT_ID:-$hosted_contract}
	auth_url=${auth_url%/} mcp_url=${mcp_url%/}
	check_address 'the sign-in address' "$auth_url"
	check_address 'the service address' "$mcp_url"
	check_address 'the ledger address' "$rpc_url"
	for number in "$max_bytes" "$timeout"; do
		[[ $number =~ ^[1-9][0-9]{0,11}$ ]] || die 2 'SVC_MAX_BYTES and SVC_TIMEOUT are whole numbers'
	done
	((token_timeout <= timeout)) || token_timeout=$timeout
}

# Request headers, one a line, for curl to read from a pipe.
key_headers() {
	printf 'Content-Type: application/json\nX-API-Key: %s\nX-Account-Id: %s\n' "$api_key" "$account"
}
no_secrets() { # for the ledger, which answers anybody
	printf 'Content-Type: application/json\n'
}
token_headers() { # x-wallet-id asks newer services for one copy of the answer
	printf 'Content-Type: application/json\nAuthorization: Bearer %s\nX-Account-Id: %s\nX-Wallet-Id: %s\n' "$token" "$account" "$account"
}

# post URL SECONDS HEADERS: posts standard input. Prints the answer's body and
# then, on a line of its own, its status (000 without an answer). Settings of
# the user's curl, redirects and other protocols are out; a proxy sees no plain
# http.
post() {
	local proxied=()
	[[ $1 == https:* ]] || proxied=(--noproxy '*')
	curl --disable --silent --globoff --proto '=https,http' --tlsv1.2 ${proxied[@]+"${proxied[@]}"} \
		--connect-timeout 10 --max-time "$2" --header @<("$3") --header 'Expect:' --data-binary @- \
		--write-out '\n%{http_code}' --url "$1"
}

# exchange LIMIT BODY POST-ARGUMENTS...: sets answer and status; an answer over
# LIMIT bytes, or none, is status 000. Refusals that pass are waited out.
exchange() {
	local limit=$1 body=$2 pause
	shift 2
	for pause in 0.5 1 2 0; do
		answer=$(printf '%s' "$body" | post "$@" 2>/dev/null | tr -d '\0' | head -c "$limit") || answer+=$'\n000'
		status=${answer##*$'\n'}
		answer=${answer%$'\n'*}
		[[ $status == 429 || $status == 502 || $status == 503 ]] || break
		sleep "$pause"
	done
}

# reason: what an error answer says, in words.
reason() {
	local text
	case $status in
	000) printf 'no answer, or one that was cut or too large' && return ;;
	3??) printf 'it redirects, which is not followed' && return ;;
	esac
	text=$(printf '%s' "$answer" | jq -r '[.error, .message, .detail | strings] | first // empty' 2>/dev/null) || text=''
	printf '%s (HTTP %s)' "${text:-no reason given}" "$status"
}

# code_of STATUS TEXT: 1 when it is about who asks, else 2. The hosted service
# sends status 500 for most refusals, so that the words decide first.
code_of() {
	local text=${2,,}
	case $text in
	*'not found'* | *deleted* | *insufficient*) [[ $1 == 401 ]] && printf 1 || printf 2 ;;
	*'not authorized'* | *unauthorized* | *'not a member'* | *audience* | *'auth required'* | *'auth failed'*) printf 1 ;;
	*) [[ $1 == 401 || $1 == 403 ]] && printf 1 || printf 2 ;;
	esac
}

# sign_in trades the API key for a session token.
sign_in() {
	local body text code LC_ALL=C
	body=${account//\\/\\\\} # check_settings let nothing else pass that JSON escapes
	exchange "$small_answer" "{\"account_id\":\"${body//\"/\\\"}\"}" "$auth_url/api/auth/session-token" "$token_timeout" key_headers
	if [[ $status != 200 ]]; then
		text=$(reason) code=1
		case $status in # of a service that cannot be asked, nothing is known about the account
		000 | 429 | 5??) code=$(code_of "$status" "$text") ;;
		esac
		die "$code" "cannot sign in: $text"
	fi
	token=$(printf '%s' "$answer" | jq -rs 'if length == 1 then .[0].token | strings else empty end' 2>/dev/null) || token=''
	if ! [[ $token =~ ^[A-Za-z0-9._~+/=-]+$ ]]; then
		token=''
		die 1 'cannot sign in: the service sent no session token'
	fi
}

# start: everything a script needs before its first call.
start() {
	need_programs
	check_settings
	sign_in
}

# try_call LIMIT OPERATION BODY: sets status and answer; a token that was refused
# is replaced once.
try_call() {
	local url="$mcp_url/tools/$2"
	exchange "$1" "$3" "$url" "$timeout" token_headers
	[[ $status == 401 ]] || return 0
	sign_in
	exchange "$1" "$3" "$url" "$timeout" token_headers
}

# call LIMIT OPERATION BODY: sets reply to the result; ends the script when the
# service refuses.
call() {
	try_call "$@"
	take_reply "$2"
}

# take_reply OPERATION: what call does with the answer.
take_reply() {
	local text
	if [[ $status != 200 ]]; then
		text=$(reason)
		die "$(code_of "$status" "$text")" "$1: $text"
	fi
	reply=$(printf '%s' "$answer" | jq -ces 'if length != 1 then error("not one document") else .[0] end
		| if type == "object" and has("result") then .result else . end' 2>/dev/null) ||
		die 2 "$1: the answer is not the JSON that was expected"
}

# is_missing: whether the last answer says that the service, one of the first
# generation, has no such operation.
is_missing() {
	[[ $status == 404 ]] && ! printf '%s' "$answer" | jq -es 'length == 1 and (.[0] | type == "object" and has("error"))' >/dev/null 2>&1
}

# view METHOD ARGUMENTS: sets reply to what a free view of the ledger returns,
# by JSON-RPC and without any secret.
view() {
	local body refused
	body=$(jq -cn --arg contract "$contract" --arg method "$1" --argjson args "$2" '{jsonrpc: "2.0", id: 1, method: "query", params: {
		request_type: "call_function", finality: "final", account_id: $contract, method_name: $method, args_base64: ($args | tojson | @base64)}}')
	exchange "$ledger_answer" "$body" "$rpc_url" "$timeout" no_secrets
	refused=$(printf '%s' "$answer" | jq -r '.error | objects | [.data, .message | strings] | first // "no reason given"' 2>/dev/null) || refused=''
	[[ -z $refused ]] || die "$(code_of "$status" "$refused")" "$1: $refused"
	[[ $status == 200 ]] || die 2 "$1: $(reason)"
	reply=$(printf '%s' "$answer" | python3 -B -c 'import json, sys
sys.stdout.buffer.write(bytes(json.load(sys.stdin.buffer)["result"]["result"]))' 2>/dev/null | jq -ce . 2>/dev/null) ||
		die 2 "$1: the answer is not the JSON that was expected"
}

# list_files GROUP: sets reply to the file records of a group, from the service
# or, where it has no such operation, from the ledger itself.
list_files() {
	try_call "$ledger_answer" get_group_transactions "$(jq -cn --arg group_id "$1" '{group_id: $group_id}')"
	if is_missing; then
		view get_transactions_for_group "$(jq -cn --arg group_id "$1" --arg user_id "$account" '{group_id: $group_id, user_id: $user_id}')"
	else
		take_reply get_group_transactions
	fi
}
