package format

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

const (
	// PartIDBytes is the length of the id of a part, in bytes.
	PartIDBytes = 16
	// RunBytes is the length of a run in a manifest, in bytes.
	RunBytes = PartIDBytes + 8 + 8 + WrappedKeyBytes
	// MaxManifestBytes is the longest manifest, in bytes.
	MaxManifestBytes = 16 << 20
)

// PartID names a part: sealed blocks that are stored together under one key.
type PartID [PartIDBytes]byte

// String returns 32 lower-case hex digits.
func (p PartID) String() string { return hex.EncodeToString(p[:]) }

// ParsePartID reads what String writes; else the error is [ErrCorrupt].
func ParsePartID(text string) (id PartID, err error) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == PartIDBytes && hex.EncodeToString(raw) == text {
		return PartID(raw), nil
	}
	return id, fmt.Errorf("part id of %d characters: want %d lower-case hex digits: %w", len(text), 2*PartIDBytes,
		ErrCorrupt)
}

// Run is a run of blocks of a file that lie in one part.
type Run struct {
	Part  PartID
	First int64                 // block
	Count int64                 // blocks, at least 1
	Key   [WrappedKeyBytes]byte // of the part, see [UnwrapKey]
}

// Manifest lists the runs of a file, from block 0 to the last without gaps.
type Manifest []Run

// Encode returns the bytes that the ledger's record commits to.
func (m Manifest) Encode() []byte {
	raw := make([]byte, 0, len(m)*RunBytes)
	for i := range m {
		raw = append(raw, m[i].Part[:]...)
		raw = binary.BigEndian.AppendUint64(raw, uint64(m[i].First))
		raw = binary.BigEndian.AppendUint64(raw, uint64(m[i].Count))
		raw = append(raw, m[i].Key[:]...)
	}
	return raw
}

// ParseManifest reads the manifest of a file of so many blocks; it keeps nothing of raw. The error is [ErrCorrupt]
// unless each block lies in exactly one run, and the runs are in order, and [ErrTooLarge] above
// [MaxManifestBytes].
func ParseManifest(raw []byte, blocks int64) (Manifest, error) {
	if len(raw) > MaxManifestBytes {
		return nil, fmt.Errorf("manifest of %d bytes: want at most %d: %w", len(raw), MaxManifestBytes, ErrTooLarge)
	}
	if blocks < 1 {
		return nil, fmt.Errorf("manifest of a file of %d blocks: %w", blocks, ErrCorrupt)
	}
	if len(raw) == 0 || len(raw)%RunBytes != 0 {
		return nil, fmt.Errorf("manifest of %d bytes: want a multiple of %d: %w", len(raw), RunBytes, ErrCorrupt)
	}
	m := make(Manifest, len(raw)/RunBytes)
	next := int64(0)
	for i := range m {
		m[i] = runAt(raw, i)
		if m[i].First != next || m[i].Count < 1 || m[i].Count > blocks-next {
			return nil, fmt.Errorf("manifest: run %d does not follow the one before within %d blocks: %w", i, blocks,
				ErrCorrupt)
		}
		next += m[i].Count
	}
	if next != blocks {
		return nil, fmt.Errorf("manifest of %d blocks: the file has %d: %w", next, blocks, ErrCorrupt)
	}
	return m, nil
}

// runAt reads a run.
func runAt(raw []byte, i int) Run {
	at := raw[i*RunBytes : (i+1)*RunBytes]
	return Run{Part: PartID(at[:PartIDBytes]), First: int64(binary.BigEndian.Uint64(at[PartIDBytes:])),
		Count: int64(binary.BigEndian.Uint64(at[PartIDBytes+8:])),
		Key:   [WrappedKeyBytes]byte(at[PartIDBytes+16:])}
}

// FindRun is [Manifest.Find] in a manifest that [ParseManifest] accepted before, without
// reading all of it. [ErrCorrupt] means that it has no such block.
func FindRun(raw []byte, block int64) (Run, error) {
	low, high := 0, len(raw)/RunBytes
	for high-low > 1 {
		if mid := (low + high) / 2; runAt(raw, mid).First <= block {
			low = mid
		} else {
			high = mid
		}
	}
	if high > low {
		if run := runAt(raw, low); run.First <= block && block-run.First < run.Count {
			return run, nil
		}
	}
	return Run{}, fmt.Errorf("manifest: no run has block %d: %w", block, ErrCorrupt)
}

// Find returns the run that holds a block, which the file must have.
func (m Manifest) Find(block int64) *Run {
	low, high := 0, len(m)
	for high-low > 1 {
		if mid := (low + high) / 2; m[mid].First <= block {
			low = mid
		} else {
			high = mid
		}
	}
	return &m[low]
}

// ManifestSum returns the hash of an encoded manifest for [Metadata.Content].
func ManifestSum(raw []byte) [sha256.Size]byte { return sha256.Sum256(raw) }
