// Package vaultwire is what the service and its vault say to each other: for each operation the shape of a question and
// of an answer. No answer holds a root, the key of the log, or a key of sessions, sign-ins or upload epochs.
package vaultwire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Setup is the line of JSON that svcd gives the svcvault that it starts.
type Setup struct {
	From    Source // of the master key
	Next    Source // of another one, which may be brought in; zero = none
	Restart bool   // start anew after a fault
	Confine bool   // open nothing but the master keys
	Legacy  bool   // give keys of files from before this service, to import them
	Client  int    // the process that alone may connect
}

// Start is the line of JSON that svcvault prints once it answers, or cannot.
type Start struct {
	Failed string `json:",omitempty"` // why it does not start; "" = it answers
	Hint   string `json:",omitempty"` // what to do about it
}

// Dialer gives a service its vault. next is the place of another master key, which may be brought in; zero = none. away
// makes the error of a vault that does not answer. A vault that is an io.Closer ends with the service.
type Dialer func(ctx context.Context, from, next Source, now func() time.Time, away func(error) error) (Vault, error)

// KeyBytes is the size of every key, in bytes.
const KeyBytes = 32

// Secret is a key or a token in a question or an answer. It prints as "redacted", and is encoded as what it is. Who got
// it in an answer clears it.
type Secret []byte

// Format prints "redacted" for every verb.
func (Secret) Format(f fmt.State, verb rune) { locked.Redacted{}.Format(f, verb) }

// LogValue gives "redacted" to slog.
func (Secret) LogValue() slog.Value { return locked.Redacted{}.LogValue() }

// wipe clears the secret of a question or an answer.
func wipe(v any) {
	switch v := v.(type) {
	case Wrap:
		clear(v.Key)
	case Kept:
		clear(v.Tickets)
	case Opened:
		clear(v.Key)
	case OpenedFile:
		clear(v.Key)
	case Archive:
		clear(v.Key)
	case Text:
		clear(v.Text)
	case OpenToken:
		clear(v.Token)
	case IssueToken:
		clear(v.Key)
	case Claims:
		clear(v.Request)
	case OpenFile:
		clear(v.Token)
	case OpenJournal:
		clear(v.Token)
	case Check:
		clear(v.Token)
	case Vouch:
		clear(v.Token)
	}
}

// Purposes of the keys of a service. Each is a key of its own, which the database keeps wrapped by the master key, so
// that another master key changes nothing for clients.
const (
	PurposeLog     = "ledger-checkpoint" // seed of the key that signs checkpoints
	PurposeTokens  = "session tokens"
	PurposeTickets = "transfer tickets"
	PurposePage    = "sign-ins at an identity provider"

	// PurposeUploads: seeds of the keys that clients seal file keys to. The version is the
	// number of the epoch.
	PurposeUploads = "uploads"

	PurposeFiles  = "file keys" // the root of the groups' keys
	PurposeLegacy = "legacy files"

	PurposeCredentials = "credentials" // what the database has of API keys is the vault's word
)

// Purposes lists them.
func Purposes() []string {
	return []string{PurposeLog, PurposeTokens, PurposeTickets, PurposePage, PurposeUploads, PurposeFiles, PurposeLegacy,
		PurposeCredentials}
}

// EpochLife is how long keys that were sealed to an epoch are opened after another one began; then its key is
// destroyed.
const EpochLife = 90 * 24 * time.Hour

