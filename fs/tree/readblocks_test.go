package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/network"
)

// noise returns n bytes that repeat nowhere.
func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(p)
	return p
}

// largeWorld is a world with one file of n bytes in blocks of 64 KiB, "g/film".
func largeWorld(n int) (w *world, e sdk.Entry, data []byte) {
	w = treetest.NewWorld()
	w.BlocksAbove = 1000
	w.Member("g", "alice", "bob")
	data = noise(n)
	return w, w.Put("g", "bob", "film", data), data
}

// openAt opens a file for reading.
func (m *mounted) openAt(p string) *Handle {
	m.t.Helper()
	h, err := m.node(p).(*File).Open(m.t.Context(), OpenFlags{Read: true})
	ok(m.t, err)
	return h
}

// wantRead reads n bytes from off.
func wantRead(t testing.TB, h *Handle, data []byte, off, n int) {
	t.Helper()
	p := make([]byte, n)
	got, err := h.ReadAt(t.Context(), p, int64(off))
	if want := data[min(off, len(data)):min(off+n, len(data))]; err != nil || !bytes.Equal(p[:got], want) {
		t.Errorf("read %d bytes at %d, %v; want %d", got, off, err, len(want))
	}
}

const block = int(treetest.DefaultBlock)

func TestR9OpenFetchesNothingAndReadsFetchBlocks(t *testing.T) {
	w, e, data := largeWorld(10*block + 5)
	m := mount(t, w, "alice")
	h := m.openAt("/g/film")
	m.wantCharges(1, 0)
	if n := w.BlockReads(); n != 0 || w.OpenedFromStart() != 1 {
		t.Errorf("open fetched: %d requests, and %d times the first block", n, w.OpenedFromStart())
	}
	wantRead(t, h, data, 7*block-10, 20) // across two blocks
	wantRead(t, h, data, 3*block+7, 100)
	wantRead(t, h, data, 3*block+200, 100)
	wantRead(t, h, data, len(data)-3, 100)
	wantRead(t, h, data, len(data), 100)
	wantRead(t, h, data, 0, len(data)+10)
	for i, n := range w.Fetched(e.Ref) {
		if n != 1 {
			t.Errorf("block %d was fetched %d times", i, n)
		}
	}
	h.Release()
	if n := w.OpenBlocksNow(); n != 0 {
		t.Errorf("%d files stay open at the service", n)
	}
	m.openAt("/g/film").Release() // all is in memory
	m.wantCharges(1, 0)
}

func TestR9RevokedBetweenTwoReads(t *testing.T) {
	w, e, data := largeWorld(4 * block)
	m := mount(t, w, "alice")
	h := m.openAt("/g/film")
	defer h.Release()
	wantRead(t, h, data, 0, 10)
	w.Shred("g", e.Ref)
	p := make([]byte, 10)
	_, err := h.ReadAt(t.Context(), p, int64(3*block))
	wantClass(t, err, ClassRevoked)
	ok(t, m.Refresh(t.Context()))
	_, err = h.ReadAt(t.Context(), p, 0) // was in memory
	wantClass(t, err, ClassRevoked)
	if n := w.OpenBlocksNow(); n != 0 || m.contents.Cache.Stats().Bytes != 0 {
		t.Errorf("%d files stay open, and %d bytes in memory", n, m.contents.Cache.Stats().Bytes)
	}
	_, err = m.node("/g").(*Dir).Lookup(t.Context(), "film")
	if err == nil {
		t.Error(errors.New("the file is still shown"))
	}
}

// readInOrder reads a file in pieces of n bytes from off on.
func readInOrder(t testing.TB, h *Handle, data []byte, off, to, n int) {
	t.Helper()
	for ; off < to; off += n {
		wantRead(t, h, data, off, min(n, to-off))
	}
}

