package wire

import "encoding/json"

// Uploads of our own. The client makes an id and the key of the file, and seals the key to the vault of the service
// ([VaultKey]). One PUT of [PathSealed], a frame, records the upload: its body is the ciphertext (format version 1),
// or the manifest of parts that were sent before (version 2). finalize_uploads records many.
//
// A part is sealed blocks. The client PUTs them to [PathParts] + upload id + "/" + part id, both of which it makes:
//
//	PUT /raw/parts/UPLOAD/PART?group_id=G&block_size=262144&blocks=0-31
//
// The body has the listed blocks in the order of their numbers, at most [PartBytes]. The service stores all of them,
// or nothing; Repr-Digest (sha-256) is compared if it is sent. The answer is a [Part]. A part is written once: an id
// that is taken is [CodePartExists]. GET [PathParts] + upload id lists the parts, and ?part=PART that one alone, as
// a [PartsResult]: a client that got no answer asks, or sends the blocks again as another part. The first part
// begins the upload; each prolongs it to 24 hours from then, up to seven days from its beginning. The record keeps
// the parts that the manifest names, and removes the others.

// Operations and paths of sealed uploads.
const (
	// PathSealed + id: PUT of one frame. CodeMissing lists the blocks that no part has; CodeBase says that blocks
	// of From may not be taken over.
	PathSealed = "/raw/sealed/"
	// OpFinalizeUploads is POST [PathTools] + OpFinalizeUploads of at most [MaxSealedBatch]
	// frames, one after the other, as application/octet-stream. They are recorded in their
	// order, in one commit, each with its own answer.
	OpFinalizeUploads = "finalize_uploads"
	// OpOpenJournalKey opens the key of a journal for the account that sealed it, and OpEndJournal ends a journal.
	OpOpenJournalKey = "open_journal_key" // ours
	OpEndJournal     = "end_journal"      // ours
)

// Limits of sealed uploads.
const (
	// UploadIDBytes is the length of the id of a sealed upload, in bytes, written in hex. Clients
	// begin it with 6 bytes of the time (ms since the epoch of Unix, big-endian), so that a service
	// has ids that come together in one place; the rest is random.
	UploadIDBytes = 16
	// JournalIDBytes is the length of the id of a journal, in bytes, written in hex. It begins as an upload's.
	JournalIDBytes = 16
	// MaxSealedHead is the longest head of a frame, in bytes.
	MaxSealedHead = 64 << 10
	// MaxSealedBatch is how many frames one finalize_uploads has, at most, and
	// MaxSealedBatchBytes how long they are together, in bytes.
	MaxSealedBatch      = 64
	MaxSealedBatchBytes = 4 << 20
	// SealedBatchBlob is the longest ciphertext of a frame in finalize_uploads, in bytes.
	SealedBatchBlob = InlineBlobBytes
	// MaxSealedBlob is the longest ciphertext of a frame, in bytes: a whole file, its nonce and
	// its tag.
	MaxSealedBlob = WholeFileBytes + 28
)

// Codes of sealed uploads.
const (
	CodeEpoch = "EPOCH_ENDED"  // 409 the key was sealed for an epoch that ended: seal it again
	CodeHead  = "HEAD_CHANGED" // 409 the newest version of the name is another than the one that SealedHead.Base names
	CodeSpent = "ID_SPENT"     // 409 the id was used for another upload

	// CodeJournalEnded is 409: the journal has ended, and its key opens no more.
	CodeJournalEnded = "JOURNAL_ENDED"
)

// Vault is what a service says of the vault that keeps its keys, in [Capabilities].
type Vault struct {
	VaultKey
	// Sessions says that API keys are taken, and keys of files given, sealed: see [Opening].
	Sessions bool `json:"sessions"`
	// Measurement is hex SHA-256 of the program that keeps the keys: svcvault, whose digest a release publishes.
	Measurement string `json:"measurement"`
	// Evidence is what shows that Measurement is true. Clients pass over kinds that they do not know.
	Evidence []Evidence `json:"evidence"`
}

// Evidence is one reason to believe a measurement.
type Evidence struct {
	Kind string `json:"kind"` // an Evidence… constant
}

