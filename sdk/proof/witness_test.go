package proof_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// witness cosigns as c2sp.org/tlog-cosignature says.
type witness struct {
	name string
	key  ed25519.PrivateKey
	hash uint32
}

func newWitness(t *testing.T, name string) *witness {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{name: name, key: key}
	sum := sha256.Sum256(append([]byte(name+"\n"), w.public()...))
	w.hash = binary.BigEndian.Uint32(sum[:])
	return w
}

// renamed signs with the key of a witness under name and hash of another.
func renamed(key, as *witness) *witness { return &witness{as.name, key.key, as.hash} }

func (w *witness) public() []byte {
	return append([]byte{4}, w.key.Public().(ed25519.PublicKey)...)
}

func (w *witness) verifierKey() string {
	return fmt.Sprintf("%s+%08x+%s", w.name, w.hash, base64.StdEncoding.EncodeToString(w.public()))
}

func (w *witness) cosign(note []byte) []byte {
	text, _, _ := bytes.Cut(note, []byte("\n\n"))
	stamp := uint64(time.Now().Unix())
	signed := append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", stamp), append(text, '\n')...)
	sig := binary.BigEndian.AppendUint32(nil, w.hash)
	sig = binary.BigEndian.AppendUint64(sig, stamp)
	sig = append(sig, ed25519.Sign(w.key, signed)...)
	return fmt.Appendf(bytes.Clone(note), "— %s %s\n", w.name, base64.StdEncoding.EncodeToString(sig))
}
