package sdk

import (
	"errors"
	"slices"
)

// Option changes one call. Each says which calls take it; any other call refuses it
// with [ErrInvalid] before anything is sent.
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
}

// Compress makes [Group.Put] compress content before it is encrypted, where a sample
// of it says that this pays. It is off by default: the JavaScript SDK 1.0.3 and 1.1
// hand out the compressed bytes as content, without an error. The hash in the ledger
// stays that of the content.
func Compress() Option { return Option{"Compress", func(o *options) { o.compress = true }} }

// Progress makes [Group.Put], [Group.Open] and their kin report how far the transfer
// of the content is, in bytes on the wire: those of JSON are a third more than the
// file's. total is -1 when the service does not tell. report is called often, from
// other goroutines but never twice at a time; it must return quickly. A repeated
// transfer begins at 0 again. What has arrived is not verified yet. Content of less
// than 64 KiB is not reported.
func Progress(report func(done, total int64)) Option {
	return Option{"Progress", func(o *options) { o.progress = report }}
}

// Since makes [Group.List] list only the records with a larger ChangedSeq.
func Since(seq Seq) Option { return Option{"Since", func(o *options) { o.since = seq }} }

// As gives members the role [RoleReader] or [RoleWriter]: with [Group.Add] the one
// that is added, with [Group.OpenJoin] those who join; "" is as if it was left out. A service without roles
// refuses it: [ErrUnsupported], which is asked before anything is sent.
func As(role Role) Option { return Option{"As", func(o *options) { o.role = role }} }

// AtMost bounds how many accounts may join with [Group.OpenJoin], 1 or more.
func AtMost(accounts int64) Option { return Option{"AtMost", func(o *options) { o.uses = &accounts }} }

// resolve applies the options of a call that takes those named.
func resolve(given []Option, takes ...string) (o options, err error) {
	for _, option := range given {
		if !slices.Contains(takes, option.name) {
			return o, &Error{Op: "check options", Kind: ErrInvalid, Err: errors.New("the call does not take the option " + option.name)}
		}
		option.apply(&o)
	}
	return o, nil
}
