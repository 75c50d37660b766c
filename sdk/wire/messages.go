package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// SessionTokenRequest is the body of POST [PathSessionToken]. The API key is in
// [HeaderAPIKey], or sealed in [HeaderOpening].
type SessionTokenRequest struct {
	AccountID string `json:"account_id"`
}

// Opening begins a session, see format.Session.
type Opening struct {
	Epoch  int64  // of the key of the vault
	Sealed []byte // at most format.MaxOpeningBytes
}

// String is the value of [HeaderOpening].
func (o Opening) String() string {
	return fmt.Sprintf("%d %s", o.Epoch, base64.RawURLEncoding.EncodeToString(o.Sealed))
}

// ParseOpening reads the value of [HeaderOpening].
func ParseOpening(header string) (o Opening, err error) {
	epoch, sealed, _ := strings.Cut(header, " ")
	if o.Epoch, err = strconv.ParseInt(epoch, 10, 64); err == nil {
		o.Sealed, err = base64.RawURLEncoding.DecodeString(sealed)
	}
	return o, err
}

// SessionTokenResult answers a [SessionTokenRequest]. ExpiresIn is digits and one of h, m,
// d. It must be a JSON string: a number breaks the JavaScript SDK.
type SessionTokenResult struct {
	Token     string `json:"token"`
	AccountID string `json:"account_id"`
	ExpiresIn string `json:"expires_in"`
}

// GroupRequest is the body of every operation that names only a group.
type GroupRequest struct {
	GroupID string `json:"group_id"`
}

// NamesRequest is the body of get_owned_groups and get_member_groups. With Limit (at most
// [MaxPageNames]) they return that many names after After, in order, and "more": true
// beside "result" if more follow. Ours.
type NamesRequest struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // 0 = all
}

// AddMemberRequest is the body of add_group_member. Beside its result is "exists" (ours): whether the new member has
// an account at this service.
type AddMemberRequest struct {
	GroupID  string `json:"group_id"`
	MemberID string `json:"member_id"`
	// Role (ours) is the role that it gives, also to a present member. "" gives the role of a writer, to new members
	// only.
	Role Role `json:"role,omitempty"`
}

// MemberRequest is the body of revoke_group_member, and of offer_group, whose MemberID may be empty: it takes the offer
// back.
type MemberRequest struct {
	GroupID  string `json:"group_id"`
	MemberID string `json:"member_id"`
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
	// Role (ours) is the role of accounts that join from now on. "" keeps the
	// present role, which is writer at first.
	Role Role `json:"role,omitempty"`
}

// AuthStatusResult answers auth_status. The group id "default" stands for none: AuthorizedForGroup is absent,
// unless the account may see a group that is called so.
type AuthStatusResult struct {
	Authenticated      bool   `json:"authenticated"`
	AccountID          string `json:"near_account_id"`
	GroupID            string `json:"group_id"`
	AuthorizedForGroup *bool  `json:"authorized_for_group,omitempty"`
	AuthError          string `json:"auth_error,omitempty"`
	Role               Role   `json:"role,omitempty"` // ours
}

// PrepareUploadRequest is the body of prepare_upload. Filename may be empty.
type PrepareUploadRequest struct {
	GroupID  string `json:"group_id"`
	Filename string `json:"filename,omitempty"`
	// Size is the size of the ciphertext, in bytes, so that a service can refuse early. 0 =
	// unstated. Ours.
	Size int64 `json:"size,omitempty"`
}

// PrepareUploadResult answers a [PrepareUploadRequest]. Key is 32 bytes in standard base64
// with padding. UploadURL (ours) is a path on the MCP address: the ciphertext
// may be PUT there before a finalize_upload without encrypted_data.
type PrepareUploadResult struct {
	UploadID  string `json:"upload_id"`
	Key       string `json:"key"`
	GroupID   string `json:"group_id"`
	Filename  string `json:"filename"`
	UploadURL string `json:"upload_url,omitempty"`
}

