package sdk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// AccountID is a ledger account id, such as "alice.svc.testnet".
type AccountID string

// GroupID is the name under which a group was registered. The owner chose it: it is hostile
// input. Never build a path or a URL from it.
type GroupID string

// Ref is the location reference of a stored file. The wire calls it cid, ipfs_hash or
// location. It is opaque: never parse it.
type Ref string

// Seq is the sequence number of a ledger record, ascending; 0 means unknown.
type Seq int64

// Amount is an exact quantity of the native token, in yocto (10^-24). [wire.ParseTokens]
// and [wire.ParseAmount] parse one.
type Amount = wire.Amount

// Attributes are what programs keep beside the content of a file: its time, whether it may
// be executed, the target of a symbolic link, and extended attributes. Those of an [Entry]
// are as its uploader, or the owner of the group, chose them: a target may lead anywhere, and
// a time be far off. But a target always is the content of its file.
type Attributes = format.Attributes

// Digest is the SHA-256 of the plaintext of a file, 32 bytes.
type Digest [sha256.Size]byte

// ComputeHash returns the SHA-256 of data. Free, local. Specification 4.2
// (computeHash).
func ComputeHash(data []byte) Digest { return sha256.Sum256(data) }

// ComputeHashReader returns the SHA-256 of everything that r holds. It reads r to its end
// in small pieces. Free, local. Errors: those of r. Specification 4.2 (computeHashAsync);
// it ends early when r returns an error.
func ComputeHashReader(r io.Reader) (Digest, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return Digest{}, fmt.Errorf("compute hash: %w", err)
	}
	return Digest(sum.Sum(nil)), nil
}

// parseDigest parses 64 hex digits of either case.
func parseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != 2*len(d) {
		return d, fmt.Errorf("digest of %d characters: want 64 hex digits", len(s))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return d, fmt.Errorf("digest: %w", err)
	}
	return d, nil
}

// String returns 64 lower-case hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Secret is a credential. It prints as "redacted" in every format verb, in JSON and in logs; only its
// method Reveal returns its bytes. Its memory is never swapped, as far as the memory limit allows.
// Two secrets are equal only if one is a copy of the other.
type Secret = locked.Secret

// NewSecret returns a secret with a copy of value. "" gives the zero Secret.
func NewSecret(value string) Secret { return locked.NewSecret(value) }

// Role is the role of a member in a group.
type Role = wire.Role

// Values of [Config], [Member] and [Entry].
const (
	Mainnet = "mainnet" // Config.Network
	Testnet = "testnet"
	// DefaultListMemory is the Config.ListMemory of a client that sets none, in bytes.
	DefaultListMemory int64 = 256 << 20

	RoleOwner  = wire.RoleOwner  // may do everything; each group has one owner, see [Group.Offer]
	RoleWriter = wire.RoleWriter // may read and upload, and rename and delete its own uploads
	RoleReader = wire.RoleReader // may read, and change nothing

	SizeUnknown int64 = -1 // Entry.Size where the ledger does not tell it
)

// Member is a member of a group.
type Member struct {
	ID   AccountID
	Role Role // "" where the service has no roles
}

// Entry is a file record of a group in the ledger.
type Entry struct {
	Group GroupID
	Ref   Ref
	Tx    string // id of the ledger record, 64 hex digits without quotes
	Hash  Digest // SHA-256 of the plaintext, which a retrieved file must match
	// Commitment is what every record about the file has: the salted hash of Size and Hash, see
	// [chain.Opening]. Zero where the service records the hash itself. Hash is zero and Size unknown once the
	// key of the file is destroyed, and to who is no member of an open group.
	Commitment Digest
	Uploader   AccountID // account that recorded it
	Time       time.Time // of the ledger record; zero when unknown
	Seq        Seq       // of the upload; entries of a group ascend by it
	ChangedSeq Seq       // of the newest record about this file, for [ListOptions]
	Number     int64     // of that record among all records of the group, which count from 1 without a gap; 0 = unknown
	// NamedNumber is the Number of the record that gave the name, if newer ones only changed attributes or, by
	// retention or newer versions, ended the file; else 0.
	NamedNumber int64

	// Only a service of ours tells these. Name is hostile input: it may
	// be empty, contain slashes, or anything else.
	Name        string
	Size        int64 // plaintext bytes, or SizeUnknown
	ContentType string
	// Content commits to the blocks of a file of format version 2; zero for every other file.
	// Hash is then zero if the writer did not have the whole content.
	Content    Digest
	Attributes *Attributes // shared by copies of the entry: do not change them; nil = none were recorded

	// Upon is the version of any name that the uploader says the content was made from; "" = from none, nil = not
	// known. Shared by copies of the entry.
	Upon *Ref

	Deleted *Deletion // nil while the file lives and is not in the trash

	// Folder means that the entry is no file but a recorded folder, see [Group.MakeFolder]. Only
	// [ListOptions].Folders lists these.
	Folder bool
}

// Deletion says when, by whom and why the key of a file was destroyed, or that the file was
// removed and is in the trash.
type Deletion struct {
	Time   time.Time
	By     AccountID
	Reason string // one of the Reason constants of package wire

	// InTrash means that the key still exists, and that [Group.Restore] brings the file
	// back until Until. A zero Until has no end: only the owner of the group can delete the
	// file.
	InTrash bool
	Until   time.Time
}

// isPolicy reports whether a setting of the group ended the file, and nobody asked for it.
func (d *Deletion) isPolicy() bool {
	return d.Reason == wire.ReasonRetentionPolicy || d.Reason == wire.ReasonVersionPolicy
}

// Receipt confirms an upload that the service has recorded.
type Receipt struct {
	// Entry is the file as [Group.List] lists it. From the hosted service, which tells less, it has what was sent,
	// and the local time if the service tells none. Number is 0 also where an earlier call may have made the record.
	Entry
	Fee Amount // charged for the upload; zero if the service does not tell it
}

// String says what was recorded, on one line.
func (r Receipt) String() string {
	return fmt.Sprintf("%s: %d bytes, record %d of the group, %s tokens", r.Ref, r.Size, r.Number, r.Fee.Tokens())
}

// AuthStatus is how the service sees the caller.
type AuthStatus struct {
	Authenticated bool
	Account       AccountID
	Group         GroupID
	Authorized    bool   // the caller is a member of Group; false without a group
	Role          Role   // of the caller in Group, where the service has roles
	Detail        string // why Authorized is false, "" if the service does not tell
}

// NetworkInfo is the part of its configuration that a [Client] shows.
type NetworkInfo struct {
	Network    string // "mainnet" or "testnet"
	ContractID string
	RPCURL     string
	MCPURL     string
	AuthURL    string
	// AccountPage is the web page of the hosted service for accounts and keys; "" at a
	// self-hosted service.
	AccountPage string
}
