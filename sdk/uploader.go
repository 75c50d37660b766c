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
	// keptTicket is how long the caller may take to come back after a lost answer,
	// such as a mount that waits for its service.
	keptTicket = 24 * time.Hour
	// keptKeys bounds the memory of file keys seen, to notice one handed out
	// twice, and that of references acknowledged.
	keptKeys = 100_000
	// burst is how soon after another an upload to the same group makes it likely
	// that one more follows.
	burst = 2 * time.Second
	// prefetchedLife is how long a prefetched ticket is used; the service keeps it
	// longer, and it costs nothing there.
	prefetchedLife = time.Minute
)

// uploadKey names content on its way: the same content under the same name in
// the same group is the same upload, until it is recorded.
type uploadKey struct {
	group  GroupID
	name   string
	digest Digest
}

// uploader is what the uploads of a client share.
type uploader struct {
	c           *Client
	generationA atomic.Bool // the service finalizes uploads at the path of generation A

	mu         sync.Mutex
	keys       map[[32]byte]string         // upload id by the fingerprint of the key that came with it
	unfinished map[uploadKey]*ticket       // in the state unsure
	receipts   map[Ref]struct{}            // records that answered an upload already
	sending    map[uploadKey]chan struct{} // closed when the upload under way ends
	prefetches map[GroupID]*prefetch       // at most one a group
	began      map[GroupID]time.Time       // of the newest upload
	closed     bool                        // nothing more is prefetched
}

func newUploader(c *Client) *uploader {
	return &uploader{c: c, keys: make(map[[32]byte]string), unfinished: make(map[uploadKey]*ticket), receipts: make(map[Ref]struct{}),
		sending: make(map[uploadKey]chan struct{}), prefetches: make(map[GroupID]*prefetch), began: make(map[GroupID]time.Time)}
}

// exclusive waits while the same content is on its way under the same name: two
// callers must not share a ticket.
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

// unsure returns the ticket of an earlier attempt that may have been recorded, or nil.
func (u *uploader) unsure(k uploadKey) *ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unfinished[k]
}

// remember keeps a ticket, because no answer came.
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

// reported remembers which records were told to a caller: the same content uploaded
// again is another record.
func (u *uploader) reported(ref Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.receipts) >= keptKeys {
		clear(u.receipts) // those that are looked for are minutes old
	}
	u.receipts[ref] = struct{}{}
}

func (u *uploader) wasReported(ref Ref) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.receipts[ref]
	return known
}

// prepare asks for a ticket. An upload id that nobody uses costs nothing: the
// request may be repeated.
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

// noteKey refuses a key that was handed out for another upload: two files under
// one key would be one nonce collision away from each other (threat 11).
func (u *uploader) noteKey(key *format.Key, uploadID string) error {
	print := key.Fingerprint()
	u.mu.Lock()
	defer u.mu.Unlock()
	if other, ok := u.keys[print]; ok && other != uploadID {
		return malformed(errors.New("it hands out the key of another upload"))
	}
	if len(u.keys) >= keptKeys {
		clear(u.keys)
	}
	u.keys[print] = uploadID
	return nil
}

// prefetch is a ticket that is there once done is closed; nil = there is none.
type prefetch struct {
	giveUp context.CancelFunc
	done   chan struct{}
	ticket *ticket
}

// discard ends the request, if it is still under way, and wipes what it brought.
func (p *prefetch) discard() {
	p.giveUp()
	<-p.done
	if p.ticket != nil {
		p.ticket.key.Wipe()
	}
}

// close discards every prefetched ticket that nobody took.
func (u *uploader) close() {
	u.mu.Lock()
	left := u.prefetches
	u.prefetches, u.closed = nil, true
	u.mu.Unlock()
	for _, p := range left {
		p.discard()
	}
}

// prefetched returns the ticket that was prefetched for g, waiting for its answer, or
// nil when there is none; it belongs to the caller. If this upload follows another
// closely, it has the next one prefetched: who saves one small file after another
// waits for one request each.
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
		// Without a name: finalize tells it. An error is for the upload itself to meet.
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
