package wire

import (
	"encoding/json"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// SessionTokenRequest is the body of POST [PathSessionToken]; the API key
// travels in [HeaderAPIKey].
type SessionTokenRequest struct {
	AccountID string `json:"account_id"`
}

// SessionTokenResult answers it. ExpiresIn is digits and one of h, m, d, and
// must be a JSON string: a number breaks the JavaScript SDK.
type SessionTokenResult struct {
	Token     string `json:"token"`
	AccountID string `json:"account_id"`
	ExpiresIn string `json:"expires_in"`
}

// GroupRequest is the body of every operation that names only a group.
type GroupRequest struct {
	GroupID string `json:"group_id"`
}

// NamesRequest is the body of get_owned_groups and get_member_groups. With Limit (at
// most [MaxPageNames]) they answer so many names after After, in their order, and
// "more": true beside "result" when there are more. Extension "group-paging".
type NamesRequest struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // 0 = all
}

// MemberRequest is the body of add_group_member and revoke_group_member.
type MemberRequest struct {
	GroupID  string `json:"group_id"`
	MemberID string `json:"member_id"`
	// Role (extension "roles") is what add_group_member makes of the member, also of
	// one who is there already. "" makes a writer, of nobody who is there already.
	Role Role `json:"role,omitempty"`
}

// AddedResult is beside the sentence that answers add_group_member. Extension
// "roles".
type AddedResult struct {
	Exists *bool `json:"exists,omitempty"` // the member has an account here
}

// RetentionRequest is the body of set_group_retention; nil clears the window.
type RetentionRequest struct {
	GroupID       string `json:"group_id"`
	RetentionDays *int64 `json:"retention_days"`
}

// OpenJoinRequest is the body of create_hackathon_group.
type OpenJoinRequest struct {
	GroupID   string `json:"group_id"`
	ExpiresAt string `json:"expires_at"` // ns since the epoch, decimal
	MaxUses   *int64 `json:"max_uses"`   // nil = unlimited
	// Role (extension "roles") is what accounts become that join, from now on. ""
	// leaves it as it is; at first that is a writer.
	Role Role `json:"role,omitempty"`
}

// AuthStatusResult answers auth_status. AuthorizedForGroup is absent when the
// group id is "default".
type AuthStatusResult struct {
	Authenticated      bool   `json:"authenticated"`
	AccountID          string `json:"near_account_id"`
	GroupID            string `json:"group_id"`
	AuthorizedForGroup *bool  `json:"authorized_for_group,omitempty"`
	AuthError          string `json:"auth_error,omitempty"`
	Role               Role   `json:"role,omitempty"` // extension "roles"
}

// PrepareUploadRequest is the body of prepare_upload. Filename may be empty.
type PrepareUploadRequest struct {
	GroupID  string `json:"group_id"`
	Filename string `json:"filename,omitempty"`
	// Size of the ciphertext that will follow, in bytes, so that a service can
	// refuse early. 0 = unstated. Extension.
	Size int64 `json:"size,omitempty"`
}

// PrepareUploadResult answers it. Key is 32 bytes in standard base64 with
// padding. UploadURL (extension "raw") is a path on the MCP address where the
// ciphertext may be PUT before a finalize without encrypted_data.
type PrepareUploadResult struct {
	UploadID  string `json:"upload_id"`
	Key       string `json:"key"`
	GroupID   string `json:"group_id"`
	Filename  string `json:"filename"`
	UploadURL string `json:"upload_url,omitempty"`
}

// FinalizeUploadRequest is the body of finalize_upload. EncryptedData is the
// v0 blob (IV | ciphertext | tag) in standard base64; it is left out when the
// blob was PUT to the upload URL. FileHash is the hex SHA-256 of the plaintext.
type FinalizeUploadRequest struct {
	UploadID      string          `json:"upload_id"`
	EncryptedData string          `json:"encrypted_data,omitempty"`
	FileHash      string          `json:"file_hash"`
	Format        json.RawMessage `json:"format,omitempty"`
}

// FinalizeUploadResult answers it. Location and CID are the same reference;
// the hosted service puts literal double quotes around TransID.
type FinalizeUploadResult struct {
	Location string `json:"location"`
	CID      string `json:"cid"`
	TransID  string `json:"trans_id"`
	FileHash string `json:"file_hash"`
	Seq      int64  `json:"seq,omitempty"`       // ledger sequence of the row; extension
	Time     string `json:"timestamp,omitempty"` // ns since the epoch, decimal; extension
	Fee      string `json:"fee,omitempty"`       // yocto charged, decimal; extension
	// Extension "chains": the record as [KindsChain] lists it with PrevHash, and the
	// service's word that it is in the group's chain and, within
	// chain.MaxMergeDelaySeconds, in the log.
	Record  *TransactionRow `json:"record,omitempty"`
	Receipt *ChainHead      `json:"receipt,omitempty"`
}