// wantFetchedOnce wants exactly the blocks from first to last to be fetched, each once.
func wantFetchedOnce(t testing.TB, w *world, e sdk.Entry, first, last int64) {
	t.Helper()
	got := w.Fetched(e.Ref)
	for i, n := range got {
		if n != 1 || i < first || i > last {
			t.Errorf("block %d was fetched %d times", i, n)
		}
	}
	if int64(len(got)) != last-first+1 {
		t.Errorf("%d blocks were fetched, want %d to %d", len(got), first, last)
	}
}

// Random reads fetch their blocks and nothing else, each once.
func TestR10RandomReadsFetchOneBlockEach(t *testing.T) {
	w, e, data := largeWorld(200 * block)
	m := mount(t, w, "alice")
	h := m.openAt("/g/film")
	defer h.Release()
	r, want := rand.New(rand.NewPCG(1, 2)), map[int64]int{}
	for range 300 {
		off := r.IntN(len(data)/4096) * 4096
		wantRead(t, h, data, off, 4096)
		want[int64(off/block)] = 1
	}
	if got := w.Fetched(e.Ref); !maps.Equal(got, want) {
		t.Errorf("fetched %v, want %v", got, want)
	}
	m.wantCharges(1, 0)
}

// Who reads in order has up to 32 blocks fetched ahead, and none twice.
func TestR10ReadingInOrderFetchesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, data := largeWorld(200 * block)
		m := mount(t, w, "alice", still)
		h := m.openAt("/g/film")
		defer h.Release()
		at := 0
		ahead := func(to int) int {
			readInOrder(t, h, data, at, to, block/2)
			at = to
			synctest.Wait()
			return len(w.Fetched(e.Ref)) - (to+block-1)/block
		}
		var got []int
		for _, many := range []float64{0.5, 1, 2, 3, 4, 5, 6, 7, 40, 41} {
			got = append(got, ahead(int(many*float64(block))))
		}
		if fmt.Sprint(got[:3]) != "[0 1 2]" || got[9] < 24 || got[9] > blocks.MaxAhead || !slices.IsSorted(got[:7]) {
			t.Errorf("blocks ahead: %v", got)
		}
		readInOrder(t, h, data, 41*block, len(data), block/2)
		wantFetchedOnce(t, w, e, 0, 199)
		if n := w.BlockReads(); n > 60 {
			t.Errorf("%d requests for 200 blocks", n)
		}
	})
}

// Over a line far away a reader in order has as much under way at once as the line holds, within 32 blocks.
func TestR10ReadingInOrderFillsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for line, want := range map[int64]int{0: 1, 1: 2, 5 * int64(block): 6, 1000 * int64(block): blocks.MaxAhead} {
			w, e, data := largeWorld(200 * block)
			m := mount(t, w, "alice", still, func(c *Config) { c.Traffic = func() network.Traffic { return network.Traffic{Line: line} } })
			h := m.openAt("/g/film")
			wantRead(t, h, data, 0, block/2)
			synctest.Wait()
			wantFetchedOnce(t, w, e, 0, 0)
			wantRead(t, h, data, block/2, block/2)
			synctest.Wait()
			if got := len(w.Fetched(e.Ref)) - 1; got < want*3/4 || got > want || want < 4 && got != want {
				t.Errorf("a line of %d bytes: %d blocks ahead, want about %d", line, got, want)
			}
			h.Release()
		}
	})
}

