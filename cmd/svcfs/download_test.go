package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// breaking gives its content in pieces, an error after each, and goes on where it was.
type breaking struct {
	pieces []string
	errs   []error
}

func (b *breaking) WriteTo(w io.Writer) (int64, error) {
	if len(b.errs) == 0 {
		return 0, nil
	}
	piece, err := b.pieces[0], b.errs[0]
	b.pieces, b.errs = b.pieces[1:], b.errs[1:]
	n, wrong := io.WriteString(w, piece)
	return int64(n), errors.Join(wrong, err)
}

// A download goes on where a connection was lost, while something arrives; everything else
// ends it.
func TestDownloadGoesOn(t *testing.T) {
	lost := &sdk.Error{Op: "read", Kind: sdk.ErrUnavailable, Err: io.ErrUnexpectedEOF}
	wrong := &sdk.Error{Op: "read", Kind: sdk.ErrCorrupt, Err: errors.New("another root")}
	never := make([]error, downloadTries+1)
	for i := range never {
		never[i] = lost
	}
	for _, tc := range []struct {
		name  string
		from  breaking
		want  string
		kind  sdk.Kind
		waits int
	}{
		{"whole", breaking{[]string{"abc"}, []error{nil}}, "abc", 0, 0},
		{"lost twice", breaking{[]string{"a", "b", "c"}, []error{lost, lost, nil}}, "abc", 0, 2},
		{"wrong", breaking{[]string{"a", "b"}, []error{wrong, nil}}, "a", sdk.ErrCorrupt, 0},
		{"nothing comes", breaking{make([]string, downloadTries+1), never}, "", sdk.ErrUnavailable, downloadTries},
	} {
		var out bytes.Buffer
		a := &app{ui: newTerminal(io.Discard, io.Discard)}
		waits := 0
		d := download{ctx: t.Context(), file: &tc.from, large: true, flying: a.newBar("fetching", 1, 3).start("x", 3),
			pause: func(context.Context, time.Duration) error { waits++; return nil }}
		n, err := d.WriteTo(&out)
		if out.String() != tc.want || n != int64(len(tc.want)) || sdk.KindOf(err) != tc.kind || waits != tc.waits ||
			d.flying.done != n {
			t.Errorf("%s: %q, %d, %v, %d waits, %d shown", tc.name, &out, n, err, waits, d.flying.done)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	d := download{ctx: ended, file: &breaking{[]string{"a"}, []error{nil}}, large: true}
	if n, err := d.WriteTo(io.Discard); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted download: %d, %v", n, err)
	}
}

// What the service said stays; what cannot be written here has its next step.
func TestLocalFault(t *testing.T) {
	refused := &sdk.Error{Op: "read", Kind: sdk.ErrDeleted, Err: errors.New("gone")}
	if got := exitCodeOf(localFault(refused, "make room", "f")); got != exitNotFound {
		t.Errorf("exit code %d", got)
	}
	if got := (hints{}).of(localFault(io.ErrShortWrite, "make room", "f")); got != "make room" {
		t.Errorf("hint %q", got)
	}
}

// Without a hash, size and time decide.
func TestLooksEqual(t *testing.T) {
	at := time.Unix(1_700_000_000, 5)
	e := sdk.Entry{Size: 7, Attributes: &sdk.Attributes{ModTime: at}}
	hashed, timeless := e, e
	hashed.Hash[0], timeless.Attributes = 1, nil
	for _, tc := range []struct {
		name string
		e    sdk.Entry
		size int64
		at   time.Time
		want bool
	}{{"the same", e, 7, at, true}, {"size", e, 8, at, false}, {"time", e, 7, at.Add(1), false},
		{"a hash", hashed, 7, at, false}, {"no time", timeless, 7, time.Time{}, false}} {
		if got := looksEqual(&tc.e, tc.size, tc.at); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
