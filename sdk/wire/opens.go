package wire

import (
	"errors"
	"fmt"
	"time"
)

// OpensLine begins the line of a checkpoint with [Opens].
const OpensLine = "svc-opens "

// RecordedWithin is how long after a vault gave out the key of a file the ledger may lack the record of it.
const RecordedWithin = time.Minute

// Opens is what a vault counted until it signed a checkpoint: the keys of files that it gave out. Its line has the
// four numbers in decimals.
type Opens struct {
	Since      int64 `json:"since"`      // when the vault began to count, in seconds since the epoch of Unix
	Keys       int64 `json:"keys"`       // that it gave out since then, each time counted
	Clear      int64 `json:"clear"`      // of them given out in the clear: the service saw them
	Unrecorded int64 `json:"unrecorded"` // given out [RecordedWithin] ago or before, and the ledger has no record of it
}

// Line returns the line of a checkpoint, with its end; "" where nobody counted.
func (o Opens) Line() string {
	if o == (Opens{}) {
		return ""
	}
	return fmt.Sprintf("%s%d %d %d %d\n", OpensLine, o.Since, o.Keys, o.Clear, o.Unrecorded)
}

// ParseOpens reads a line without its end.
func ParseOpens(line string) (o Opens, err error) {
	_, err = fmt.Sscanf(line, OpensLine+"%d %d %d %d", &o.Since, &o.Keys, &o.Clear, &o.Unrecorded)
	if err != nil || o.Line() != line+"\n" || min(o.Since, o.Keys, o.Clear, o.Unrecorded) < 0 {
		return Opens{}, errors.New("want four decimal numbers")
	}
	return o, nil
}
