package chain

// Kinds of records. Those that concern the members of a group are the kinds of the
// events that a watch tells.
const (
	KindCreateAccount = "create_account"
	KindFund          = "fund"
	KindTransfer      = "transfer" // detail: who receives, a space, the amount
	KindRotateKey     = "rotate_api_key"
	KindDisable       = "disable_account"
	KindEnable        = "enable_account"
	KindRegister      = "register_group"
	KindAdd           = "add_group_member"
	KindRevoke        = "revoke_group_member" // the group's key is rotated too
	KindRole          = "set_member_role"     // detail: the member, a space, the role; follows an addition that is not of a writer
	KindJoin          = "join_group"
	KindOpenJoin      = "open_hackathon_join"
	KindCloseJoin     = "close_hackathon_join"
	KindRetention     = "set_group_retention"
	KindPending       = "pend_destruction" // detail: when, in ns; before it the days of a retention window, "retention DAYS "
	KindKeep          = "keep_files"       // takes back what pends in the group
	KindRecord        = "record_transaction"
	KindClaim         = "claim_token"
	KindTombstone     = "tombstone_transaction" // detail: the reason
	KindRename        = "rename_file"           // detail: the new name
	KindRemove        = "remove_file"           // into the trash; detail: until when, in ns, "" = until the owner of the group decides
	KindRestore       = "restore_file"          // out of the trash
	KindTrash         = "set_group_trash"       // detail: the days, a space, who removes
	KindRotateGroup   = "rotate_group_key"      // detail: the new version; follows a revocation
)
