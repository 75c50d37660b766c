package wire

// Paths, below the authentication address or the MCP address.
const (
	PathSessionToken = "/api/auth/session-token" // POST, authentication address
	PathTools        = "/tools/"                 // POST PathTools + operation name
	PathFinalizeGenA = "/api/finalize-upload"    // POST, generation A finalize
	PathCapabilities = "/capabilities"           // GET, ours; 404 means [Hosted]
	PathHealth       = "/health"                 // GET
	PathRPC          = "/rpc"                    // POST, JSON-RPC of a self-hosted ledger
	PathUploadBlob   = "/raw/upload/"            // PUT PathUploadBlob + upload id, ours
	PathReadBlob     = "/raw/read/"              // GET PathReadBlob + ticket, ours
	// PUT PathParts + upload id + "/" + part id, GET PathParts + upload id; ours
	PathParts  = "/raw/parts/"
	PathBlocks = "/raw/blocks/" // GET PathBlocks + ticket, with ranges; ours
	// GET PathTiles + ticket + "/" + a path of package tlog, such as tile/8/0/000; ours
	PathTiles    = "/raw/tiles/"
	PathManifest = "/raw/manifest/" // GET PathManifest + ticket, ours
	// the Model Context Protocol, streamable HTTP without sessions: groups, members and names for agents; ours
	PathMCP  = "/mcp"
	PathTlog = "/tlog/" // GET checkpoint, key, tile/…; ours
)

// Request headers. HTTP header names are case-insensitive.
const (
	HeaderAPIKey    = "X-Api-Key"
	HeaderAccountID = "X-Account-Id"
	// HeaderOpening has an [Opening] instead of an API key, where [Vault].Sessions says that the service takes that:
	// the vault alone sees the key. An epoch that ended is [CodeEpoch]. The token is good for requests with
	// [HeaderProof] alone, and keys of files come as [PrepareRetrieveResult].SealedKey. Ours.
	HeaderOpening = "X-Svc-Opening"
	// HeaderWalletID repeats the account id. Every JavaScript SDK from 1.1.1 on sends it;
	// 1.0.3 does not. A service may tell the generations apart by it.
	HeaderWalletID  = "X-Wallet-Id"
	HeaderRequestID = "X-Request-Id" // of an answer; ours. It is also in the log of the service
)

// Operation names below [PathTools].
const (
	OpAuthStatus           = "auth_status"
	OpRegisterGroup        = "register_group"
	OpAddGroupMember       = "add_group_member"
	OpRevokeGroupMember    = "revoke_group_member"
	OpJoinGroup            = "join_group"
	OpCreateHackathonGroup = "create_hackathon_group"
	OpCloseHackathonJoin   = "close_hackathon_join"
	OpSetGroupRetention    = "set_group_retention"
	OpPrepareUpload        = "prepare_upload"
	OpFinalizeUpload       = "finalize_upload"
	OpPrepareRetrieve      = "prepare_retrieve"
	OpGetOwnedGroups       = "get_owned_groups"
	OpGetMemberGroups      = "get_member_groups"
	OpGetGroupMembers      = "get_group_members"
	OpGetGroupTransactions = "get_group_transactions"
	OpDeleteFile           = "delete_file"             // ours
	OpRenameFile           = "rename_file"             // ours
	OpSetAttributes        = "set_attributes"          // ours
	OpRenameFolder         = "rename_folder"           // ours
	OpMakeFolder           = "make_folder"             // ours
	OpRemoveFolder         = "remove_folder"           // ours
	OpWatch                = "watch"                   // ours
	OpGetPending           = "get_pending_destruction" // ours
	OpKeepFiles            = "keep_files"              // ours
	OpGetStorage           = "get_storage"             // ours
	OpGetNames             = "get_names"               // ours
	OpRemoveFile           = "remove_file"             // ours
	OpRestoreFile          = "restore_file"            // ours
	OpSetGroupTrash        = "set_group_trash"         // ours
	OpGetTrash             = "get_trash"               // ours
	OpSetGroupVersions     = "set_group_versions"      // ours
	OpGetGroupVersions     = "get_group_versions"      // ours
	OpTryGroupVersions     = "try_group_versions"      // ours
	OpSetGroupSettings     = "set_group_settings"      // ours
	OpGetGroupSettings     = "get_group_settings"      // ours
	// OpSealAPIKey has the API key of the account be taken sealed alone. Only a sealed session may ask for it. Ours.
	OpSealAPIKey        = "seal_api_key"
	OpLeaveGroup        = "leave_group"         // ours
	OpOfferGroup        = "offer_group"         // ours
	OpAcceptGroup       = "accept_group"        // ours
	OpDeleteGroup       = "delete_group"        // ours
	OpInviteToGroup     = "invite_to_group"     // ours
	OpGetGroupInvites   = "get_group_invites"   // ours
	OpRevokeGroupInvite = "revoke_group_invite" // ours
	OpUseGroupInvite    = "use_group_invite"    // ours
)

