package sdk

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/format"
)

// AgeTickets makes every upload whose outcome is not known older.
func AgeTickets(c *Client, by time.Duration) {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	for _, w := range c.uploads.unanswered {
		if t := w.ticket; t != nil {
			t.since, t.lost = t.since.Add(-by), t.lost.Add(-by)
		}
	}
}

// KeepClaim keeps a claim as a failed retrieval does, and counts what is kept.
func KeepClaim(c *Client, ref Ref) (kept int) {
	c.claims.keep(ref, "claim")
	return len(c.claims.ids)
}

// KeepManifest keeps an upload in blocks as a Put without an answer does.
func KeepManifest(c *Client, name string) *Sealed {
	s := &Sealed{contentID: Digest{1}, time: time.Now()}
	s.key, _ = format.RandomKey()
	c.uploads.remember(unanswered{key: uploadKey{name: name}, sealed: s})
	return s
}

// KeptManifests is how many such uploads are kept.
const KeptManifests = keptManifests

// Waiting is how many small uploads wait for their turn.
func Waiting(c *Client) int {
	c.small.mu.Lock()
	defer c.small.mu.Unlock()
	return len(c.small.waiting)
}

// Far makes the client take the service for one that is far away, or near.
func Far(c *Client, far bool) {
	c.calls.FarAfter, c.calls.ApartAfter = time.Hour, time.Hour
	if far {
		c.calls.FarAfter, c.calls.ApartAfter = 0, 0
	}
}

// SlowLine makes the client take every request for one that takes long, or for a quick one.
func SlowLine(c *Client, slow bool) {
	c.small.mu.Lock()
	defer c.small.mu.Unlock()
	c.small.slow, c.small.slowAfter = slow, time.Hour
	if slow {
		c.small.slowAfter = -time.Hour
	}
}

// Unsure is how many sealed uploads without an answer are kept.
func Unsure(c *Client) int {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	return len(c.uploads.unanswered)
}

// Offers returns [ErrUnsupported] for an operation that the service does not have.
func Offers(ctx context.Context, c *Client, op string) error { return c.caps.offers(ctx, op) }

// Epoch is the number of the vault's key to which the key of an upload is sealed.
func (s *Sealed) Epoch() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.Epoch
}

// Ciphertext is that of an upload.
func (s *Sealed) Ciphertext() []byte {
	b := make([]byte, s.blobSize())
	_, _ = s.cipher.ReadAt(b, 0)
	return b
}

// Said is the base and the attributes of an upload, and the hash of its content.
func (s *Sealed) Said() (base Ref, bound bool, a Attributes, hash Digest) {
	base, bound = s.base()
	return base, bound, s.attributes(), s.hash()
}

// HasKey reports whether the key of the file of an upload is in memory.
func (s *Sealed) HasKey() bool { return s.hasKey() }

// HashOf is the hash of the content of an upload.
func HashOf(s *Sealed) Digest { return s.hash() }

// SetShare is how much memory the files take that Verify follows at a time, in bytes.
func SetShare(c *Client, bytes int64) { c.lists.share = bytes }
