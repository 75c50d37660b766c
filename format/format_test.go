package format

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func testKey(t testing.TB) *Key {
	t.Helper()
	raw := make([]byte, KeyBytes)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	k, err := NewKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealOpenAnySize(t *testing.T) {
	k := testKey(t)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "plain")
		buf := append(make([]byte, 0, len(want)+TagBytes), want...)
		nonce, sealed, err := Seal(k, buf)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) != len(want)+TagBytes || len(want) > 8 && bytes.Contains(sealed, want) {
			t.Fatalf("sealed %d bytes into %d", len(want), len(sealed))
		}
		if &sealed[0] != &buf[:1][0] {
			t.Fatal("not sealed in place")
		}
		plain, err := Open(k, nonce[:], sealed)
		if err != nil || !bytes.Equal(plain, want) {
			t.Fatalf("opened to %d bytes, %v", len(plain), err)
		}
	})
}

func TestAnyChangedBitIsNoticedAndNothingIsLeft(t *testing.T) {
	k := testKey(t)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 16, 300).Draw(t, "plain")
		blob, err := SealBlob(k, want)
		if err != nil {
			t.Fatal(err)
		}
		bit := rapid.IntRange(0, 8*len(blob)-1).Draw(t, "bit")
		blob[bit/8] ^= 1 << (bit % 8)
		plain, err := OpenBlob(k, blob)
		if !errors.Is(err, ErrAuthentication) || plain != nil {
			t.Fatalf("opened to %v, %v", plain, err)
		}
		if !bytes.Equal(blob[NonceBytes:], make([]byte, len(blob)-NonceBytes)) {
			t.Fatal("bytes are left behind after a failed open")
		}
	})
}

func TestSealNeedsRoomForTheTag(t *testing.T) {
	k := testKey(t)
	for room := range TagBytes {
		if _, _, err := Seal(k, make([]byte, 5, 5+room)); err == nil {
			t.Errorf("sealed with room for %d bytes", room)
		}
	}
}

// Threat 11: sealing again makes the same message, or none.
func TestThreat11ResealRepeatsOrFails(t *testing.T) {
	key, err := NewKey(bytes.Repeat([]byte{9}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	plain := append(make([]byte, 0, 100), "some content"...)
	nonce, sealed, err := Seal(key, plain)
	if err != nil {
		t.Fatal(err)
	}
	first, tag := bytes.Clone(sealed), bytes.Clone(sealed[len(plain):])
	if _, err := Open(key, nonce[:], sealed); err != nil {
		t.Fatal(err)
	}
	again, err := Reseal(key, nonce[:], tag, plain)
	if err != nil || !bytes.Equal(again, first) {
		t.Fatalf("sealed again: %x, %v, want %x", again, err, first)
	}
	if _, err := Open(key, nonce[:], again); err != nil {
		t.Fatal(err)
	}
	plain[0] ^= 1
	changed := bytes.Clone(plain)
	if _, err := Reseal(key, nonce[:], tag, plain); !errors.Is(err, ErrCorrupt) || !bytes.Equal(plain, changed) {
		t.Errorf("other content: %v, left %q", err, plain)
	}
	if _, err := Reseal(key, nonce[:], tag, plain[:len(plain):len(plain)]); err == nil {
		t.Error("no room for the tag")
	}
	if _, err := Reseal(key, nonce[:4], tag, plain); err == nil {
		t.Error("a short nonce")
	}
}

// Threat 11: a nonce is never used twice.
func TestThreat11NoncesDoNotRepeat(t *testing.T) {
	k := testKey(t)
	seen := make(map[[NonceBytes]byte]bool, 100_000)
	buf := make([]byte, 1, 1+TagBytes)
	for range 100_000 {
		nonce, _, err := Seal(k, buf[:1])
		if err != nil {
			t.Fatal(err)
		}
		if seen[nonce] {
			t.Fatal("a nonce repeats")
		}
		seen[nonce] = true
	}
}

func TestKeysPrintAsRedacted(t *testing.T) {
	k, err := NewKey(bytes.Repeat([]byte("k"), KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "value", *k)
	asJSON, err := json.Marshal(map[string]any{"p": k, "v": *k})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, k), fmt.Sprintf(verb, *k), fmt.Sprintf(verb, struct{ K *Key }{k}),
			fmt.Sprintf(verb, struct{ K Key }{*k}))
	}
	for _, text := range texts {
		if strings.Contains(text, "kkk") || strings.Contains(text, "6b6b") || strings.Contains(text, "107 107") {
			t.Errorf("the key shows in %s", text)
		}
	}
	before := k.Fingerprint()
	k.Wipe()
	if k.Fingerprint() == before || k.raw != [KeyBytes]byte{} {
		t.Error("the key is not wiped")
	}
}