// Far away, a program that looks at the beginnings of files, and at no more, gets the first block of each, once
// two files showed it. Who reads on gets what the line holds, and so does the next one.
func TestR10WhoGlancesFetchesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := largeWorld(block)
		m := mount(t, w, "alice", still, func(c *Config) { c.Traffic = func() network.Traffic { return network.Traffic{Line: 5 * int64(block)} } })
		data := bytes.Repeat([]byte("0123456789abcdef"), 20*block/16)
		for i, tc := range []struct {
			read  int
			ahead bool
		}{{block / 2, true}, {block / 2, true}, {block / 2, false}, {block, false}, {block + block/4, true}, {block / 2, true}} {
			name := fmt.Sprintf("film%d", i)
			e := w.Put("g", "alice", name, data)
			ok(t, m.Refresh(t.Context()))
			h := m.openAt("/g/" + name)
			for off := 0; off < tc.read; off += block / 4 {
				wantRead(t, h, data, off, block/4)
				synctest.Wait()
			}
			if got := len(w.Fetched(e.Ref)); tc.ahead && got < 5 || !tc.ahead && got != 1 {
				t.Errorf("reader %d, of %d bytes: %d blocks", i, tc.read, got)
			}
			h.Release()
		}
	})
}

// still is a tree that does nothing by itself.
func still(c *Config) { c.clock = func() time.Time { return time.Unix(1_700_000_000, 0) } }

// At most four requests of a reader are under way; a seek gives up those nobody waits for.
func TestR10SeekGivesUpWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, data := largeWorld(200 * block)
		m := mount(t, w, "alice", still)
		h, other := m.openAt("/g/film"), m.openAt("/g/film")
		defer h.Release()
		defer other.Release()
		readInOrder(t, h, data, 0, 30*block, block)
		synctest.Wait()
		before := len(w.Fetched(e.Ref))
		release := w.Stall("read blocks")
		readInOrder(t, h, data, 30*block, before*block, block) // all of these are in memory
		ctx, interrupt := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = h.ReadAt(ctx, make([]byte, block), int64(before*block)) })
		synctest.Wait()
		if n := w.Hanging(); n != blocks.AheadRequests {
			t.Errorf("%d requests are under way, want %d", n, blocks.AheadRequests)
		}
		interrupt()
		wg.Go(func() { wantRead(t, h, data, 150*block, 10) })
		synctest.Wait()
		if n := w.Hanging(); n != 1 {
			t.Errorf("after the seek %d requests are under way, want 1", n)
		}
		wg.Go(func() { wantRead(t, other, data, 150*block, 10) }) // waits for the same request
		synctest.Wait()
		if n := w.Hanging(); n != 1 {
			t.Errorf("%d requests for one block", n)
		}
		release()
		wg.Wait()
		synctest.Wait()
		if got := len(w.Fetched(e.Ref)); got != before+1 {
			t.Errorf("%d blocks were fetched for one", got-before)
		}
		h.Release()
		other.Release()
		if n := m.contents.AheadNow(); n != 0 {
			t.Errorf("%d bytes count as ahead of closed handles", n)
		}
	})
}

// Two programs at two places disturb each other's reading ahead as little as one of them that reads with
// several requests that overtake each other.
func TestR10ReadersEachHaveTheirPlace(t *testing.T) {
	w, e, data := largeWorld(200 * block)
	m := mount(t, w, "alice")
	a, b := m.openAt("/g/film"), m.openAt("/g/film")
	defer a.Release()
	defer b.Release()
	piece := block / 4
	for i := range 40 * 4 {
		wantRead(t, a, data, (i^1)*piece, piece) // 1, 0, 3, 2 and so on
		wantRead(t, b, data, 100*block+i*piece, piece)
	}
	for i, n := range w.Fetched(e.Ref) {
		if n != 1 {
			t.Errorf("block %d was fetched %d times", i, n)
		}
	}
}

// R9: who reads a file from end to end gets each block that is proven, whatever hash its uploader recorded.
func TestR9ProvenBlocksNeedNoHash(t *testing.T) {
	w, e, data := largeWorld(20*block - 7)
	w.Edit("g", e.Ref, func(e *sdk.Entry) { e.Hash = sdk.ComputeHash([]byte("other")) })
	m := mount(t, w, "alice")
	h := m.openAt("/g/film")
	readInOrder(t, h, data, 0, len(data), 3*block)
	h.Release()
	if told := m.errors.Show(); len(told) > 0 {
		t.Errorf("errors holds %q", told)
	}
}

