package sdk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// AccountID is a ledger account id, such as "alice.svc.testnet".
type AccountID string

// GroupID is the name a group was registered under. It is chosen by its owner
// and is hostile input: never build a path or a URL from it.
type GroupID string

// Ref is the location reference of a stored file: what the wire calls cid,
// ipfs_hash or location. It is opaque and never parsed.
type Ref string

// Seq is a ledger sequence number, ascending; 0 means unknown.
type Seq int64

// Amount is an exact quantity of the native token in yocto (10^-24). [wire.ParseTokens]
// and [wire.ParseAmount] read one.
type Amount = wire.Amount

// Digest is the SHA-256 of a file's plaintext.
type Digest [sha256.Size]byte

// ComputeHash returns the SHA-256 of data. Free, local. Specification 4.2
// (computeHash).
func ComputeHash(data []byte) Digest { return sha256.Sum256(data) }

// ComputeHashReader returns the SHA-256 of what r holds, read to its end in
// small pieces. Free, local. Errors are those of r. Specification 4.2
// (computeHashAsync): cancel it by ending r.
func ComputeHashReader(r io.Reader) (Digest, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return Digest{}, fmt.Errorf("compute hash: %w", err)
	}
	return Digest(sum.Sum(nil)), nil
}

// parseDigest reads 64 hex digits of either case.
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

// Secret is a credential that prints as "redacted" in every format verb, in
// JSON and in logs. Reveal is the one way to its bytes. It lives in memory that is
// locked as far as the limit of locked memory allows (package locked). Two of them
// are equal only when one is a copy of the other.
type Secret struct {
	redacted
	memory *locked.Bytes
}

type redacted = locked.Redacted

// NewSecret wraps value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	memory := locked.Copy([]byte(value))
	return Secret{memory: &memory}
}

// Reveal returns a copy of the credential itself. Never print or store the result.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return string(s.memory.Slice())
}

// IsZero reports whether there is no credential.
func (s Secret) IsZero() bool { return s.memory == nil }

// String returns "redacted".
func (s Secret) String() string { return "redacted" }

// Role is what a member of a group may do.
type Role = wire.Role

// The roles.
const (
	RoleOwner  = wire.RoleOwner  // everything; one for each group, and for ever
	RoleWriter = wire.RoleWriter // reads, uploads, renames and deletes what it uploaded
	RoleReader = wire.RoleReader // reads, and changes nothing
)

// Member is a member of a group.
type Member struct {
	ID   AccountID
	Role Role // "" where the service has no roles
}

// Entry is one file record of a group, as the ledger lists it.
type Entry struct {
	Group      GroupID
	Ref        Ref
	Tx         string    // id of the ledger record, 64 hex digits without quotes
	Hash       Digest    // SHA-256 of the plaintext: what a retrieved file must match
	Uploader   AccountID // who recorded it
	Time       time.Time // of the ledger record; zero when unknown
	Seq        Seq       // of the upload; entries of a group ascend by it
	ChangedSeq Seq       // of the newest record about this file; where the next listing continues

	// Facts only a service with the extension "rows" tells. Name is hostile
	// input; it may be empty, contain slashes, or anything else.
	Name        string
	Size        int64 // plaintext bytes, or SizeUnknown
	ContentType string

	Deleted *Deletion // nil while the file lives and is not in the trash
}

// SizeUnknown is [Entry].Size when the ledger does not tell it.
const SizeUnknown int64 = -1

// Deletion tells when, by whom and why a file's key was destroyed, or that the file was
// removed and is in the trash.
type Deletion struct {
	Time   time.Time
	By     AccountID
	Reason string // one of the Reason constants of package wire

	// InTrash: the key is not destroyed, and not before Until; [Group.Restore] brings the
	// file back. A zero Until means when the owner of the group deletes it.
	InTrash bool
	Until   time.Time
}

// Receipt is what an upload returns once the service has recorded it.
type Receipt struct {
	Ref  Ref
	Tx   string // id of the ledger record, 64 hex digits without quotes
	Hash Digest
	Size int64     // plaintext bytes
	Seq  Seq       // 0 when the service does not tell
	Time time.Time // ledger time, or the local time of the answer when the service does not tell
	Fee  Amount    // charged by this call; zero when the service does not tell
}

// AuthStatus is the service's view of the caller.
type AuthStatus struct {
	Authenticated bool
	Account       AccountID
	Group         GroupID
	Authorized    bool   // the caller is a member of Group; false when no group was asked
	Role          Role   // of the caller in Group, where the service has roles
	Detail        string // why Authorized is false, where the service says so
}

// NetworkInfo is the configuration a [Client] works with.
type NetworkInfo struct {
	Network    string // "mainnet" or "testnet"
	ContractID string
	RPCURL     string
	MCPURL     string
	AuthURL    string
	// AccountPage is where users of the hosted service make accounts and keys; "" at a
	// service of one's own.
	AccountPage string
}
