package fs

import (
	"context"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

func TestXattrProtocol(t *testing.T) {
	value := []byte("value")
	if n, e := copyOut(nil, value); n != 5 || e != unix.ERANGE {
		t.Errorf("asking for the size: %d, %v", n, e)
	}
	dest := make([]byte, 5)
	if n, e := copyOut(dest, value); n != 5 || e != 0 || string(dest) != "value" {
		t.Errorf("reading: %d, %v", n, e)
	}
}

func TestOpenFlags(t *testing.T) {
	for _, tc := range []struct {
		flags uint32
		want  tree.OpenFlags
	}{
		{unix.O_RDONLY, tree.OpenFlags{Read: true}},
		{unix.O_WRONLY | unix.O_TRUNC, tree.OpenFlags{Write: true, Truncate: true}},
		{unix.O_RDWR | unix.O_APPEND, tree.OpenFlags{Read: true, Write: true, Append: true}},
	} {
		if got := (&mounted{}).openFlags(context.Background(), tc.flags); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%#x: %+v, want %+v", tc.flags, got, tc.want)
		}
	}
}
