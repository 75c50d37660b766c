package sdk

import (
	"encoding/json"
	"errors"

	"github.com/svcfs/svcfs/sdk/wire"
)

// The least that an item of a list takes on the wire, in bytes. Shorter ones
// would take many times the memory of the answer that brings them (threat 8).
const (
	leastRow   = 100 // file_hash alone has 64 digits
	leastEvent = 40
	leastName  = 8 // on average, with its quotes
	// freeItems may be shorter: lists of few short items are nobody's harm.
	freeItems = 4096
)

var errShortItems = errors.New("it lists more than its size can hold")

// recordList, eventList and nameList are decoded as the slices they are, within
// a bound.
type (
	recordList          []wire.TransactionRow
	eventList           []wire.Event
	nameList[T ~string] []T
)

// UnmarshalJSON refuses rows too short to be any.
func (l *recordList) UnmarshalJSON(raw []byte) error {
	return unmarshalList(raw, leastRow, (*[]wire.TransactionRow)(l))
}

// UnmarshalJSON refuses events too short to be any.
func (l *eventList) UnmarshalJSON(raw []byte) error {
	return unmarshalList(raw, leastEvent, (*[]wire.Event)(l))
}

// roleList is a list of names with a role for each, where the service has roles.
type roleList[T ~string] struct {
	names nameList[T]
	roles nameList[Role]
	more  bool // behind this page
}

// UnmarshalJSON reads the names.
func (l *roleList[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &l.names) }

// readBeside reads the roles beside them, and whether more follow.
func (l *roleList[T]) readBeside(e envelope) error {
	if e.More != nil {
		if err := decode(e.More, &l.more); err != nil {
			return err
		}
	}
	if e.Roles == nil {
		return nil
	}
	if err := decode(e.Roles, &l.roles); err != nil {
		return err
	}
	if len(l.roles) != len(l.names) {
		return malformed(errors.New("it does not list a role for each name"))
	}
	return nil
}

// role is that of the i-th name, "" where the service has none.
func (l *roleList[T]) role(i int) Role {
	if len(l.roles) == 0 {
		return ""
	}
	return l.roles[i]
}

// UnmarshalJSON refuses more names than anybody has.
func (l *nameList[T]) UnmarshalJSON(raw []byte) error {
	return unmarshalList(raw, leastName, (*[]T)(l))
}

// unmarshalList takes memory for exactly the items there are, once it is known
// that they are not too many.
func unmarshalList[T any](raw []byte, least int, into *[]T) error {
	n := wire.CountItems(raw)
	if n > freeItems+len(raw)/least {
		return errShortItems
	}
	*into = make([]T, 0, n)
	return json.Unmarshal(raw, into)
}
