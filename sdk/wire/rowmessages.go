package wire

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// TransactionsRequest is the body of get_group_transactions. AfterSeq and Limit (ours) select the
// rows with a larger ChangedSeq, at most Limit of them, in order of ChangedSeq. A client that remembers
// the largest ChangedSeq and merges by reference learns of every upload, deletion and rename exactly
// once. Limit 0 means no paging: all rows in upload order.
//
// The files of a renamed folder have one ChangedSeq, and a page ends with the last of them: so it may be longer than
// Limit, by 100,000 rows and more. With AfterUpload, the Seq of the last row, the page begins behind that row instead,
// and ends at Limit; 0 begins before all rows of AfterSeq+1 and later, as nil does.
type TransactionsRequest struct {
	GroupID     string `json:"group_id"`
	AfterSeq    int64  `json:"after_seq,omitempty"`
	AfterUpload *int64 `json:"after_upload_seq,omitempty"`
	Limit       int    `json:"limit,omitempty"`
	// Kinds [KindsAll] (ours) selects every record of the group instead
	// of its files, as rows with Hash, in order of Seq. AfterSeq and Limit then count Seq.
	// Only members may ask.
	//
	// Kinds [KindsChain] (ours) selects the records of the group's own chain,
	// with their proof, in order of Seq. Every account that may list the group may ask. Without
	// Limit the answer has all records after AfterSeq, written as they are read: a client takes
	// them as they come, see [RowReader].
	Kinds string `json:"kinds,omitempty"`
	// Layouts are the layouts of records that the client reads, such as [chain.Layout]. A client that reads a layout
	// applies every kind of record that it has. Without that of the records the service refuses both Kinds. Ours.
	Layouts []string `json:"layouts,omitempty"`
	// Nonce is text of the client for this request, 1 to [MaxNonceBytes] letters and
	// digits. The signature of the chain's head covers it. Ours.
	Nonce string `json:"nonce,omitempty"`
	// KnownSize is the number of records in the newest checkpoint that the client verified.
	// The answer proves that its checkpoint continues that one. Ours.
	KnownSize int64 `json:"known_size,omitempty"`
	// Names asks for [ChainProof].Names too. Ours.
	Names bool `json:"names,omitempty"`
}

// Values of [TransactionsRequest].Kinds.
const (
	KindsAll   = "all"
	KindsChain = "chain"
)

// ChainProof is "proof" beside the rows of [KindsChain].
type ChainProof struct {
	// Checkpoint is a signed note (c2sp.org/tlog-checkpoint) of at least
	// [TransactionsRequest].KnownSize records. Its extension line [ChainsLine] has
	// the root of the tree of all chains.
	Checkpoint string `json:"checkpoint"`
	// Consistency proves that Checkpoint continues the checkpoint of KnownSize records:
	// hashes in base64 as in RFC 6962 section 2.1.2. It is empty if KnownSize is 0 or the
	// size of Checkpoint.
	Consistency []string `json:"consistency,omitempty"`
	// Chain proves the place of the group's chain in that tree; nil if all records of the
	// chain are younger than Checkpoint.
	Chain *ChainInclusion `json:"chain,omitempty"`
	// Head is the present end of the chain.
	Head ChainHead `json:"head"`
	// Names is the root of names there, where the request asks for it. A service leaves it out of a
	// group that is too large for it, and so does an earlier one.
	Names *SignedNames `json:"names,omitempty"`
}

// SignedNames is the signed root of the living names that the records up to a place give, see [chain.Names].
type SignedNames struct {
	ChainHead
	Root string `json:"root"` // hex
}

// LivingRequest is the body of get_names, which proves one name of a group, or what is directly in one of its folders,
// without the rest of the chain. Every account that may list the group may ask. Ours.
type LivingRequest struct {
	GroupID string `json:"group_id"`
	// Name is that of a file; "" = Folder is asked for.
	Name string `json:"name,omitempty"`
	// Folder is a folder without a slash at its end, "" = the top of the group.
	Folder string `json:"folder,omitempty"`
	// From is where the page of the folder begins, in hex: see [chain.Page].Next. "" = at the first component.
	From string `json:"from,omitempty"`
	// Limit is the most components on the page; 0 = as many as there may be, [MaxPageComponents]. A page has fewer
	// where their records are long.
	Limit int `json:"limit,omitempty"`
	// Beyond asks for nothing in a group whose chain has no more than so many records: it is better read as a whole.
	Beyond int64 `json:"beyond,omitempty"`
	// Nonce and KnownSize are as in [TransactionsRequest].
	Nonce     string `json:"nonce"`
	KnownSize int64  `json:"known_size,omitempty"`
}

