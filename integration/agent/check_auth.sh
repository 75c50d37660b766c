#!/usr/bin/env bash
# check_auth.sh GROUP_ID
#
# Prints what this account may do as one JSON document:
#   {"authorized": true, "groups": ["team"], "member_count": 2}
# authorized is about GROUP_ID; groups are all groups of the account;
# member_count is that of GROUP_ID, and 0 when the account may not know it.
# Exit codes: 0 the document is there, whatever it says; 1 authentication
# failed; 2 the service could not answer, or not be reached.
set +xv # tracing would show secrets

# Settings come from the environment, or are edited in here.
SVC_ACCOUNT_ID=${SVC_ACCOUNT_ID:-'<account_id>'}
SVC_API_KEY=${SVC_API_KEY:-'<API_KEY>'}

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source-path=SCRIPTDIR source=svc_client.sh
source "$here/svc_client.sh"

expect_arguments $# 1 'GROUP_ID'
start
group=$(jq -cn --arg group_id "$1" '{group_id: $group_id}')

call "$small_answer" auth_status "$group"
authorized=$(printf '%s' "$reply" | jq '.authenticated == true and .authorized_for_group == true' 2>/dev/null) ||
	die 2 'auth_status: the answer is not the JSON that was expected'

try_call "$ledger_answer" get_member_groups '{}'
if is_missing; then # a service of the first generation knows only of this group
	groups=$(jq -cn --arg group "$1" --argjson authorized "$authorized" 'if $authorized then [$group] else [] end')
else
	take_reply get_member_groups
	groups=$reply
fi

members=0
if [[ $authorized == true ]]; then
	try_call "$ledger_answer" get_group_members "$group"
	if ! is_missing; then
		take_reply get_group_members
		members=$(printf '%s' "$reply" | jq 'if type == "array" then length else error("not a list") end' 2>/dev/null) ||
			die 2 'get_group_members: the answer is not the JSON that was expected'
	fi
fi

printf '%s' "$groups" | jq -a --argjson authorized "$authorized" --argjson members "$members" '
	if type == "array" and all(.[]; type == "string")
	then {authorized: $authorized, groups: sort, member_count: $members}
	else error("not a list") end' 2>/dev/null ||
	die 2 'get_member_groups: the answer is not the JSON that was expected'
