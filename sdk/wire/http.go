package wire

// Paths, below the authentication address or the MCP address.
const (
	PathSessionToken = "/api/auth/session-token" // POST, authentication address
	PathTools        = "/tools/"                 // POST PathTools + operation name
	PathFinalizeGenA = "/api/finalize-upload"    // POST, generation A finalize
	PathCapabilities = "/capabilities"           // GET, extension; 404 means no extensions
	PathHealth       = "/health"                 // GET
	PathRPC          = "/rpc"                    // POST, JSON-RPC of a self-hosted ledger
	PathUploadBlob   = "/raw/upload/"            // PUT PathUploadBlob + upload id, extension "raw"
	PathReadBlob     = "/raw/read/"              // GET PathReadBlob + ticket, extension "raw"
	PathParts        = "/raw/parts/"             // GET PathParts + upload id, PUT PathParts + upload id + "/" + number or [ManifestPart]; extension "chunks"
	PathBlocks       = "/raw/blocks/"            // GET PathBlocks + ticket, with ranges; extension "chunks"
	PathTiles        = "/raw/tiles/"             // GET PathTiles + ticket + "/" + a path of package tlog, such as tile/8/0/000; extension "chunks"
	PathManifest     = "/raw/manifest/"          // GET PathManifest + ticket, extension "chunks"
	PathMCP          = "/mcp"                    // the Model Context Protocol, streamable HTTP without sessions: groups, members and names for agents; extension
	PathTlog         = "/tlog/"                  // GET checkpoint, key, tile/…; extension "checkpoints"
)

// Request headers. HTTP header names are case-insensitive.
const (
	HeaderAPIKey    = "X-Api-Key"
	HeaderAccountID = "X-Account-Id"
	// HeaderWalletID repeats the account id. Every JavaScript SDK from 1.1.1 on sends it;
	// 1.0.3 does not. A service may tell the generations apart by it.
	HeaderWalletID  = "X-Wallet-Id"
	HeaderRequestID = "X-Request-Id" // of an answer; extension. It is also in the log of the service
	// HeaderPartKey is the wrapped key of a part ([format.WrapKey]), in standard base64. The
	// service gives it back to a client that resumes, see [Part].
	HeaderPartKey = "X-Part-Key"
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
	OpDeleteFile           = "delete_file"             // extension "delete"
	OpRenameFile           = "rename_file"             // extension "rename"
	OpSetAttributes        = "set_attributes"          // extension "attributes"
	OpRenameFolder         = "rename_folder"           // extension "rename-folder"
	OpWatch                = "watch"                   // extension "watch"
	OpGetPending           = "get_pending_destruction" // extension "destruction-delay"
	OpKeepFiles            = "keep_files"              // extension "destruction-delay"
	OpGetStorage           = "get_storage"             // extension "storage"
	OpRemoveFile           = "remove_file"             // extension "trash"
	OpRestoreFile          = "restore_file"            // extension "trash"
	OpSetGroupTrash        = "set_group_trash"         // extension "trash"
	OpGetTrash             = "get_trash"               // extension "trash"
	OpSetGroupVersions     = "set_group_versions"      // extension "versions"
	OpGetGroupVersions     = "get_group_versions"      // extension "versions"
	OpTryGroupVersions     = "try_group_versions"      // extension "versions"
	OpSetGroupFormat       = "set_group_format"        // extension "chunks"
	OpGetGroupFormat       = "get_group_format"        // extension "chunks"
)

