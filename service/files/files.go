// Package files holds the rules of uploads, retrievals and listings. The bytes of a file
// are on the disk before its record commits, and the record commits before the caller
// gets an answer. The transaction that hands out a key or records an upload also checks
// membership.
//
// A file of this package begins with the room that it is in:
//
//	upload   what becomes a file: prepared, sealed or in parts; every one ends in Files.record
//	content  where bytes and keys are: a row, a blob, or parts with their manifest; readers, and the operator's check
//	list     what members and the public see: the chain of a group, a folder by page, versions, what records commit to
//	names    what changes of a file that stays: its name, its folder, its attributes
//	ends     what ends a file: deletion, trash, retention, and the delay of many
//	gc       what takes space back: only this room removes blobs
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/legacy"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// UploadLife is how long an upload id is good, from when it was handed out or
	// bytes of the raw transfer came.
	UploadLife = 300 * time.Second
	// claimLife is how long a claim may be repeated without a second fee.
	claimLife = time.Hour
	// keyPatience is how long the vault may take to give a key that is paid.
	keyPatience = 20 * time.Second
	// MaxFilename is the longest recorded name, in bytes: a path of components.
	MaxFilename = names.MaxPathBytes
	// maxContentType is the longest recorded type, in bytes (RFC 6838 section 4.2).
	maxContentType = 255
	// orphanAge is how old a blob without a record must be before it is removed.
	orphanAge = 2 * UploadLife
)

// Blobs is where ciphertext is kept.
type Blobs interface {
	Put(ctx context.Context, r io.Reader, limit int64) (blob.Info, error)
	PutProved(ctx context.Context, r io.Reader, limit int64) (blob.Info, error)
	Open(ctx context.Context, id string) (io.ReadSeekCloser, int64, error)
	Read(ctx context.Context, id string, size int64) ([]byte, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error
	Sweep(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error
}

// Files answers uploads, retrievals and listings.
type Files struct {
	store    *store.Store
	ledger   *ledger.Ledger
	log      *checkpoint.Log
	keys     *keys.Keys
	blobs    contentStore
	config   Config
	fetching singleflight.Group // of bytes behind a legacy reference
	coming   coming
	contents contents
	limits   Limits
	unread   unread
	listKeys listKeys

	scrubbing chan struct{}            // holds one, of who cleans
	cleaning  atomic.Pointer[cleaning] // the next one
	traces    atomic.Bool              // keys were destroyed since the last scrub, or may have been

	orphans map[string]bool // blobs that had no record at the last sweep of blobs
}

// Config configures the files of a service.
type Config struct {
	ContractID       string
	MaxFileBytes     int64           // of plaintext, in blocks
	MaxWholeBytes    int64           // of plaintext, in one piece (format version 1); 0 = MaxFileBytes
	PlainRefs        bool            // references of new files do not start with bafy
	Gateway          *legacy.Gateway // asked for the bytes of legacy references that are not kept here; nil = none
	DestructionDelay time.Duration   // of deletions in bulk; 0 or less = none
	// of the uploads an account has begun and not finished; 0 = OpenBytes, OpenFiles of MaxWholeBytes or one of
	// MaxFileBytes, whichever is most
	MaxOpenBytes int64

	// the largest ciphertext that lies in the database; 0 = SmallBytes, negative = none does
	SmallBytes int64
	// of ciphertext that is kept for an account; 0 = a QuotaShare-th of the disk, negative = any number
	MaxAccountBytes int64
	MaxGroupBytes   int64         // and for a group
	Space           *space.Keeper // of the disks
}

// New returns the files of a service.
func New(s *store.Store, l *ledger.Ledger, log *checkpoint.Log, k *keys.Keys, b Blobs, c Config) *Files {
	if c.MaxWholeBytes <= 0 {
		c.MaxWholeBytes = c.MaxFileBytes
	}
	if c.MaxOpenBytes <= 0 {
		inBlocks := format.Layout{Size: c.MaxFileBytes, BlockBytes: format.MinBlockBytes}
		c.MaxOpenBytes = max(OpenBytes, OpenFiles*(c.MaxWholeBytes+format.Overhead), inBlocks.SealedBytes())
	}
	if c.SmallBytes == 0 {
		c.SmallBytes = SmallBytes
	}
	f := &Files{store: s, ledger: l, log: log, keys: k, config: c, scrubbing: make(chan struct{}, 1)}
	f.blobs = contentStore{b, s, &f.traces}
	f.cleaning.Store(new(cleaning))
	f.traces.Store(true) // of a process that ended before it could scrub
	return f
}

// Limits are those of the process on what single requests take. The zero value limits
// nothing.
type Limits struct {
	// Memory takes so many bytes for the request of a context until it is answered, or
	// refuses the request.
	Memory func(ctx context.Context, bytes int64) error
	// Turn waits until the request may keep a core busy; done ends that.
	Turn func(ctx context.Context) (done func(), err error)
}

// Limit sets the limits, before the first request.
func (f *Files) Limit(l Limits) { f.limits = l }

// takeMemory asks [Limits].Memory.
func (f *Files) takeMemory(ctx context.Context, bytes int64) error {
	if f.limits.Memory == nil {
		return nil
	}
	return f.limits.Memory(ctx, bytes)
}

// takeTurn asks [Limits].Turn.
func (f *Files) takeTurn(ctx context.Context) (done func(), err error) {
	if f.limits.Turn == nil {
		return func() {}, nil
	}
	return f.limits.Turn(ctx)
}

// newRef makes a reference: three parts like those of the hosted service, the second
// constant per group. SDK 1.0.3 accepts only references that start with "bafy", so they
// do unless the operator turns that off. References are looked up, never parsed.
func (f *Files) newRef(group string) string {
	sum := sha256.Sum256([]byte("svc-location\x00" + f.config.ContractID + "\x00" + group))
	prefix := "bafy."
	if f.config.PlainRefs {
		prefix = ""
	}
	return prefix + f.config.ContractID + "/fastfs." + f.config.ContractID + "/" + hex.EncodeToString(sum[:]) + "/" +
		newUUID()
}

// newUUID begins with the time (RFC 9562 version 7), so that rows made together are
// neighbours in the index: many of them change one page.
func newUUID() string { return uuid.Must(uuid.NewV7()).String() }
