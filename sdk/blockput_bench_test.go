package sdk_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// unproven is err but for a receipt that the service of a test did not sign: all was sent before.
func unproven(err error) error {
	if codeOf(err) == wire.CodeReceipt {
		return nil
	}
	return err
}

// partsSink is a service that hashes parts as they come, and keeps nothing, so that little but the client is measured. It has
// the group g of the client.
func partsSink(b testing.TB, arrived func(bytes int64)) (*testkit.Server, *sdk.Client) {
	b.Helper()
	s := testkit.Start(b, testkit.Ours)
	c := s.Client(b, s.Account("alice", "100"))
	if _, err := c.Group("g").Register(b.Context()); err != nil {
		b.Fatal(err)
	}
	s.Answer(wire.PathSealed+"*", func(w http.ResponseWriter, r *http.Request) {
		head, err := wire.ReadFrameHead(r.Body, format.MaxManifestBytes)
		if err != nil {
			b.Error(err)
			return
		}
		result(wire.FinalizeUploadResult{CID: "c", FileHash: head.FileHash})(w, r)
	})
	pool := sync.Pool{New: func() any { buf := make([]byte, format.BlockBytes+format.Overhead); return &buf }}
	s.Answer(wire.PathParts+"*", func(w http.ResponseWriter, r *http.Request) {
		buf := pool.Get().(*[]byte)
		defer pool.Put(buf)
		var tree format.Tree
		arrived(0)
		for {
			n, err := io.ReadFull(r.Body, *buf)
			if n > 0 {
				tree.Add(format.Leaf((*buf)[:n]))
			}
			if err != nil {
				break
			}
		}
		root := tree.Root()
		arrived(r.ContentLength)
		answer(200, wire.Part{ID: path.Base(r.URL.Path), Blocks: r.URL.Query().Get("blocks"), ETag: hex.EncodeToString(root[:])})(w, r)
	})
	return s, c
}

// barePipeline is the least that any writer does: it hashes content, seals it and hashes it sealed, and
// sends it, on as many processors as there are.
func barePipeline(b *testing.B, url string, content []byte) {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 4, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}
	defer transport.CloseIdleConnections()
	const partBlocks = 32
	var work sync.WaitGroup
	next := make(chan int64)
	for range 4 {
		work.Go(func() {
			pipe := make([]byte, 0, format.BlockBytes+format.Overhead)
			for first := range next {
				key, _ := format.RandomKey()
				c, _ := format.NewBlockCipher(key)
				part := content[first*format.BlockBytes : min((first+partBlocks)*format.BlockBytes, int64(len(content)))]
				body := &bareBody{c: c, rest: part, index: first, buf: pipe}
				blocks := (int64(len(part)) + format.BlockBytes - 1) / format.BlockBytes
				req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s%sx/%d?blocks=0", url, wire.PathParts, first), io.NopCloser(body))
				if err != nil {
					b.Error(err)
					continue
				}
				req.ContentLength = int64(len(part)) + blocks*format.Overhead
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	work.Go(func() { sha256.Sum256(content) })
	for first := int64(0); first*format.BlockBytes < int64(len(content)); first += partBlocks {
		next <- first
	}
	close(next)
	work.Wait()
}

// bareBody seals when it is read.
type bareBody struct {
	c           *format.BlockCipher
	rest, ready []byte
	buf         []byte
	index       int64
}

func (s *bareBody) Read(p []byte) (int, error) {
	if len(s.ready) == 0 {
		if len(s.rest) == 0 {
			return 0, io.EOF
		}
		n := min(int64(len(s.rest)), format.BlockBytes)
		s.ready, _ = s.c.Seal(s.buf[:0], s.index, s.rest[:n])
		format.Leaf(s.ready)
		s.rest, s.index = s.rest[n:], s.index+1
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// BenchmarkPutInBlocks puts 256 MiB, in turns with the bare pipeline, and prints how fast Put is
// beside it.
func BenchmarkPutInBlocks(b *testing.B) {
	content := noise(256 << 20)
	s, c := partsSink(b, func(int64) {})
	b.SetBytes(int64(len(content)))
	var put, bare []time.Duration
	var putWork, bareWork time.Duration
	for b.Loop() {
		began, worked := time.Now(), processorTime(b)
		if _, err := c.Group("g").Put(b.Context(), fmt.Sprint("f", len(put)), bytes.NewReader(content)); unproven(err) != nil {
			b.Fatal(err)
		}
		put, putWork = append(put, time.Since(began)), putWork+processorTime(b)-worked
		began, worked = time.Now(), processorTime(b)
		barePipeline(b, s.Config().URL, content)
		bare, bareWork = append(bare, time.Since(began)), bareWork+processorTime(b)-worked
	}
	b.ReportMetric(float64(bareWork)/float64(putWork), "of-pipeline-by-processor-time")
	b.ReportMetric(float64(slices.Min(bare))/float64(slices.Min(put)), "of-pipeline")
	b.ReportMetric(float64(len(content))/slices.Min(put).Seconds()/1e6, "put-MB/s")
	b.ReportMetric(float64(len(content))/slices.Min(bare).Seconds()/1e6, "pipeline-MB/s")
}

// processorTime is that of this process, with the service in it.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A stream of unknown size takes no more memory than five parts, and few allocations.
func TestPutInBlocksTakesLittleMemory(t *testing.T) { // alone: it measures the memory of the process
	const size = 96 << 20
	var read, stored atomic.Int64
	_, c := partsSink(t, func(bytes int64) {
		stored.Add(bytes)
		if ahead := read.Load() - stored.Load(); ahead > 44<<20 {
			t.Errorf("%d bytes are in memory", ahead)
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	zeros := readerFunc(func(p []byte) (int, error) {
		read.Add(int64(len(p)))
		return len(p), nil
	})
	if _, err := c.Group("g").Put(t.Context(), "f", io.LimitReader(zeros, size)); unproven(err) != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > size/2 {
		t.Errorf("%d bytes were allocated", used)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
