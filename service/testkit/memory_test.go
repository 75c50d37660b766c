package testkit_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/testkit"
)

// resident returns the memory this process occupies, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// peakOf runs f and returns by how much the resident memory grew meanwhile,
// looked at every 50 ms.
func peakOf(t *testing.T, f func()) int64 {
	t.Helper()
	debug.FreeOSMemory()
	before, peak := resident(t), int64(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return max(peak, resident(t)-before)
		case <-tick.C:
			peak = max(peak, resident(t)-before)
		}
	}
}

// Threat 8: bombs and answers without end take at most three times the largest
// allowed file and 64 MiB, and end.
func TestThreat8MemoryStaysBounded(t *testing.T) {
	const largest = 8 << 20
	for _, mode := range testkit.Modes() {
		if mode.Threat != 8 {
			continue
		}
		t.Run(mode.Name, func(t *testing.T) {
			try := func() error {
				return newVictim(t, testkit.NewHostile(t, mode), largest, 2*time.Second).try(t.Context())
			}
			if raceDetector { // which keeps notes of memory that is used for the first time
				_ = try()
			}
			var err error
			grown := peakOf(t, func() { err = try() })
			if err == nil {
				t.Error("it succeeds")
			}
			if most := int64(3*largest + 64<<20); grown > most {
				t.Errorf("the memory grew by %d bytes, allowed are %d", grown, most)
			}
		})
	}
}