// Part is a part of an upload that is not recorded: sealed blocks that were PUT under an id of the client's choice.
// Ours.
type Part struct {
	ID     string `json:"id"`     // 32 hex digits; the manifest names it
	Blocks string `json:"blocks"` // such as 0-31
	// hex root of the tree (RFC 6962) over those blocks alone; the header has it in quotes
	ETag string `json:"etag"`
}

// PartsResult answers GET [PathParts] + upload id: the parts in order of their ids. Ours.
type PartsResult struct {
	Parts []Part `json:"parts"`
}

// FinalizeUploadRequest is the body of finalize_upload. EncryptedData is the v0 blob (IV |
// ciphertext | tag) in standard base64. It is absent if the blob was PUT to the upload URL.
// FileHash is the hex SHA-256 of the plaintext.
type FinalizeUploadRequest struct {
	UploadID      string          `json:"upload_id"`
	EncryptedData string          `json:"encrypted_data,omitempty"`
	FileHash      string          `json:"file_hash"`
	Format        json.RawMessage `json:"format,omitempty"`
	// Salt (ours) is that of the [chain.Opening] which the record commits to, 64 hex digits. Without it the
	// service makes one, and the client cannot tell from the receipt which content was recorded.
	Salt string `json:"salt,omitempty"`
	// Versioned (ours) says that the client knows that a name has versions:
	// a later upload of the name may end this one, see [Keep]. Without it the file stays,
	// because the client may hold the reference.
	Versioned bool `json:"versioned,omitempty"`
	// Base and Upon (ours) are as in [SealedHead].
	Base string `json:"base,omitempty"`
	Upon string `json:"upon,omitempty"`
}

// FinalizeUploadResult answers a [FinalizeUploadRequest]. Location and CID are the same
// reference. The hosted service puts literal double quotes around TransID.
type FinalizeUploadResult struct {
	Location string `json:"location"`
	CID      string `json:"cid"`
	TransID  string `json:"trans_id"`
	FileHash string `json:"file_hash"`
	Seq      int64  `json:"seq,omitempty"`       // ledger sequence of the row; ours
	Time     string `json:"timestamp,omitempty"` // ns since the epoch, decimal; ours
	Fee      string `json:"fee,omitempty"`       // yocto charged, decimal; ours
	// Ours. Record is the record as [KindsChain] lists it, with PrevHash.
	// Receipt is the signed statement that the record is in the chain of its group and,
	// within chain.MaxMergeDelaySeconds, in the log.
	Record  *TransactionRow `json:"record,omitempty"`
	Receipt *ChainHead      `json:"receipt,omitempty"`
	// Ours. Repeated: the record is that of an earlier upload with the same id and [SealedHead].Tag, which may have
	// another key, so that the tag of its content may be another.
	Repeated bool `json:"repeated,omitempty"`
	// Ours, for a file of format version 2: as in [PrepareRetrieveResult]. Whoever
	// made the content goes on reading it without a claim.
	DataURL  string `json:"data_url,omitempty"`
	TilesURL string `json:"tiles_url,omitempty"`
}

// PrepareRetrieveRequest is the body of prepare_retrieve.
type PrepareRetrieveRequest struct {
	GroupID  string `json:"group_id"`
	IPFSHash string `json:"ipfs_hash"`
	// Transfer "raw" (ours) allows DataURL instead of EncryptedB64 in the answer, for
	// a blob larger than [InlineBlobBytes].
	Transfer string `json:"transfer,omitempty"`
	// ClaimID (ours) is a UUID of the client. A repetition
	// within an hour with the same ClaimID charges no second fee.
	ClaimID string `json:"claim_id,omitempty"`
	// Formats (ours) are the format versions that the client reads. Without 2
	// among them a file of version 2 is UNSUPPORTED.
	Formats []int `json:"formats,omitempty"`
	// FirstBytes (ours) asks for the first sealed blocks of a file of format version 2 with
	// the answer: as many as have at most so many bytes together, and at most [MaxFirstBytes]. The answer then
	// has the content type [TypeFirstBlocks]: the JSON in one line, a line feed, and
	// [PrepareRetrieveResult].FirstBlocks sealed blocks, one after the other. An answer without blocks
	// may be plain JSON: one block is longer, the first cannot be read, or the file has another format.
	FirstBytes int64 `json:"first_bytes,omitempty"`
}

