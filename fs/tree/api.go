package tree

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/view"
)

// Remote is the service as the tree uses it. [Client] implements it.
type Remote interface {
	Account() sdk.AccountID
	// Groups lists the caller's groups. See [Config].ReadPrice.
	Groups(ctx context.Context) ([]sdk.Group, error)
	// IsAuthorized asks the ledger whether an account belongs to a group. Free.
	IsAuthorized(ctx context.Context, g sdk.GroupID, account sdk.AccountID) (bool, error)
	// Entries lists files and folders that changed since, as [sdk.Group.News]. See [Config].ReadPrice.
	Entries(ctx context.Context, g sdk.GroupID, since *view.View) ([]sdk.Entry, error)
	// HoldList counts bytes of memory that listed entries take here, negative for those that are
	// gone. See [sdk.Client.HoldList]. Local.
	HoldList(bytes int64) error
	// Retrieve fetches and verifies one file. Costs one claim.
	Retrieve(ctx context.Context, e sdk.Entry, into *mem.Buffer) (fee sdk.Amount, err error)
	// Upload records one file. Costs one upload; never twice for one content.
	Upload(ctx context.Context, g sdk.GroupID, name string, b *mem.Buffer, o sdk.PutOptions) (sdk.Receipt, error)
	// SetAttributes records other attributes of one upload. Free. Only with
	// Config.Ours. It and the other changes below return the uploads as Entries lists them from then on. One that
	// was changed so before is not among them, or has no Ref.
	SetAttributes(ctx context.Context, g sdk.GroupID, ref sdk.Ref, a sdk.Attributes) (sdk.Entry, error)
	// RegisterGroup creates a group. Costs one registration.
	RegisterGroup(ctx context.Context, g sdk.GroupID) error
	// GroupMembers, GroupOwner and GroupChecksum describe a group. The members cost as
	// much as a listing, the others are free.
	GroupMembers(ctx context.Context, g sdk.GroupID) ([]sdk.AccountID, error)
	GroupOwner(ctx context.Context, g sdk.GroupID) (sdk.AccountID, error)
	GroupChecksum(ctx context.Context, g sdk.GroupID) (string, error)
	// GroupAppends is what becomes of appends to what others saved, see [sdk.Settings.Get]. Free. Only with
	// Config.Ours.
	GroupAppends(ctx context.Context, g sdk.GroupID) (string, error)
	// RenameFile records another name for one upload. Only with Config.Ours.
	RenameFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref, name string) (sdk.Entry, error)
	// RenameFolder records other names for all uploads beneath a folder, or for none; seen is
	// the newest record that is known of them. It costs what renaming each costs. Only with
	// Config.Ours.
	RenameFolder(ctx context.Context, g sdk.GroupID, folder, to string, seen sdk.Seq) (sdk.FolderRename, error)
	// MakeFolder records a folder, and RemoveFolder takes that back. Free. Only with
	// Config.Ours. The result is the folder as Entries lists it, without Ref if it was recorded before.
	MakeFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Entry, error)
	RemoveFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Entry, error)
	// RemoveVersions puts the versions of a name into the trash. Only with
	// Config.Ours.
	RemoveVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error)
	// RestoreVersions brings them back. Only with Config.Ours.
	RestoreVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error)
	// DeleteFile destroys the key of one upload. Only with Config.AllowDelete.
	DeleteFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref) (sdk.Entry, error)
}

// Node is an inode: *Dir or *File.
type Node interface {
	Attr() Attr
	Path() string
	Parent() (*Dir, string)
	Changeable(op string) error
	SetMode(mode uint32)
	SetTimes(mtime time.Time)
	SetAccessed()
}

