package sdk_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// benchBlocks is the size of the file that is read, in blocks of 256 KiB.
const benchBlocks = 1024

// Reads of a cold file from its beginning to its end beside the bare pipeline: one request,
// whose blocks are received, hashed and opened at the same time on two cores, and nothing else. Each
// round runs all of them; the metrics are the time of the bare pipeline as a part of theirs, by the
// clock and by the processor, which also tells on a busy machine. Both have the same service in the process.
func BenchmarkSequentialReadBesideThePipeline(b *testing.B) {
	s := newShelf(b, testkit.Ours)
	content := text(benchBlocks*format.BlockBytes - 5)
	e := s.entry(b, s.AddBlocks(s.alice, s.g.ID, "film", content, format.BlockBytes))
	bare := newPipeline(b, s, e)
	took, used := map[string]time.Duration{}, map[string]time.Duration{}
	run := func(name string, read func() error) {
		began, before := time.Now(), processorTime(b)
		if err := read(); err != nil {
			b.Fatal(name, err)
		}
		took[name] += time.Since(began)
		used[name] += processorTime(b) - before
	}
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		run("bare", func() error { return bare.read(false) })
		run("blocks", func() error { return readAll(b.Context(), s.g, e) })
		run("bare, with the hash of the content", func() error { return bare.read(true) })
		run("file", func() error {
			f, err := s.g.OpenEntry(b.Context(), e)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteTo(io.Discard)
			return err
		})
	}
	for what, beside := range map[string]string{"blocks": "bare", "file": "bare, with the hash of the content"} {
		b.ReportMetric(float64(took[beside])/float64(took[what]), what+"-clock")
		b.ReportMetric(float64(used[beside])/float64(used[what]), what+"-processor")
		b.ReportMetric(float64(b.N)*float64(len(content))/1e6/took[what].Seconds(), what+"-MB/s")
	}
}

// readAll reads all blocks, some at a time, with a request ahead, as a mount does.
func readAll(ctx context.Context, g sdk.Group, e sdk.Entry) error {
	blocks, err := g.OpenBlocks(ctx, e)
	if err != nil {
		return err
	}
	defer blocks.Close()
	pool := mem.NewPool()
	defer pool.Close()
	const some = 32
	var ahead sync.WaitGroup
	results := make(chan error, benchBlocks/some)
	turn := make(chan []*mem.Buffer, 2)
	for range cap(turn) {
		list := make([]*mem.Buffer, some)
		for i := range list {
			if list[i], err = pool.Get(0); err != nil {
				return err
			}
			defer list[i].Release()
		}
		turn <- list
	}
	for first := int64(0); first < benchBlocks; first += some {
		list := <-turn
		ahead.Go(func() {
			results <- blocks.Read(ctx, first, list)
			turn <- list
		})
	}
	ahead.Wait()
	close(results)
	for err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

// pipeline is what reading a file takes at least.
type pipeline struct {
	address string
	header  http.Header
	client  *http.Client
	layout  format.Layout
	runs    format.Manifest
	key     *format.Key
	buffers [4][]byte
	opened  [2][]byte
}

// newPipeline opens a file by hand.
func newPipeline(b *testing.B, s *shelf, e sdk.Entry) *pipeline {
	b.Helper()
	p := &pipeline{client: &http.Client{Transport: &http.Transport{ReadBufferSize: 64 << 10, DisableCompression: true}}, header: http.Header{}}
	b.Cleanup(p.client.CloseIdleConnections)
	call := func(path string, header http.Header, body string, into any) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header = header
		resp, err := p.client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			b.Fatal(err)
		}
	}
	var session wire.SessionTokenResult
	call(wire.PathSessionToken, http.Header{wire.HeaderAPIKey: {s.alice.Key.Reveal()}}, `{"account_id":"`+string(s.alice.ID)+`"}`, &session)
	p.header.Set("Authorization", "Bearer "+session.Token)
	var answer struct{ Result wire.PrepareRetrieveResult }
	call(wire.PathTools+wire.OpPrepareRetrieve, p.header, `{"group_id":"shelf","ipfs_hash":"`+string(e.Ref)+`","formats":[1,2]}`, &answer)
	meta, err := format.ParseMetadata(answer.Result.Format)
	if err != nil {
		b.Fatal(err)
	}
	p.address, p.layout = s.URL+answer.Result.DataURL, meta.Layout()
	raw, err := base64.StdEncoding.DecodeString(answer.Result.Manifest)
	if err != nil {
		b.Fatal(err)
	}
	if p.runs, err = format.ParseManifest(raw, p.layout.Blocks()); err != nil {
		b.Fatal(err)
	}
	if p.key, err = format.ParseKey(answer.Result.Key); err != nil {
		b.Fatal(err)
	}
	for i := range p.buffers {
		p.buffers[i] = make([]byte, p.layout.Sealed(0))
	}
	for i := range p.opened {
		p.opened[i] = make([]byte, 0, p.layout.BlockBytes)
	}
	return p
}

// read receives, hashes and opens all blocks; with sum it also hashes their content.
func (p *pipeline) read(sum bool) error {
	req, err := http.NewRequest(http.MethodGet, p.address, nil)
	if err != nil {
		return err
	}
	req.Header = p.header
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	type item struct {
		block int64
		raw   []byte
	}
	work, free := make(chan item, len(p.buffers)), make(chan []byte, len(p.buffers))
	for _, b := range p.buffers {
		free <- b[:cap(b)]
	}
	var workers sync.WaitGroup
	errs := make([]error, len(p.opened))
	for n := range p.opened {
		workers.Go(func() {
			var run *format.Run
			var c *format.BlockCipher
			for w := range work {
				format.Leaf(w.raw)
				if r := p.runs.Find(w.block); r != run {
					run = r
					key, err := format.UnwrapKey(p.key, r.Key)
					if err == nil {
						c, err = format.NewBlockCipher(key)
					}
					if err != nil {
						errs[n] = err
						return
					}
				}
				plain, err := c.Open(p.opened[n][:0], w.block, w.raw)
				if err != nil {
					errs[n] = err
				}
				if sum {
					sha256.Sum256(plain)
				}
				free <- w.raw[:cap(w.raw)]
			}
		})
	}
	for i := range p.layout.Blocks() {
		raw := (<-free)[:p.layout.Sealed(i)]
		if _, err := io.ReadFull(resp.Body, raw); err != nil {
			return err
		}
		work <- item{i, raw}
	}
	close(work)
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