const (
	// MaxFirstBytes bounds [PrepareRetrieveRequest].FirstBytes; a larger number means this one.
	MaxFirstBytes = 4 << 20
	// TypeFirstBlocks is the content type of an answer to prepare_retrieve with blocks behind it.
	TypeFirstBlocks = "application/vnd.svcfs.first-blocks"
)

// TransferRaw is the value of [PrepareRetrieveRequest].Transfer.
const TransferRaw = "raw"

// PrepareRetrieveResult answers a [PrepareRetrieveRequest]. Key is empty for a token whose session is sealed: then
// SealedKey has format.SessionKeyBytes. Exactly one of EncryptedB64 and DataURL is set. DataURL is a path on the MCP
// address that needs the same Bearer token.
// Format is an object, or null for a v0 blob.
type PrepareRetrieveResult struct {
	Key          string          `json:"key"`
	SealedKey    []byte          `json:"sealed_key,omitempty"` // in standard base64; ours
	EncryptedB64 string          `json:"encrypted_b64,omitempty"`
	IPFSHash     string          `json:"ipfs_hash"`
	Location     string          `json:"location"`
	GroupID      string          `json:"group_id"`
	Format       json.RawMessage `json:"format"`
	DataURL      string          `json:"data_url,omitempty"`  // ours
	DataSize     int64           `json:"data_size,omitempty"` // size of the answer of DataURL, in bytes
	Fee          string          `json:"fee,omitempty"`       // yocto charged, decimal; ours

	// Ours, for a file of format version 2. DataURL then returns all sealed
	// blocks, one after the other, and honours Range; TilesURL + "/" + a path of package tlog the
	// tiles of height 8 of the tree over them. Each request looks at the membership. Tiles
	// holds those that prove the first and the last block, by path, in standard base64.
	TilesURL    string            `json:"tiles_url,omitempty"`
	Tiles       map[string]string `json:"tiles,omitempty"`
	Manifest    string            `json:"manifest,omitempty"`     // in standard base64, up to InlineManifestBytes
	ManifestURL string            `json:"manifest_url,omitempty"` // else
	// FirstBlocks (ours) is how many sealed blocks come behind the JSON, see
	// [PrepareRetrieveRequest].FirstBytes.
	FirstBlocks int64 `json:"first_blocks,omitempty"`
}

// What becomes of an append to a file that others saved meanwhile.
const (
	AppendsApart = "apart" // it is a conflict, and recorded under a name of its own
	AppendsMerge = "merge" // the mount makes it on the newer version
)

// Values of a group's setting of keys.
const (
	KeysAny    = "any"            // keys of files are given to each member as the session of the member has it
	KeysSealed = chain.KeysSealed // keys of files come and go sealed alone: see [HeaderOpening]
)

// GroupSettings answers get_group_settings, a [GroupRequest], for members. In a request the zero value is a
// setting that is left out. A client passes over settings that it does not know. Ours.
type GroupSettings struct {
	Format  int64  `json:"format,omitempty"`  // the newest format version that uploads may have, 1 or 2
	Appends string `json:"appends,omitempty"` // [AppendsApart] or [AppendsMerge]
	Keys    string `json:"keys,omitempty"`    // [KeysAny] or [KeysSealed]
}

// Check refuses a value that a setting cannot have. What is left out passes.
func (s GroupSettings) Check() error {
	switch {
	case s.Format != 0 && s.Format != format.Version && s.Format != format.VersionBlocks:
		return fmt.Errorf("format %d: want %d or %d", s.Format, format.Version, format.VersionBlocks)
	case s.Appends != "" && s.Appends != AppendsApart && s.Appends != AppendsMerge:
		return fmt.Errorf("appends %.60q: want %s or %s", s.Appends, AppendsApart, AppendsMerge)
	case s.Keys != "" && s.Keys != KeysAny && s.Keys != KeysSealed:
		return fmt.Errorf("keys %.60q: want %s or %s", s.Keys, KeysAny, KeysSealed)
	}
	return nil
}