// W3: bytes that have the hash that another account recorded of a file in blocks are saved: nobody compared that hash with
// its content.
func TestW3HashOfAnotherAccountIsNoProof(t *testing.T) {
	for uploader, uploads := range map[sdk.AccountID]int{"bob": 1, "alice": 0} {
		for _, isLarge := range []bool{true, false} { // to this mount, which joins the blocks of a smaller one
			w, e, data := largeWorld(5 * block)
			other := bytes.Repeat([]byte("other"), len(data))[:len(data)]
			w.Edit("g", e.Ref, func(e *sdk.Entry) { e.Hash, e.Uploader = sdk.ComputeHash(other), uploader })
			m := mount(t, w, "alice", func(c *Config) {
				if !isLarge {
					c.WholeBytes = int64(len(data))
				}
			})
			h := m.open("/g/film", OpenFlags{Write: true, Truncate: isLarge})
			m.write(h, string(other), 0)
			ok(t, h.Flush(t.Context()))
			h.Release()
			if _, got := w.Charged(); got != uploads {
				t.Errorf("of %s, large %v: %d uploads", uploader, isLarge, got)
			}
		}
	}
}

// Each way in which a read may fail, what the program gets, and that later reads work where they
// may.
func TestR9ErrorsAtRead(t *testing.T) {
	wrong := &sdk.Error{Op: "read", Kind: sdk.ErrCorrupt, Err: sdk.ErrWrongContent}
	for _, test := range []struct {
		err   error
		class Class
		later bool // a later read works
	}{
		{&sdk.Error{Op: "read", Kind: sdk.ErrUnavailable, Err: errors.New("away")}, ClassUnreachable, true},
		{&sdk.Error{Op: "read", Kind: sdk.ErrTimeout, Err: errors.New("slow")}, ClassTimeout, true},
		{&sdk.Error{Op: "read", Kind: sdk.ErrCorrupt, Err: errors.New("a leaf differs")}, ClassCorrupt, true},
		{wrong, ClassCorrupt, false},
		{&sdk.Error{Op: "read", Kind: sdk.ErrDeleted, Err: errors.New("gone")}, ClassRevoked, true},
		{&sdk.Error{Op: "read", Kind: sdk.ErrNotAuthorized, Err: errors.New("not yours")}, ClassRevoked, true},
	} {
		w, e, data := largeWorld(5 * block)
		m := mount(t, w, "alice")
		h := m.openAt("/g/film")
		wantRead(t, h, data, 0, 10)
		w.Spoil(e.Ref, 3, test.err)
		p := make([]byte, 10)
		_, err := h.ReadAt(t.Context(), p, int64(3*block))
		wantClass(t, err, test.class)
		wantRead(t, h, data, 20, 10) // in memory
		w.Spoil(e.Ref, 3, nil)
		reads := w.BlockReads()
		_, err = h.ReadAt(t.Context(), p, int64(3*block))
		if (err == nil) != test.later {
			t.Errorf("after %v: a later read gets %v", test.err, err)
		}
		if !test.later && w.BlockReads() != reads {
			t.Errorf("after %v the block was fetched again", test.err)
		}
		m.wantCharges(1, 0)
		h.Release()
	}
}

// A reader that is interrupted leaves; others that wait for the same block get it.
func TestR9InterruptedReadLeavesTheBlockToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, data := largeWorld(5 * block)
		m := mount(t, w, "alice", still)
		h := m.openAt("/g/film")
		defer h.Release()
		release := w.Stall("read blocks")
		ctx, interrupt := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := h.ReadAt(ctx, make([]byte, 10), int64(block))
			wantClass(t, err, ClassInterrupted)
		})
		wg.Go(func() { wantRead(t, h, data, block+20, 10) })
		synctest.Wait()
		interrupt()
		synctest.Wait()
		release()
		wg.Wait()
		wantFetchedOnce(t, w, e, 1, 1)
	})
}

