package archive

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/locked"
)

const (
	indexBytes = 1 << 20 // a part of an index ends after so many bytes
	maxParts   = 1 << 20 // of an index
)

// SealKey is derived from the master key. It prints as "redacted".
type SealKey struct {
	locked.Redacted
	raw [sha256.Size]byte
}

// NewSealKey wraps the key.
func NewSealKey(raw [sha256.Size]byte) SealKey { return SealKey{raw: raw} }

// seal proves that the holder of the master key wrote a text.
func (k SealKey) seal(text []byte) []byte {
	mac := hmac.New(sha256.New, k.raw[:])
	mac.Write([]byte("archive index "))
	mac.Write(text)
	return []byte("seal " + hex.EncodeToString(mac.Sum(nil)) + "\n")
}

// page is some rows of a table, by the checksum of its section.
type page struct {
	number int // in the table
	sum    [sha256.Size]byte
	rows   int64
}

// indexHead begins each part of an index.
type indexHead struct {
	Head
	Round      int    `json:"round"` // an archive under load has several states; the last one counts
	Part       int    `json:"part"`  // from 1
	Parts      int    `json:"parts"`
	Complete   bool   `json:"complete"` // the archive ends with it
	Records    int64  `json:"records"`
	LedgerRoot string `json:"ledger_root"`
}

// index is one state of the service: its pages in order, and its blobs.
type index struct {
	indexHead
	pages map[string][]page // by table
	blobs map[string]int64  // sizes, by id
	parts map[int]bool      // that were read
}

func newIndex(h indexHead) *index {
	return &index{indexHead: h, pages: make(map[string][]page), blobs: make(map[string]int64),
		parts: make(map[int]bool)}
}

// lines are the entries of the index.
func (x *index) lines() (list []string) {
	for table, pages := range x.pages {
		for _, p := range pages {
			list = append(list, fmt.Sprintf("rows %s %d %x %d\n", table, p.number, p.sum, p.rows))
		}
	}
	for id, size := range x.blobs {
		list = append(list, fmt.Sprintf("blob %s %d\n", id, size))
	}
	slices.Sort(list)
	return list
}

// encode returns the parts of the index, sealed.
func (x *index) encode(key SealKey) (texts [][]byte, err error) {
	bodies := [][]byte{nil}
	for _, line := range x.lines() {
		if len(bodies[len(bodies)-1]) >= indexBytes {
			bodies = append(bodies, nil)
		}
		bodies[len(bodies)-1] = append(bodies[len(bodies)-1], line...)
	}
	for n, body := range bodies {
		h := x.indexHead
		h.Part, h.Parts = n+1, len(bodies)
		text, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		text = append(append(text, '\n'), body...)
		texts = append(texts, append(text, key.seal(text)...))
	}
	return texts, nil
}

var errSeal = errors.New("it was not sealed with this master key: it was changed, or belongs to another master key")

// sealLine is the length of the line that seals a part of an index.
const sealLine = len("seal ") + 2*sha256.Size + 1

// openIndex checks the seal of a part of an index, and returns what it says.
func openIndex(text []byte, key SealKey) (h indexHead, body []byte, err error) {
	end := len(text) - sealLine
	if end < 0 || !hmac.Equal(text[end:], key.seal(text[:end])) {
		return h, nil, errSeal
	}
	first, body, _ := bytes.Cut(text[:end], []byte("\n"))
	if err := json.Unmarshal(first, &h); err != nil || h.Part < 1 || h.Part > h.Parts || h.Parts > maxParts {
		return h, nil, errNoArchive
	}
	return h, body, nil
}

// add reads the entries of a part of the index.
func (x *index) add(part int, body []byte) error {
	if x.parts[part] {
		return nil // the second copy
	}
	for line := range strings.Lines(string(body)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 5 && f[0] == "rows":
			number, err1 := strconv.Atoi(f[2])
			sum, err2 := hex.DecodeString(f[3])
			rows, err3 := strconv.ParseInt(f[4], 10, 64)
			if errors.Join(err1, err2, err3) != nil || len(sum) != sha256.Size || rows < 1 {
				return errNoArchive
			}
			x.pages[f[1]] = append(x.pages[f[1]], page{number, [sha256.Size]byte(sum), rows})
		case len(f) == 3 && f[0] == "blob":
			size, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil || size < 0 {
				return errNoArchive
			}
			x.blobs[f[1]] = size
		default:
			return errNoArchive
		}
	}
	x.parts[part] = true
	return nil
}

// indexes are those of one archive, by round. An index is there twice.
type indexes map[int]*index

func (all indexes) add(h indexHead, body []byte) error {
	x := all[h.Round]
	if x == nil {
		x = newIndex(h)
		all[h.Round] = x
	}
	if h.ID != x.ID || h.Parts != x.Parts {
		return errNoArchive // sealed, but of another archive
	}
	return x.add(h.Part, body)
}

// read adds a part of an index as it is written. complete means that the archive may end there.
func (all indexes) read(text []byte, s Service) (complete bool, err error) {
	h, body, err := openIndex(text, s.SealKey)
	if err == nil {
		err = s.accept(&h.Head)
	}
	if err == nil {
		err = all.add(h, body)
	}
	return h.Complete && h.Part == h.Parts, err
}

// newest returns the newest index that is whole, nil for none.
func (all indexes) newest() *index {
	for _, round := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		if x := all[round]; len(x.parts) == x.Parts {
			for _, pages := range x.pages { // its parts came in any order
				slices.SortFunc(pages, func(a, b page) int { return cmp.Compare(a.number, b.number) })
			}
			return x
		}
	}
	return nil
}

// summary is what the index says of its state.
func (x *index) summary() Summary {
	s := Summary{ID: x.ID, Records: x.Records, LedgerRoot: x.LedgerRoot, Blobs: len(x.blobs)}
	for _, size := range x.blobs {
		s.BlobBytes += size
	}
	return s
}
