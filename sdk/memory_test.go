package sdk_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// streamed answers a file inside JSON without holding its text.
func streamed(t testing.TB, f stored) http.HandlerFunc {
	t.Helper()
	meta, err := json.Marshal(f.meta)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"result":{"key":%q,"format":%s,"encrypted_b64":"`, f.key, meta)
		encoder := base64.NewEncoder(base64.StdEncoding, w)
		_, _ = encoder.Write(f.blob)
		_ = encoder.Close()
		_, _ = w.Write([]byte(`"}}`))
	}
}

// A file inside JSON is held once, in its buffer: not as text, not on the heap.
func TestInlineRetrieveHoldsTheFileOnce(t *testing.T) { // alone: it measures the memory of the process
	content := make([]byte, 12<<20)
	s, c := world(t, testkit.Hosted)
	s.Answer(wire.PathTools+wire.OpPrepareRetrieve, streamed(t, store(t, content)))
	b := buffer(t, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e := sdk.Entry{Group: "g", Ref: "ref", Hash: sdk.ComputeHash(content), Size: sdk.SizeUnknown}
	if _, err := c.Group(e.Group).Retrieve(t.Context(), e, b); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes were allocated on the way", used)
	}
	if most := int64(len(content)) * 5 / 2; b.Footprint() > most {
		t.Errorf("the buffer takes %d bytes", b.Footprint())
	}
}

func BenchmarkInlineRetrieve(b *testing.B) {
	content := make([]byte, 48<<20)
	s, c := world(b, testkit.Hosted)
	s.Answer(wire.PathTools+wire.OpPrepareRetrieve, streamed(b, store(b, content)))
	buf, err := mem.NewPool().Get(0)
	if err != nil {
		b.Fatal(err)
	}
	defer buf.Release()
	e := sdk.Entry{Group: "g", Ref: "ref", Hash: sdk.ComputeHash(content), Size: sdk.SizeUnknown}
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if _, err := c.Group(e.Group).Retrieve(b.Context(), e, buf); err != nil {
			b.Fatal(err)
		}
	}
}
