#!/usr/bin/env bash
# list_group_transactions.sh GROUP_ID
#
# Prints the file records of a group as a JSON array, in upload order: reference
# (ipfs_hash), file_hash, user_id, trans_id, timestamp and, where the service
# tells them, filename and original_size. Free. Exit codes: 0 done, 1
# authentication failed or not a member, 2 anything else.
set +xv # tracing would show secrets

# Settings come from the environment, or are edited in here.
SVC_ACCOUNT_ID=${SVC_ACCOUNT_ID:-'<account_id>'}
SVC_API_KEY=${SVC_API_KEY:-'<API_KEY>'}

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source-path=SCRIPTDIR source=svc_client.sh
source "$here/svc_client.sh"

expect_arguments $# 1 'GROUP_ID'
start
list_files "$1"
# -a: names are chosen by others and must not reach a terminal as they are.
printf '%s' "$reply" | jq -a 'if type == "array" and all(.[]; type == "object") then . else error("not a list") end' 2>/dev/null ||
	die 2 'get_group_transactions: the answer is not the JSON that was expected'
