package integration

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// mostSent bounds what an upload may send in all, by what the file has.
const mostSent = 1.3

// Connections are cut at random bytes, in both directions, or the service is killed, again and
// again during one upload: the file is recorded once and whole, and little is sent twice.
func TestLargeUploadCut(t *testing.T) {
	for _, how := range []string{"connections cut", "service killed"} {
		t.Run(how, func(t *testing.T) {
			size, times := int64(count(12, 1024))*mib, count(4, 100)
			w, alice, _ := team(t)
			way := w.line(line.Shape{})
			c := alice.client(t, way)
			g := c.Group("team")
			q := newPurse(alice)
			stop := make(chan struct{})
			var axe sync.WaitGroup
			killed := 0
			q.wantSpent(t, 0, 1, func() {
				began := time.Now()
				each := size / int64(times+1)
				if how == "connections cut" {
					way.CutEvery(each, times)
				} else {
					axe.Go(func() {
						for ; killed < times; killed++ {
							for at := int64(killed)*each + rand.Int64N(each); way.Moved().Up < at; {
								select {
								case <-stop:
									return
								case <-time.After(time.Millisecond):
								}
							}
							w.kill()
							w.start()
						}
					})
				}
				r, err := g.Put(t.Context(), "film", newNoise(size))
				close(stop)
				axe.Wait()
				if err != nil || r.Size != size {
					t.Fatalf("%+v, %v\n%s", r, err, w.log)
				}
				way.CutEvery(0, 0)
				moved := way.Moved()
				ratio := float64(moved.Up) / float64(size)
				t.Logf("%d MiB with %d cuts and %d kills: %d MiB sent, %.3f x the file, in %s", size/mib, moved.Cuts,
					killed,
					moved.Up/mib, ratio, time.Since(began).Round(time.Millisecond))
				if long() && ratio > mostSent {
					t.Errorf("%.3f times the file was sent", ratio)
				}
			})
			list, err := g.Entries(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("%d records, %v", len(list), err)
			}
			sameAsNoise(t, g, list[0], size)
			if out, err := w.svcd("verify", "--read-data"); err != nil {
				t.Errorf("svcd verify: %v\n%s", err, out)
			}
		})
	}
}

// svcfs put is killed (SIGKILL) at nine tenths of a file: the next one sends at most 15 % of the file again.
func TestLargePutIsKilled(t *testing.T) {
	size := int64(count(64, 1024)) * mib
	w, alice, _ := team(t)
	way := w.line(line.Shape{Up: int64(count(64, 200)) * mib}) // as long as a state is saved a few times
	path := filepath.Join(t.TempDir(), "film")
	f, err := os.Create(path)
	ok(t, err)
	_, err = io.Copy(f, newNoise(size))
	ok(t, errors.Join(err, f.Close()))
	put := func() *exec.Cmd { return alice.command("put", "team", path, "--url", "http://"+way.Addr()) }
	first := put()
	ok(t, first.Start())
	for way.Moved().Up < size*9/10 {
		time.Sleep(time.Millisecond)
	}
	ok(t, first.Process.Kill())
	_ = first.Wait() // it was killed
	if out, err := put().CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ratio := float64(way.Moved().Up) / float64(size)
	t.Logf("%d MiB, killed at nine tenths: %.3f x the file was sent", size/mib, ratio)
	if long() && ratio > 1.15 {
		t.Errorf("%.3f times the file was sent", ratio)
	}
	g := alice.client(t, way).Group("team")
	list, err := g.Entries(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%d records, %v", len(list), err)
	}
	sameAsNoise(t, g, list[0], size)
}

// A line whose connections all break after 480 KiB, as one of 16 KiB a second does every 30 seconds, brings a file
// through all the same. It is ten times as fast here.
func TestLargePutOnALineThatBreaks(t *testing.T) {
	size := int64(count(6, 40)) * mib
	w, alice, _ := team(t)
	const faster = 10
	way := w.line(line.Shape{Up: faster * 16 << 10})
	breaks := time.NewTicker(30 * time.Second / faster)
	defer breaks.Stop()
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-breaks.C:
				way.Cut()
			case <-over:
				return
			}
		}
	}()
	g := alice.client(t, way).Group("team")
	r, err := g.Put(t.Context(), "film", newNoise(size))
	if err != nil || r.Size != size {
		t.Fatalf("%+v, %v", r, err)
	}
	t.Logf("%d MiB: %.2f x the file was sent", size/mib, float64(way.Moved().Up)/float64(size))
}

// client is a client of the account in this process, on a line to the service.
func (p *person) client(t *testing.T, way *line.Line) *sdk.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := sdk.New(sdk.AccountID(p.id), sdk.Config{URL: "http://" + way.Addr(), APIKey: sdk.NewSecret(p.key),
		Patience: time.Minute, Transport: transport})
	ok(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newNoise is a stream of so many bytes, always the same.
func newNoise(size int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{7}), size) }

// sameAsNoise reads a whole file and compares it with newNoise.
func sameAsNoise(t *testing.T, g sdk.Group, e sdk.Entry, size int64) {
	t.Helper()
	b, err := g.OpenBlocks(t.Context(), e)
	ok(t, err)
	defer b.Close()
	pool := mem.NewPool()
	bufs := make([]*mem.Buffer, 32)
	for i := range bufs {
		bufs[i], err = pool.Get(0)
		ok(t, err)
		defer bufs[i].Release()
	}
	want, sum := newNoise(size), sha256.New()
	expected := make([]byte, b.Layout().BlockBytes)
	for at := int64(0); at < b.Layout().Blocks(); at += int64(len(bufs)) {
		some := bufs[:min(int64(len(bufs)), b.Layout().Blocks()-at)]
		ok(t, b.Read(t.Context(), at, some))
		for i, buf := range some {
			_, _ = sum.Write(buf.Bytes())
			if n, err := io.ReadFull(want, expected[:buf.Len()]); err != nil ||
				!bytes.Equal(buf.Bytes(), expected[:n]) {
				t.Fatalf("block %d is another, %v", at+int64(i), err)
			}
		}
	}
	if n, err := want.Read(expected); n != 0 || !errors.Is(err, io.EOF) || sdk.Digest(sum.Sum(nil)) != e.Hash ||
		b.Layout().Size != size {
		t.Errorf("%d more bytes, %v; recorded %d bytes, %s", n, err, b.Layout().Size, e.Hash)
	}
}
