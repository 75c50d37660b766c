package sdk

import (
	"context"
	"errors"
	"strings"
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

// place returns what two uploads have in common of which the later one replaces the earlier one: group and name. Files
// without a name replace none.
func (k uploadKey) place() uploadKey {
	if k.name == "" {
		return k
	}
	return uploadKey{group: k.group, name: k.name}
}

// uploader is the state that all uploads of a client share.
type uploader struct {
	c *Client

	mu         sync.Mutex
	keys       map[[32]byte]string         // upload id by the fingerprint of its file key
	unanswered map[uploadKey]unanswered    // uploads that may be recorded, by place: only the newest of each
	receipts   map[Ref]struct{}            // records that a caller knows
	sending    map[uploadKey]chan struct{} // of the upload in progress; closed at its end
}

func newUploader(c *Client) *uploader {
	return &uploader{c: c, keys: make(map[[32]byte]string), unanswered: make(map[uploadKey]unanswered),
		receipts: make(map[Ref]struct{}), sending: make(map[uploadKey]chan struct{})}
}

// unanswered is an upload that may be recorded. The same content under the same name is the same upload again, until
// a change of the name is recorded, or another upload there has no answer: then the content is a later version.
type unanswered struct {
	key    uploadKey
	ticket *ticket // of an upload in two requests
	sealed *Sealed // of any other; it has no ciphertext, but its manifest
}

func (w unanswered) inBlocks() bool { return w.sealed != nil && w.sealed.contentID != Digest{} }

func (w unanswered) since() time.Time {
	if w.sealed != nil {
		return w.sealed.time
	}
	return w.ticket.lost
}

// wipe overwrites the key of the file in memory.
func (w unanswered) wipe() {
	if w.sealed != nil {
		w.sealed.Wipe()
	} else {
		w.ticket.key.Wipe()
	}
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

// take returns an earlier upload that may be recorded, if it is one that the caller can send again. It is the caller's
// then, who remembers it again or wipes it.
func (u *uploader) take(k uploadKey, fits func(unanswered) bool) (w unanswered, found bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if w, found = u.unanswered[k.place()]; !found || w.key != k || !fits(w) {
		return unanswered{}, false
	}
	delete(u.unanswered, k.place())
	return w, true
}

// takeTicket takes an upload in two requests that replaces the same version, nil for none.
func (u *uploader) takeTicket(k uploadKey, base string) *ticket {
	w, _ := u.take(k, func(w unanswered) bool { return w.ticket != nil && w.ticket.base == base })
	return w.ticket
}

// takeSealed takes an upload in one request that replaces the same version, nil for none.
func (u *uploader) takeSealed(k uploadKey, base string, inBlocks bool) *Sealed {
	w, _ := u.take(k, func(w unanswered) bool {
		return w.sealed != nil && w.inBlocks() == inBlocks && w.sealed.head.Base == base
	})
	return w.sealed
}

// Uploads without an answer that are kept: of some 5 KiB each, and of those in blocks with their manifests.
const (
	keptUnanswered = 10_000
	keptManifests  = 64
)

// remember keeps an upload without an answer, in place of an earlier one of its name. The oldest ones go, and their
// keys with them.
func (u *uploader) remember(w unanswered) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(w.key)
	u.unanswered[w.key.place()] = w
	most := keptUnanswered
	if w.inBlocks() {
		most = keptManifests
	}
	kept, oldest := 0, w
	for _, other := range u.unanswered {
		switch {
		case time.Since(other.since()) > keptTicket:
			u.drop(other.key)
		case other.inBlocks() == w.inBlocks():
			if kept++; other.since().Before(oldest.since()) {
				oldest = other
			}
		}
	}
	if kept > most {
		u.drop(oldest.key)
	}
}

// drop forgets what has no answer at a place. Needs mu.
func (u *uploader) drop(k uploadKey) {
	if w, found := u.unanswered[k.place()]; found {
		w.wipe()
		delete(u.unanswered, k.place())
	}
}

// changed notes that records gave these names to files, or took them: what had no answer there is an earlier version.
func (u *uploader) changed(g GroupID, names ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range names {
		u.drop(uploadKey{group: g, name: name})
	}
}

// moved is changed for all names in a folder.
func (u *uploader) moved(g GroupID, folder string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k := range u.unanswered {
		if k.group == g && strings.HasPrefix(k.name, folder+"/") {
			u.drop(k)
		}
	}
}

// ended remembers a sealed upload if err leaves open whether it was recorded. Else it wipes its key.
func (u *uploader) ended(k uploadKey, s *Sealed, err error) {
	if !isUnsure(err) {
		s.Wipe()
		return
	}
	if s.contentID == (Digest{}) {
		s.keepIn(nil) // the caller has the content
	}
	u.remember(unanswered{key: k, sealed: s})
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
	for k := range u.unanswered {
		u.drop(k)
	}
}