// SetGroupSettingsRequest is the body of set_group_settings: what is left out stays, and something is named.
// Only the owner; free. Ours.
type SetGroupSettingsRequest struct {
	GroupID string `json:"group_id"`
	GroupSettings
}

// FileRequest is the body of delete_file. Ours.
type FileRequest struct {
	GroupID  string `json:"group_id"`
	IPFSHash string `json:"ipfs_hash"`
}

// RenameRequest is the body of rename_file. Ours.
type RenameRequest struct {
	GroupID  string `json:"group_id"`
	IPFSHash string `json:"ipfs_hash"`
	Filename string `json:"filename"`
}

// AttributesRequest is the body of set_attributes. Attributes replace all that were recorded,
// except the target of a symbolic link, which must stay. Package format has their form.
// Ours.
type AttributesRequest struct {
	GroupID    string          `json:"group_id"`
	IPFSHash   string          `json:"ipfs_hash"`
	Attributes json.RawMessage `json:"attributes"`
}

// RenameFolderRequest is the body of rename_folder: all living versions of files whose
// recorded name is Folder, a slash and a rest get the name NewFolder, a slash and the rest.
// Files in the trash keep their names. Files uploaded after Seq are renamed too. If the
// caller recorded the same rename after Seq, the request changes nothing and is answered
// again: so it may be repeated after a lost answer. Ours.
type RenameFolderRequest struct {
	GroupID   string `json:"group_id"`
	Folder    string `json:"folder"`     // as recorded, without a slash at its end
	NewFolder string `json:"new_folder"` // the same
	Seq       int64  `json:"seq"`        // of the newest record of the group that the caller has seen
}

// FolderRequest is the body of make_folder and remove_folder. make_folder records a folder, so that
// it is there without a file beneath it; remove_folder takes that back while nothing is beneath it.
// Ours.
type FolderRequest struct {
	GroupID string `json:"group_id"`
	Folder  string `json:"folder"` // as recorded, without a slash at either end
}

// Recorded is what the ledger says of a change of files. Records are as [KindsChain] lists them, with PrevHash, in the
// order of the chain of their group, in which nothing is between them. Receipt is as in [FinalizeUploadResult], of the
// last one. A change of very many files has the first records: the list of the group has the rest. There are none if
// nothing changed. rename_file, set_attributes and delete_file have these fields beside the sentence that is their
// result. Ours.
type Recorded struct {
	Records []TransactionRow `json:"records,omitempty"`
	Receipt *ChainHead       `json:"receipt,omitempty"`
}

// FolderResult answers a [FolderRequest]. Record is the record as [KindsChain] lists it, with
// PrevHash; Receipt is as in [FinalizeUploadResult]. Both are nil if make_folder changed nothing,
// because the folder was recorded before.
type FolderResult struct {
	Record  *TransactionRow `json:"record,omitempty"`
	Receipt *ChainHead      `json:"receipt,omitempty"`
}

// RenameFolderResult answers a [RenameFolderRequest]. Record is the record as [KindsChain]
// lists it, with PrevHash; Receipt is as in [FinalizeUploadResult].
type RenameFolderResult struct {
	Files   int64           `json:"files"` // versions of files, and recorded folders, with new names
	Record  *TransactionRow `json:"record"`
	Receipt *ChainHead      `json:"receipt"`
}

// NameRequest is the body of remove_file and restore_file, which act on all versions of a
// name. remove_file moves the living versions to the trash. restore_file brings back the
// versions in the trash that the caller may restore. Neither touches a version that changed
// after Seq, unless only its name changed, so that a repetition after a lost answer undoes
// no later change. Ours.
type NameRequest struct {
	GroupID  string `json:"group_id"`
	Filename string `json:"filename,omitempty"`  // as recorded
	IPFSHash string `json:"ipfs_hash,omitempty"` // of any version, if no name is recorded
	Seq      int64  `json:"seq"`                 // of the newest record of the group that the caller has seen
}

