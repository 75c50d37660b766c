package testkit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
)

// Witness cosigns the checkpoints of one log as c2sp.org/tlog-cosignature says, and
// never two that contradict each other. Unlike a real one it believes that a longer
// tree continues a shorter one.
type Witness struct {
	Clock func() time.Time // by which it signs; nil = that of the machine

	name string
	key  ed25519.PrivateKey
	hash uint32
	seen map[int64]string // text of each size it signed
}

// NewWitness makes a witness with a key of its own.
func NewWitness(name string) *Witness {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	w := &Witness{name: name, key: key, seen: map[int64]string{}}
	sum := sha256.Sum256(append([]byte(name+"\n"), w.public()...))
	w.hash = binary.BigEndian.Uint32(sum[:])
	return w
}

// public is the key with its algorithm in front.
func (w *Witness) public() []byte { return append([]byte{4}, w.key.Public().(ed25519.PublicKey)...) }

// VerifierKey is what clients require.
func (w *Witness) VerifierKey() string {
	return fmt.Sprintf("%s+%08x+%s", w.name, w.hash, encode64(w.public()))
}

// Cosign adds a signature to a checkpoint, unless another one of the same size was
// signed.
func (w *Witness) Cosign(note []byte) []byte {
	text, _, _ := bytes.Cut(note, []byte("\n\n"))
	lines := bytes.SplitN(text, []byte("\n"), 3)
	size, err := strconv.ParseInt(string(lines[1]), 10, 64)
	if err != nil {
		return note
	}
	if before, signed := w.seen[size]; signed && before != string(text) {
		return note
	}
	w.seen[size] = string(text)
	now := time.Now
	if w.Clock != nil {
		now = w.Clock
	}
	stamp := uint64(now().Unix())
	signed := append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", stamp), append(text, '\n')...)
	sig := binary.BigEndian.AppendUint32(nil, w.hash)
	sig = binary.BigEndian.AppendUint64(sig, stamp)
	sig = append(sig, ed25519.Sign(w.key, signed)...)
	return fmt.Appendf(bytes.Clone(note), "— %s %s\n", w.name, encode64(sig))
}
