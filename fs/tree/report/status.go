package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// Status is the content of /.svcfs/status, as JSON.
type Status struct {
	PID        int    `json:"pid"`
	Version    string `json:"version"`
	Account    string `json:"account"`
	Address    string `json:"address"` // of the service
	Mountpoint string `json:"mountpoint"`
	// Left is the file in which the mount leaves, at its end, what could not be uploaded; "" = it leaves none.
	Left       string    `json:"left,omitempty"`
	Started    time.Time `json:"started"`
	Reachable  bool      `json:"reachable"` // the service answered the last look at the ledger
	Service    string    `json:"service"`   // one of the words below
	Groups     int       `json:"groups"`
	Pending    int       `json:"pending"` // files not yet recorded
	Held       int       `json:"held"`    // of Pending: nothing sends them by itself
	Staged     int64     `json:"staged_bytes"`
	Unsent     int64     `json:"unsent_bytes"`     // content of Pending that the service does not have
	Moved      int64     `json:"moved_bytes"`      // to and from the service, content and lists
	Speed      int64     `json:"bytes_per_second"` // of that, in the last ten seconds
	LimitDown  int64     `json:"limit_down_bytes_per_second,omitempty"`
	LimitUp    int64     `json:"limit_up_bytes_per_second,omitempty"`
	Cached     int64     `json:"cached_bytes"`
	CacheLimit int64     `json:"cache_limit_bytes"`
	CacheHits  int64     `json:"cache_hits"`
	Retrieves  int64     `json:"retrieves"` // charged
	Uploads    int64     `json:"uploads"`   // charged
	Looks      int64     `json:"looks"`     // at the ledger, charged
	Crawlers   int64     `json:"crawlers_refused"`
	Spent      string    `json:"spent"` // tokens
	Budget     string    `json:"budget,omitempty"`
	Errors     int64     `json:"errors"`           // lines ever added to /.svcfs/errors
	Refreshed  time.Time `json:"refreshed"`        // when the last look at the ledger that succeeded began
	Sending    int       `json:"sending"`          // of Pending, being sent now
	Open       int       `json:"open"`             // handles of files, of all programs
	Proofs     string    `json:"proofs,omitempty"` // the proofs of the service, in words
	Files      string    `json:"files,omitempty"`  // how large files may be, and how large ones are kept, in words
	Confined   string    `json:"confined"`         // how the process is confined
	// Temporary are the first of the files with a temporary name, TemporaryFiles how many there are.
	Temporary      []string `json:"temporary,omitempty"`
	TemporaryFiles int      `json:"temporary_files"`
	// Outbox is how it stands with the outbox; nil = the mount has none.
	Outbox *outbox.Status `json:"outbox,omitempty"`
	// FailedLook is the newest failure among the last looks at the list of groups and
	// at each group; nil when all succeeded.
	FailedLook *look.Failed `json:"failed_look,omitempty"`
}

// The words of Status.Service.
const (
	ServiceReachable    = "reachable"
	ServiceReconnecting = "reconnecting" // connections are refused or break, and opening and closing wait (E5)
	ServiceUnreachable  = "unreachable"  // and no longer wait; or the service did not answer the last look
)

// ServiceWord returns the word for a service, and whether the last look at the ledger succeeded.
func ServiceWord(connection network.Connection, reachable bool) string {
	switch {
	case connection == network.Reconnecting:
		return ServiceReconnecting
	case connection == network.Disconnected || !reachable:
		return ServiceUnreachable
	}
	return ServiceReachable
}

// Show returns the status as JSON.
func (s Status) Show() []byte {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return []byte(err.Error())
	}
	return append(text, '\n')
}

// Pending is a file whose staged content, or whose attributes, the ledger has not recorded.
type Pending struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size"`            // bytes
	Since time.Time `json:"since"`           // when it was first changed
	Error string    `json:"error,omitempty"` // of the last attempt to upload it
	Open  bool      `json:"open"`            // some program still has it open to write
	// Attributes: only times, execute bit or extended attributes are left to record.
	Attributes bool `json:"attributes,omitempty"`
	// Outbox is the id of an item of the outbox: the save is on the disk, and survives the mount.
	Outbox string `json:"outbox,omitempty"`
}

// What says in words what of the file is not recorded.
func (p Pending) What() string {
	if p.Attributes {
		return "times and attributes only"
	}
	return fmt.Sprintf("%d bytes", p.Size)
}

// ShowPending returns one line each: time, size, path, error.
func ShowPending(list []Pending) []byte {
	var b strings.Builder
	for _, p := range list {
		what := strconv.FormatInt(p.Size, 10)
		if p.Attributes {
			what = "attributes"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", p.Since.UTC().Format(time.RFC3339), what, p.Path, OneLine(p.Error))
	}
	return []byte(b.String())
}