// While one handle is open others are free, and so is an open that finds every block in memory; a sniffer
// and a crawler get nothing that is not.
func TestR9OneClaimForAllWhoHaveItOpen(t *testing.T) {
	w, _, data := largeWorld(5 * block)
	m := mount(t, w, "alice")
	film := m.node("/g/film").(*File)
	price, _ := film.openPrice()
	if !price.IsZero() || film.state() != "remote" {
		t.Errorf("state %s", film.state())
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			h, err := film.Open(t.Context(), OpenFlags{Read: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Release()
			wantRead(t, h, data, 0, 10)
		})
	}
	keep := m.openAt("/g/film")
	wg.Wait()
	r, _ := w.Charged()
	crawler := OpenFlags{Read: true, Caller: Caller{PID: 1, Name: func() string { return "tumblerd" }}}
	_, err := film.Open(t.Context(), crawler)
	wantClass(t, err, ClassAccess)
	late, err := film.Open(t.Context(), OpenFlags{Read: true, NoWait: true})
	ok(t, err)
	wantRead(t, late, data, block, 10)
	late.Release()
	m.wantCharges(r, 0)
	keep.Release()
	m.openAt("/g/film").Release() // another claim: some blocks are missing
	m.wantCharges(r+1, 0)
	h := m.openAt("/g/film")
	wantRead(t, h, data, 0, len(data))
	h.Release()
	if film.state() != "cached" {
		t.Errorf("state %s", film.state())
	}
	crawls, err := film.Open(t.Context(), crawler)
	ok(t, err)
	wantRead(t, crawls, data, 0, 100)
	m.contents.Cache.Purge(func(k cache.Key) bool { return k.Block == 3 }) // as if the memory was needed
	wantRead(t, crawls, data, 2*block, 10)
	crawls.Release()
	m.wantCharges(r+3, 0)
}

// Who reads a large file in order leaves at most 32 MiB of it in memory; one that is not larger than half of
// the cache stays.
func TestR10ReadInOrderTakesLittleMemory(t *testing.T) {
	w := treetest.NewWorld()
	w.BlocksAbove, w.BlockBytes = 1, 1<<20
	w.Member("g", "alice", "bob")
	data := noise(110 << 20) // more than both bounds on what is kept
	e := w.Put("g", "bob", "film", data)
	for _, size := range []int64{int64(2*len(data)) - 2, int64(2 * len(data))} {
		m := mount(t, w, "alice", func(c *Config) { c.CacheBytes = size })
		h := m.openAt("/g/film")
		most := int64(0)
		for off := 0; off < len(data); off += 1 << 20 {
			wantRead(t, h, data, off, 1<<20)
			most = max(most, m.contents.Cache.Stats().Bytes)
		}
		h.Release()
		limit := int64(content.PassedBytes + 2*blocks.MaxAhead<<20)
		if kept := size == int64(2*len(data)); kept != (most > limit) || most < content.PassedBytes || kept != m.node("/g/film").(*File).isCached() {
			t.Errorf("with a cache of %d bytes the file took %d, want at most %d: %v", size, most, limit, !kept)
		}
	}
	for i, n := range w.Fetched(e.Ref) {
		if n != 2 {
			t.Errorf("block %d was fetched %d times by two mounts", i, n)
		}
	}
}

// Blocks wait for room as files do (threat 8): what is lent to the kernel stays, and nothing is begun ahead.
func TestR9BlocksWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, data := largeWorld(20 * block)
		m := mount(t, w, "alice", still, func(c *Config) { c.CacheBytes = 2*mem.FootprintOf(int64(block)) + content.SourceBytes })
		h := m.openAt("/g/film")
		defer h.Release()
		var views []cache.View
		for i := range 3 { // the third goes beyond the budget alone
			v, err := h.View(t.Context(), make([]byte, 10), int64(i*block))
			ok(t, err)
			views = append(views, v)
		}
		var wg sync.WaitGroup
		wg.Go(func() { wantRead(t, h, data, 10*block, 10) })
		synctest.Wait()
		before := w.BlockReads()
		views[0].Done()
		views[1].Done()
		views[2].Done()
		wg.Wait()
		if after := w.BlockReads(); before != 3 || after != 4 {
			t.Errorf("%d requests while there was no room, %d in the end", before, after)
		}
		readInOrder(t, h, data, 0, len(data), block/3)
	})
}