// PrepareRetrieveRequest is the body of prepare_retrieve.
type PrepareRetrieveRequest struct {
	GroupID  string `json:"group_id"`
	IPFSHash string `json:"ipfs_hash"`
	// Transfer "raw" (extension) allows the service to answer DataURL instead
	// of EncryptedB64 when the blob is larger than [InlineBlobBytes].
	Transfer string `json:"transfer,omitempty"`
	// ClaimID (extension "idempotent-retrieve") is a UUID of the client's; the
	// same claim repeated within an hour takes no second fee.
	ClaimID string `json:"claim_id,omitempty"`
}

// TransferRaw is the value of [PrepareRetrieveRequest].Transfer.
const TransferRaw = "raw"

// PrepareRetrieveResult answers it. Exactly one of EncryptedB64 and DataURL is
// set; DataURL is a path on the MCP address that needs the same Bearer token.
// Format is an object, or null for a v0 blob.
type PrepareRetrieveResult struct {
	Key          string          `json:"key"`
	EncryptedB64 string          `json:"encrypted_b64,omitempty"`
	IPFSHash     string          `json:"ipfs_hash"`
	Location     string          `json:"location"`
	GroupID      string          `json:"group_id"`
	Format       json.RawMessage `json:"format"`
	DataURL      string          `json:"data_url,omitempty"`  // extension "raw"
	DataSize     int64           `json:"data_size,omitempty"` // bytes behind DataURL
	Fee          string          `json:"fee,omitempty"`       // yocto charged, decimal; extension
}

// FileRequest is the body of delete_file. Extension "delete".
type FileRequest struct {
	GroupID  string `json:"group_id"`
	IPFSHash string `json:"ipfs_hash"`
}

// RenameRequest is the body of rename_file. Extension "rename".
type RenameRequest struct {
	GroupID  string `json:"group_id"`
	IPFSHash string `json:"ipfs_hash"`
	Filename string `json:"filename"`
}

// NameRequest is the body of remove_file and restore_file, which act on all versions
// of a name. remove_file puts the living ones into the trash, restore_file brings
// back those in the trash that the caller may bring back. Both leave alone what
// changed after Seq, but for its name: so a request that is repeated after a lost answer
// changes nothing that came between. Extension "trash".
type NameRequest struct {
	GroupID  string `json:"group_id"`
	Filename string `json:"filename,omitempty"`  // as recorded
	IPFSHash string `json:"ipfs_hash,omitempty"` // of any version, where no name is recorded
	Seq      int64  `json:"seq"`                 // of the newest record that the caller has seen of the group
}

// NameResult answers remove_file and restore_file.
type NameResult struct {
	Files int64 `json:"files"`          // versions that were changed now; none when nothing was left to do
	More  bool  `json:"more,omitempty"` // there are more than one request changes: repeat it
	// Until is the first time at which a key may be destroyed, ns since the epoch,
	// decimal; "" = when the owner of the group says so, or nothing was removed.
	Until string `json:"until,omitempty"`
}

// SetTrashRequest is the body of set_group_trash. What is left out stays. A new time
// is for what is removed from then on. Extension "trash".
type SetTrashRequest struct {
	GroupID string `json:"group_id"`
	Days    *int64 `json:"days,omitempty"` // 1 to [MaxTrashDays]
	Who     string `json:"who,omitempty"`  // one of the Trash… constants
}

// TrashResult answers get_trash, a [GroupRequest], for members. Extension "trash".
type TrashResult struct {
	Days  int64  `json:"days"`
	Who   string `json:"who"`
	Files int64  `json:"files"` // in the trash, versions counted one by one
	Bytes int64  `json:"bytes"` // of their ciphertext
	Held  int64  `json:"held"`  // of the files, those that wait for the owner of the group
}

// Who removes files: the uploader and the owner of the group, or every writer too.
const (
	TrashUploader = "uploader"
	TrashWriters  = "writers"
)

// How many days a removed file can be brought back where the owner of the group did
// not say, and the most.
const (
	DefaultTrashDays = 30
	MaxTrashDays     = 3650
)

// StorageResult answers get_storage, a [GroupRequest] that may name no group: what
// is kept for the caller, in all groups, and in the group by all its members.
// Extension "storage".
type StorageResult struct {
	Account StoredBytes  `json:"account"`
	Group   *StoredBytes `json:"group,omitempty"`
	// Left is the largest upload that would be accepted now, in bytes of ciphertext.
	// Absent = no bound is known.
	Left *int64 `json:"left,omitempty"`
}