var (
	// ErrOtherMaster means that a database was written under another master key.
	ErrOtherMaster = errors.New("the database was written under another master key")
	// ErrOtherKeys means that the vault keeps the keys of another database.
	ErrOtherKeys = errors.New("the vault keeps the keys of another database")
	// ErrNoNext means that the vault was told of no other master key.
	ErrNoNext = errors.New("the vault was not told of another master key")
	// ErrNoKeys means that a database has no keys at all.
	ErrNoKeys = errors.New("the database has no keys")
	// ErrEpoch means that the vault has no key of an epoch, or none any more.
	ErrEpoch = errors.New("the vault has no key of this epoch")
	// ErrUnknownKey means that the vault was not given the version of a key yet: [Vault.Keep] gives it.
	ErrUnknownKey = errors.New("the vault does not have this version of the key")
	// ErrNotOpened means that a wrapped key does not belong to what it is said to belong to.
	ErrNotOpened = errors.New("the record does not belong to this master key, group, reference and version")
	// ErrHeld means that a key was held by a vault that has ended, or for another group.
	ErrHeld = errors.New("the key was held by a vault that has ended, or for another group")
	// ErrNoLegacy means that the vault was started without leave to give keys of files from before this service.
	ErrNoLegacy = errors.New("the vault gives no keys of files from before this service")
	// ErrNoText means that the vault signs no such text.
	ErrNoText = errors.New("the vault signs no such text")
	// ErrNotFollowing means that a tree of the log does not follow from the newest one of the vault, or is not that.
	ErrNotFollowing = errors.New("the tree does not follow from the newest one of the vault")
	// ErrNoClaim means that the key of a file was asked for without the record of its retrieval, or for one once more.
	ErrNoClaim = errors.New("the key of a file is given out for the record of its retrieval alone, and once")
	// ErrNotFollowed means that the vault lacks records of a group: [Vault.Follow] gives them.
	ErrNotFollowed = errors.New("the vault lacks records of this group")
	// ErrNoMember means that an account is no member of a group, as its chain says.
	ErrNoMember = errors.New("the account is no member of this group")
	// ErrNotVouched means that no session of its account asked for a record.
	ErrNotVouched = errors.New("no session of its account asked for this record")
	// ErrCredential means that the vault did not make a credential, or made a later one.
	ErrCredential = errors.New("the API key in the database is not the one that the vault made last")
	// ErrWrongKey means that an account has another API key, or none.
	ErrWrongKey = errors.New("the account has another API key")
	// ErrSealedOnly means that an API key is taken sealed alone, or that a key of a file or journal is given so.
	ErrSealedOnly = errors.New("this key is taken and given sealed alone")
	// ErrSealed means that a sealed key does not open.
	ErrSealed = errors.New("the sealed key does not open")
)