// Dialect is what a service speaks: which operations, fields and answers it knows. A service of a
// higher number knows everything that lower ones do.
type Dialect int64

// The dialects.
const (
	// Hosted is the dialect of the hosted service: all that is not marked "ours".
	Hosted Dialect = 0
	// Ours is the dialect of svcd, with all that is marked "ours".
	Ours Dialect = 1
)

// IsOurs reports whether the service knows what is marked "ours".
func (d Dialect) IsOurs() bool { return d >= Ours }

// TakesSealed reports whether uploads can be sealed now. Only the log of a service of ours vouches for the key of the
// vault.
func (c Capabilities) TakesSealed() bool { return c.Dialect.IsOurs() && c.Vault != nil }

// Role is the role of a member in a group. Ours; members of the hosted service are writers.
type Role string

// Values of [Role]. "" means no member.
const (
	RoleOwner  = "owner"  // may do everything; each group has one owner, who may offer it to another member
	RoleWriter = "writer" // may read and upload, and rename and delete its own uploads
	RoleReader = "reader" // may read, and change nothing
)

// CodingZstd is a content coding of the answer to get_group_transactions with [KindsChain]: compressed
// (RFC 8878) to a request with Accept-Encoding: zstd (RFC 9110 section 12.5.3).
const CodingZstd = "zstd"

// Limits that both sides know.
const (
	// PackWindowBytes is how far back in its content a compressed answer refers, at most, in bytes.
	PackWindowBytes = 512 << 10
	// MaxJSONBytes bounds an answer without file content, in bytes.
	MaxJSONBytes = 16 << 20
	// InlineBlobBytes is the largest ciphertext, in bytes, that stays inside the JSON
	// although raw transfer is available: one round trip instead of two.
	InlineBlobBytes = 64 << 10
	// MaxPageRows is the largest page of get_group_transactions, in rows.
	MaxPageRows = 5000
	// MaxFolders is how many recorded folders of one account a group has, at most.
	MaxFolders = 10_000
	// MaxPageNames is the largest page of groups, in names.
	MaxPageNames = 1000
	// MaxPageComponents is the largest page of a folder ([OpGetNames]), in components.
	MaxPageComponents = 1000
	// WholeFileBytes is the largest file, in bytes of plaintext, that clients always seal
	// whole (format version 1): every client reads it.
	WholeFileBytes = 4 << 20
	// PartBytes is the longest part of a file of format version 2, in bytes of sealed blocks:
	// 32 blocks of 256 KiB.
	PartBytes = 32 * (256<<10 + 28)
	// InlineManifestBytes is the longest manifest, in bytes, that travels inside the JSON.
	InlineManifestBytes = 64 << 10
	// MaxWatchMillis is how long a watch request may wait, in ms.
	MaxWatchMillis = 30_000
)

// Capabilities answers GET [PathCapabilities]: the dialect, and what depends on the operator or changes with
// time. Ours.
type Capabilities struct {
	Service    string  `json:"service"`     // product name of the service, "svcd"
	Version    string  `json:"version"`     // of the service
	ContractID string  `json:"contract_id"` // ledger contract the service acts for
	Dialect    Dialect `json:"dialect"`     // a client speaks what it knows of it
	// largest plaintext accepted in one piece, in bytes; 0 = unstated
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	// MaxBlocksBytes is the largest plaintext of a file of format version 2, in bytes; 0 =
	// MaxFileBytes. Ours.
	MaxBlocksBytes int64 `json:"max_blocks_bytes,omitempty"`
	// Fees maps an action ("upload", "retrieve", "register_group", …) to its
	// price in yocto (10^-24 of the native token) as a decimal string.
	Fees map[string]string `json:"fees,omitempty"`
	// Vault has the key that file keys are sealed to. It is null while the service cannot open sealed uploads:
	// it takes the others then.
	Vault *Vault `json:"vault"`
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Error string `json:"error"`          // text for people; clients of the hosted service look for words in it
	Code  string `json:"code,omitempty"` // a Code… constant; the hosted service sends none
}

