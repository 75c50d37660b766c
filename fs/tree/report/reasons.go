package report

import (
	"encoding/json"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// Reason is why something failed at a path, and what is left there: one line of
// /.svcfs/reasons. There is one for every path with an error that is remembered, and for
// every file with bytes that the ledger has not recorded.
type Reason struct {
	Time      time.Time `json:"time"`                // of the error; where there is none, of the first change
	Path      string    `json:"path"`                // below the mount, as the file was called then
	Name      string    `json:"name,omitempty"`      // the name that the bytes were for, when Path is another
	Operation string    `json:"operation,omitempty"` // empty: no error
	Class     string    `json:"class,omitempty"`
	Error     string    `json:"error,omitempty"`
	Hint      string    `json:"hint,omitempty"`
	Recorded  *Recorded `json:"recorded,omitempty"` // newest version of Name, else of Path; nil = none
	Staged    *Staged   `json:"staged,omitempty"`   // bytes in the memory of the mount; nil = none

	Waits *outbox.Item `json:"waits,omitempty"` // the newest save of Path in the outbox; nil = none
}

// Recorded is a version of a file in the ledger.
type Recorded struct {
	Version  string        `json:"version"` // where the mount shows it, below the mount
	Size     int64         `json:"size"`    // bytes, -1 when unknown
	Time     time.Time     `json:"time"`    // zero when unknown
	Uploader sdk.AccountID `json:"uploader"`
}

// Staged is the content of a file that the ledger has not recorded. The only copy is in the
// memory of the mount.
type Staged struct {
	Path  string    `json:"path"`           // where it can be read, below the mount
	Size  int64     `json:"size"`           // bytes
	Since time.Time `json:"since"`          // when it was first changed
	State string    `json:"state"`          // one of the constants below
	Open  bool      `json:"open"`           // some program has it open to write
	Link  bool      `json:"link,omitempty"` // a symbolic link: its folder is synced to send it
}

// The states of staged content.
const (
	StagedHalf    = "half"    // a write was refused: it is not sent (W15)
	StagedKilled  = "killed"  // its program was killed: it is sent when it is synced (W15)
	StagedFailed  = "failed"  // whole, but the last attempt to send it failed
	StagedAway    = "away"    // the same, and it is sent by itself once the service is back
	StagedWritten = "written" // it is sent when it is closed, or is being sent
	StagedScratch = "scratch" // it is not sent under this name, or not without its database (W6)
)

// ReasonOf returns the reason of a failure, whose bytes were for the file of that name.
func ReasonOf(f Failure, name string) Reason {
	return Reason{Time: f.At.UTC(), Path: OneLine(f.Path), Name: name, Operation: f.Op, Class: f.Class,
		Error: sentence(f.Text), Hint: OneLine(f.Hint)}
}

// ShowReasons returns each as a line of JSON.
func ShowReasons(list []Reason) (text []byte) {
	for _, r := range list {
		line, err := json.Marshal(r)
		if err != nil {
			continue
		}
		text = append(append(text, line...), '\n')
	}
	return text
}
