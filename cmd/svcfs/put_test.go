package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk"
)

// What cannot be held in memory, and what cannot be read to its end, is not put.
func TestFillRefusals(t *testing.T) {
	broken := errors.New("the disk broke")
	for _, tc := range []struct {
		name  string
		from  io.Reader
		size  int64
		limit int64
		want  string
		hint  string
	}{
		{"more than memory", strings.NewReader("x"), 1 << 40, 1 << 50, "buffer of ", "the file must fit into memory"},
		{"broken", iotest.ErrReader(broken), 0, 1 << 50, broken.Error(), ""},
		{"more than the service takes", strings.NewReader("12345"), 0, 4, "the input is larger than 4 bytes", "split it, for example with: split -b 1G"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pool := sdk.NewPool()
			defer pool.Close()
			b, err := pool.Get(0)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Release()
			err = fill(b, tc.from, tc.size, tc.limit)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || exitCodeOf(err) != exitOther || hintFor(err) == "" || tc.hint != "" && hintFor(err) != tc.hint {
				t.Errorf("%v, exit %d, hint %q", err, exitCodeOf(err), hintFor(err))
			}
		})
	}
}
