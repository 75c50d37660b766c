// Package legacy knows the references from before this service: content ids of
// the InterPlanetary File System, and the gateways that answer for them.
package legacy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
)

// Layout describes how an importer cuts a file into blocks; the content id depends on
// it.
type Layout struct {
	Version   int  // of the content id, 0 or 1
	RawLeaves bool // chunks are blocks of their own, without a UnixFS frame
	Chunk     int  // bytes
	Links     int  // most children of a node
}

const (
	kib = 1 << 10
	// maxLinks is the default of importers.
	maxLinks = 174
)

// Default returns the layout of `ipfs add --raw-leaves=false` with that version
// of the content id. Its references start with Qm or bafy, which older clients
// insist on.
func Default(version int) Layout { return Layout{Version: version, Chunk: 256 * kib, Links: maxLinks} }

// layouts are those in use: of ipfs add, of common pinning services, and of
// today's profile for version 1.
func layouts(version int) []Layout {
	if version == 0 {
		return []Layout{Default(0), {0, true, 256 * kib, maxLinks}, {0, false, 1024 * kib, maxLinks}}
	}
	return []Layout{Default(1), {1, true, 256 * kib, maxLinks}, {1, false, 1024 * kib, maxLinks},
		{1, true, 1024 * kib, maxLinks}, {1, true, 1024 * kib, 1024}}
}

// ErrNotCID means that a text is not a content id this service can check.
var ErrNotCID = errors.New("not a content id of a file: want one that starts with Qm or bafy")

// Parse reads a content id in the one way it is written: version 0, or version 1
// in base32, of a file or a raw block, by SHA-256.
func Parse(text string) (cid.Cid, error) {
	if len(text) > 100 {
		return cid.Undef, ErrNotCID
	}
	c, err := cid.Decode(text)
	if err != nil || c.String() != text {
		return cid.Undef, fmt.Errorf("%.100q: %w", text, ErrNotCID)
	}
	p := c.Prefix()
	if p.MhType != multihash.SHA2_256 || p.MhLength != sha256.Size || p.Codec != cid.DagProtobuf && p.Codec != cid.Raw {
		return cid.Undef, fmt.Errorf("%q: %w", text, ErrNotCID)
	}
	return c, nil
}

// Sum returns the content id of a file.
func Sum(data []byte, l Layout) cid.Cid {
	b := newBuilder(l)
	_, _ = b.Write(data)
	return b.sum()
}

// Verifier reads the bytes of a file and reports whether a content id names them. It
// costs a SHA-256 per layout in use, and memory for a few chunks, not for the file.
type Verifier struct {
	want     cid.Cid
	whole    hash.Hash // for an id of one raw block
	builders []*builder
}

// NewVerifier returns a verifier for a content id that [Parse] returned.
func NewVerifier(want cid.Cid) *Verifier {
	v := &Verifier{want: want}
	if want.Prefix().Codec == cid.Raw {
		v.whole = sha256.New()
		return v
	}
	for _, l := range layouts(int(want.Version())) {
		v.builders = append(v.builders, newBuilder(l))
	}
	return v
}

// Write takes the next bytes. It never fails.
func (v *Verifier) Write(p []byte) (int, error) {
	if v.whole != nil {
		return v.whole.Write(p)
	}
	for _, b := range v.builders {
		_, _ = b.Write(p)
	}
	return len(p), nil
}

// OK reports whether the written bytes are the file, cut in one of the usual ways. No
// Write may follow.
func (v *Verifier) OK() bool {
	if v.whole != nil {
		return v.want.Equals(makeCID(1, cid.Raw, [sha256.Size]byte(v.whole.Sum(nil))))
	}
	for _, b := range v.builders {
		if v.want.Equals(b.sum()) {
			return true
		}
	}
	return false
}

func makeCID(version int, codec uint64, sum [sha256.Size]byte) cid.Cid {
	mh, err := multihash.Encode(sum[:], multihash.SHA2_256)
	if err != nil {
		panic("legacy: encode a SHA-256: " + err.Error()) // cannot fail for 32 bytes
	}
	if version == 0 && codec == cid.DagProtobuf {
		return cid.NewCidV0(mh)
	}
	return cid.NewCidV1(codec, mh)
}
