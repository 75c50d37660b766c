package archive

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
)

// Whatever comes, the reader ends, takes memory for what comes alone, and calls whole only what the writer writes.
func FuzzSections(f *testing.F) {
	var b bytes.Buffer
	w := writer{w: bufio.NewWriter(&b)}
	for _, s := range []struct {
		kind kind
		name string
		text string
	}{{kindHead, "", "{}"}, {kindRows, "accounts", "{\"id\":1}\n"}, {kindBlob, "00ff/131100", magic},
		{kindBlob, "", ""}, {kindIndex, "", "seal 00\n"}} {
		if err := w.text(s.kind, s.name, []byte(s.text)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.w.Flush(); err != nil || int64(b.Len()) != w.bytes {
		f.Fatal(b.Len(), w.bytes, err)
	}
	whole := b.Bytes()
	f.Add(whole)
	for n := 0; n < len(whole); n += 7 {
		f.Add(whole[:n])
		f.Add(append(append(bytes.Clone(whole[:n]), whole[n]^1), whole[n+1:]...))
		f.Add(append(bytes.Clone(whole[:n]), whole[n+1:]...))
	}
	f.Add(begin(kindRows, "t", 32<<20))
	f.Add(begin(kindRows, "t", 32<<20+1))
	f.Add(begin(kindBlob, "t", 1<<48-1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, skips := range []bool{false, true} {
			r := newReader(bytes.NewReader(raw))
			for {
				before := r.at
				s, skipped, err := r.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || s.at != before+skipped || s.size > s.kind.most() {
					t.Fatalf("at %d: %+v, %d skipped, %v", before, s, skipped, err)
				}
				if skips {
					_ = s.skip()
					continue
				}
				text, sum, err := s.text()
				if int64(len(text)) > s.size || r.at > int64(len(raw)) {
					t.Fatalf("%d bytes of %d, at %d of %d", len(text), s.size, r.at, len(raw))
				}
				if whole := append(append(begin(s.kind, s.name, s.size), text...),
					sum[:]...); (err == nil) != bytes.HasPrefix(raw[s.at:], whole) || err == nil &&
					sum != sumOf(s.kind, s.name, text) {
					t.Fatalf("section at %d: %v", s.at, err)
				}
			}
		}
	})
}

// The index is read as it is written, in parts that come in any order and twice.
func FuzzIndex(f *testing.F) {
	x := newIndex(indexHead{Head: Head{ID: "a"}, Round: 2})
	for n := range 3 {
		x.pages["files"] = append(x.pages["files"], page{n, sumOf(kindRows, "files", []byte{byte(n)}), 7})
	}
	x.blobs["00ff"] = 5
	var key SealKey
	texts, err := x.encode(key)
	if err != nil || len(texts) != 1 {
		f.Fatal(len(texts), err)
	}
	h, body, err := openIndex(texts[0], key)
	if err != nil {
		f.Fatal(err)
	}
	if _, _, err := openIndex(texts[0], NewSealKey([32]byte{1})); !errors.Is(err, errSeal) {
		f.Fatal("another key opens it:", err)
	}
	f.Add(body, 3)
	f.Add([]byte("rows files x y z\n"), 1)
	f.Add([]byte("blob a -1\n"), 1)
	f.Fuzz(func(t *testing.T, body []byte, parts int) {
		parts = 1 + parts&3
		lines := bytes.SplitAfter(body, []byte("\n"))
		all := indexes{}
		for _, turn := range []int{1, 0} {
			for part := range parts {
				if part%2 != turn {
					continue
				}
				h.Part, h.Parts = part+1, parts
				from, to := len(lines)*part/parts, len(lines)*(part+1)/parts
				for range 2 {
					if err := all.add(h, bytes.Join(lines[from:to], nil)); err != nil {
						return
					}
				}
			}
		}
		got := all.newest()
		if got == nil {
			t.Fatal("it is not whole")
		}
		read := newIndex(got.indexHead)
		if again := []byte(join(got.lines())); read.add(1, again) != nil || join(read.lines()) != string(again) {
			t.Fatalf("read again: %q", again)
		}
	})
}

func join(lines []string) (all string) {
	for _, line := range lines {
		all += line
	}
	return all
}