// LivingResult answers a [LivingRequest].
type LivingResult struct {
	// Proof has Names; nil = the chain has no more than Beyond records, and the rest is empty too.
	Proof *ChainProof `json:"proof,omitempty"`
	// Names is the encoded [chain.NameProof], or [chain.FolderProof] of a page. Of a folder that is not there it is the
	// former, of its name.
	Names []byte `json:"names,omitempty"`
	// Rows are the records that uploaded the versions that Names shows, in their order, as rows of [KindsChain] with
	// PrevHash and Place.
	Rows []TransactionRow `json:"rows,omitempty"`
	// Seq is that of the newest record of the chain: a list after it goes on behind the end that Proof shows. Nothing
	// proves it, and a list after another one does not follow that end.
	Seq int64 `json:"seq,omitempty"`
}

// ChainsLine begins the line of a checkpoint with the root of the tree of chains, in
// base64.
const ChainsLine = "svc-chains "

// CheckpointText is the text of a checkpoint (c2sp.org/tlog-checkpoint) that a log signs: its name, the number of
// records, the root of their tree, that of the tree of chains, and what its vault counted.
func CheckpointText(origin string, records int64, root, chains chain.Hash, opens Opens) string {
	return fmt.Sprintf("%s\n%d\n%s\n%s%s\n%s", origin, records, base64.StdEncoding.EncodeToString(root[:]), ChainsLine,
		base64.StdEncoding.EncodeToString(chains[:]), opens.Line())
}

// ChainInclusion proves the end of a chain at the time of a checkpoint.
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

// TransactionRow is one file record of a group. Rows are never removed: the row of a
// deleted file has Deleted set.
type TransactionRow struct {
	TransID string `json:"trans_id"`
	GroupID string `json:"group_id"`
	UserID  string `json:"user_id"` // uploader
	// hex SHA-256 of the plaintext; of a service of ours, what the record has where [TransactionRow].Opening says
	FileHash  string   `json:"file_hash"`
	IPFSHash  string   `json:"ipfs_hash"` // the reference, of any kind
	Backend   *string  `json:"backend"`   // "FastFS", "Ipfs" or null
	Timestamp *string  `json:"timestamp"` // ns since the epoch, decimal, or null
	Deleted   *Deleted `json:"deleted"`

	// Ours. A pointer is nil if the service is the hosted one, or if the
	// upload lacked the value.
	Filename     *string `json:"filename,omitempty"`
	OriginalSize *int64  `json:"original_size,omitempty"` // plaintext bytes
	ContentType  *string `json:"content_type,omitempty"`
	// ours: hex, of files of format version 2 only; see chain.TagContent
	Content    *string `json:"content,omitempty"`
	Attributes *string `json:"attributes,omitempty"`  // ours: their canonical text, see package format
	Seq        int64   `json:"seq,omitempty"`         // ledger sequence of the upload, ascending, 0 = unknown
	ChangedSeq int64   `json:"changed_seq,omitempty"` // of the newest record about this file

	// Ours, in rows of [KindsAll]. Hash covers these fields, and
	// TransID, GroupID, UserID (the account that acted), FileHash, IPFSHash, Timestamp and
	// Seq; service/LEDGER.md has the layout.
	Kind     string `json:"kind,omitempty"`   // such as "add_group_member"
	Detail   string `json:"detail,omitempty"` // the member, the reason, …
	Fee      string `json:"fee,omitempty"`    // yocto, decimal
	Request  string `json:"request,omitempty"`
	PrevHash string `json:"prev_hash,omitempty"` // hex SHA-256 of the record before, see package chain
	Hash     string `json:"hash,omitempty"`      // hex
	// Place is the place of the record in the whole ledger, which is that of its leaf in the tree, from 1. 0 = Seq,
	// -1 = it has none yet, which only rows of [LivingResult] can say.
	Place int64 `json:"place,omitempty"`

	// Ours. Rows of [KindsChain] lack what the client computes or knows:
	// Hash, GroupID, Backend, PrevHash, Filename, OriginalSize and ContentType.
	// Opening is what the record of a file commits to, see [chain.Opening]: then FileHash is empty, as
	// the client computes it. To who is no member, and once the key of the file is destroyed,
	// Opening is empty, and FileHash is the commitment.
	Opening string `json:"opening,omitempty"`
	// UploadSeq is the Seq of the upload that a later record is about. As every Seq, nothing proves it.
	UploadSeq int64    `json:"upload_seq,omitempty"`
	Chain     string   `json:"chain,omitempty"`  // of the group or of the account
	Number    int64    `json:"number,omitempty"` // place in the chain
	Tags      []string `json:"tags,omitempty"`   // name, value, name, value, …; ascending by name
	// Page is in the last row of a page of [KindsChain]: what the service signed of the records
	// up to this one, see [chain.Statement.PageText] and [IsPageEnd].
	Page *ChainHead `json:"page,omitempty"`
}

