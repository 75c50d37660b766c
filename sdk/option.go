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

type options struct {
	compress bool
	progress reporter
	since    Seq
	role     Role
	uses     *int64 // nil = any number
	attrs    Attributes
}

// Compress makes [Group.Put] and [Group.Upload] compress content before encryption, if a
// sample shows that compression pays. It is off by default: the JavaScript SDK 1.0.3 and
// 1.1 return the compressed bytes as content, without an error. The hash in the ledger
// stays the hash of the content.
func Compress() Option { return Option{"Compress", func(o *options) { o.compress = true }} }

// WithAttributes makes [Group.Put] and [Group.Upload] record a with the file. They return
// [ErrInvalid] or [ErrTooLarge] for attributes that cannot be recorded, see
// [Attributes.Check]. With a target the file is a symbolic link, whose content must be the
// target. a is not sent to a service without the extension "attributes"; look at
// [Client.Capabilities] first if the file would be wrong without, as a link is. An upload
// that is repeated after a lost answer gets the attributes of the newest attempt.
func WithAttributes(a Attributes) Option {
	return Option{"WithAttributes", func(o *options) { o.attrs = a }}
}

// Progress makes [Group.Put], [Group.Open] and their variants report how many bytes of the
// content were transferred. The counts are bytes on the wire, where JSON takes a third more
// than the file. total is -1 if the service does not tell it. report is called often, from
// other goroutines but never concurrently, and must return quickly. A repeated transfer
// starts at 0 again. The received bytes are not verified yet. Transfers below 64 KiB are
// not reported.
func Progress(report func(done, total int64)) Option {
	return Option{"Progress", func(o *options) { o.progress = report }}
}

// Since makes [Group.List] and [Group.Entries] list only records with a larger ChangedSeq.
func Since(seq Seq) Option { return Option{"Since", func(o *options) { o.since = seq }} }

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