// Attr holds the attributes that stat shows. Reading them never blocks and never spends.
type Attr struct {
	Ino, Gen uint64 // (Ino, Gen) never names two inodes during the life of a Tree
	Dir      bool
	Link     bool // a symbolic link; Size is the length of its target
	ReadOnly bool // mode without write bits: control files, old versions
	Control  bool // of a .svcfs directory: looking at it is not using the mount
	Unsized  bool // the size is not known yet; Size is 0
	Foreign  bool // another account's: see owner.go
	Unsure   bool // not all of it is known: Foreign may change with what is looked at next
	Size     int64
	Blocks   int64 // of 512 bytes
	Nlink    uint32
	Mtime    time.Time
	Ctime    time.Time
	Mode     uint32 // permission bits set by chmod or create, where HasMode
	HasMode  bool
	// Executable is the execute bit of a file, with which Mode agrees.
	Executable bool
}

// DirEntry is one name of a directory.
type DirEntry struct {
	Name string
	Node Node
}

// OpenFlags are the flags of an open.
type OpenFlags struct {
	Read, Write, Append, Truncate bool
	NoAtime                       bool // the caller does not count this as an access
	NoWait                        bool // the caller does not wait for the content (O_NONBLOCK)
	// Caller describes the process that asks, for messages and crawler rules.
	Caller Caller
}

// Caller is the process behind a request.
type Caller = policy.Caller

// Class is the class of an error; package fs maps it to an errno.
type Class uint8

// The classes, with the errno that package fs gives them.
const (
	ClassOther       Class = iota // EIO
	ClassNotExist                 // ENOENT
	ClassExist                    // EEXIST
	ClassNotDir                   // ENOTDIR
	ClassIsDir                    // EISDIR
	ClassNotEmpty                 // ENOTEMPTY
	ClassByDesign                 // EPERM: refused by design
	ClassAccess                   // EACCES: not a member, crawler
	ClassRevoked                  // EKEYREVOKED: revoked, or shredded while open
	ClassRejected                 // EKEYREJECTED: unknown account, dead credentials
	ClassBudget                   // EDQUOT: balance or budget
	ClassCorrupt                  // EIO: bytes that fail tag or hash
	ClassUnreachable              // EHOSTUNREACH
	ClassTimeout                  // ETIMEDOUT
	ClassInterrupted              // EINTR
	ClassTooBig                   // EFBIG
	ClassNoMemory                 // ENOMEM: the memory for staged content, or for lists
	ClassReadOnly                 // EROFS
	ClassCrossDevice              // EXDEV
	ClassInvalid                  // EINVAL
	ClassNameTooLong              // ENAMETOOLONG
	ClassBadHandle                // EBADF
	ClassNoSpace                  // ENOSPC: the service's storage is full
	ClassBusy                     // EBUSY
	ClassUnsupported              // ENOTSUP
	ClassStale                    // ESTALE: the kernel looks the name up again
	ClassNoAttribute              // ENODATA: no such extended attribute
	ClassConflict                 // reported, never returned: two wrote the same name (W11)
)

// Error is the one error type of this package.
type Error struct {
	Class Class
	Op    string // in words: "open", "close", "rename"
	Path  string // below the mount, escaped as shown
	Err   error  // cause; its text is one sentence without secrets
	Hint  string // the next command or action; may be empty
}

// Error returns operation, path and cause.
func (e *Error) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Kernel is notified when something that the kernel may have cached is no longer true.
// Methods are called without any lock of the tree held and may block briefly.
type Kernel interface {
	// EntryChanged: name in d vanished or points at another inode. There is no
	// notice for names that appear: the kernel may not remember that a name is absent.
	EntryChanged(d *Dir, name string)
	// ContentChanged: cached pages and attributes of f are stale.
	ContentChanged(f *File)
	// AttributesChanged: cached attributes of the file that name in d points at are stale.
	AttributesChanged(d *Dir, name string)
	// OwnerChanged: from now on d is Foreign.
	OwnerChanged(d *Dir)
	// ChangedByOthers: a listing brought changes that programs may watch for.
	ChangedByOthers(list []Change)
	// ContentGone: no page of the files that match selects may be shown again,
	// also of files that no name points at any more (M5).
	ContentGone(match func(f *File) bool)
	// Settle waits until no notice waits for the kernel, or ctx ends: a program that saves
	// by a rename holds its folder, and the notices, for as long as the upload takes.
	Settle(ctx context.Context)
}
