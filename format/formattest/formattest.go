// Package formattest reads the frozen vectors of format version 2, for the tests of every reader.
// It shares no code with package format, so that neither hides a fault of the other.
package formattest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxVectorBytes is the longest vector: its content is a recipe.
const maxVectorBytes = 32 << 10

// Vector is what a reader of version 2 is handed, and what reading the whole file gives. SPEC.md of package
// format describes the fields.
type Vector struct {
	Comment  string            `json:"comment"`
	Content  string            `json:"content,omitempty"` // of the ledger's row, hex; "" = the row has none
	FileHash string            `json:"file_hash"`         // of the ledger's row, hex or empty
	Key      string            `json:"key"`
	Format   json.RawMessage   `json:"format"`
	Manifest []byte            `json:"manifest"`
	Tiles    map[string][]byte `json:"tiles"` // of height 8, by path
	Data     []Piece           `json:"data"`
	SHA256   string            `json:"sha256,omitempty"` // of the plaintext, if the result is ok
	Result   string            `json:"result"`
}

// Piece makes bytes of a vector, either Hex or sealed blocks. Of these bytes the first Skip ones
// are left out, and only Take ones taken; 0 = all that follow.
type Piece struct {
	Hex  string `json:"hex,omitempty"`
	Seal *Seal  `json:"seal,omitempty"`
	Skip int64  `json:"skip,omitempty"`
	Take int64  `json:"take,omitempty"`
	Flip *int64 `json:"flip,omitempty"` // a bit of what is taken; the highest of byte 0 is bit 0
}

// Seal makes consecutive sealed blocks. The plaintext of block i is be64(i) | Seed, repeated; its
// IV is IV (8 bytes) | be32(i).
type Seal struct {
	Key        string `json:"part_key"` // hex
	IV         string `json:"iv"`       // hex
	Seed       string `json:"seed"`
	BlockBytes int64  `json:"block_size"`
	First      int64  `json:"first"`
	Count      int64  `json:"count"`
	Last       int64  `json:"last"` // bytes of the last one's plaintext
}

// Read returns the vectors of a folder by name, without .json.
func Read(t testing.TB, dir fs.FS) map[string]Vector {
	t.Helper()
	files, err := fs.Glob(dir, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]Vector{}
	for _, file := range files {
		raw, err := fs.ReadFile(dir, file)
		if err != nil || len(raw) > maxVectorBytes {
			t.Fatalf("%s has %d bytes, %v", file, len(raw), err)
		}
		strict := json.NewDecoder(bytes.NewReader(raw))
		strict.DisallowUnknownFields()
		var v Vector
		if err := strict.Decode(&v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list[strings.TrimSuffix(path.Base(file), ".json")] = v
	}
	if len(list) < 80 {
		t.Fatalf("found %d vectors", len(list))
	}
	return list
}

// Bytes returns the stored bytes of a vector: the sealed blocks, and what is wrong with them.
func (v Vector) Bytes(t testing.TB) (all []byte) {
	t.Helper()
	for _, p := range v.Data {
		raw := unhex(t, p.Hex)
		if p.Seal != nil {
			raw = p.Seal.sealed(t)
		}
		raw = raw[p.Skip:]
		if p.Take > 0 {
			raw = raw[:p.Take]
		}
		if p.Flip != nil {
			raw[*p.Flip/8] ^= 0x80 >> (*p.Flip % 8)
		}
		all = append(all, raw...)
	}
	return all
}

// Block returns the plaintext of block i.
func (s Seal) Block(i int64) []byte {
	size := s.BlockBytes
	if i == s.First+s.Count-1 {
		size = s.Last
	}
	unit := append(binary.BigEndian.AppendUint64(nil, uint64(i)), s.Seed...)
	return bytes.Repeat(unit, int(size)/len(unit)+1)[:size]
}

func (s Seal) sealed(t testing.TB) (all []byte) {
	t.Helper()
	block, err := aes.NewCipher(unhex(t, s.Key))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	all = slices.Grow(all, int(s.Count*(s.BlockBytes+28)))
	for i := s.First; i < s.First+s.Count; i++ {
		iv := binary.BigEndian.AppendUint32(unhex(t, s.IV), uint32(i))
		all = aead.Seal(append(all, iv...), iv, s.Block(i), binary.BigEndian.AppendUint64([]byte("svc-v2"), uint64(i)))
	}
	return all
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(fmt.Errorf("hex of %d characters: %w", len(text), err))
	}
	return raw
}
