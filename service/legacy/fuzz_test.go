package legacy_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"testing"

	"github.com/svcfs/svcfs/service/legacy"
)

// A text that is read as a content id is written again the same, and names a file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o",
		"bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",
		"bafybeihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku", "bafkqaaa", "http://127.0.0.1/", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := legacy.Parse(text)
		if err != nil {
			return
		}
		if id.String() != text {
			t.Errorf("%q was read as %q", text, id)
		}
		v := legacy.NewVerifier(id)
		_, _ = v.Write([]byte("some file"))
		_ = v.OK()
	})
}

// A blob comes out as it is, and out of its base64.
func FuzzDecoded(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 28))
	f.Add(bytes.Repeat([]byte("A"), 27))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 28 {
			return
		}
		text := base64.StdEncoding.EncodeToString(data)
		if got, err := io.ReadAll(legacy.Decoded(bytes.NewReader([]byte(text)))); err != nil ||
			!bytes.Equal(got, data) {
			t.Errorf("base64: %x, %v; want %x", got, err, data)
		}
		if _, err := base64.StdEncoding.DecodeString(string(data[:min(len(data), 40)])); err == nil {
			return // looks like base64
		}
		if got, err := io.ReadAll(legacy.Decoded(bytes.NewReader(data))); err == nil && !bytes.Equal(got, data) {
			t.Errorf("bytes: %x, want %x", got, data)
		}
	})
}