// EvidenceOperator is the word of the operator: the program measured itself, and no hardware vouches for it.
const EvidenceOperator = "operator"

// VaultKey is the public key of the vault. Signature is Ed25519 by the key of
// the ledger's log over its text, see package chain.
type VaultKey struct {
	Epoch     int64  `json:"epoch"`
	KEM       int    `json:"kem"`        // identifier of RFC 9180, see format.SealedKeyKEM
	PublicKey string `json:"public_key"` // standard base64
	NotAfter  int64  `json:"not_after"`  // seconds since the epoch of Unix: sealed keys are opened until then
	Signature string `json:"signature"`  // standard base64
}

// SealedHead is the head of a frame: 4 bytes of length (big-endian), the head as JSON, then
// BlobSize bytes: the ciphertext (format version 1) or the manifest (version 2).
type SealedHead struct {
	ID        string          `json:"id"` // hex of [UploadIDBytes]
	Epoch     int64           `json:"epoch"`
	SealedKey string          `json:"sealed_key"` // standard base64, see format.SealKey
	GroupID   string          `json:"group_id"`
	FileHash  string          `json:"file_hash"` // hex SHA-256 of the plaintext; may be "" with From
	Salt      string          `json:"salt"`      // as in [FinalizeUploadRequest]
	Format    json.RawMessage `json:"format"`    // has the filename
	BlobSize  int64           `json:"blob_size"` // bytes
	BlobHash  string          `json:"blob_hash"` // hex SHA-256 of those bytes
	Versioned bool            `json:"versioned,omitempty"`
	// Base, if set, is the reference of the newest version of the name that the client knows,
	// or [NoBase]. With another one the upload is CodeHead, and is not recorded.
	Base string `json:"base,omitempty"`
	// Tag, if set, is of the save that the upload is: 64 hex digits that only its client can make. Another upload with
	// the id and the tag of one that is recorded is that one again, whatever its key and its bytes are: it gets the
	// first answer, Repeated.
	Tag string `json:"tag,omitempty"`
	// Upon, if set, is the reference of the version that the content was made from, of any name of the group, or
	// [NoBase]: the record says so, and nothing is compared.
	Upon string `json:"upon,omitempty"`
	// From, if set, is the reference of a version of the name by the same account, in blocks of the same size: of
	// those blocks the upload takes over the ones that its manifest names, each at its place.
	From string `json:"from,omitempty"`
}

// NoBase as [SealedHead].Base says that the name has no version yet, as Upon that the content was made from none.
const NoBase = "none"

// FinalizeUploadsResult answers finalize_uploads: one for each frame, in their order. The
// frames after one that is refused are recorded all the same.
type FinalizeUploadsResult struct {
	Uploads []SealedAnswer `json:"uploads"`
}

// SealedAnswer is the answer to one frame: Result, or Error and Status.
type SealedAnswer struct {
	ID     string                `json:"id"`
	Result *FinalizeUploadResult `json:"result,omitempty"`
	Error  *Error                `json:"error,omitempty"`
	Status int                   `json:"status,omitempty"` // HTTP status of Error
}

// OpenJournalKeyRequest asks for the key of a journal of one's own, for example after a restart. A journal is what
// waits on a client's disk to be saved into one group, see format.JournalFor. Members of the group only; free.
type OpenJournalKeyRequest struct {
	Journal   string `json:"journal"` // hex of [JournalIDBytes]
	GroupID   string `json:"group_id"`
	Epoch     int64  `json:"epoch"`
	SealedKey string `json:"sealed_key"` // standard base64
}

// EndJournalRequest ends a journal: its key opens no more. Who ends it again changes nothing. Free.
type EndJournalRequest struct {
	Journal string `json:"journal"`
	Epoch   int64  `json:"epoch"` // to which the key is sealed, as far as the client knows
}

// OpenJournalKeyResult answers an [OpenJournalKeyRequest], in a sealed session alone.
type OpenJournalKeyResult struct {
	SealedKey []byte `json:"sealed_key"` // of format.SessionKeyBytes, for format.JournalRef; standard base64
}
