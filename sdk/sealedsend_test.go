package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

func putNamed(t *testing.T, c *sdk.Client, name string) error {
	t.Helper()
	r, err := c.Group("g").Put(t.Context(), name, strings.NewReader("content of "+name))
	if err == nil && r.Hash != sdk.ComputeHash([]byte("content of "+name)) {
		return fmt.Errorf("the receipt is for %s", r.Hash)
	}
	return err
}

// A save is one request, whatever its size, and so is one that comes right after another.
func TestOneRequestASave(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	if err := putNamed(t, c, "first"); err != nil { // the key of the log is fetched, once
		t.Fatal(err)
	}
	before := s.Requests()
	for i := range 5 {
		if err := putNamed(t, c, fmt.Sprint("file ", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{0, 64 << 10, wire.WholeFileBytes} {
		if _, err := c.Group("g").Put(t.Context(), fmt.Sprint(size, " bytes"), bytes.NewReader(make([]byte, size))); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Requests() - before; n != 8 || s.Records() != 9 || len(s.Batches()) != 0 {
		t.Errorf("%d requests for 8 saves, %d records, batches of %v", n, s.Records(), s.Batches())
	}
	for _, name := range []string{"file 3", "4194304 bytes"} {
		if data, _, err := sdktest.Read(t.Context(), c.Group("g"), name); err != nil || len(data) == 0 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	}
}

// The number of a receipt is that of its record in the group, without a gap between two saves that
// nobody came between, and lists have it, too.
func TestReceiptsTellTheNumber(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	g := c.Group("g")
	var numbers []int64
	put := func(name string) sdk.Receipt {
		t.Helper()
		r, err := g.Put(t.Context(), name, strings.NewReader("content of "+name))
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, r.Number)
		return r
	}
	first := put("a")
	put("b")
	if _, err := g.Rename(t.Context(), first.Ref, "c"); err != nil {
		t.Fatal(err)
	}
	put("d")
	n := numbers[0]
	if n == 0 || numbers[1] != n+1 || numbers[2] != n+3 {
		t.Errorf("receipts number %v", numbers)
	}
	entries, err := g.Entries(t.Context())
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, want := range []int64{n + 2, n + 1, n + 3} {
		if entries[i].Number != want {
			t.Errorf("entry %d: number %d, want %d", i, entries[i].Number, want)
		}
	}
}

// held is a service whose first n uploads are under way until they are let go.
type held struct {
	began chan struct{}
	let   chan struct{}
}

func hold(s *testkit.Server, n int32) *held {
	h := &held{make(chan struct{}, n), make(chan struct{})}
	var seen atomic.Int32
	s.DisturbUploads(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body) // sent is sent, also where the client leaves
			r = r.WithContext(context.WithoutCancel(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(raw))
			if seen.Add(1) <= n {
				h.began <- struct{}{}
				<-h.let
			}
			next.ServeHTTP(w, r)
		})
	})
	return h
}

// wait waits until n uploads of c wait for their turn.
func wait(t *testing.T, c *sdk.Client, n int) {
	t.Helper()
	proctest.Eventually(t, fmt.Sprint(n, " uploads wait"), func() bool { return sdk.Waiting(c) == n })
}

