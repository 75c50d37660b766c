package legacy_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/legacy"
)

// Ids of public files, as ipfs add prints them.
func TestKnownIDs(t *testing.T) {
	raw := func(chunk int) legacy.Layout {
		return legacy.Layout{Version: 1, RawLeaves: true, Chunk: chunk, Links: 174}
	}
	for _, tc := range []struct {
		data   string
		layout legacy.Layout
		want   string
	}{
		{"", legacy.Default(0), "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH"},
		{"hello world\n", legacy.Default(0), "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o"},
		{"hello world", legacy.Default(0), "Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD"},
		{"", raw(256 << 10), "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"},
		{"hello world", raw(256 << 10), "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"},
	} {
		if got := legacy.Sum([]byte(tc.data), tc.layout).String(); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.data, got, tc.want)
		}
	}
	if got := legacy.Sum([]byte("x"), legacy.Default(1)).String(); !strings.HasPrefix(got, "bafy") {
		t.Errorf("version 1: %s", got)
	}
}

func TestParse(t *testing.T) {
	good := []string{"QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o",
		"bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",
		legacy.Sum([]byte("x"), legacy.Default(1)).String()}
	for _, text := range good {
		if c, err := legacy.Parse(text); err != nil || c.String() != text {
			t.Errorf("%s: %s, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "Qm", "bafy", "x", good[0][:45], good[0] + "x", strings.ToUpper(good[1]),
		"/ipfs/" + good[0], "ipfs://" + good[0], good[0] + "/../x",
		"bafy.svc.testnet/fastfs.svc.testnet/x", "http://127.0.0.1/" + good[0], "z" + good[0], "bafkqaaa", // identity
		"bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku", // dag-cbor
		strings.Repeat("Qm", 1<<20)} {
		if c, err := legacy.Parse(text); err == nil {
			t.Errorf("%.60q was read as %s", text, c)
		} else if len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

// Whatever way of cutting was used, the verifier finds it, and nothing else.
func TestVerifier(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 256 << 10, 256<<10 + 1, 1 << 20, 1<<20 + 1, 3_000_000} {
		data := bytes.Repeat([]byte("0123456789abcdefg"), size/17+1)[:size]
		for _, l := range []legacy.Layout{legacy.Default(0), legacy.Default(1), {1, true, 256 << 10, 174},
			{1, true, 1 << 20, 174}, {1, true, 1 << 20, 1024},
			{1, false, 1 << 20, 174}, {0, true, 256 << 10, 174}} {
			id, err := legacy.Parse(legacy.Sum(data, l).String())
			if err != nil {
				t.Fatal(err)
			}
			v, wrong := legacy.NewVerifier(id), legacy.NewVerifier(id)
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 70_001)
				_, _ = v.Write(rest[:n])
				_, _ = wrong.Write(rest[:n])
				rest = rest[n:]
			}
			_, _ = wrong.Write([]byte{1})
			if !v.OK() {
				t.Errorf("%d bytes, %+v: not recognised", size, l)
			}
			if wrong.OK() {
				t.Errorf("%d bytes, %+v: other bytes were accepted", size, l)
			}
		}
	}
}

// The ids are those of the reference importer, whichever way it cuts.
func TestReferenceIDs(t *testing.T) {
	raw, err := os.ReadFile("testdata/ids.txt")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var size int
		var l legacy.Layout
		var want string
		if _, err := fmt.Sscan(line, &size, &l.Version, &l.RawLeaves, &l.Chunk, &l.Links, &want); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i ^ i>>8 ^ i*i>>5)
		}
		if got := legacy.Sum(data, l).String(); got != want {
			t.Errorf("%d bytes, %+v: %s, want %s", size, l, got, want)
		}
		checked++
	}
	if checked < 100 {
		t.Errorf("only %d ids were checked", checked)
	}
}
