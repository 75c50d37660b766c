package sdk_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/service/testkit"
)

// BenchmarkWrite is a mount that a file of 256 MiB is written through: appended in
// pieces of 128 KiB, and uploaded. peak-MiB is the most memory that the process had.
func BenchmarkWrite(b *testing.B) {
	s := testkit.Start(b, testkit.Keyless, testkit.DataIn(b.TempDir())) // not in memory
	c := s.Client(b, s.Account("alice", "1000"))
	if _, err := c.Group("g").Register(b.Context()); err != nil {
		b.Fatal(err)
	}
	pool := mem.NewPool()
	defer pool.Close()
	piece := make([]byte, 128<<10)
	const size = 256 << 20
	b.SetBytes(size)
	for i := 0; b.Loop(); i++ {
		buf, err := pool.Get(0)
		if err != nil {
			b.Fatal(err)
		}
		piece[0] = byte(i)
		for at := int64(0); at < size; at += int64(len(piece)) {
			if _, err := buf.WriteAt(piece, at); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := c.Group("g").Upload(b.Context(), fmt.Sprint("file-", i), buf); err != nil {
			b.Fatal(err)
		}
		buf.Release()
	}
	b.ReportMetric(peak(b), "peak-MiB")
}

// peak returns the most memory that this process had, in MiB.
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	kib, err := strconv.ParseFloat(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