// Vault is the operations of a vault. All are safe for concurrent use. Slices in a question stay the caller's, those in
// an answer belong to the caller.
type Vault interface {
	// Keep gives the vault the wrapped keys of the database. It keeps those it had. Errors: [ErrOtherMaster],
	// [ErrNoKeys], [ErrOtherKeys].
	Keep(context.Context, Keep) (Kept, error)
	// Make makes random keys. The vault keeps them once [Vault.Keep] brings them from the database.
	Make(context.Context, Make) (Made, error)
	// Forget destroys the keys of ended epochs.
	Forget(context.Context, Forget) (Nothing, error)

	// Sign signs with a key of the log: Ed25519. The vault writes the text itself, so that a service that somebody took
	// over has no other signed, and no tree of the log but its newest one, under whichever key and origin. Errors:
	// [ErrUnknownKey], [ErrNoText], [ErrNotFollowing].
	Sign(context.Context, Sign) (Signed, error)
	// Extend gives the vault the next records of the log: its tree follows from them, and no other tree of the log is
	// signed from then on. The first tree since the vault began is believed. Errors: [ErrNotFollowing].
	Extend(context.Context, Extension) (Nothing, error)
	// Follow gives the vault the chain of a group, which says who belongs to it. The chain has what the log has of it,
	// and may go on. Errors: [ErrNotFollowing].
	Follow(context.Context, Follow) (Followed, error)
	// Vouch says that a session of its account asked for a record that lets somebody in. Errors: [TokenError],
	// [ErrNotVouched].
	Vouch(context.Context, Vouch) (Vouched, error)
	// Unvouched says for which records that let somebody in the vault did not vouch.
	Unvouched(context.Context, LettingIn) (Unvouched, error)
	// NewestTree is that of the log as the vault follows it, the zero value if it does not yet.
	NewestTree(context.Context, Nothing) (Tree, error)
	// SealPage and OpenPage keep the state of a sign-in at an identity provider in a cookie: AES-256-GCM.
	SealPage(context.Context, Text) (Text, error)
	OpenPage(context.Context, Text) (Text, error)

	// MakeKey makes an API key. TakeKey gives it, once the record of it is committed. Errors: [ErrNoClaim], [ErrHeld].
	MakeKey(context.Context, MakeKey) (MadeKey, error)
	TakeKey(context.Context, TakeKey) (Opened, error)
	// SealOnly makes a credential of the same API key, which is taken sealed alone. Errors: [ErrCredential].
	SealOnly(context.Context, SealOnly) (MadeKey, error)
	// IssueToken makes a session token, for the API key of an account, or for the record of a sign-in at the account
	// page. Errors: [ErrCredential], [ErrWrongKey], [ErrSealedOnly], [ErrNoClaim], and for an opening [ErrEpoch],
	// [ErrUnknownKey], [ErrSealed].
	IssueToken(context.Context, IssueToken) (Text, error)
	// OpenToken reads a token. Errors: [TokenError].
	OpenToken(context.Context, OpenToken) (Claims, error)

	// Wrap wraps the key of a file by a root. Errors: [ErrUnknownKey], [ErrHeld], [ErrNotOpened] for a held key in
	// another place than that of a file, and [ErrSealedOnly] for one in the clear that is to be given sealed alone.
	Wrap(context.Context, Wrap) (Wrapped, error)
	// OpenFile opens the key of a file, for a member who retrieves it, and counts it: a checkpoint says how many keys
	// were given out without a record in the log, and how many in the clear. It comes sealed for a sealed session.
	// Errors: [ErrNotOpened], [ErrNoClaim], [TokenError], [ErrNotFollowed], [ErrNoMember], and [ErrSealedOnly] for one
	// that is given so alone.
	OpenFile(context.Context, OpenFile) (OpenedFile, error)
	// OpenList opens the list key of a group, which opens no file. Errors: [ErrNotOpened].
	OpenList(context.Context, OpenList) (Opened, error)
	// Check checks the key of a file, and that a session may have it, and does not give the key out. Errors: those of
	// OpenFile but [ErrNoClaim].
	Check(context.Context, Check) (Checked, error)
	// Rewrap wraps keys by another root.
	Rewrap(context.Context, Rewrap) (Rewrapped, error)
	// OpenSealed opens a key that a client sealed for an upload, and holds it for [Vault.Wrap] with a file of the group
	// that the head names. Errors: [ErrEpoch], [ErrSealed].
	OpenSealed(context.Context, OpenSealed) (Held, error)
	// OpenJournal opens the key of a journal of an account, in a sealed session of that account alone. Errors:
	// [ErrEpoch], [ErrSealed], [ErrSealedOnly], [TokenError].
	OpenJournal(context.Context, OpenJournal) (SealedKey, error)
	// Legacy gives the key of a group that files from before this service are sealed with. Errors: [ErrNoLegacy].
	Legacy(context.Context, Binding) (Opened, error)

	// Archive gives the key that seals archives, and the name of the master key.
	Archive(context.Context, Nothing) (Archive, error)
	// ReadNext reads the other master key that this vault was told of, which is to be brought in. Errors: [ErrNoNext].
	ReadNext(context.Context, ReadNext) (Named, error)
	// WrapForNext wraps all keys, and a new root, for the other master key.
	WrapForNext(context.Context, Keep) (Made, error)
	// UseNext brings the file of the other master key to the place of the one in use, where the vault makes that.
	UseNext(context.Context, Nothing) (Replaced, error)
}

// Nothing is a question or an answer without any.
type Nothing struct{}

// Key is a key of the service, without its secret.
type Key struct {
	Purpose string
	Version int64 // a later version replaces an earlier one
	Made    int64 // ns
	Public  []byte
}

// Row is a key of the service as the database has it.
type Row struct {
	Key
	Master  string // name of the master key that wraps it
	Wrapped []byte
}

