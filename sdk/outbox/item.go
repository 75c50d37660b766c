package outbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Clear is what the disk shows of an item to who has the disk, beside what [Letter.Encode]
// shows.
type Clear struct {
	ID       string    `json:"id"`       // of the upload, 32 hex digits
	Account  string    `json:"account"`  // that saved it
	Position int64     `json:"position"` // in the order of the saves, from 1 on
	Revision int       `json:"revision,omitempty"`
	Size     int64     `json:"size"` // of the content, in bytes
	Time     time.Time `json:"time"` // of the save
	// Check finds the record of the item again, see [Outbox.checkOf]. Without the key nobody can tell what it
	// is made of.
	Check []byte `json:"check,omitempty"`
	// Body is the length of the ciphertext, in bytes, of a large save: it has a file of its own.
	Body int64 `json:"body,omitempty"`
	// NameCheck is the same for its name.
	NameCheck []byte `json:"name_check"`
}

// record is an item as it lies on the disk.
type record struct {
	Clear
	meta []byte // of Letter.Encode
	body []byte // encrypted content
	room *room  // that it takes when it is written; nil = none was made
}

// size is how many bytes the item takes on the disk, at most.
func (r *record) size() int64 {
	c := r.Clear
	c.Position = maxPosition // it gets one when it is written
	head, _ := json.Marshal(c)
	return shape{int64(len(head)), int64(len(r.meta)), int64(len(r.body))}.size()
}

// An item is: magic, the lengths of its three parts, the parts, and the SHA-256 of all that.
const (
	itemMagic    = "SVO1"
	itemPrefix   = len(itemMagic) + 4 + 4 + 8
	itemSum      = sha256.Size
	maxClear     = 4 << 10   // bytes
	maxMeta      = 512 << 10 // bytes
	maxItemBytes = 64 << 20  // bytes of content; one request has less
	maxPosition  = 1 << 48   // that a disk is believed: later ones must follow it
)

var errDamaged = errors.New("the item is damaged on the disk")

// encode appends the item to out.
func (r *record) encode(out []byte) ([]byte, error) {
	head, err := json.Marshal(r.Clear)
	if err != nil {
		return nil, fmt.Errorf("encode an item: %w", err)
	}
	if len(head) > maxClear || len(r.meta) > maxMeta || len(r.body) > maxItemBytes {
		return nil, errors.New("encode an item: it is too large")
	}
	from := len(out)
	out = append(out, itemMagic...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(r.meta)))
	out = binary.BigEndian.AppendUint64(out, uint64(len(r.body)))
	out = append(append(append(out, head...), r.meta...), r.body...)
	sum := sha256.Sum256(out[from:])
	return append(out, sum[:]...), nil
}

// shape is the lengths of the parts of an item.
type shape struct{ head, meta, body int64 }

func (s shape) size() int64 { return int64(itemPrefix+itemSum) + s.head + s.meta + s.body }

func parseShape(prefix []byte) (shape, error) {
	if len(prefix) < itemPrefix || string(prefix[:len(itemMagic)]) != itemMagic {
		return shape{}, errDamaged
	}
	s := shape{int64(binary.BigEndian.Uint32(prefix[4:])), int64(binary.BigEndian.Uint32(prefix[8:])), int64(binary.BigEndian.Uint64(prefix[12:]))}
	if s.head > maxClear || s.meta > maxMeta || s.body < 0 || s.body > maxItemBytes {
		return shape{}, errDamaged
	}
	return s, nil
}

func parseClear(head []byte) (c Clear, err error) {
	if err := json.Unmarshal(head, &c); err != nil || c.ID == "" || c.Position <= 0 || c.Position > maxPosition {
		return c, errDamaged
	}
	return c, nil
}

// decode reads a whole item.
func decode(raw []byte) (record, error) {
	s, err := parseShape(raw)
	if err != nil || s.size() != int64(len(raw)) {
		return record{}, errDamaged
	}
	end := len(raw) - itemSum
	if sha256.Sum256(raw[:end]) != [itemSum]byte(raw[end:]) {
		return record{}, errDamaged
	}
	rest := raw[itemPrefix:end]
	c, err := parseClear(rest[:s.head])
	rest = rest[s.head:]
	return record{Clear: c, meta: rest[:s.meta:s.meta], body: rest[s.meta:]}, err
}
