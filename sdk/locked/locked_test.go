package locked

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// lockedKiB reads how much memory of this process is locked.
func lockedKiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmLck:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatal("no VmLck")
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestThreat3SecretsAreLockedAndUnlocked(t *testing.T) {
	before, page := lockedKiB(t), os.Getpagesize()
	var list []Bytes
	for _, n := range []int{1, 32, page, page + 1} { // 1 + 1 + 1 + 2 pages
		list = append(list, Copy(bytes.Repeat([]byte{7}, n)))
	}
	if got, want := lockedKiB(t)-before, 5*page/1024; got != want {
		t.Errorf("%d KiB are locked, want %d", got, want)
	}
	for range 3 {
		runtime.GC()
	}
	for _, b := range list {
		if s := b.Slice(); !bytes.Equal(s, bytes.Repeat([]byte{7}, len(s))) || cap(s) != len(s) {
			t.Errorf("%d bytes are not what they were", len(s))
		}
		if text := fmt.Sprintf("%v %s %x %#v", b, b, b, b); text != "redacted redacted redacted redacted" {
			t.Errorf("prints %q", text)
		}
	}
	list = nil
	for deadline := time.Now().Add(30 * time.Second); lockedKiB(t) > before; time.Sleep(time.Millisecond) {
		runtime.GC()
		if time.Now().After(deadline) {
			t.Fatalf("%d KiB stay locked", lockedKiB(t)-before)
		}
	}
}

// A slice keeps its memory, whoever forgets the rest.
func TestSliceOutlivesItsOwner(t *testing.T) {
	s := Copy([]byte("secret")).Slice()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run beside
	}
	if string(s) != "secret" {
		t.Errorf("became %q", s)
	}
}

func TestEmpty(t *testing.T) {
	if b := Copy(nil); b.Slice() != nil {
		t.Error("empty is not empty")
	}
}