type (
	// Keep is the wrapped keys of a database.
	Keep struct {
		Rows List[Row]
		// Again has the vault run the command for the master key again, if another one wraps the rows. A file it reads
		// again in any case.
		Again bool
		// Begins has sessions and tickets be signed with the newest keys from then on: a service begins.
		Begins bool
		// Replace has keys take the place of others of the same purpose and version: an import brought them.
		Replace bool
	}
	// Kept is all keys that the vault has.
	Kept struct {
		Master      string // name of the master key
		Measurement string // of the program that keeps the keys, as it says itself: hex SHA-256
		// Tickets is what svcd signs tickets with: HMAC-SHA-256. A ticket gives ciphertext, which svcd has.
		Tickets Secret
		Keys    []Key
	}
	// Make asks for random keys.
	Make struct{ Keys List[Key] }
	// Made is new rows of the database.
	Made struct {
		Rows   []Row
		Master string
	}
	// Forget names the newest epoch that is not to be forgotten.
	Forget struct{ Before int64 }
)

type (
	// Signed is a signature, 64 bytes.
	Signed struct {
		Signature []byte
		Opens     wire.Opens // of a tree: its text has them
	}
	// Text is a text or a token, sealed or not.
	Text struct{ Text Secret }
)

// MaxParts bounds the parts of one [Check]: their keys fit into a frame.
const MaxParts = 4096

// Binding is the owner of a wrapped key; the key cannot be unwrapped for another.
type Binding struct {
	Group   string
	Ref     string
	Version int64 // of the group's key
	Sealed  bool  // the key is given in sealed sessions alone. A wrapped key says that itself
}

// ListBinding is the owner of the list key of a group. No file has an empty reference.
func ListBinding(group string) Binding { return Binding{Group: group} }

// Bytes is the binding without ambiguity.
func (b Binding) Bytes() []byte {
	var out []byte
	domain := "svc-file-key-1"
	if b.Sealed {
		domain = "svc-sealed-file-key-1"
	}
	for _, s := range []string{domain, b.Group, b.Ref} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(s)))
		out = append(out, s...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(b.Version))
}

type (
	// Wrap asks for the wrapped form of a key, which is in the clear or held.
	Wrap struct {
		Root    int64
		Binding Binding
		Key     Secret
		Held    []byte
	}
	// Wrapped is a wrapped key.
	Wrapped struct{ Wrapped []byte }
	// WrappedKey is a wrapped key and its owner.
	WrappedKey struct {
		Binding Binding
		Wrapped []byte
	}
	// OpenList is the wrapped list key of a group.
	OpenList struct {
		Group   string
		Wrapped []byte
	}
	// Check is the key of a file, and what it is to open.
	Check struct {
		WrappedKey
		Token    Secret // of the session in which it is to be opened; nil = none
		KeyCheck []byte // of the metadata, see [format.KeyCheck]; nil = it is not asked
		Parts    []byte // wrapped keys of at most [MaxParts] parts, each of [format.WrappedKeyBytes]
	}
	// Checked says what is wrong with a key that opens.
	Checked struct {
		Other bool  // it is not the one that the metadata names
		Bad   []int // parts whose keys it does not open
	}
	// Rewrap asks to wrap keys by a root.
	Rewrap struct {
		Root int64
		Keys List[WrappedKey]
	}
	// Rewrapped is the keys in their order: nil = it is wrapped by that root already. Bad are those that do not open.
	Rewrapped struct {
		Wrapped [][]byte
		Bad     []int
	}
	// OpenSealed is a key that a client sealed for an upload with a head.
	OpenSealed struct {
		For    format.SealedFor
		Head   []byte // what it is sealed with, see [wire.SealedHead.Bound]
		Sealed []byte
	}
	// Held is a key that only the vault that gave it can open, for its group alone, until the vault ends.
	Held struct{ Held []byte }
	// OpenJournal is the key of a journal that a client sealed, and the token of its session.
	OpenJournal struct {
		For    format.JournalFor
		Sealed []byte
		Token  Secret
	}
	// SealedKey is a key for the client of a sealed session, of format.SessionKeyBytes.
	SealedKey struct{ Sealed []byte }
	// Opened is a key.
	Opened struct{ Key Secret }
)

type (
	// Archive is what archives are sealed with.
	Archive struct {
		Master string // name of the master key
		Key    Secret
	}
	// ReadNext asks for the other master key. With Make it is made, if its file is missing.
	ReadNext struct{ Make bool }
	// Named is the name of a master key.
	Named struct{ Master string }
	// Replaced is the file that has the earlier master key now.
	Replaced struct{ Kept string }
)