// Capability names in [Capabilities].Features.
const (
	// CapRows: rows of get_group_transactions have filename, original_size, content_type
	// and seq.
	CapRows = "rows"
	// CapPaging: get_group_transactions has after_seq and limit.
	CapPaging = "paging"
	// CapGroupPaging: get_owned_groups and get_member_groups have after and limit, see
	// [NamesRequest].
	CapGroupPaging = "group-paging"
	// CapRaw: ciphertext may travel as raw bytes beside the JSON, see
	// [PrepareUploadResult].UploadURL and [PrepareRetrieveRequest].Transfer.
	CapRaw = "raw"
	// CapIdempotentFinalize: a repeated finalize_upload with the same upload id returns the
	// first answer again and charges no second fee.
	CapIdempotentFinalize = "idempotent-finalize"
	// CapIdempotentRetrieve: a repeated prepare_retrieve with the same claim_id charges no
	// second fee.
	CapIdempotentRetrieve = "idempotent-retrieve"
	// CapLateName: an upload may be prepared without a filename; the format of
	// finalize_upload then has the filename.
	CapLateName = "late-name"
	// CapWatch: the operation watch waits for events, see [WatchRequest].
	CapWatch  = "watch"
	CapDelete = "delete"
	CapRename = "rename"
	// CapCheckpoints: signed checkpoints of the ledger are below [PathTlog], see
	// service/LEDGER.md.
	CapCheckpoints = "checkpoints"
	// CapChains: records have chain.Layout2, get_group_transactions lists the chain of a
	// group with its proof ([KindsChain]), and the answer to an upload has a receipt.
	CapChains = "chains"
	// CapRoles: members have roles, see [Role]. Requests may name a role, and lists of
	// groups and of members have "roles" beside "result".
	CapRoles = "roles"
	// CapDelay: a change that would destroy many files is delayed, see [PendingResult].
	CapDelay = "destruction-delay"
	// CapStorage: the operation get_storage returns how many bytes are stored and how many
	// may be.
	CapStorage = "storage"
	// CapTrash: a removed name can be restored until its trash time is over, see
	// [NameRequest]. A client without this extension sees a file in the trash as deleted.
	CapTrash = "trash"
	// CapAttributes: the field "attributes" of the format object of an upload is recorded
	// with the file, and the operation set_attributes records others, see
	// [AttributesRequest].
	CapAttributes = "attributes"
	// CapRenameFolder: the operation rename_folder renames the files beneath a folder in
	// one record, see [RenameFolderRequest].
	CapRenameFolder = "rename-folder"
	// CapVersions: the owner of a group chooses which older versions of its names stay, see
	// [Keep]. Only uploads with [FinalizeUploadRequest].Versioned ever go.
	CapVersions = "versions"
	// CapChunks: files may have format version 2, see [PrepareUploadRequest].Formats and
	// [PrepareRetrieveRequest].Formats. Their records have chain.TagContent.
	CapChunks = "chunks"
	// CapZstd: get_group_transactions with [KindsChain] is answered compressed (RFC 8878) to a request
	// with Accept-Encoding: zstd (RFC 9110 section 12.5.3), and says so with Content-Encoding: zstd.
	CapZstd = "zstd"
	// CapFirstBlocks: [PrepareRetrieveRequest].FirstBytes is answered.
	CapFirstBlocks = "first-blocks"
)

// Role is the role of a member in a group. Extension "roles"; without it members are
// writers.
type Role string

// Values of [Role]. "" means no member.
const (
	RoleOwner  = "owner"  // may do everything; each group has one owner, which never changes
	RoleWriter = "writer" // may read and upload, and rename and delete its own uploads
	RoleReader = "reader" // may read, and change nothing
)

// CodingZstd is the content coding of [CapZstd].
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
	// MaxFolderFiles is how many versions of files one rename_folder renames, at most. A page
	// of get_group_transactions may be longer than its limit by so many rows, because they
	// have one ChangedSeq. Clients refuse a record of more.
	MaxFolderFiles = 10_000
	// MaxPageNames is the largest page of groups, in names.
	MaxPageNames = 1000
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

// Capabilities answers GET [PathCapabilities]. Extension.
type Capabilities struct {
	Service      string   `json:"service"`                  // product name of the service, "svcd"
	Version      string   `json:"version"`                  // of the service
	ContractID   string   `json:"contract_id"`              // ledger contract the service acts for
	Features     []string `json:"features"`                 // Cap… names; unknown ones are ignored
	MaxFileBytes int64    `json:"max_file_bytes,omitempty"` // largest plaintext accepted in one piece, in bytes; 0 = unstated
	// MaxBlocksBytes is the largest plaintext of a file of format version 2, in bytes; 0 =
	// MaxFileBytes. Extension "chunks".
	MaxBlocksBytes int64 `json:"max_blocks_bytes,omitempty"`
	// Fees maps an action ("upload", "retrieve", "register_group", …) to its
	// price in yocto (10^-24 of the native token) as a decimal string.
	Fees map[string]string `json:"fees,omitempty"`
	// Vault is the key that file keys are sealed to. Extension "sealed-upload".
	Vault *VaultKey `json:"vault,omitempty"`
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Error string `json:"error"`          // text for people; clients of the hosted service look for words in it
	Code  string `json:"code,omitempty"` // a Code… constant; the hosted service sends none
}

