package hosted

import (
	"bytes"
	"io"
	"testing"

	"github.com/svcfs/svcfs/format"
)

// A reader made after the content was restored, or is about to be, gives the blob.
func TestBlobIsReadAgain(t *testing.T) {
	t.Parallel()
	key, err := format.NewKey(bytes.Repeat([]byte{7}, format.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("content"), 1000)
	memory := append(make([]byte, 0, len(content)+format.TagBytes), content...)
	b, err := Seal(key, memory)
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	for i := range 200 {
		got, err := io.ReadAll(b.Reader())
		if err != nil || int64(len(got)) != b.Size() || bytes.Contains(got, content[:14]) {
			t.Fatalf("%d bytes of %d, %v", len(got), b.Size(), err)
		}
		if i == 0 {
			first = got
		}
		if !bytes.Equal(got, first) {
			t.Fatalf("reading %d differs from the first", i)
		}
		b.RestoreAhead()
		if i%3 == 0 {
			if err := b.Restore(); err != nil || !bytes.Equal(memory, content) {
				t.Fatalf("restored: %v", err)
			}
		}
	}
	if err := b.Restore(); err != nil || !bytes.Equal(memory, content) {
		t.Fatalf("restored: %v", err)
	}
	memory[0] ^= 1
	if _, err := io.ReadAll(b.Reader()); err == nil {
		t.Error("other content is sealed under the same nonce")
	}
}
