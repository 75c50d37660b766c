package sdk

import (
	"encoding/json"
	"errors"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// The smallest size of a list item on the wire, in bytes. Without a bound, a list of
// shorter items would take many times the memory of its answer (threat 8).
const (
	leastRow   = 100 // file_hash alone has 64 digits
	leastEvent = 40
	leastName  = 8 // on average, with its quotes
	// freeItems is how many items of a list may be shorter.
	freeItems = 4096
)

var errShortItems = call.Malformed(errors.New("it lists more items than its size can hold"))

// recordList, eventList and nameList decode like the slices they are, and refuse items that
// are too short.
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

// roleList is a list of names. Where the service has roles, it has a role for each name.
type roleList[T ~string] struct {
	names nameList[T]
	roles nameList[Role]
	more  bool // another page follows
}

// UnmarshalJSON reads the names.
func (l *roleList[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &l.names) }

// readBeside reads the roles, and whether another page follows.
func (l *roleList[T]) readBeside(e envelope) error {
	if e.More != nil {
		if err := call.Decode(e.More, &l.more); err != nil {
			return err
		}
	}
	if e.Roles == nil {
		return nil
	}
	if err := call.Decode(e.Roles, &l.roles); err != nil {
		return err
	}
	if len(l.roles) != len(l.names) {
		return call.Malformed(errors.New("the list lacks a role for some name"))
	}
	return nil
}

// role returns the role of the i-th name, "" where the service has none.
func (l *roleList[T]) role(i int) Role {
	if len(l.roles) == 0 {
		return ""
	}
	return l.roles[i]
}

// UnmarshalJSON refuses names too short to be any.
func (l *nameList[T]) UnmarshalJSON(raw []byte) error {
	return unmarshalList(raw, leastName, (*[]T)(l))
}

// unmarshalList counts the items first, and allocates for exactly as many.
func unmarshalList[T any](raw []byte, least int, into *[]T) error {
	n := wire.CountItems(raw)
	if n > freeItems+len(raw)/least {
		return errShortItems
	}
	*into = make([]T, 0, n)
	return json.Unmarshal(raw, into)
}
