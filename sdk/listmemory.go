package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// listsAtATime is how many lists of a client are read at the same time. Others wait.
	listsAtATime = 16
	// wholeAtATime is the same for lists that are decoded as one answer.
	wholeAtATime = 2
	// maxPageBytes bounds the records of a list that nothing proves yet, in bytes. With what
	// arrived behind them ([wire.MaxRowBytes]), those of all lists of a client together take at
	// most 32 MiB.
	maxPageBytes = 1 << 20

	// rowBytes is the memory of a row of a list, without its texts, in bytes.
	rowBytes = 400
	// entryBytes is the memory of an [Entry] in a list that is built, without its texts, in bytes:
	// the entry, its place in a map, and what both take while they grow.
	entryBytes = 600
	// partBytes is that of its attributes, of each extended one, and of its deletion.
	partBytes = 128
	// textHead is the memory of a text in a list of texts, beside its bytes, as a row and as a record has it.
	textHead = 32
	// nameBytes is the memory of the name of a group in a list, with a role, beside its text.
	nameBytes = 128
	// markBytes is what a list keeps of each of its newest records until its end is proven, in bytes.
	markBytes = 128
	// wholeShare is the part of the memory for lists that the text of one answer may take: its
	// rows take several times as much.
	wholeShare = 4
)

// listMemory counts the memory of the proven records that the lists of a client hold.
type listMemory struct {
	limit int64         // bytes
	share int64         // of it, for the files that [Group.Verify] follows at a time
	paged chan struct{} // lists that are being read, page by page
	whole chan struct{} // lists that are being read as one answer

	mu   sync.Mutex
	held int64 // bytes
}

func newListMemory(limit int64) *listMemory {
	return &listMemory{limit: limit, share: limit / 2, paged: make(chan struct{}, listsAtATime),
		whole: make(chan struct{}, wholeAtATime)}
}

// begin waits until a list may be read. The caller calls end after it.
func (m *listMemory) begin(ctx context.Context, gate chan struct{}) (end func(), err error) {
	select {
	case gate <- struct{}{}:
		return func() { <-gate }, nil
	case <-ctx.Done():
		return nil, call.Ended(ctx)
	}
}

// hold counts bytes, a negative number of those that are held no more. It returns an error if
// more is held than may be; they are counted all the same.
func (m *listMemory) hold(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held += bytes
	if bytes <= 0 || m.held <= m.limit {
		return nil
	}
	return m.full()
}

// full is the error for a list that takes too much.
func (m *listMemory) full() error {
	return &Error{Op: "keep records in memory", Kind: ErrTooLarge, Code: wire.CodeListMemory,
		Err: fmt.Errorf("the lists of groups take more memory than they may, %d MiB", m.limit>>20)}
}

// HoldList counts bytes of memory in which the caller keeps entries of lists, a negative number
// of those that it keeps no more. A client counts what its own calls hold, and only while they
// run. Beyond [Config].ListMemory HoldList returns [ErrTooLarge], as lists do; the bytes are
// counted all the same, until the caller takes them back. Local, free.
func (c *Client) HoldList(bytes int64) error { return c.lists.hold(bytes) }

// ListMemory returns how many bytes of memory the entries of lists take: those of calls that
// run, what the client keeps for later ones, and what [Client.HoldList] counted. Local, free.
func (c *Client) ListMemory() int64 {
	c.lists.mu.Lock()
	defer c.lists.mu.Unlock()
	return c.lists.held
}

// Footprint returns about how much memory an entry takes in a list, in bytes, without the folders of its
// name. Local, free.
func (e *Entry) Footprint() int64 {
	n := entryBytes + len(e.Ref) + len(e.Tx) + len(e.Uploader) + len(e.Name) + len(e.ContentType)
	if a := e.Attributes; a != nil {
		n += partBytes + len(a.Target)
		for name, value := range a.XAttrs {
			n += partBytes + len(name) + len(value)
		}
	}
	if e.Upon != nil {
		n += partBytes + len(*e.Upon)
	}
	if d := e.Deleted; d != nil {
		n += partBytes + len(d.By) + len(d.Reason)
	}
	return int64(n)
}

// errNoPages is a list of a service that signs no pages.
var errNoPages = errors.New("too many of its records come without a signature")
