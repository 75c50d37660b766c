package outbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// Clear is what the disk shows of an item, or of a journal, to who has the disk.
type Clear struct {
	ID       string    `json:"id"`                 // of the upload, 32 hex digits; or of the journal
	Account  string    `json:"account,omitempty"`  // that saved it
	Journal  string    `json:"journal,omitempty"`  // id of the journal whose key the item is encrypted under
	Position int64     `json:"position,omitempty"` // in the order of the saves, from 1 on
	Size     int64     `json:"size,omitempty"`     // of the content, in bytes
	Time     time.Time `json:"time,omitzero"`      // of the save
	// Body is the length of the ciphertext, in bytes, of a large save, and File the name of its file.
	Body int64  `json:"body,omitempty"`
	File string `json:"file,omitempty"`
	// After is the id of the item that this one was saved upon, while that one waits.
	After string `json:"after,omitempty"`
	// Record is the record that the item replaces, once what it was saved upon is recorded.
	Record sdk.Ref `json:"record,omitempty"`
}

// kind is what an entry of the log says.
type kind uint8

const (
	kindSave    kind = iota + 1 // here is an item; once more = the item and all that is known of it now
	kindAddress                 // an item has other metadata
	kindEnd                     // an item was recorded, or given up; or a journal has ended at the service
	kindCut                     // nothing of a segment counts from one offset to another
	kindJournal                 // here is a journal; once more = its key is sealed anew
)

// head is the part of an entry in clear.
type head struct {
	*Clear            // of an item; of one that ended, what it stood upon alone
	Unread bool       `json:"unread,omitempty"`  // of kindSave: once more, without the content, which cannot be read
	Apart  bool       `json:"apart,omitempty"`   // of kindAddress: what was saved upon the item is not upon it any more
	Key    *sealedKey `json:"key,omitempty"`     // of kindJournal
	Ref    sdk.Ref    `json:"end_ref,omitempty"` // of kindEnd: the record of the item; "" = it was given up
	Cut    string     `json:"cut,omitempty"`     // name of the segment
	From   int64      `json:"from,omitempty"`    // of kindCut, in bytes
	To     int64      `json:"to,omitempty"`      // of kindCut, in bytes; 0 = all that follows
}

// entry is one step of an item, as it lies on the disk.
type entry struct {
	kind kind
	head
	meta []byte       // encrypted, see seal.go
	body []byte       // encrypted content
	now  func(*Clear) // brings Clear up to date when the entry is written; nil = nothing changes
	room *room        // that it takes when it is written; nil = none was made
}

// size is how many bytes the entry takes on the disk, at most.
func (e *entry) size() int64 {
	h := e.head
	if h.Clear != nil {
		c := *h.Clear
		c.Position = maxPosition // it gets one when it is written
		h.Clear = &c
	}
	raw, _ := json.Marshal(h)
	return shape{head: int64(len(raw)), meta: int64(len(e.meta)), body: int64(len(e.body))}.size()
}

// An entry is: magic, kind, the lengths of its three parts, the CRC-32C of all that and of the first part, the
// parts, and the SHA-256 of all that.
const (
	entryMagic   = "SVJ2"
	entryLengths = len(entryMagic) + 1 + 4 + 4 + 8
	entryPrefix  = entryLengths + crc32.Size
	entrySum     = sha256.Size
	maxHead      = 4 << 10   // bytes
	maxMeta      = 512 << 10 // bytes
	maxBodyBytes = 64 << 20  // bytes of content; one request has less
	maxPosition  = 1 << 48   // that a disk is believed: later ones must follow it
)

// errUsedUp refuses a save that the next start would not believe.
var errUsedUp = errors.New("an item has a position that svcfs never gives, so no later save is believed: discard it")

var errDamaged = errors.New("the item is damaged on the disk")

// errTooLarge refuses an entry that no start would read, such as that of a save of very many separate parts of a file.
var errTooLarge = errors.New("what the outbox would note of the save is too large")

func (e *entry) isTooLarge() bool { return len(e.meta) > maxMeta || len(e.body) > maxBodyBytes }

// encode appends the entry to out.
func (e *entry) encode(out []byte) ([]byte, error) {
	raw, err := json.Marshal(e.head)
	if err != nil {
		return nil, fmt.Errorf("encode an entry: %w", err)
	}
	if len(raw) > maxHead || e.isTooLarge() {
		return nil, errTooLarge
	}
	from := len(out)
	out = append(out, entryMagic...)
	out = append(out, byte(e.kind))
	out = binary.BigEndian.AppendUint32(out, uint32(len(raw)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(e.meta)))
	out = binary.BigEndian.AppendUint64(out, uint64(len(e.body)))
	out = binary.BigEndian.AppendUint32(out, headSum(out[from:], raw))
	out = append(append(append(out, raw...), e.meta...), e.body...)
	sum := sha256.Sum256(out[from:])
	return append(out, sum[:]...), nil
}

// headSum proves the head of an entry without its content.
func headSum(prefix, head []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(prefix[:entryLengths], table), table, head)
}

// shape is what the first bytes of an entry say.
type shape struct {
	kind             kind
	head, meta, body int64 // lengths in bytes
}

func (s shape) size() int64 { return int64(entryPrefix+entrySum) + s.head + s.meta + s.body }

func parseShape(prefix []byte) (shape, error) {
	if len(prefix) < entryPrefix || string(prefix[:len(entryMagic)]) != entryMagic {
		return shape{}, errDamaged
	}
	p := prefix[len(entryMagic):]
	s := shape{kind: kind(p[0]), head: int64(binary.BigEndian.Uint32(p[1:])),
		meta: int64(binary.BigEndian.Uint32(p[5:])),
		body: int64(binary.BigEndian.Uint64(p[9:]))}
	known := s.kind >= kindSave && s.kind <= kindJournal
	if !known || s.head > maxHead || s.meta > maxMeta || s.body < 0 || s.body > maxBodyBytes {
		return shape{}, errDamaged
	}
	return s, nil
}

// parseHead reads the head of an entry that begins with raw.
func (s shape) parseHead(raw []byte) (h head, err error) {
	text := raw[entryPrefix : int64(entryPrefix)+s.head]
	if binary.BigEndian.Uint32(raw[entryLengths:]) != headSum(raw, text) || json.Unmarshal(text, &h) != nil {
		return h, errDamaged
	}
	whole := false
	switch s.kind {
	case kindSave, kindAddress:
		whole = h.Clear != nil && h.ID != "" && h.Position > 0 && h.Position <= maxPosition
	case kindEnd:
		whole = h.Clear != nil && h.ID != ""
	case kindCut:
		whole = h.Cut != "" && h.From >= 0
	case kindJournal:
		whole = h.Clear != nil && h.ID != "" && h.Key != nil
	}
	if !whole {
		return h, errDamaged
	}
	return h, nil
}

// decode reads a whole entry.
func decode(raw []byte) (entry, error) {
	s, err := parseShape(raw)
	if err != nil || s.size() != int64(len(raw)) {
		return entry{}, errDamaged
	}
	end := len(raw) - entrySum
	if sha256.Sum256(raw[:end]) != [entrySum]byte(raw[end:]) {
		return entry{}, errDamaged
	}
	h, err := s.parseHead(raw)
	rest := raw[int64(entryPrefix)+s.head : end]
	return entry{kind: s.kind, head: h, meta: rest[:s.meta:s.meta], body: rest[s.meta:]}, err
}