// Machine-readable codes beside the text. Append only.
const (
	CodeAuthRequired   = "AUTH_REQUIRED"      // 401 no credentials were sent
	CodeInvalidToken   = "INVALID_TOKEN"      // 401 bad, expired or superseded session token
	CodeAudience       = "AUDIENCE"           // 401 token made for another address
	CodeInvalidKey     = "INVALID_API_KEY"    // 401
	CodeDisabled       = "ACCOUNT_DISABLED"   // 401 the operator disabled the account
	CodeAccountUnknown = "ACCOUNT_NOT_FOUND"  // 404
	CodeNotAuthorized  = "UNAUTHORIZED"       // 403 not a member, or not the owner
	CodeReadOnly       = "READ_ONLY"          // 403 a reader may change nothing
	CodeGroupNotFound  = "GROUP_NOT_FOUND"    // 404
	CodeGroupExists    = "GROUP_EXISTS"       // 409
	CodePending        = "PENDING"            // 409 recorded, and carried out later
	CodeConflict       = "CONFLICT"           // 409 already a member, not a member, …
	CodeFileNotFound   = "FILE_KEY_NOT_FOUND" // 404 no such reference in this group
	CodeFileDeleted    = "FILE_DELETED"       // 404 key destroyed
	CodeUploadUnknown  = "UPLOAD_NOT_FOUND"   // 404 unknown or expired upload id
	CodeInsufficient   = "INSUFFICIENT"       // 402 balance too low
	CodeTooLarge       = "TOO_LARGE"          // 413
	CodeRateLimited    = "TOO_MANY_REQUESTS"  // 429, with Retry-After
	CodeValidation     = "VALIDATION_FAILED"  // 400
	CodeInvalidJSON    = "INVALID_JSON"       // 400
	CodeUnsupported    = "UNSUPPORTED"        // 404 operation not offered
	CodeStorageFull    = "STORAGE_FULL"       // 507
	CodeBlobCorrupt    = "BLOB_CORRUPT"       // 500 stored ciphertext fails its checksum
	CodeUnavailable    = "UNAVAILABLE"        // 503, with Retry-After
	CodeInternal       = "INTERNAL"           // 500
	CodeBase           = "BASE_UNUSABLE"      // 409 blocks of the base may not be taken over: send all blocks; extension "chunks"
	CodeMissing        = "BLOCKS_MISSING"     // 409 the text lists blocks that the upload lacks; extension "chunks"
	CodePartExists     = "PART_EXISTS"        // 412 the part has other content; extension "chunks"
)

// Codes of errors that a client detects itself. No service sends them.
const (
	CodeOwnerOnly    = "OWNER_ONLY"      // only the owner of the group may do this
	CodeUploaderOnly = "UPLOADER_ONLY"   // only the uploader, while a writer, and the owner of the group may do this
	CodeHistory      = "HISTORY_CHANGED" // the service contradicts its earlier history, or lacks an extension it offered before
	CodeLogKey       = "LOG_KEY_CHANGED" // the service signs with another key than the pinned one
	CodeAddress      = "ADDRESS"         // an address in the configuration is wrong, or must not receive keys
	CodeVerifierKey  = "VERIFIER_KEY"    // a verifier key in the configuration is wrong
	CodeReceipt      = "RECEIPT"         // the service confirmed an upload without a valid receipt
	CodeVaultKey     = "VAULT_KEY"       // the service shows a key for uploads that must not be used
	CodeSignIn       = "SIGN_IN_PAGE"    // a page for people answers instead of the service, such as that of a network that wants a sign-in
	CodeCertificate  = "CERTIFICATE"     // what answers at the address of the service does not prove to be the service
	CodeState        = "STATE"           // the file that remembers the history of the service cannot be read or written
)