// Programs that open a file again soon after they closed it share the claim; a minute later, and when many others
// were closed since, it is another one.
func TestR9OpenedAgainSoonIsOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, data := largeWorld(5 * block)
		for i := range content.MostReopened {
			w.Put("g", "bob", fmt.Sprint("other", i), data)
		}
		m := mount(t, w, "alice", func(c *Config) { c.clock, c.reopen, c.RefreshInterval = time.Now, 0, time.Second })
		read := func(p string, off, retrieves int) {
			t.Helper()
			h := m.openAt(p)
			wantRead(t, h, data, off, 10)
			h.Release()
			m.wantCharges(retrieves, 0)
		}
		read("/g/film", 0, 1)
		time.Sleep(reopenTime - time.Second)
		read("/g/film", block, 1)
		time.Sleep(reopenTime - time.Second)
		read("/g/film", 2*block, 1)
		time.Sleep(reopenTime + time.Second)
		if n := w.OpenBlocksNow(); n != 0 {
			t.Errorf("%d files stay open at the service", n)
		}
		read("/g/film", 3*block, 2)
		for i := range content.MostReopened {
			read(fmt.Sprint("/g/other", i), 0, 3+i)
		}
		if n := w.OpenBlocksNow(); n != content.MostReopened {
			t.Errorf("%d files stay open at the service, want %d", n, content.MostReopened)
		}
		w.Shred("g", e.Ref)
		w.Revoke("g", "alice")
		time.Sleep(2 * time.Second)
		_, err := m.node("/g/other63").(*File).Open(t.Context(), OpenFlags{Read: true}) // M5: the mount asks for the members
		wantClass(t, err, ClassRevoked)
		if n := w.OpenBlocksNow(); n != 0 {
			t.Errorf("%d files stay open after the revocation", n)
		}
		time.Sleep(reopenTime)
	})
}

// A read that waits for blocks that were fetched ahead does not fail with them: it fetches its own.
func TestR10FailedFetchAheadIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, data := largeWorld(50 * block)
		m := mount(t, w, "alice", still)
		h := m.openAt("/g/film")
		defer h.Release()
		wantRead(t, h, data, 0, block/2)
		w.Fail("read blocks", &sdk.Error{Op: "read", Kind: sdk.ErrUnavailable, Err: errors.New("away")})
		release := w.Stall("read blocks")
		wantRead(t, h, data, block/2, block/2) // begins to fetch ahead
		synctest.Wait()
		var wg sync.WaitGroup
		wg.Go(func() { wantRead(t, h, data, block, 10) })
		synctest.Wait()
		w.Fail("read blocks", nil)
		release()
		wg.Wait()
	})
}

// All readers together fetch ahead no more than a quarter of the cache.
func TestR10ManyReadersShareWhatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, data := largeWorld(200 * block)
		m := mount(t, w, "alice", still, func(c *Config) { c.CacheBytes = 128 * mem.FootprintOf(int64(block)) })
		most := int64(0)
		for i := range 8 {
			h := m.openAt("/g/film")
			defer h.Release()
			readInOrder(t, h, data, 10*i*block, 10*(i+1)*block, block)
			most = max(most, m.contents.AheadNow())
		}
		if limit := m.cfg.CacheBytes / content.AheadShare; most > limit || most < limit/2 {
			t.Errorf("%d bytes were fetched ahead, want at most %d", most, limit)
		}
	})
}