// NameResult answers remove_file and restore_file.
type NameResult struct {
	Files int64 `json:"files"`          // versions that this request changed; 0 = they were changed before
	More  bool  `json:"more,omitempty"` // more versions are left than one request changes: repeat the request
	// Until is when the service may destroy the first of the keys, in ns since the epoch,
	// decimal; "" if the owner of the group decides, or if nothing was removed.
	Until string `json:"until,omitempty"`
	Recorded
}

// SetTrashRequest is the body of set_group_trash. An absent field keeps its setting. A new
// time applies to later removals. Ours.
type SetTrashRequest struct {
	GroupID string `json:"group_id"`
	Days    *int64 `json:"days,omitempty"` // 1 to [MaxTrashDays]
	Who     string `json:"who,omitempty"`  // one of the Trash… constants
}

// TrashResult answers get_trash, a [GroupRequest], for members. Ours.
type TrashResult struct {
	Days  int64  `json:"days"`
	Who   string `json:"who"`
	Files int64  `json:"files"` // versions of files in the trash
	Bytes int64  `json:"bytes"` // their ciphertext, in bytes; of parts (ours) those that no other file uses
	Held  int64  `json:"held"`  // versions among Files that only the owner of the group can delete
}

// SetVersionsRequest is the body of set_group_versions. Ours.
type SetVersionsRequest struct {
	GroupID string `json:"group_id"`
	Keep    string `json:"keep"` // text of a [Keep]
}

// TryVersionsRequest is the body of try_group_versions. Ours.
type TryVersionsRequest struct {
	GroupID string `json:"group_id"`
	Keep    string `json:"keep"`            // text of a [Keep]
	After   string `json:"after,omitempty"` // a name: those after it are listed
}

// VersionsResult answers get_group_versions, a [GroupRequest], for members. Ours.
type VersionsResult struct {
	Keep string `json:"keep"` // text of a [Keep]
	// Next is the setting that is delayed, "" if none is; At is when it begins, in ns since
	// the epoch, decimal.
	Next string `json:"next,omitempty"`
	At   string `json:"at,omitempty"`
}

// TryVersionsResult answers try_group_versions, for the owner: what the first thinning
// would destroy if the setting were made now and nothing else changed.
type TryVersionsResult struct {
	Files    int64         `json:"files"`    // names that would lose versions
	Versions int64         `json:"versions"` // that would be destroyed, of all names
	Bytes    int64         `json:"bytes"`    // their ciphertext; see [ThinnedName]
	Names    []ThinnedName `json:"names"`    // in byte order, at most [MaxPageNames]
	More     bool          `json:"more,omitempty"`
}

// ThinnedName is a name that would lose versions. Bytes are those that come free at once. A
// part (ours) counts if only versions that go use it, and at the first of their names;
// blocks in parts that others use come free too, a little later, and are not counted.
type ThinnedName struct {
	Filename string `json:"filename"`
	Versions int64  `json:"versions"`
	Bytes    int64  `json:"bytes"`
}

// Which accounts may remove files: the uploader and the owner of the group, or also every
// writer.
const (
	TrashUploader = "uploader"
	TrashWriters  = "writers"
)

// For how many days a removed file can be restored, if the owner of the group set no time,
// and at most.
const (
	DefaultTrashDays = 30
	MaxTrashDays     = 3650
)

// StorageResult answers get_storage, a [GroupRequest] whose group is optional: the bytes
// stored for the caller in all groups, and for all members of the group. Ours.
type StorageResult struct {
	Account StoredBytes  `json:"account"`
	Group   *StoredBytes `json:"group,omitempty"`
	// Left is the largest upload that would be accepted now, in bytes of ciphertext. Absent
	// = no limit is known.
	Left *int64 `json:"left,omitempty"`
}

// StoredBytes is stored ciphertext in bytes: all versions of living files, and unfinished
// uploads.
type StoredBytes struct {
	Bytes int64 `json:"bytes"`
	Max   int64 `json:"max_bytes,omitempty"` // 0 = no limit
}