// Machine-readable codes beside the text. Append only.
const (
	CodeAuthRequired   = "AUTH_REQUIRED"     // 401 no credentials were sent
	CodeInvalidToken   = "INVALID_TOKEN"     // 401 bad, expired or superseded session token
	CodeAudience       = "AUDIENCE"          // 401 token made for another address
	CodeInvalidKey     = "INVALID_API_KEY"   // 401
	CodeDisabled       = "ACCOUNT_DISABLED"  // 401 the operator disabled the account
	CodeSealedOnly     = "SEALED_ONLY"       // 403 keys of the account or group go sealed alone; ours
	CodeAccountUnknown = "ACCOUNT_NOT_FOUND" // 404
	CodeNotAuthorized  = "UNAUTHORIZED"      // 403 not a member, or not the owner
	CodeReadOnly       = "READ_ONLY"         // 403 a reader may change nothing
	CodeGroupNotFound  = "GROUP_NOT_FOUND"   // 404
	CodeGroupExists    = "GROUP_EXISTS"      // 409
	CodeGroupDeleted   = "GROUP_DELETED"     // 403 its owner deleted it, and no group gets its id again; ours
	// 409 the group is not offered to the caller, not yet or not any more; ours
	CodeNotOffered    = "NOT_OFFERED"
	CodeOtherAccount  = "OTHER_ACCOUNT"      // 409 another account signed in on the account page; ours
	CodePending       = "PENDING"            // 409 recorded, and carried out later
	CodeConflict      = "CONFLICT"           // 409 already a member, not a member, …
	CodeFileNotFound  = "FILE_KEY_NOT_FOUND" // 404 no such reference in this group
	CodeFileDeleted   = "FILE_DELETED"       // 404 key destroyed
	CodeUploadUnknown = "UPLOAD_NOT_FOUND"   // 404 unknown or expired upload id
	CodeInsufficient  = "INSUFFICIENT"       // 402 balance too low
	CodeTooLarge      = "TOO_LARGE"          // 413
	CodeRateLimited   = "TOO_MANY_REQUESTS"  // 429, with Retry-After
	CodeValidation    = "VALIDATION_FAILED"  // 400
	CodeInvalidJSON   = "INVALID_JSON"       // 400
	CodeUnsupported   = "UNSUPPORTED"        // 404 operation not offered
	CodeStorageFull   = "STORAGE_FULL"       // 507
	CodeBlobCorrupt   = "BLOB_CORRUPT"       // 500 stored ciphertext fails its checksum
	CodeUnavailable   = "UNAVAILABLE"        // 503, with Retry-After
	// 503 the names of the group are read for the first time, with Retry-After; ours
	CodeNamesUnread = "NAMES_UNREAD"
	// 503 the ledger contradicts its signed checkpoint, until the operator mends it; ours
	CodeUnproven   = "LEDGER_UNPROVEN"
	CodeInternal   = "INTERNAL"        // 500
	CodeBase       = "BASE_UNUSABLE"   // 409 blocks of the base may not be taken over: send all blocks; ours
	CodeMissing    = "BLOCKS_MISSING"  // 409 the text lists blocks that the upload lacks; ours
	CodePartExists = "PART_EXISTS"     // 412 the part has other content; ours
	CodeInvite     = "INVITE_UNUSABLE" // 403 the invite was used, revoked or is too old, or there is none; ours
)

// Codes of errors that a client detects itself. No service sends them.
const (
	CodeOwnerOnly    = "OWNER_ONLY"    // only the owner of the group may do this
	CodeUploaderOnly = "UPLOADER_ONLY" // only the uploader, while a writer, and the owner of the group may do this
	// the service contradicts its earlier history, or speaks the dialect no more that it spoke before
	CodeHistory = "HISTORY_CHANGED"
	// the service signs with another key than the pinned one, or another than that is required
	CodeLogKey      = "LOG_KEY_CHANGED"
	CodeAddress     = "ADDRESS"         // an address in the configuration is wrong, or must not receive keys
	CodeWitness     = "WITNESS_STALE"   // the required witness signed too long ago
	CodeNoWitness   = "WITNESS_MISSING" // a witness is required, and the service shows no witness's signature
	CodeVerifierKey = "VERIFIER_KEY"    // a verifier key in the configuration is wrong
	CodeReceipt     = "RECEIPT"         // the service confirmed an upload without a valid receipt
	CodeVaultKey    = "VAULT_KEY"       // the service shows a key for uploads that must not be used
	// a page for people answers instead of the service, such as that of a network that wants a sign-in
	CodeSignIn      = "SIGN_IN_PAGE"
	CodeCertificate = "CERTIFICATE" // what answers at the address of the service does not prove to be the service
	CodeListMemory  = "LIST_MEMORY" // the lists of groups take more memory than the client allows
	CodeSpool       = "SPOOL"       // the disk does not take what a check of a large group needs
	CodeState       = "STATE"       // the file that remembers the history of the service cannot be read or written
)
