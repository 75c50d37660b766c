package sdk

import (
	"errors"
	"slices"
)

// Option changes one call. Each option says which calls take it. Any other call returns
// [ErrInvalid] and sends nothing.
type Option struct {
	name  string
	apply func(*options)
}

// reporter is the function of [Progress]; may be nil.
type reporter func(done, total int64)

type options struct {
	compress bool
	progress reporter
	since    Seq
	folders  bool
	role     Role
	uses     *int64 // nil = any number
	attrs    Attributes
	resume   resume
	base     string // of [Base]; "" = none
	from     string // see [wire.SealedHead].From
	id       string // of an upload in blocks; "" = a new one
	save     *SaveID
	sent     []SentPart     // see [SentParts]
	note     func(SentPart) // see [SentParts]; may be nil
	start    bool
	more     int64 // with start: bytes behind the first block
}

// Compress makes [Group.Put] and [Group.Upload] compress content before encryption, if a
// sample shows that compression pays. It is off by default: the JavaScript SDK 1.0.3 and
// 1.1 return the compressed bytes as content, without an error. The hash in the ledger
// stays the hash of the content.
func Compress() Option { return Option{"Compress", func(o *options) { o.compress = true }} }

// WithAttributes makes [Group.Put] and [Group.Upload] record a with the file. They return
// [ErrInvalid] or [ErrTooLarge] for attributes that cannot be recorded, see
// [Attributes.Check]. With a target the file is a symbolic link, whose content must be the
// target. a is not sent to the hosted service; look at
// [Client.Capabilities] first if the file would be wrong without, as a link is. An upload
// that is repeated after a lost answer gets the attributes of the newest attempt.
func WithAttributes(a Attributes) Option {
	return Option{"WithAttributes", func(o *options) { o.attrs = a }}
}

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
func Resume(dir string, told func(kept int64, why error)) Option {
	return Option{"Resume", func(o *options) { o.resume = resume{dir: dir, told: told} }}
}

// Progress makes [Group.Put], [Group.Open] and their variants report how many bytes of the
// content were transferred. The counts are bytes on the wire, where JSON takes a third more
// than the file. total is -1 if the service does not tell it. report is called often, from
// other goroutines but never concurrently, and must return quickly. A repeated transfer
// starts at 0 again. The received bytes are not verified yet. Transfers below 64 KiB are
// not reported. Of a file of format version 2 the bytes of all reads are counted, which may fetch a block
// again.
func Progress(report func(done, total int64)) Option {
	return Option{"Progress", func(o *options) { o.progress = report }}
}

// FromStart makes [Group.OpenBlocks] ask for the first block with the key, and for as many more as hold more
// bytes, up to 4 MiB in all, where the service offers that and is more than 20 ms away: a reader that begins
// there waits for one round trip instead of two. Who reads on best asks for [Traffic].Line bytes more. The
// blocks come while they are read; after 5 seconds without a reader the rest is given up, and that costs the connection.
func FromStart(more int64) Option {
	return Option{"FromStart", func(o *options) { o.start, o.more = true, more }}
}

// Since makes [Group.List] and [Group.Entries] list only records with a larger ChangedSeq.
func Since(seq Seq) Option { return Option{"Since", func(o *options) { o.since = seq }} }

// WithFolders makes [Group.List] and [Group.Entries] list recorded folders too, among the files, also
// those that were removed. Of a folder that was made long before the records that [Since] lists, and was
// removed since, Seq is 0.
func WithFolders() Option { return Option{"WithFolders", func(o *options) { o.folders = true }} }

// As sets the role [RoleReader] or [RoleWriter] of the member that [Group.Add] adds, or of
// the accounts that join after [Group.OpenJoin]. "" is the same as no option. At a service
// without roles the call returns [ErrUnsupported] and changes nothing.
func As(role Role) Option { return Option{"As", func(o *options) { o.role = role }} }

// AtMost bounds how many accounts may join after [Group.OpenJoin]: 1 or more.
func AtMost(accounts int64) Option { return Option{"AtMost", func(o *options) { o.uses = &accounts }} }

// resolve applies the options of a call. takes names the options that the call takes.
func resolve(given []Option, takes ...string) (o options, err error) {
	for _, option := range given {
		if !slices.Contains(takes, option.name) {
			return o, &Error{Op: "check options", Kind: ErrInvalid, Err: errors.New("the call does not take the option " + option.name)}
		}
		option.apply(&o)
	}
	return o, nil
}