// StoredBytes is ciphertext that is kept: of living files with all their versions,
// and of uploads that are not finished.
type StoredBytes struct {
	Bytes int64 `json:"bytes"`
	Max   int64 `json:"max_bytes,omitempty"` // 0 = no bound
}

// TransactionsRequest is the body of get_group_transactions. AfterSeq and
// Limit are the extension "paging": only rows whose ChangedSeq is larger, at
// most Limit of them, in order of ChangedSeq. A client that remembers the
// largest ChangedSeq it has seen and merges by reference learns of every
// upload, deletion and rename exactly once. Limit 0 means no paging: all rows
// in upload order.
type TransactionsRequest struct {
	GroupID  string `json:"group_id"`
	AfterSeq int64  `json:"after_seq,omitempty"`
	Limit    int    `json:"limit,omitempty"`
	// Kinds [KindsAll] (extension "checkpoints") asks for every record of the
	// group instead of its files, as rows with Hash set, in order of Seq, for
	// members only. AfterSeq and Limit count Seq then.
	//
	// Kinds [KindsChain] (extension "chains") asks for the records of the group's
	// own chain, for whoever may list the group, with what proves them beside them.
	Kinds string `json:"kinds,omitempty"`
	// Layouts are those of records that the client understands, names of package
	// chain. Without the newest, rows with hashes are refused with a sentence.
	Layouts []string `json:"layouts,omitempty"`
	// Nonce is the client's for this request, 1 to [MaxNonceBytes] letters and
	// digits: the head of the chain is signed with it. Extension "chains".
	Nonce string `json:"nonce,omitempty"`
	// KnownSize is the number of records in the newest checkpoint that the client
	// verified; the answer proves that its checkpoint continues that one. Extension
	// "chains".
	KnownSize int64 `json:"known_size,omitempty"`
}

// Values of [TransactionsRequest].Kinds.
const (
	KindsAll   = "all"
	KindsChain = "chain"
)

// MaxNonceBytes is the longest nonce, in bytes.
const MaxNonceBytes = 64

// ChainProof stands as "proof" beside the rows that [KindsChain] asked for.
type ChainProof struct {
	// Checkpoint is a signed note (c2sp.org/tlog-checkpoint) of at least
	// [TransactionsRequest].KnownSize records. Its extension line [ChainsLine] has
	// the root of the tree of all chains.
	Checkpoint string `json:"checkpoint"`
	// Consistency proves that it continues the checkpoint of KnownSize records:
	// hashes in base64 as in RFC 6962 section 2.1.2. Empty when KnownSize is 0 or
	// that of Checkpoint.
	Consistency []string `json:"consistency,omitempty"`
	// Chain is the group's chain in that tree; nil when all its records are younger.
	Chain *ChainInclusion `json:"chain,omitempty"`
	// Head is where the chain ends now.
	Head ChainHead `json:"head"`
}

// ChainsLine begins the line of a checkpoint that has the root of the tree of
// chains in base64.
const ChainsLine = "svc-chains "

// ChainInclusion proves where a chain ended when a checkpoint was signed.
type ChainInclusion struct {
	Number int64    `json:"number"`
	Hash   string   `json:"hash"` // hex
	Path   []string `json:"path"` // base64, from the root on
}

// ChainHead is a signed statement about a chain, see package chain.
type ChainHead struct {
	Number    int64  `json:"number"`
	Hash      string `json:"hash"`      // hex
	Timestamp string `json:"timestamp"` // ns since the epoch, decimal: when it was signed
	Signature string `json:"signature"` // base64 Ed25519 by the key of the checkpoints
}

