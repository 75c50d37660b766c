#!/usr/bin/env bash
# retrieve_and_decrypt.sh GROUP_ID IPFS_CID
#
# Fetches a file of a group, decrypts it here and writes its content to standard
# output, once the authentication tag and the SHA-256 of the group's ledger have
# both been verified; until then nothing. A large file (format version 2) is written
# block by block, each once it was verified in the tree that the ledger recorded: if
# the script then ends with another code than 0, the file is not whole. IPFS_CID is the reference of the file:
# what an upload returned as cid, or what list_group_transactions.sh shows as
# ipfs_hash. Exit codes: 0 done, 1 authentication failed or not a member, 2 no
# such file, or it could not be decrypted.
set +xv # tracing would show secrets

# Settings come from the environment, or are edited in here.
SVC_ACCOUNT_ID=${SVC_ACCOUNT_ID:-'<account_id>'}
SVC_API_KEY=${SVC_API_KEY:-'<API_KEY>'}

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source-path=SCRIPTDIR source=svc_client.sh
source "$here/svc_client.sh"

# recorded_hash GROUP REF: sets file_hash to what the ledger says the content is, and
# content to what it says of a file of format version 2, which may lack a file_hash.
recorded_hash() {
	local found
	list_files "$1"
	found=$(printf '%s' "$reply" | jq -r --arg ref "$2" '
		[.[] | select(.ipfs_hash == $ref)]
		| if length == 0 then "absent"
		  elif any(.deleted != null) then "deleted"
		  else map("\(.file_hash // "" | ascii_downcase) \(.content // "")") | unique | if length == 1 then .[0] else empty end
		  end' 2>/dev/null) || found=''
	case $found in
	absent) die 2 'not found: the ledger of this group has no such reference' ;;
	deleted) die 2 'the file was deleted and its key destroyed' ;;
	esac
	[[ $found =~ ^([0-9a-f]{64})?' '([0-9a-f]{64})?$ && $found != ' ' ]] || die 2 'the ledger has no hash of this file that can be read'
	file_hash=${found% *} content=${found#* }
}

# fetch BODY: content to standard output; what was wrong to told, and the
# helper's exit code to code. The answer, which holds the file's key, goes from
# program to program without a stop.
fetch() {
	local url="$mcp_url/tools/prepare_retrieve" recorded=()
	[[ -z $file_hash ]] || recorded+=(--sha256 "$file_hash")
	[[ -z $content ]] || recorded+=(--content "$content" --service "$mcp_url" --timeout "$timeout")
	code=0
	{
		told=$(printf '%s' "$1" | post "$url" "$timeout" token_headers 2>/dev/null |
			{ python3 -B "$here/decrypt_svc.py" --status --headers <(token_headers) --max-bytes "$max_bytes" "${recorded[@]}" 2>&1 >&3 || exit $((100 + $?)); }) || code=$?
	} 3>&1
	# The helper decides, not curl: what it passes is verified.
	((code == 0)) || code=$((code > 100 ? code - 100 : 0))
}

# The helper ends with 3 when the service refused, and with 4 when it did so after
# some of the content was written; told is then "STATUS TEXT".
refused=3 refused_later=4

expect_arguments $# 2 'GROUP_ID IPFS_CID'
start
recorded_hash "$1" "$2"
# A repeat with the same claim_id is charged once.
claim_id=$(od -An -N16 -tx1 /dev/urandom)
body=$(jq -cn --arg group_id "$1" --arg ref "$2" --arg claim_id "${claim_id//[[:space:]]/}" --arg content "$content" '{group_id: $group_id, ipfs_hash: $ref, claim_id: $claim_id}
	+ if $content == "" then {} else {formats: [1, 2]} end')
signed_in_again=''
for pause in 0.5 1 2 0; do
	fetch "$body"
	((code == refused)) || break
	case ${told%% *} in
	429 | 502 | 503) sleep "$pause" ;;
	401)
		[[ -z $signed_in_again ]] || break
		signed_in_again=yes
		sign_in
		;;
	*) break ;;
	esac
done
if ((code == refused || code == refused_later)); then
	die "$(code_of "${told%% *}" "${told#* }")" "prepare_retrieve: ${told#* } (HTTP ${told%% *})"
fi
((code == 0)) || die 2 "${told:-the helper decrypt_svc.py failed}"
