package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// ErrFrame means that bytes are not the beginning of a frame.
var ErrFrame = errors.New("not a frame of a sealed upload")

// maxHeadDepth bounds the nesting of a head.
const maxHeadDepth = 64

// AppendFrameHead appends the beginning of a frame to b: everything but the ciphertext, of
// which BlobSize bytes must follow. Errors: [ErrFrame] for a head that [ReadFrameHead] would
// refuse.
func AppendFrameHead(b []byte, h *SealedHead) ([]byte, error) {
	if err := h.Check(h.BlobSize); err != nil {
		return b, err
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return b, fmt.Errorf("encode the head of a frame: %w", err)
	}
	if len(raw) > MaxSealedHead {
		return b, fmt.Errorf("%w: a head of %d bytes, want at most %d", ErrFrame, len(raw), MaxSealedHead)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(raw))), raw...), nil
}

// frameLength is how many bytes at the beginning of a frame tell the length of its head.
const frameLength = 4

// ReadFrameHead reads the beginning of a frame from r, and no byte of the ciphertext that
// follows. most is the longest ciphertext that is accepted, in bytes. Errors: those of
// [ReadRawFrameHead], and [ErrFrame] for a head that is wrong.
func ReadFrameHead(r io.Reader, most int64) (*SealedHead, error) {
	raw, _, err := ReadRawFrameHead(r, frameLength+MaxSealedHead)
	if err != nil {
		return nil, err
	}
	h := new(SealedHead)
	if DeeperThan(raw, maxHeadDepth) || json.Unmarshal(raw, h) != nil {
		return nil, fmt.Errorf("%w: the head is not the JSON that was expected", ErrFrame)
	}
	return h, h.Check(most)
}

// ReadRawFrameHead reads the beginning of a frame from r, of which at most coming bytes follow, and returns
// its JSON, which is the caller's, and how many bytes it took. It takes no memory for a head that is
// longer than what is coming. Errors: io.EOF before the first byte, io.ErrUnexpectedEOF for a head that
// ends too early, [ErrFrame] for one longer than [MaxSealedHead], and those of r.
func ReadRawFrameHead(r io.Reader, coming int64) (raw []byte, n int64, err error) {
	var length [frameLength]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, 0, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > MaxSealedHead {
		return nil, 0, fmt.Errorf("%w: a head of %d bytes, want at most %d", ErrFrame, size, MaxSealedHead)
	}
	n = frameLength + int64(size)
	if n > coming {
		return nil, 0, io.ErrUnexpectedEOF
	}
	raw = make([]byte, size)
	if _, err := io.ReadFull(r, raw); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	return raw, n, nil
}

// Check returns [ErrFrame] with the field that is wrong, or nil. most is the longest
// ciphertext that is accepted, in bytes. Check looks at the form only: after it, the methods
// [SealedHead.Key] returns what the head says.
func (h *SealedHead) Check(most int64) error {
	wrong := ""
	switch {
	case !isHex(h.ID, UploadIDBytes):
		wrong = fmt.Sprintf("id: want %d hex digits", 2*UploadIDBytes)
	case h.Epoch <= 0:
		wrong = "epoch: want 1 or more"
	case len(h.Key()) != format.SealedKeyBytes:
		wrong = fmt.Sprintf("sealed_key: want %d bytes in base64", format.SealedKeyBytes)
	case h.GroupID == "":
		wrong = "group_id: want a group"
	case !isHex(h.FileHash, 32) && (h.FileHash != "" || h.From == ""):
		wrong = "file_hash: want 64 hex digits"
	case !isHex(h.Salt, chain.SaltBytes):
		wrong = "salt: want 64 hex digits"
	case len(h.Format) == 0 || h.Format[0] != '{' || !json.Valid(h.Format):
		wrong = "format: want an object"
	case !isHex(h.BlobHash, 32):
		wrong = "blob_hash: want 64 hex digits"
	case h.Tag != "" && !isHex(h.Tag, 32):
		wrong = "tag: want 64 hex digits"
	case h.BlobSize < format.Overhead || h.BlobSize > most:
		wrong = fmt.Sprintf("blob_size %d: want %d to %d bytes", h.BlobSize, format.Overhead, most)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFrame, wrong)
}

// Key returns the sealed key, nil if it is not base64. It belongs to the caller.
func (h *SealedHead) Key() []byte {
	raw, err := base64.StdEncoding.Strict().DecodeString(h.SealedKey)
	if err != nil {
		return nil
	}
	return raw
}

// headDomain begins what a sealed key is bound to.
const headDomain = "svc-upload-head-1"

// Sum returns what the sealed key of the upload is bound to: SHA-256 over all that the head says, but for
// the id, the epoch and the sealed key itself. format/SPEC.md lays it out.
func (h *SealedHead) Sum() [sha256.Size]byte { return sha256.Sum256(h.Bound()) }

// Bound returns the text of which [SealedHead.Sum] is the hash.
func (h *SealedHead) Bound() []byte {
	texts := []string{h.GroupID, h.FileHash, h.Salt, string(h.Format), strconv.FormatInt(h.BlobSize, 10), h.BlobHash,
		strconv.FormatBool(h.Versioned), h.Base, h.From, h.Tag}
	if h.Upon != "" {
		texts = append(texts, h.Upon)
	}
	b := []byte(headDomain)
	for _, text := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// GroupOfBound returns the group that a [SealedHead.Bound] names. Errors: [ErrFrame].
func GroupOfBound(bound []byte) (group string, err error) {
	rest, is := bytes.CutPrefix(bound, []byte(headDomain))
	if !is || len(rest) < 8 {
		return "", fmt.Errorf("%w: it begins as no head does", ErrFrame)
	}
	n, rest := binary.BigEndian.Uint64(rest), rest[8:]
	if n > uint64(len(rest)) {
		return "", fmt.Errorf("%w: its group is longer than it", ErrFrame)
	}
	return string(rest[:n]), nil
}

// isHex reports whether text is n bytes in lower-case hex.
func isHex(text string, n int) bool {
	if len(text) != 2*n {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