func TestMetadataRoundTripAndOrder(t *testing.T) {
	m := NewMetadata(5, "", "a.txt")
	m.Compression = CompressionDeflate
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"backend":"fastfs","encryption":"AES-256-GCM","wrapping":"AES-GCM-keywrap","original_size":5,"content_type":"application/octet-stream","compression":"deflate","filename":"a.txt"}`
	if string(raw) != want {
		t.Errorf("written as %s", raw)
	}
	if back, err := ParseMetadata(raw); err != nil || back != m {
		t.Errorf("read back as %+v, %v", back, err)
	}
	if raw, _ := json.Marshal(Metadata{}); string(raw) != "null" {
		t.Errorf("version 0 is written as %s", raw)
	}
	if m, err := ParseMetadata(nil); err != nil || m.Version != 0 || m.OriginalSize != SizeUnknown {
		t.Errorf("nothing is read as %+v, %v", m, err)
	}
	if _, err := ParseMetadata([]byte(`{"filename":"` + strings.Repeat("x", MaxMetadataBytes) + `"}`)); !errors.Is(err,
		ErrCorrupt) {
		t.Errorf("oversize metadata: %v", err)
	}
	if _, err := ParseMetadata([]byte(strings.Repeat("[", 60_000))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("deep nesting: %v", err)
	}
}

func TestInflateIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "content")
		z, err := Deflate(want)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if err := Inflate(got, z); err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		for _, wrong := range []int{len(want) - 1, len(want) + 1} {
			if wrong < 0 {
				continue
			}
			dst := make([]byte, wrong)
			if err := Inflate(dst, z); !errors.Is(err, ErrCorrupt) || !bytes.Equal(dst, make([]byte, wrong)) {
				t.Fatalf("inflated %d bytes into %d: %v", len(want), wrong, err)
			}
		}
	})
}

func seeds(f *testing.F) (list []sample) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var s sample
		if err := json.Unmarshal(raw, &s); err != nil {
			f.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// Whatever parses is written the same way again, however often.
func FuzzParseMetadata(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add([]byte(s.Format))
	}
	for _, v := range vectors(f) {
		f.Add([]byte(v.Format))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseMetadata(raw)
		if err != nil || m.Version == 0 {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseMetadata(again)
		if err != nil || back != m {
			t.Fatalf("%s was read as %+v, written as %s and read as %+v, %v", raw, m, again, back, err)
		}
	})
}

// Nothing opens that was not sealed under the key.
func FuzzOpenBlob(f *testing.F) {
	for _, s := range seeds(f) {
		if raw, err := base64.StdEncoding.DecodeString(s.Blob); err == nil {
			f.Add(raw)
		}
	}
	k := testKey(f)
	f.Fuzz(func(t *testing.T, blob []byte) {
		if plain, err := OpenBlob(k, blob); err == nil {
			t.Fatalf("%d bytes opened under a key nobody sealed with", len(plain))
		}
	})
}

func FuzzInflate(f *testing.F) {
	z, err := Deflate([]byte("some content"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(z, uint16(12))
	f.Add(z[:5], uint16(12))
	f.Fuzz(func(t *testing.T, z []byte, size uint16) {
		dst := make([]byte, size)
		if err := Inflate(dst, z); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

func BenchmarkSealInPlace(b *testing.B) {
	k := testKey(b)
	buf := make([]byte, 16<<20, 16<<20+TagBytes)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if _, _, err := Seal(k, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenInPlace(b *testing.B) {
	k := testKey(b)
	buf := make([]byte, 16<<20, 16<<20+TagBytes)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		b.StopTimer()
		nonce, sealed, err := Seal(k, buf)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := Open(k, nonce[:], sealed); err != nil {
			b.Fatal(err)
		}
	}
}

// A key that was wiped, or never set, seals and opens nothing: anybody could open
// it.
func TestThreat11WipedKeySealsNothing(t *testing.T) {
	wiped, err := NewKey(bytes.Repeat([]byte{7}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	wiped.Wipe()
	for name, k := range map[string]*Key{"wiped": wiped, "never set": new(Key)} {
		plain := append(make([]byte, 0, 64), "content"...)
		if _, _, err := Seal(k, plain); !errors.Is(err, ErrCorrupt) || string(plain) != "content" {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
		if _, err := Open(k, make([]byte, NonceBytes), make([]byte, TagBytes)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
