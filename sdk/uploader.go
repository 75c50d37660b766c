package sdk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/internal/hosted"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// keptTicket is how long an upload without an answer is remembered, for callers such as
	// a mount that waits for its service.
	keptTicket = 24 * time.Hour
	// keptKeys bounds two maps: the fingerprints of file keys, and the references of
	// recorded uploads.
	keptKeys = 100_000
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
	c *Client

	mu         sync.Mutex
	keys       map[[32]byte]string         // upload id by the fingerprint of its file key
	unfinished map[uploadKey]*ticket       // uploads in the state unsure
	receipts   map[Ref]struct{}            // records that a caller knows
	sending    map[uploadKey]chan struct{} // of the upload in progress; closed at its end
	sealed     map[uploadKey]*Sealed       // sealed uploads that may be recorded
}

func newUploader(c *Client) *uploader {
	return &uploader{c: c, keys: make(map[[32]byte]string), unfinished: make(map[uploadKey]*ticket),
		receipts: make(map[Ref]struct{}),
		sending:  make(map[uploadKey]chan struct{}), sealed: make(map[uploadKey]*Sealed)}
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
func (u *uploader) prepare(ctx context.Context, isOurs bool, request wire.PrepareUploadRequest) (*ticket, error) {
	var answer wire.PrepareUploadResult
	if err := u.c.read(ctx, wire.OpPrepareUpload, request, &answer); err != nil {
		return nil, err
	}
	if answer.UploadID == "" {
		return nil, call.Malformed(errors.New("no upload id"))
	}
	key, err := format.ParseKey(answer.Key)
	if err != nil {
		return nil, call.Malformed(err)
	}
	if err := u.noteKey(key, answer.UploadID); err != nil {
		return nil, err
	}
	t := &ticket{id: answer.UploadID, key: key, salt: saltOf(key), since: time.Now(), state: hosted.Issued}
	if isOurs {
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
		return call.Malformed(errors.New("it issued the key of another upload"))
	}
	if len(u.keys) >= keptKeys {
		clear(u.keys)
	}
	u.keys[print] = uploadID
	return nil
}

// close wipes the keys of uploads that are kept.
func (u *uploader) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.sealed {
		s.Wipe()
	}
	clear(u.sealed)
}

// unsureSealed returns an earlier sealed upload with an unknown outcome, without its
// ciphertext, or nil.
func (u *uploader) unsureSealed(k uploadKey) *Sealed {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sealed[k]
}

// Sealed uploads without an answer that are kept: of some 5 KiB each, and of those in blocks with their manifests.
const (
	keptSealed    = 10_000
	keptManifests = 64
)

// rememberSealed keeps a sealed upload without an answer. The oldest ones go, and their keys with them.
func (u *uploader) rememberSealed(k uploadKey, s *Sealed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sealed[k] = s
	alike := func(o *Sealed) bool { return (o.contentID == Digest{}) == (s.contentID == Digest{}) }
	most := keptSealed
	if s.contentID != (Digest{}) {
		most = keptManifests
	}
	kept := 0
	var oldest uploadKey
	for k, other := range u.sealed {
		if time.Since(other.time) > keptTicket {
			other.Wipe()
			delete(u.sealed, k)
		} else if alike(other) {
			kept++
			if o := u.sealed[oldest]; o == nil || !alike(o) || other.time.Before(o.time) {
				oldest = k
			}
		}
	}
	if kept > most {
		u.sealed[oldest].Wipe()
		delete(u.sealed, oldest)
	}
}

func (u *uploader) forgetSealed(k uploadKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.sealed, k)
}
