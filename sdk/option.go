package sdk

import (
	"errors"

	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// PutOption is an option of [Group.Put]. A call takes the options of the type that its signature names; another
// option does not compile. If an option is given twice, the last one counts.
type PutOption interface{ put(*options) }

// SealOption is an option of [Group.Seal].
type SealOption interface{ seal(*options) }

// UploadOption is an option of [Group.Upload], [Group.Put] and [Group.Seal].
type UploadOption interface {
	PutOption
	SealOption
}

// FinishOption is an option of [BlockUpload.Finish].
type FinishOption interface{ finish(o *options) }

// BlocksOption is an option of [Group.BeginBlocks].
type BlocksOption interface{ begin(*options) }

// ListOption is an option of [Group.List] and [Group.Entries].
type ListOption interface{ list(*listing) }

// JoinOption is an option of [Group.OpenJoin].
type JoinOption interface{ join(*wire.OpenJoinRequest) }

// options are the options of an upload.
type options struct {
	compress bool
	progress Progress
	attrs    Attributes
	resume   resume
	base     string // of [Base]; "" = none
	from     string // see [wire.SealedHead].From
	id       string // of an upload in blocks; "" = a new one
	save     *saving.Save
	sent     []saving.Part     // see [SentParts]
	note     func(saving.Part) // see [SentParts]; may be nil
}

// listing are the options of a list.
type listing struct {
	since   Seq
	known   Known // nil = nothing
	folders bool
}

// Compress makes an upload compress content before encryption, if a
// sample shows that compression pays. It is off by default: the JavaScript SDK 1.0.3 and
// 1.1 return the compressed bytes as content, without an error. The hash in the ledger
// stays the hash of the content. Content in blocks is never compressed.
func Compress() UploadOption { return compress{} }

type compress struct{}

func (compress) put(o *options)  { o.compress = true }
func (compress) seal(o *options) { o.compress = true }

// WithAttributes makes an upload record attributes with the file. The call returns
// [ErrInvalid] or [ErrTooLarge] for attributes that cannot be recorded, see
// [Attributes.Check]. With a target the file is a symbolic link, whose content must be the
// target. Attributes are not sent to the hosted service; look at
// [Client.Capabilities] first if the file would be wrong without, as a link is. An upload
// that is repeated after a lost answer gets the attributes of the newest attempt.
type WithAttributes Attributes

func (a WithAttributes) put(o *options)  { o.attrs = Attributes(a) }
func (a WithAttributes) seal(o *options) { o.attrs = Attributes(a) }

// Base binds an upload to what the caller knows of the name: the service
// refuses the upload with [ErrConflict] and [wire.CodeHead], and records and charges nothing, unless
// it is the newest version of the name. "" = the name has no version. At a service that takes no sealed
// uploads the call returns [ErrUnsupported] and sends nothing. Content in one block may have
// [wire.WholeFileBytes].
type Base Ref

func (b Base) put(o *options) {
	if o.base = string(b); b == "" {
		o.base = wire.NoBase
	}
}
func (b Base) seal(o *options)   { b.put(o) }
func (b Base) begin(o *options)  { b.put(o) }
func (b Base) finish(o *options) { b.put(o) }

// Resume makes [Group.Put] of a large *os.File go on where an earlier one stopped, in this process
// or another: with the same service, account, group, name and file, which must be unchanged by
// size, times and inode. What the service has already is not sent again; the file is read once
// from its beginning all the same, for its hash.
//
// dir is a folder, which is made if it does not exist. While the upload is not recorded, a file
// in it, with mode 0600, says how far it has come: the id of the upload, its key, sealed to the vault of the service,
// size, times and inode of the file, and hashes, but no name and no content. Who has the file learns the key only from
// the service, as this account and as a member. The file is removed when the upload was recorded.
// Files of uploads that the service gave up, after 24 hours without a part, go by and by; at most 100
// stay. Without a large file, or without format version 2, Resume does nothing.
//
// told, if it is not nil, is called at most once, before anything is sent, if there was an earlier attempt,
// or if dir cannot be used. kept is how many bytes of the content the service has already, all of them
// if the earlier attempt was recorded. why is nil if the upload goes on; else it says why it begins anew:
// [ErrConflict] = the file changed since, or the vault opens its key no more,
// [ErrNotFound] = the service has given the upload up; other errors = dir cannot be used, or another
// process is sending the file, so that this one could not be resumed.
func Resume(dir string, told func(kept int64, why error)) PutOption {
	return resume{dir: dir, told: told}
}

func (r resume) put(o *options) { o.resume = r }

// Progress makes uploads, [Group.Open] and its variants report how many bytes of the
// content were transferred. The counts are bytes on the wire, where JSON takes a third more
// than the file. total is -1 if the service does not tell it. Progress is called often, from
// other goroutines but never concurrently, and must return quickly. A repeated transfer
// starts at 0 again. The received bytes are not verified yet. Transfers below 64 KiB are
// not reported. Of a file of format version 2 the bytes of all reads are counted, which may fetch a block
// again.
type Progress func(done, total int64)

func (p Progress) put(o *options)  { o.progress = p }
func (p Progress) seal(o *options) { o.progress = p }

// FromStart makes [Group.OpenBlocks] ask for the first block with the key, and for as many more as hold so many
// bytes more, up to 4 MiB in all, where the service offers that and is more than 20 ms away: a reader that begins
// there waits for one round trip instead of two. Who reads on best asks for [Traffic].Line bytes more. The
// blocks come while they are read; after 5 seconds without a reader the rest is given up, and that costs the
// connection.
type FromStart int64

// Since makes a list hold only records with a larger ChangedSeq.
type Since Seq

func (s Since) list(o *listing) { o.since = Seq(s) }

// Known is what a caller knows of a group, as lists of one client and the answers to its changes told it. Package view
// has one.
type Known interface {
	After() Seq           // the largest ChangedSeq that a list told; 0 = there was none
	Entry(ref Ref) *Entry // the newest row of a file or folder; nil = it is not known
	// Beneath returns the living files beneath a folder, with the folders that are recorded there, and the folder
	// itself. all is false if there may be others.
	Beneath(folder string) (list []*Entry, all bool)
}

// News makes a list hold what changed since a caller listed, with folders. Where it goes on after the newest list, it
// reads only new records, and checks them against what is known of the files before. The list reads known while it is
// made.
func News(known Known) ListOption { return newsFor{known} }

type newsFor struct{ known Known }

func (n newsFor) list(o *listing) { *o = listing{n.known.After(), n.known, true} }

// WithFolders makes a list hold recorded folders too, among the files, also
// those that were removed. Of a folder that was made long before the records that [Since] lists, and was
// removed since, Seq is 0.
func WithFolders() ListOption { return withFolders{} }

type withFolders struct{}

func (withFolders) list(o *listing) { o.folders = true }

// As sets the role [RoleReader] or [RoleWriter] of the member that [Group.Add] adds, or of
// the accounts that join after [Group.OpenJoin]. "" is the same as no option. At a service
// without roles the call returns [ErrUnsupported] and changes nothing.
type As Role

func (a As) join(r *wire.OpenJoinRequest) { r.Role = Role(a) }

// AtMost bounds how many accounts may join after [Group.OpenJoin]: 1 or more.
type AtMost int64

func (a AtMost) join(r *wire.OpenJoinRequest) { r.MaxUses = (*int64)(&a) }

// applied returns what the options of a call say.
func applied[O, S any](given []O, apply func(O, *S)) (said S) {
	for _, option := range given {
		apply(option, &said)
	}
	return said
}

// last returns the last of the options of a call that takes one kind; the zero value = none was given.
func last[O any](given []O) (o O) {
	if n := len(given); n > 0 {
		o = given[n-1]
	}
	return o
}

// errNoBase refuses [Base] where nothing would compare it.
var errNoBase = &Error{Op: "bind the upload", Kind: ErrUnsupported,
	Err: errors.New("the service does not compare the version that an upload replaces")}
