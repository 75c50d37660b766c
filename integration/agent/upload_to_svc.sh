#!/usr/bin/env bash
# upload_to_svc.sh GROUP_ID FILE
#
# Encrypts a file here, uploads only the ciphertext and prints the reference of
# the new record on standard output. Costs one upload. Exit codes: 0 recorded, 1
# authentication failed or not a member, 2 anything else; when the answer was
# lost, the message says how to find out whether the file was recorded.
set +xv # tracing would show secrets

# Settings come from the environment, or are edited in here.
SVC_ACCOUNT_ID=${SVC_ACCOUNT_ID:-'<account_id>'}
SVC_API_KEY=${SVC_API_KEY:-'<API_KEY>'}

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source-path=SCRIPTDIR source=svc_client.sh
source "$here/svc_client.sh"

# send PATH FILE: seals FILE with the key in reply and posts it. Sets file_hash,
# answer and status. The helper prints the hash first, then the request: when it
# fails there is no first line, and nothing is sent.
send() {
	local told code=0
	told=$(printf '%s' "$reply" | python3 -B "$here/encrypt_svc.py" --max-bytes "$max_bytes" -- "$2" | {
		IFS= read -r file_hash || exit 100
		printf '%s\n' "$file_hash"
		post "$mcp_url$1" "$timeout" token_headers 2>/dev/null | tr -d '\0' | head -c "$small_answer" || printf '\n000'
	}) || code=$?
	((code == 0)) || exit 2 # the helper has said why
	file_hash=${told%%$'\n'*}
	told=${told#*$'\n'}
	status=${told##*$'\n'}
	answer=${told%$'\n'*}
}

expect_arguments $# 2 'GROUP_ID FILE'
[[ -f $2 && -r $2 ]] || die 2 "cannot read the file $2"
start
name=${2##*/}
call "$small_answer" prepare_upload "$(jq -cn --arg group_id "$1" --arg filename "$name" '{group_id: $group_id, filename: $filename}')"
send /tools/finalize_upload "$2"
if [[ $status != 200 ]]; then
	text=$(reason)
	[[ $status != 000 ]] || text='the answer was lost: look for the file with list_group_transactions.sh before sending it again'
	die "$(code_of "$status" "$text")" "finalize_upload: $text"
fi
printf '%s' "$answer" | jq -er --arg hash "$file_hash" '
	(if type == "object" and has("result") then .result else . end)
	| if (.file_hash | strings | ascii_downcase) == $hash then . else error("another hash") end
	| [.location, .cid, .ipfs_hash | strings | select(. != "")] | first
	| if . == null or test("[\\x00-\\x20\\x7f]") then error("no reference") else . end' 2>/dev/null ||
	die 2 'finalize_upload: the service recorded something else than what was sent'