// Where requests are quick, small uploads that come while one is under way wait for it, and
// travel together in the order in which they came. Large ones do not wait.
func TestSmallUploadsTravelTogether(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	sdk.SlowLine(c, false)
	if err := putNamed(t, c, "warm"); err != nil {
		t.Fatal(err)
	}
	h := hold(s, 1)
	var all sync.WaitGroup
	begin := func(name string) {
		all.Go(func() {
			if err := putNamed(t, c, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	begin("first")
	<-h.began
	if _, err := c.Group("g").Put(t.Context(), "large", bytes.NewReader(make([]byte, 100_000))); err != nil {
		t.Error(err)
	}
	before := s.Requests()
	const files = wire.MaxSealedBatch + 6
	for i := range files {
		begin(fmt.Sprintf("%03d", i))
		wait(t, c, i+1)
	}
	close(h.let)
	all.Wait()
	if got := fmt.Sprint(s.Batches()); got != fmt.Sprint([]int{wire.MaxSealedBatch, 6}) || s.Requests()-before != 2 {
		t.Errorf("batches of %s, %d requests", got, s.Requests()-before)
	}
	entries, err := c.Group("g").Entries(t.Context())
	if err != nil || len(entries) != files+3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries[3:] {
		if e.Name != fmt.Sprintf("%03d", i) {
			t.Fatalf("upload %d is %s", i, e.Name)
		}
	}
}

// Where requests take long, several small uploads are under way at once, and those for which
// that is too many travel together.
func TestSmallUploadsOnASlowLine(t *testing.T) {
	t.Parallel()
	const lanes, more = 8, 5
	s, c := world(t, testkit.Ours)
	if err := putNamed(t, c, "warm"); err != nil {
		t.Fatal(err)
	}
	sdk.SlowLine(c, true)
	h := hold(s, lanes)
	before := s.Requests()
	var all sync.WaitGroup
	for i := range lanes + more {
		all.Go(func() {
			if err := putNamed(t, c, fmt.Sprint(i)); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	for range lanes {
		<-h.began // none waits for the answer to another
	}
	wait(t, c, more)
	close(h.let)
	all.Wait()
	together := 0
	for _, n := range s.Batches() {
		together += n
	}
	if n := s.Requests() - before; s.Records() != lanes+more+1 || together > more || n > lanes+more {
		t.Errorf("%d records, %d requests, batches of %v", s.Records(), n, s.Batches())
	}
}

// Who gives up while others are served is alone with that: what was not sent never is, and what
// was sent goes on for the others.
func TestWaitingUploadsAreGivenUpAlone(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	sdk.SlowLine(c, false)
	h := hold(s, 2)
	var all sync.WaitGroup
	errs := make([]error, 4)
	ctxs := make([]context.CancelFunc, 4)
	for i := range errs {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctxs[i] = cancel
		all.Go(func() {
			_, errs[i] = c.Group("g").Put(ctx, fmt.Sprint(i), strings.NewReader("x"))
		})
		if i == 0 {
			<-h.began
		} else {
			wait(t, c, i)
		}
	}
	ctxs[1]()
	wait(t, c, 2)
	ctxs[0]() // the request under way ends, and the next has two
	<-h.began
	ctxs[2]()
	proctest.Eventually(t, "the second gives up", func() bool { return sdk.Unsure(c) == 2 })
	close(h.let)
	all.Wait()
	for i, want := range []error{sdk.ErrCanceled, sdk.ErrCanceled, sdk.ErrCanceled, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("upload %d: %v", i, errs[i])
		}
	}
	proctest.Eventually(t, "those that were sent are recorded", func() bool { return s.Records() == 3 })
	for _, i := range []int{0, 2} { // again: found, not paid anew
		if _, err := c.Group("g").Put(t.Context(), fmt.Sprint(i), strings.NewReader("x")); err != nil || s.Records() != 3 {
			t.Errorf("upload %d again: %d records, %v", i, s.Records(), err)
		}
	}
}

// The epoch of the vault ends: the client fetches the next key, and the save goes on.
func TestEndedEpochIsSealedAgain(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	account := s.Account("alice", "100")
	c := s.Client(t, account)
	if _, err := c.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, ends := range []bool{false, false, true, true} {
		if ends {
			s.NextEpoch(true)
		}
		asked := s.Hits(wire.PathCapabilities)
		if err := putNamed(t, c, fmt.Sprint(i)); err != nil || s.Records() != i+1 {
			t.Fatalf("%d records, %v", s.Records(), err)
		}
		if n := s.Hits(wire.PathCapabilities) - asked; ends && n != 1 || !ends && i > 0 && n > 0 {
			t.Errorf("the capabilities were asked for %d times", n)
		}
	}
	waits := sealed(t, c, "waits", []byte("x"))
	s.NextEpoch(false) // the earlier one still opens
	if sent := c.SendSealed(t.Context(), waits); sent[0].Err != nil || waits.Epoch() != 3 {
		t.Errorf("%v, epoch %d", sent[0].Err, waits.Epoch())
	}
	c = s.Client(t, account) // knows the newest epoch
	late := sealed(t, c, "late", []byte("x"))
	late.Wipe()
	s.NextEpoch(true)
	if sent := c.SendSealed(t.Context(), late); codeOf(sent[0].Err) != wire.CodeEpoch || sdk.KindOf(sent[0].Err) != sdk.ErrConflict {
		t.Errorf("without its key: %v", sent[0].Err)
	}
}