// pageRecords is the longest page of a chain, in records.
const pageRecords = 256

// IsPageEnd reports whether the record with that number in its chain ends a page. Where
// records are long, a service ends pages earlier too.
func IsPageEnd(number int64) bool { return number%pageRecords == 0 }

// RowOf returns the row of a record, for a list whose reader knows group and hashes.
func RowOf(r *chain.Record) TransactionRow {
	stamp := strconv.FormatInt(r.TimeNS, 10)
	return TransactionRow{TransID: r.Tx, UserID: r.Account, FileHash: r.FileHash, IPFSHash: r.Ref, Timestamp: &stamp,
		Seq: r.Seq, ChangedSeq: r.Seq,
		Kind: r.Kind, Detail: r.Detail, Fee: r.Fee, Request: r.Request, Chain: r.Chain, Number: r.Number,
		Tags: chain.FlattenTags(r.Tags)}
}

// PendingResult answers get_pending_destruction, for members: the destruction that is
// delayed in a group, unless its owner cancels it with keep_files. Ours.
type PendingResult struct {
	RetentionDays *int64 `json:"retention_days"`         // nil = no window is delayed
	RetentionAt   string `json:"retention_at,omitempty"` // ns since the epoch, decimal
	Files         int64  `json:"files"`                  // delayed deletions
	FilesAt       string `json:"files_at,omitempty"`     // when the first of them happens, ns since the epoch, decimal
	// Ours: the setting that is delayed, as [VersionsResult] has it, and how
	// many older versions go within the delay by the present setting. Names beyond the first
	// [MaxPageNames] that changed are not counted.
	VersionsKeep string `json:"versions_keep,omitempty"`
	VersionsAt   string `json:"versions_at,omitempty"`
	Versions     int64  `json:"versions,omitempty"`
	GroupAt      string `json:"group_at,omitempty"` // when the whole group ends, ns since the epoch, decimal
	// Ours: the member that the group is offered to, and from when on and until when it may accept, ns
	// since the epoch, decimal. keep_files does not cancel an offer.
	OfferedTo  string `json:"offered_to,omitempty"`
	OfferFrom  string `json:"offer_from,omitempty"`
	OfferUntil string `json:"offer_until,omitempty"`
}

// WatchRequest is the body of watch, which returns the events after AfterSeq that concern
// the caller. If there is none, it waits for the next, at most TimeoutMS (up to
// [MaxWatchMillis]; 0 = do not wait). AfterSeq is a place in the whole ledger. Without it
// the answer has the present place at once. Ours.
type WatchRequest struct {
	AfterSeq  *int64 `json:"after_seq,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// WatchResult answers a [WatchRequest]. The next request continues after Seq, a place, which may be
// larger than that of the last event.
type WatchResult struct {
	Events []Event `json:"events"` // ascending
	Seq    int64   `json:"seq"`
}

// Event is one ledger record, as members of its group may see it. A revoked member gets the
// event of the revocation, and no later event of the group.
type Event struct {
	Seq     int64  `json:"seq"`  // place in the whole ledger: records of all groups, 1, 2, 3, …
	Kind    string `json:"kind"` // one of the kinds of package chain; unknown ones are ignored
	GroupID string `json:"group_id"`
	Ref     string `json:"ref,omitempty"` // of the file, "" for other events
	// the member whose membership or role changed, else the account that acted
	Account string `json:"account,omitempty"`
	Time    string `json:"time"` // ns since the epoch, decimal
	// of the record, as in rows; 0 = Seq
	ChangedSeq int64 `json:"changed_seq,omitempty"`
}

// TransactionMeta answers the ledger's view get_transaction_meta.
type TransactionMeta struct {
	Backend   string   `json:"backend"`
	Timestamp string   `json:"timestamp"` // ns since the epoch, decimal
	Deleted   *Deleted `json:"deleted"`
}

// Deleted says when, by whom and why the key of a file was destroyed, or that the file is
// in the trash.
type Deleted struct {
	DeletedAt string `json:"deleted_at"` // ns since the epoch, decimal
	DeletedBy string `json:"deleted_by"`
	Reason    string `json:"reason"` // one of the Reason… constants

	// Ours. InTrash means that the key exists until Until, in ns since the
	// epoch, decimal, or with Until "" until the owner of the group decides.
	Trash bool   `json:"trash,omitempty"`
	Until string `json:"until,omitempty"`
}

// Reasons of a deletion.
const (
	ReasonMemberRevocation  = "MemberRevocation"
	ReasonOwnerRequest      = "OwnerRequest"
	ReasonRetentionPolicy   = "RetentionPolicy"
	ReasonComplianceRequest = "ComplianceRequest"
	ReasonVersionPolicy     = "VersionPolicy" // newer versions of the name replaced it, see [Keep]; ours
)
