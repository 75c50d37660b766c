package sdk

import (
	"errors"

	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// PutOptions are what uploads may have. The zero value is the same as none; of several the last one counts.
type PutOptions struct {
	// Attributes are recorded with the file. The call returns [ErrInvalid] or [ErrTooLarge] for those that cannot be
	// recorded, see [Attributes.Check]. With a target the file is a symbolic link, whose content must be the target.
	// They are not sent to the hosted service; look at [Client.Capabilities] first if the file would be wrong
	// without, as a link is. An upload that is repeated after a lost answer gets those of the newest attempt.
	Attributes Attributes

	// Base binds the upload to what the caller knows of the name: the service refuses it with [ErrConflict] and
	// [wire.CodeHead], and records and charges nothing, unless Base is the newest version of the name. nil = whatever
	// there is, "" = the name has no version. At the hosted service, and without a name, the call returns
	// [ErrUnsupported] and sends nothing.
	Base *Ref

	// Upon is recorded with the file: the version of any name in the group that the content was made from, which is
	// [Entry].Upon from then on; nil = not said, "" = from none. The call returns [ErrNotFound] for a file that the
	// group never had. At the hosted service it is left out. An upload that is repeated after a lost answer has that of
	// the first attempt.
	Upon *Ref

	// Compress compresses content before encryption, if a sample shows that this pays. It is off by default: the
	// JavaScript SDK 1.0.3 and 1.1 return the compressed bytes as content, without an error. The hash in the ledger
	// stays the hash of the content. Content in blocks is never compressed.
	Compress bool

	// Progress, if it is not nil, is told how many bytes of the content were transferred. The counts are bytes on the
	// wire, where JSON takes a third more than the file. total is -1 if the service does not tell it.
	// It is called often, from other goroutines but never concurrently, and must return quickly. A repeated transfer
	// starts at 0 again. Transfers below 64 KiB are not reported.
	Progress func(done, total int64)
}

// ListOptions are what [Group.List] and [Group.Entries] may list. Of several the last one counts.
type ListOptions struct {
	Since Seq // list only records with a larger ChangedSeq
	// Folders lists recorded folders too, among the files, also those that were removed. Of a folder that was made
	// long before the records that Since lists, and was removed since, Seq is 0.
	Folders bool
}

// JoinOptions are what [Group.OpenJoin] may bound. Of several the last one counts.
type JoinOptions struct {
	Role   Role  // of who joins, [RoleReader] or [RoleWriter]; "" = that of last time, else writer. See [Group.Add]
	AtMost int64 // how many accounts may join; 0 = any number
}

// options are the options of an upload.
type options struct {
	compress bool
	progress func(done, total int64)
	attrs    Attributes
	resume   resume
	base     string // of [PutOptions]; "" = none
	upon     string // of [PutOptions]; "" = not said
	from     string // see [wire.SealedHead].From
	save     *saving.Save
}

// asked returns what the options of an upload say.
func asked(given []PutOptions) options {
	o := last(given)
	return options{compress: o.Compress, progress: o.Progress, attrs: o.Attributes, base: baseOf(o.Base),
		upon: baseOf(o.Upon)}
}

// baseOf returns a version as the service has it; "" = not said.
func baseOf(base *Ref) string {
	switch {
	case base == nil:
		return ""
	case *base == "":
		return wire.NoBase
	}
	return string(*base)
}

// versionOf reverses baseOf.
func versionOf(text string) *Ref {
	switch text {
	case "":
		return nil
	case wire.NoBase:
		text = ""
	}
	return new(Ref(text))
}

// last returns the last of the options of a call that takes one kind; the zero value = none was given.
func last[O any](given []O) (o O) {
	if n := len(given); n > 0 {
		o = given[n-1]
	}
	return o
}

// errNoBase refuses a base where nothing would compare it.
var errNoBase = &Error{Op: "bind the upload", Kind: ErrUnsupported,
	Err: errors.New("the service does not compare the version that an upload replaces")}