// TransactionRow is one file record of a group, in upload order. Rows are
// never removed: a deleted file keeps its row with Deleted set.
type TransactionRow struct {
	TransID   string   `json:"trans_id"`
	GroupID   string   `json:"group_id"`
	UserID    string   `json:"user_id"`   // uploader
	FileHash  string   `json:"file_hash"` // hex SHA-256 of the plaintext
	IPFSHash  string   `json:"ipfs_hash"` // the reference, whatever its kind
	Backend   *string  `json:"backend"`   // "FastFS", "Ipfs" or null
	Timestamp *string  `json:"timestamp"` // ns since the epoch, decimal, or null
	Deleted   *Deleted `json:"deleted"`

	// Extension "rows". Pointers: a service without the extension, or a file
	// uploaded without the fact, leaves them out.
	Filename     *string `json:"filename,omitempty"`
	OriginalSize *int64  `json:"original_size,omitempty"` // plaintext bytes
	ContentType  *string `json:"content_type,omitempty"`
	Seq          int64   `json:"seq,omitempty"`         // ledger sequence of the upload, ascending, 0 = unknown
	ChangedSeq   int64   `json:"changed_seq,omitempty"` // of the newest record about this file

	// Extension "checkpoints", in rows that [KindsAll] asked for: with TransID,
	// GroupID, UserID (who acted), FileHash, IPFSHash, Timestamp and Seq they are
	// everything that Hash covers; service/LEDGER.md has the layout.
	Kind     string `json:"kind,omitempty"`   // such as "add_group_member"
	Detail   string `json:"detail,omitempty"` // the member, the reason, …
	Fee      string `json:"fee,omitempty"`    // yocto, decimal
	Request  string `json:"request,omitempty"`
	PrevHash string `json:"prev_hash,omitempty"` // hex SHA-256 of the record before, see package chain
	Hash     string `json:"hash,omitempty"`      // hex

	// Extension "chains". Rows that [KindsChain] asked for leave out what the client
	// computes or knows: Hash, GroupID, Backend and, in records of layout 2, PrevHash.
	// Filename, OriginalSize and ContentType of an upload are only there in layout 1,
	// whose records do not hold them.
	Chain  string   `json:"chain,omitempty"`  // "" = layout 1
	Number int64    `json:"number,omitempty"` // place in the chain
	Tags   []string `json:"tags,omitempty"`   // names and values in turns, ascending by name
}

// RowOf is how a record is listed where its group and its hashes are known.
func RowOf(r *chain.Record) TransactionRow {
	stamp := strconv.FormatInt(r.TimeNS, 10)
	return TransactionRow{TransID: r.Tx, UserID: r.Account, FileHash: r.FileHash, IPFSHash: r.Ref, Timestamp: &stamp, Seq: r.Seq, ChangedSeq: r.Seq,
		Kind: r.Kind, Detail: r.Detail, Fee: r.Fee, Request: r.Request, Chain: r.Chain, Number: r.Number, Tags: chain.FlattenTags(r.Tags)}
}

// PendingResult answers get_pending_destruction, for members: what waits to be
// destroyed in a group unless its owner takes it back with keep_files. Extension
// "destruction-delay".
type PendingResult struct {
	RetentionDays *int64 `json:"retention_days"`         // nil = no shorter window waits
	RetentionAt   string `json:"retention_at,omitempty"` // ns since the epoch, decimal
	Files         int64  `json:"files"`                  // deletions that wait
	FilesAt       string `json:"files_at,omitempty"`     // the first of them; ns since the epoch, decimal
}

// WatchRequest is the body of watch, which answers what happened after AfterSeq
// and concerns the caller: at once if there is something, else as soon as there
// is, at the latest after TimeoutMS (at most [MaxWatchMillis]; 0 = do not wait).
// Without AfterSeq it answers the present sequence at once. Extension "watch".
type WatchRequest struct {
	AfterSeq  *int64 `json:"after_seq,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// WatchResult answers it. The next request continues after Seq, which may be
// larger than that of the last event.
type WatchResult struct {
	Events []Event `json:"events"` // ascending
	Seq    int64   `json:"seq"`
}

// Event is one ledger record, as members of its group may see it. Whoever was
// revoked gets that one event, and none of the group any more.
type Event struct {
	Seq     int64  `json:"seq"`
	Kind    string `json:"kind"` // one of the kinds of package chain; unknown ones are ignored
	GroupID string `json:"group_id"`
	Ref     string `json:"ref,omitempty"`     // of a file
	Account string `json:"account,omitempty"` // the member who was added or revoked or joined or got a role, else who acted
	Time    string `json:"time"`              // ns since the epoch, decimal
}

// TransactionMeta answers the ledger's view get_transaction_meta.
type TransactionMeta struct {
	Backend   string   `json:"backend"`
	Timestamp string   `json:"timestamp"` // ns since the epoch, decimal
	Deleted   *Deleted `json:"deleted"`
}

// Deleted tells when, by whom and why a file's key was destroyed, or that the file is
// in the trash.
type Deleted struct {
	DeletedAt string `json:"deleted_at"` // ns since the epoch, decimal
	DeletedBy string `json:"deleted_by"`
	Reason    string `json:"reason"` // one of the Reason… constants

	// Extension "trash": the key is not destroyed, and not before Until (ns since the
	// epoch, decimal); Until "" = when the owner of the group says so.
	Trash bool   `json:"trash,omitempty"`
	Until string `json:"until,omitempty"`
}

// Reasons of a deletion.
const (
	ReasonMemberRevocation  = "MemberRevocation"
	ReasonOwnerRequest      = "OwnerRequest"
	ReasonRetentionPolicy   = "RetentionPolicy"
	ReasonComplianceRequest = "ComplianceRequest"
)
