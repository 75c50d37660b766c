package sdk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// keptTicket is how long an upload without an answer is remembered, for callers such as
	// a mount that waits for its service.
	keptTicket = 24 * time.Hour
	// keptKeys bounds two maps: the fingerprints of file keys, and the references of
	// recorded uploads.
	keptKeys = 100_000
	// burst is the longest time between two uploads to a group after which a third is
	// expected.
	burst = 2 * time.Second
	// prefetchedLife is how long a prefetched ticket is used. The service keeps it longer,
	// free of charge.
	prefetchedLife = time.Minute
)

// uploadKey identifies an upload until it is recorded: the same content under the same name
// in the same group is the same upload. A symbolic link is another upload than a file with
// the target as its content.
type uploadKey struct {
	group  GroupID
	name   string
	digest Digest
	link   bool
}

// uploader is the state that all uploads of a client share.
type uploader struct {
	c           *Client
	generationA atomic.Bool // the service has the finalize path of generation A

	mu         sync.Mutex
	keys       map[[32]byte]string         // upload id by the fingerprint of its file key
	unfinished map[uploadKey]*ticket       // uploads in the state unsure
	receipts   map[Ref]struct{}            // records that a caller knows
	sending    map[uploadKey]chan struct{} // of the upload in progress; closed at its end
	prefetches map[GroupID]*prefetch       // at most one for each group
	began      map[GroupID]time.Time       // start of the newest upload
	closed     bool                        // no more tickets are prefetched
}

func newUploader(c *Client) *uploader {
	return &uploader{c: c, keys: make(map[[32]byte]string), unfinished: make(map[uploadKey]*ticket), receipts: make(map[Ref]struct{}),
		sending: make(map[uploadKey]chan struct{}), prefetches: make(map[GroupID]*prefetch), began: make(map[GroupID]time.Time)}
}

// exclusive waits until no other upload has the key k: two callers must not share a ticket.
// The caller must call done.
func (u *uploader) exclusive(ctx context.Context, k uploadKey) (done func(), err error) {
	for {
		u.mu.Lock()
		busy := u.sending[k]
		if busy == nil {
			mine := make(chan struct{})
			u.sending[k] = mine
			u.mu.Unlock()
			return func() {
				u.mu.Lock()
				delete(u.sending, k)
				u.mu.Unlock()
				close(mine)
			}, nil
		}
		u.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unsure returns the ticket of an earlier attempt with an unknown outcome, or nil.
func (u *uploader) unsure(k uploadKey) *ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unfinished[k]
}

// remember keeps the ticket of an upload without an answer.
func (u *uploader) remember(k uploadKey, t *ticket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t.lost = time.Now()
	for k, t := range u.unfinished {
		if time.Since(t.lost) > keptTicket {
			delete(u.unfinished, k)
		}
	}
	u.unfinished[k] = t
}

func (u *uploader) forget(k uploadKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.unfinished, k)
}

// reported remembers a record that a caller now knows. The same content uploaded again is
// another record.
func (u *uploader) reported(ref Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.receipts) >= keptKeys {
		clear(u.receipts) // findRecorded looks for records that are minutes old
	}
	u.receipts[ref] = struct{}{}
}

func (u *uploader) wasReported(ref Ref) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.receipts[ref]
	return known
}

// prepare asks for a ticket. The request may be repeated, because an unused upload id costs
// nothing.
func (u *uploader) prepare(ctx context.Context, caps wire.Capabilities, request wire.PrepareUploadRequest) (*ticket, error) {
	var answer wire.PrepareUploadResult
	if err := u.c.read(ctx, wire.OpPrepareUpload, request, &answer); err != nil {
		return nil, err
	}
	if answer.UploadID == "" {
		return nil, malformed(errors.New("no upload id"))
	}
	key, err := format.ParseKey(answer.Key)
	if err != nil {
		return nil, malformed(err)
	}
	if err := u.noteKey(key, answer.UploadID); err != nil {
		return nil, err
	}
	t := &ticket{id: answer.UploadID, key: key, since: time.Now(), state: uploadIssued}
	if offered(caps, wire.CapRaw) {
		t.uploadURL = answer.UploadURL
	}
	return t, nil
}

// noteKey refuses a file key that the service issued for another upload. Two files with one
// key would be one nonce collision away from a leak (threat 11).
func (u *uploader) noteKey(key *format.Key, uploadID string) error {
	print := key.Fingerprint()
	u.mu.Lock()
	defer u.mu.Unlock()
	if other, ok := u.keys[print]; ok && other != uploadID {
		return malformed(errors.New("it issued the key of another upload"))
	}
	if len(u.keys) >= keptKeys {
		clear(u.keys)
	}
	u.keys[print] = uploadID
	return nil
}

// prefetch is a request for a ticket. When done is closed, ticket is set, or nil if there
// is none.
type prefetch struct {
	giveUp context.CancelFunc
	done   chan struct{}
	ticket *ticket
}

// discard cancels the request and wipes the key of its ticket.
func (p *prefetch) discard() {
	p.giveUp()
	<-p.done
	if p.ticket != nil {
		p.ticket.key.Wipe()
	}
}

// close discards the prefetched tickets that were not used.
func (u *uploader) close() {
	u.mu.Lock()
	left := u.prefetches
	u.prefetches, u.closed = nil, true
	u.mu.Unlock()
	for _, p := range left {
		p.discard()
	}
}

// prefetched returns the prefetched ticket of g, which then belongs to the caller, or nil.
// It waits for a request in progress. If this upload closely follows another, prefetched
// also requests the next ticket in the background, so that each of many small uploads waits
// for one request only.
func (u *uploader) prefetched(ctx context.Context, caps wire.Capabilities, g GroupID) *ticket {
	if !offered(caps, wire.CapLateName) {
		return nil
	}
	t := u.takePrefetched(ctx, g)
	u.mu.Lock()
	defer u.mu.Unlock()
	follows := time.Since(u.began[g]) < burst
	u.began[g] = time.Now()
	if !follows || u.closed || u.prefetches[g] != nil {
		return t
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.c.cfg.Timeout)
	next := &prefetch{giveUp: cancel, done: make(chan struct{})}
	u.prefetches[g] = next
	go func() {
		defer cancel()
		defer close(next.done)
		// The name follows with finalize. An error shows again when the upload asks for a
		// ticket.
		if t, err := u.prepare(ctx, caps, wire.PrepareUploadRequest{GroupID: string(g)}); err == nil {
			t.prefetched = true
			next.ticket = t
		}
	}()
	return t
}

func (u *uploader) takePrefetched(ctx context.Context, g GroupID) *ticket {
	u.mu.Lock()
	p := u.prefetches[g]
	delete(u.prefetches, g)
	u.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.discard()
		return nil
	}
	if t := p.ticket; t != nil && time.Since(t.since) > prefetchedLife {
		t.key.Wipe()
		return nil
	}
	return p.ticket
}
