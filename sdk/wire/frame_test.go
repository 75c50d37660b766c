package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
)

func head() *SealedHead {
	return &SealedHead{ID: strings.Repeat("ab", UploadIDBytes), Epoch: 1, SealedKey: base64.StdEncoding.EncodeToString(make([]byte, format.SealedKeyBytes)), GroupID: "g",
		FileHash: strings.Repeat("01", 32), Salt: strings.Repeat("03", 32), Format: json.RawMessage(`{"version":1}`), BlobSize: 30, BlobHash: strings.Repeat("02", 32), Base: NoBase}
}

func TestFrames(t *testing.T) {
	var all []byte
	for range 2 {
		var err error
		if all, err = AppendFrameHead(all, head()); err != nil {
			t.Fatal(err)
		}
		all = append(all, make([]byte, head().BlobSize)...)
	}
	in := bytes.NewReader(all)
	for range 2 {
		h, err := ReadFrameHead(in, 30)
		if err != nil || !reflect.DeepEqual(h, head()) || len(h.Key()) != format.SealedKeyBytes {
			t.Fatalf("%+v, %v", h, err)
		}
		if n, err := io.CopyN(io.Discard, in, h.BlobSize); n != 30 || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := ReadFrameHead(in, 30); err != io.EOF {
		t.Errorf("after the last: %v", err)
	}
	if _, err := ReadFrameHead(bytes.NewReader(all[:100]), 30); err != io.ErrUnexpectedEOF {
		t.Errorf("cut: %v", err)
	}
	if _, err := ReadFrameHead(bytes.NewReader(all[:4]), 30); err != io.ErrUnexpectedEOF {
		t.Errorf("cut after the length: %v", err)
	}
}

func TestFramesAreRefused(t *testing.T) {
	raw := func(change func(*SealedHead)) []byte {
		h := head()
		change(h)
		if _, err := AppendFrameHead(nil, h); h.BlobSize < 31 && !errors.Is(err, ErrFrame) {
			t.Errorf("%+v is written", h)
		}
		text, _ := json.Marshal(h)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	for name, frame := range map[string][]byte{
		"id":            raw(func(h *SealedHead) { h.ID = strings.ToUpper(h.ID) }),
		"path as id":    raw(func(h *SealedHead) { h.ID = "../" + h.ID[3:] }),
		"epoch":         raw(func(h *SealedHead) { h.Epoch = 0 }),
		"key":           raw(func(h *SealedHead) { h.SealedKey = h.SealedKey[4:] }),
		"key no base64": raw(func(h *SealedHead) { h.SealedKey = "!" + h.SealedKey[1:] }),
		"group":         raw(func(h *SealedHead) { h.GroupID = "" }),
		"hash":          raw(func(h *SealedHead) { h.FileHash = "" }),
		"salt":          raw(func(h *SealedHead) { h.Salt = "" }),
		"blob hash":     raw(func(h *SealedHead) { h.BlobHash = h.BlobHash[1:] }),
		"too small":     raw(func(h *SealedHead) { h.BlobSize = format.Overhead - 1 }),
		"negative":      raw(func(h *SealedHead) { h.BlobSize = -1 }),
		"too large":     raw(func(h *SealedHead) { h.BlobSize = 31 }),
		"no format":     raw(func(h *SealedHead) { h.Format = nil }),
		"long head":     binary.BigEndian.AppendUint32(nil, MaxSealedHead+1),
		"no JSON":       append(binary.BigEndian.AppendUint32(nil, 4), "nope"...),
		"deep":          append(binary.BigEndian.AppendUint32(nil, 20_000), strings.Repeat("[", 20_000)...),
	} {
		if _, err := ReadFrameHead(bytes.NewReader(frame), 30); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := head()
	long.Format = json.RawMessage(`"` + strings.Repeat("x", MaxSealedHead) + `"`)
	if _, err := AppendFrameHead(nil, long); !errors.Is(err, ErrFrame) {
		t.Errorf("a long head is written: %v", err)
	}
}

// What a key is bound to never changes, and a version that the content was made from is part of it.
func TestHeadSum(t *testing.T) {
	without, none, from := head(), head(), head()
	none.Upon, from.Upon = NoBase, "bafyversion"
	for what, tc := range map[string]struct {
		h    *SealedHead
		want string
	}{
		"without upon": {without, "3fe1a5745d0891868da88620948ed78d0118c09de2e8842b7bcdbdeb458f446e"},
		"from none":    {none, "241af1079f40b2ec4e77f2e58055a16bf0dce8de350b42f683f61d2af8aca946"},
		"from one":     {from, "d0ab4dc8e2b038f38db6a8623eb968a5c308946019767307348ca139f6078786"},
	} {
		if sum := tc.h.Sum(); hex.EncodeToString(sum[:]) != tc.want {
			t.Errorf("%s: %x, want %s", what, sum, tc.want)
		}
	}
}

// FuzzFrameHead: what is read is written the same, and no byte behind the head is taken.
func FuzzFrameHead(f *testing.F) {
	good, _ := AppendFrameHead(nil, head())
	f.Add(append(good, "ciphertext"...))
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := bytes.NewReader(raw)
		h, err := ReadFrameHead(in, 1<<20)
		if err != nil {
			return
		}
		if read, said := len(raw)-in.Len(), 4+int(binary.BigEndian.Uint32(raw)); read != said {
			t.Fatalf("%d bytes were read of %d", read, said)
		}
		written, err := AppendFrameHead(nil, h)
		if err != nil {
			return // longer than it was, because JSON escapes
		}
		again, err := ReadFrameHead(bytes.NewReader(written), 1<<20)
		if err != nil || again.ID != h.ID || again.GroupID != h.GroupID || again.BlobSize != h.BlobSize || again.Base != h.Base {
			t.Fatalf("%+v, then %+v, %v", h, again, err)
		}
	})
}
