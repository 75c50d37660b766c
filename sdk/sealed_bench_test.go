package sdk_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// BenchmarkSave saves 4 KiB: by prepare_upload and finalize_upload, and sealed; by one program and
// by eight, on a line without delay and on one of 60 ms. cpu-us/op is the processor time of client
// and stand-in service together.
func BenchmarkSave(b *testing.B) {
	for _, way := range []string{"prepared", "sealed"} {
		for _, writers := range []int{1, 8} {
			for _, delay := range []time.Duration{0, 60 * time.Millisecond} {
				b.Run(fmt.Sprintf("%s/writers=%d/delay=%s", way, writers, delay), func(b *testing.B) {
					s := testkit.Start(b, testkit.Ours)
					if way == "prepared" {
						s.WithoutSealed()
					}
					s.Disturb("*", func(next http.Handler) http.Handler {
						return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							time.Sleep(delay)
							next.ServeHTTP(w, r)
						})
					})
					c := s.Client(b, s.Account("alice", "1000000"))
					g := c.Group("g")
					if _, err := g.Register(b.Context()); err != nil {
						b.Fatal(err)
					}
					content := strings.Repeat("0123456789abcdef", 256)
					if _, err := g.Put(b.Context(), "warm", strings.NewReader(content)); err != nil {
						b.Fatal(err)
					}
					requests, cpu := s.Requests(), processorTime(b)
					var next atomic.Int64
					var all sync.WaitGroup
					b.ResetTimer()
					for range writers {
						all.Go(func() {
							for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
								if _, err := g.Put(b.Context(), fmt.Sprint(i), strings.NewReader(content)); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
					b.StopTimer()
					b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/float64(b.N), "cpu-us/op")
					b.ReportMetric(float64(s.Requests()-requests)/float64(b.N), "requests/op")
				})
			}
		}
	}
}

// BenchmarkSeal is what a client does by itself for a save of 4 KiB.
func BenchmarkSeal(b *testing.B) {
	s := testkit.Start(b, testkit.Ours)
	c := s.Client(b, s.Account("alice", "1"))
	content := []byte(strings.Repeat("0123456789abcdef", 256))
	var up *sdk.Sealed
	for b.Loop() {
		var err error
		if up, err = c.Group("g").Seal(b.Context(), "name", content, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(up.Ciphertext())), "blob-bytes")
}
