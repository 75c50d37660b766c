package vaultwire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// MaxFrameBytes bounds a frame. The longest are the wrapped keys of a service, pages of keys to wrap anew, and
// extensions of the log.
const MaxFrameBytes = 1 << 20

// maxListed bounds a list in a question.
const maxListed = 4096

// List is a list in a question, of at most maxListed elements. Two bytes of JSON make an element of hundreds of bytes,
// so that a frame of them would take all memory of a vault.
type List[T any] []T

// UnmarshalJSON implements [json.Unmarshaler]. It ends at the first element that is none.
func (l *List[T]) UnmarshalJSON(raw []byte) error {
	*l = nil
	if string(raw) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return fmt.Errorf("%w: a list begins with %v", errFrame, begin)
	}
	for d.More() {
		var element T
		if len(*l) == maxListed {
			return fmt.Errorf("%w: a list of more than %d elements", errFrame, maxListed)
		}
		if err := d.Decode(&element); err != nil {
			return err
		}
		*l = append(*l, element)
	}
	return nil
}

// A frame is its length in four bytes, big-endian, then the length of its name in one byte, the name, and JSON. The
// name of a question is that of its operation. The name of an answer is empty, or the kind of the failure in the JSON.

// errFrame means that bytes are no frame: the connection is of no use any more.
var errFrame = errors.New("not a frame")

// writeFrame writes a frame with a single call of w.
func writeFrame(w io.Writer, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	defer clear(raw)
	length := 1 + len(name) + len(raw)
	if length > MaxFrameBytes || len(name) > 255 {
		return fmt.Errorf("%w: it would have %d bytes, at most %d are allowed", errFrame, length, MaxFrameBytes)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+length), uint32(length))
	frame = append(append(frame, byte(len(name))), name...)
	frame = append(frame, raw...)
	defer clear(frame)
	_, err = w.Write(frame)
	return err
}

// readFrame reads a frame. The caller clears raw. At the end between two frames it returns io.EOF. begins is told the
// length of the frame before it takes memory; nil = nobody is.
func readFrame(r io.Reader, begins func(length int) error) (name string, raw []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length == 0 || length > MaxFrameBytes {
		return "", nil, fmt.Errorf("%w: it says that it has %d bytes, 1 to %d are allowed", errFrame, length,
			MaxFrameBytes)
	}
	if begins != nil {
		if err := begins(int(length)); err != nil {
			return "", nil, err
		}
	}
	frame := make([]byte, length)
	if _, err := io.ReadFull(r, frame); err != nil {
		clear(frame)
		return "", nil, fmt.Errorf("%w: it breaks off", errFrame)
	}
	begin := 1 + int(frame[0])
	if begin > len(frame) {
		clear(frame)
		return "", nil, fmt.Errorf("%w: its name is longer than it", errFrame)
	}
	return string(frame[1:begin]), frame[begin:], nil
}

// failure is the JSON of an answer that is an error.
type failure struct {
	Text string
	Hint string `json:",omitempty"` // what to do about it
}

// kinds are the errors that come out of a vault as themselves, by the names that they have in a frame.
func kinds() map[string]error {
	return map[string]error{"other-master": ErrOtherMaster, "no-keys": ErrNoKeys, "epoch": ErrEpoch,
		"unknown-key": ErrUnknownKey, "not-opened": ErrNotOpened, "held": ErrHeld, "sealed": ErrSealed,
		"no-legacy": ErrNoLegacy, "no-text": ErrNoText, "not-following": ErrNotFollowing,
		"no-claim": ErrNoClaim, "not-followed": ErrNotFollowed, "no-member": ErrNoMember, "not-vouched": ErrNotVouched,
		"credential": ErrCredential,
		"wrong-key":  ErrWrongKey, "sealed-only": ErrSealedOnly, "other-keys": ErrOtherKeys,
		"no-next": ErrNoNext, "full": syscall.ENOSPC}
}

const (
	kindOther    = "other"
	kindToken    = "token"
	kindAudience = "audience"
)

// kindOf names an error for a frame.
func kindOf(err error) (kind string, f failure) {
	f = failure{err.Error(), ownfile.MendOf(err)}
	var token *TokenError
	if errors.As(err, &token) {
		f.Text = token.Text
		if token.Audience {
			return kindAudience, f
		}
		return kindToken, f
	}
	for kind, is := range kinds() {
		if errors.Is(err, is) {
			return kind, f
		}
	}
	return kindOther, f
}

// errorOf reverses kindOf.
func errorOf(kind string, f failure) error {
	switch kind {
	case kindToken, kindAudience:
		return &TokenError{Audience: kind == kindAudience, Text: f.Text}
	case kindOther:
		return &told{failure: f}
	}
	if is, ok := kinds()[kind]; ok {
		return &told{f, is}
	}
	return fmt.Errorf("%w: an answer of the kind %.20q", errFrame, kind)
}

// told is an error of a vault, with its text.
type told struct {
	failure
	is error // nil = none that has a name
}

func (t *told) Error() string { return t.Text }
func (t *told) Unwrap() error { return t.is }

// HintOf returns what a vault says is to be done about its error, or "".
func HintOf(err error) string {
	var t *told
	if errors.As(err, &t) {
		return t.Hint
	}
	return ""
}
