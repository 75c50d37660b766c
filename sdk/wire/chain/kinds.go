package chain

// Kinds of records. The kinds that concern the members of a group are also the kinds of
// events.
const (
	KindCreateAccount = "create_account"
	KindFund          = "fund"
	KindTransfer      = "transfer" // detail: the receiver, a space, the amount
	KindRotateKey     = "rotate_api_key"
	KindSealKey       = "seal_api_key" // it is taken sealed alone from now on
	KindSignIn        = "sign_in"      // to the account page; detail: the way
	// detail: its id, then account and balance, or of a group the role; until when, in ns
	KindInvite        = "create_invite"
	KindEndInvite     = "revoke_invite" // detail: its id
	KindDisable       = "disable_account"
	KindEnable        = "enable_account"
	KindDeleteAccount = "delete_account" // follows a disabling; detail: the balance that ended with it
	KindRegister      = "register_group"
	KindAdd           = "add_group_member"
	KindRevoke        = "revoke_group_member" // by the owner, or by the member, which left; rotates the key too
	KindRole          = "set_member_role"     // detail: the member, a space, the role; follows the addition of a reader
	KindJoin          = "join_group"
	KindOpenJoin      = "open_hackathon_join"
	KindCloseJoin     = "close_hackathon_join"
	KindRetention     = "set_group_retention"
	KindPending       = "pend_destruction" // detail: "", "retention DAYS ", "versions KEEP " or "group "; when, in ns
	KindKeep          = "keep_files"       // cancels all delayed destruction in the group, its end too
	KindRecord        = "record_transaction"
	KindClaim         = "claim_token"
	KindTombstone     = "tombstone_transaction" // detail: the reason
	KindRename        = "rename_file"           // detail: the new name
	KindRenameFolder  = "rename_folder"         // detail: the new folder; see [Folders]
	KindMakeFolder    = "make_folder"           // detail: the folder
	KindRemoveFolder  = "remove_folder"         // detail: the folder
	KindRemove        = "remove_file"           // to the trash; detail: until when, in ns, "" = the owner decides
	KindRestore       = "restore_file"          // from the trash
	KindTrash         = "set_group_trash"       // detail: the days, a space, which accounts may remove files
	KindAttributes    = "set_attributes"        // detail: empty; the tag has the new attributes
	KindFormat        = "set_group_format"      // detail: the newest format version that uploads may have, 1 or 2
	KindAppends       = "set_group_appends"     // detail: apart or merge
	KindKeys          = "set_group_keys"        // detail: any or sealed
	KindVersions      = "set_group_versions"    // detail: the text of a wire.Keep
	KindRotateGroup   = "rotate_group_key"      // detail: the new version; it follows a revocation
	KindOffer         = "offer_group"           // detail: who may accept, from and until when, in ns; "" = taken back
	KindAccept        = "accept_group"          // the account owns the group; cancels all delayed destruction in it
	KindDeleteGroup   = "delete_group"          // the group has ended, and its id with it; the ends of its files follow
)
