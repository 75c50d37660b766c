package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// world is an honest service with a group and a client.
func world(t testing.TB, f testkit.Dialect, changes ...func(*sdk.Config)) (*testkit.Server, *sdk.Client) {
	t.Helper()
	s := testkit.Start(t, f)
	patience := func(cfg *sdk.Config) { cfg.Timeout = time.Minute }
	c := s.Client(t, s.Account("alice", "100"), append([]func(*sdk.Config){patience}, changes...)...)
	sdk.Far(c, false) // also on a busy machine
	if _, err := c.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// lost lets the service do its work and loses the answers that lose says so of;
// the others are replaced by status, unless that is 0.
func lost(n int32, status int) func(http.Handler) http.Handler {
	var seen atomic.Int32
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at := seen.Add(1)
			if at > n && status != 0 && at < n+4 {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":"not now"}`))
				return
			}
			if at > n {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
	}
}

// The service records and the answer is lost, once or for good, or lost and then
// refused for a while: one record, one fee, and the caller hears of it.
func TestNobodyPaysTwice(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Hosted, testkit.Keyless, testkit.Ours} {
		for _, size := range []int{10, 200_000} {
			for _, cut := range []int32{1, 4, 7} {
				for _, after := range []int{0, 429, 401} {
					t.Run(fmt.Sprint(int(f), size, " cut ", cut, " then ", after), func(t *testing.T) {
						t.Parallel()
						s, c := world(t, f)
						before, err := c.Balance(t.Context(), "")
						if err != nil {
							t.Fatal(err)
						}
						s.DisturbUploads(lost(cut, after))
						content := bytes.Repeat([]byte("x"), size)
						var r sdk.Receipt
						for range 6 { // a program that saves again
							if r, err = c.Group("g").Put(t.Context(), "f", bytes.NewReader(content)); err == nil {
								break
							}
						}
						if err != nil || s.Records() != 1 || r.Ref == "" || r.Hash != sdk.ComputeHash(content) || r.Size != int64(size) || r.Time.IsZero() {
							t.Fatalf("%d records, receipt %+v, %v", s.Records(), r, err)
						}
						s.DisturbUploads(nil)
						looks := s.Hits(wire.PathTools + wire.OpGetGroupTransactions) // for the record whose answer was lost
						balance, err := c.Balance(t.Context(), "")
						paid, ok := before.Sub(balance)
						if want := paidFor(t, c, looks); err != nil || !ok || paid != want {
							t.Errorf("%s were paid for an upload and %d looks, want %s, %v", paid.Tokens(), looks, want.Tokens(), err)
						}
						got, _, err := sdktest.Read(t.Context(), c.Group("g"), string(r.Ref))
						if err != nil || !bytes.Equal(got, content) {
							t.Errorf("%d bytes come back, %v", len(got), err)
						}
					})
				}
			}
		}
	}
}

// paidFor is the price of one upload and of looks at the group g.
func paidFor(t *testing.T, c *sdk.Client, looks int) sdk.Amount {
	t.Helper()
	action := "upload"
	if caps, err := c.Capabilities(t.Context()); err != nil || caps.Service == "" { // the hosted network has no such price
		action = "record_transaction"
	}
	sum, err := c.EstimateFee(t.Context(), action)
	if err != nil || sum.IsZero() {
		t.Fatal(err)
	}
	price, err := c.Group("g").ReadPrice(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range looks {
		sum, _ = sum.Add(price)
	}
	return sum
}

// An upload id the service has forgotten, with nothing recorded, does not keep
// the file from being uploaded.
func TestForgottenUploadStartsAgain(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Keyless)
	s.Answer(wire.PathTools+wire.OpFinalizeUpload, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }) // nothing is recorded
	if _, err := c.Group("g").Put(t.Context(), "f", bytes.NewReader([]byte("content"))); !errors.Is(err, sdk.ErrUnavailable) {
		t.Fatal(err)
	}
	var told atomic.Bool
	s.Disturb(wire.PathTools+wire.OpFinalizeUpload, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !told.Swap(true) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"error":"Invalid or expired upload_id","code":"UPLOAD_NOT_FOUND"}`))
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := c.Group("g").Put(t.Context(), "f", bytes.NewReader([]byte("content"))); err != nil || s.Records() != 1 {
		t.Errorf("%d records, %v", s.Records(), err)
	}
}

// The same content under the same name at the same time, while answers get
// lost: nobody shares a key that is wiped, every plaintext comes back.
func TestSameContentAtOnce(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Keyless, testkit.Ours} {
		s, c := world(t, f)
		s.DisturbUploads(lost(5, 0))
		content := bytes.Repeat([]byte("same "), 40_000)
		var all sync.WaitGroup
		var good atomic.Int32
		for range 6 {
			all.Go(func() {
				b, err := mem.NewPool().Get(int64(len(content)))
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Release()
				copy(b.Bytes(), content)
				if _, err := c.Group("g").Upload(t.Context(), "f", b); err == nil {
					good.Add(1)
				}
				if !bytes.Equal(b.Bytes(), content) {
					t.Error("the plaintext was not restored")
				}
			})
		}
		all.Wait()
		if good.Load() < 5 || s.Records() > 6 {
			t.Errorf("%d of 6 succeeded, %d records", good.Load(), s.Records())
		}
	}
}

// A service that takes nothing in ends the upload in time, and so does a caller.
func TestUploadThatStandsStill(t *testing.T) {
	t.Parallel()
	for size, f := range map[int]testkit.Dialect{10: testkit.Keyless, 32 << 20: testkit.Keyless, 11: testkit.Ours, 2 << 20: testkit.Ours} {
		s, _ := world(t, f)
		a := s.Account("bob", "100")
		c := s.Client(t, a, func(cfg *sdk.Config) { cfg.Timeout = time.Second })
		if _, err := s.Client(t, a).Group("h").Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{}) // the service answers nothing until then
		still := func(http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over })
		}
		s.Disturb(wire.PathUploadBlob+"*", still)
		s.DisturbUploads(still)
		b := buffer(t, int64(size))
		b.Bytes()[0] = 'x'
		if _, err := c.Group("h").Upload(t.Context(), "f", b); !errors.Is(err, sdk.ErrTimeout) {
			t.Errorf("%d bytes: %v", size, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := c.Group("h").Upload(ctx, "other", b); !errors.Is(err, sdk.ErrCanceled) {
			t.Errorf("%d bytes, cancelled: %v", size, err)
		}
		close(over)
		if b.Bytes()[0] != 'x' || b.Len() != int64(size) {
			t.Error("the plaintext was not restored")
		}
	}
}

// A waiter for the token gives up alone; the others get it.
func TestTokenWaiterGivesUpAlone(t *testing.T) {
	t.Parallel()
	s, _ := world(t, testkit.Ours)
	a := s.Account("bob", "1")
	release := make(chan struct{})
	s.Disturb(wire.PathSessionToken, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release; next.ServeHTTP(w, r) })
	})
	c := s.Client(t, a)
	hits := s.Hits(wire.PathSessionToken)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	patient := make(chan error, 1)
	go func() { _, err := c.OwnedGroups(t.Context()); patient <- err }()
	if _, err := c.OwnedGroups(ctx); !errors.Is(err, sdk.ErrTimeout) {
		t.Errorf("the impatient one gets %v", err)
	}
	close(release)
	if err := <-patient; err != nil {
		t.Errorf("the patient one gets %v", err)
	}
	if n := s.Hits(wire.PathSessionToken) - hits; n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
}

// A caller that comes back after hours, when other uploads were lost meanwhile,
// still does not pay twice.
func TestNobodyPaysTwiceHoursLater(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Hosted, testkit.Keyless, testkit.Ours} {
		t.Run(f.String(), func(t *testing.T) {
			s, c := world(t, f)
			const list = wire.PathTools + wire.OpGetGroupTransactions
			down := func() {
				s.DisturbUploads(lost(100, 0))
				s.Answer(list, answer(500, wire.Error{Error: "not now"}))
			}
			down()
			for _, name := range []string{"first", "second"} {
				if _, err := c.Group("g").Put(t.Context(), name, bytes.NewReader([]byte(name))); err == nil {
					t.Fatal("it succeeds")
				}
				sdk.AgeTickets(c, 3*time.Hour)
			}
			s.DisturbUploads(nil)
			s.Disturb(list, nil)
			before := s.Records()
			for _, name := range []string{"first", "second"} {
				if r, err := c.Group("g").Put(t.Context(), name, bytes.NewReader([]byte(name))); err != nil || r.Hash != sdk.ComputeHash([]byte(name)) {
					t.Errorf("%s: %+v, %v", name, r, err)
				}
			}
			if n := s.Records(); n != before || n != 2 {
				t.Errorf("%d records, %d before", n, before)
			}
		})
	}
}

// Put with Base follows exactly the version that it names, and sends nothing where the service cannot see to that.
func TestPutFollowsAVersion(t *testing.T) {
	t.Parallel()
	type way = func(c *sdk.Client, content []byte, base sdk.Ref) (sdk.Receipt, error)
	put := func(c *sdk.Client, content []byte, base sdk.Ref) (sdk.Receipt, error) {
		return c.Group("g").Put(t.Context(), "name", bytes.NewReader(content), sdk.PutOptions{Base: &base})
	}
	whole := func(c *sdk.Client, content []byte, base sdk.Ref) (sdk.Receipt, error) {
		b := buffer(t, int64(len(content)))
		copy(b.Bytes(), content)
		return c.Group("g").Upload(t.Context(), "name", b, sdk.PutOptions{Base: &base})
	}
	for _, f := range []testkit.Dialect{testkit.Ours, testkit.Keyless} {
		s, c := world(t, f)
		newest := sdk.Ref("")
		for _, content := range [][]byte{[]byte("small"), noise(wire.WholeFileBytes + 1)} {
			for how, send := range map[string]way{"Put": put, "Upload": whole} {
				if f == testkit.Keyless && how == "Put" && len(content) > wire.WholeFileBytes {
					continue // blocks need the vault
				}
				before := s.Records()
				for _, base := range []sdk.Ref{"", "another"} {
					if base == newest {
						continue
					}
					_, err := send(c, content, base)
					if sdk.KindOf(err) != sdk.ErrConflict || errorCode(err) != wire.CodeHead {
						t.Errorf("dialect %d: %s of %d bytes after %q: %v", f, how, len(content), base, err)
					}
				}
				if s.Records() != before {
					t.Errorf("dialect %d, %s of %d bytes: something was recorded", f, how, len(content))
				}
				r, err := send(c, content, newest)
				if err != nil {
					t.Fatal(err)
				}
				newest = r.Ref
			}
		}
	}
	hosted, other := world(t, testkit.Hosted)
	before := hosted.Records()
	if _, err := put(other, []byte("first"), ""); sdk.KindOf(err) != sdk.ErrUnsupported || hosted.Records() != before {
		t.Errorf("where the service cannot: %v, %d records more", err, hosted.Records()-before)
	}
}

// An upload in two requests says what it was made from. The hosted service is not told.
func TestPreparedUploadSaysWhatItWasMadeFrom(t *testing.T) {
	t.Parallel()
	for f, size := range map[testkit.Dialect]int64{testkit.Ours: wire.WholeFileBytes + 1, testkit.Keyless: 10,
		testkit.Hosted: 10} {
		s, c := world(t, f)
		g := c.Group("g")
		first, err := g.Put(t.Context(), "f", strings.NewReader("first"))
		if err != nil {
			t.Fatal(err)
		}
		s.Disturb(wire.PathTools+wire.OpFinalizeUpload, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if told := bytes.Contains(body, []byte(`"upon"`)); err != nil || told != (f != testkit.Hosted) {
					t.Errorf("dialect %d: it is told: %t, %v", f, told, err)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				next.ServeHTTP(w, r)
			})
		})
		put := func(name string, upon sdk.Ref) (sdk.Receipt, error) {
			b := buffer(t, size)
			copy(b.Bytes(), name)
			return g.Upload(t.Context(), name, b, sdk.PutOptions{Upon: &upon})
		}
		for name, upon := range map[string]sdk.Ref{"made from it": first.Ref, "made from none": ""} {
			r, err := put(name, upon)
			if f == testkit.Hosted && err == nil && r.Upon == nil {
				continue
			}
			e, statErr := g.Stat(t.Context(), name)
			for _, got := range []*sdk.Ref{r.Upon, e.Upon} {
				if err != nil || statErr != nil || got == nil || *got != upon {
					t.Errorf("dialect %d: %s: %v, %v, %v", f, name, got, err, statErr)
				}
			}
		}
		if _, err := put("never there", "nothing"); (sdk.KindOf(err) == sdk.ErrNotFound) != (f != testkit.Hosted) {
			t.Errorf("dialect %d: %v", f, err)
		}
	}
}

// The newest version of a name is the one that was uploaded last, whichever came back from the trash or got the name
// since: what Stat tells is what a save follows.
func TestPutFollowsTheLastUpload(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	g := c.Group("g")
	put := func(name, content string, base sdk.Ref) sdk.Receipt {
		t.Helper()
		r, err := g.Put(t.Context(), name, strings.NewReader(content), sdk.PutOptions{Base: &base})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	older := put("other", "0", "")
	put("f", "1", "")
	if _, err := g.Remove(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	newest := put("f", "2", "")
	for what, change := range map[string]func() error{
		"a return": func() error {
			_, err := g.Restore(t.Context(), "f")
			return err
		},
		"a rename": func() error {
			_, err := g.Rename(t.Context(), older.Ref, "f")
			return err
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if e, err := g.Stat(t.Context(), "f"); err != nil || e.Ref != newest.Ref {
			t.Errorf("after %s: %s, %v; want %s", what, e.Ref, err, newest.Ref)
		}
		newest = put("f", "content after "+what, newest.Ref)
	}
}

// wholeOnly sets that the files of a group are of format version 1.
func wholeOnly(t *testing.T, g sdk.Group) {
	t.Helper()
	if _, err := g.Settings().Set(t.Context(), wire.GroupSettings{Format: 1}); err != nil {
		t.Fatal(err)
	}
}

// A file that somebody removes while a large upload that replaces it is on its way stays removed: the service compares
// when it records.
func TestPutAfterAVersionThatIsRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	g := c.Group("g")
	wholeOnly(t, g)
	first, err := g.Put(t.Context(), "f", strings.NewReader("first"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(base sdk.Ref) (sdk.Receipt, error) {
		return g.Put(t.Context(), "f", bytes.NewReader(noise(wire.WholeFileBytes+1)), sdk.PutOptions{Base: &base})
	}
	finalize := wire.PathTools + wire.OpFinalizeUpload
	s.Disturb(finalize, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Disturb(finalize, nil)
			if _, err := g.RemoveVersions(t.Context(), []sdk.Entry{first.Entry}); err != nil {
				t.Error(err)
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := put(first.Ref); errorCode(err) != wire.CodeHead {
		t.Error(err)
	}
	if e, err := g.Stat(t.Context(), "f"); sdk.KindOf(err) != sdk.ErrNotFound {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := put(""); err != nil {
		t.Error(err)
	}
}

// What somebody else recorded, as the same account and with the same content, is not taken for an upload that the
// service refused after the connection broke.
func TestRefusedUploadIsNotThatOfAnother(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Keyless, testkit.Ours} {
		s := testkit.Start(t, f)
		a := s.Account("alice", "100")
		g, other := s.Client(t, a).Group("g"), s.Client(t, a).Group("g")
		if _, err := g.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		put := func(g sdk.Group) error {
			_, err := g.Put(t.Context(), "f", strings.NewReader("x"), sdk.PutOptions{Base: new(sdk.Ref(""))})
			return err
		}
		s.DisturbUploads(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				s.DisturbUploads(nil)
				if err := put(other); err != nil {
					t.Error(err)
				}
				panic(http.ErrAbortHandler)
			})
		})
		if err := put(g); errorCode(err) != wire.CodeHead {
			t.Errorf("dialect %d: %v", f, err)
		}
	}
}

// cut has requests break on their way, after some bytes: the service records nothing.
func cut(http.Handler) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 10)
		panic(http.ErrAbortHandler)
	})
}

// An upload without an answer is one with the same content later only while nothing else has its name: then the content
// is another version, whether the first upload was recorded or not.
func TestUploadWithoutAnswerIsNoLaterVersion(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"small": 10, "in blocks": wire.WholeFileBytes + 1} {
		for fault, tc := range map[string]struct {
			disturb func(http.Handler) http.Handler
			records int // of the upload without an answer
		}{"the answer is lost": {lost(math.MaxInt32, 0), 1}, "the request is lost": {cut, 0}} {
			for _, bound := range []bool{true, false} {
				t.Run(fmt.Sprint(name, ", ", fault, ", bound ", bound), func(t *testing.T) {
					t.Parallel()
					s, c := world(t, testkit.Ours)
					g := c.Group("g")
					x, y := noise(size), append(noise(size-1), 'y')
					base := sdk.Ref("") // the newest version that the caller knows
					put := func(content []byte) (sdk.Receipt, error) {
						var o sdk.PutOptions
						if bound {
							o.Base = &base
						}
						return g.Put(t.Context(), "f", bytes.NewReader(content), o)
					}
					s.DisturbUploads(tc.disturb)
					if _, err := put(x); sdk.KindOf(err) != sdk.ErrUnavailable || s.Records() != tc.records {
						t.Fatalf("%d records, %v", s.Records(), err)
					}
					s.DisturbUploads(nil)
					for i, content := range [][]byte{y, x} {
						if i+tc.records > 0 {
							base = newest(t, g, "f").Ref
						}
						r, err := put(content)
						if err != nil || r.Ref != newest(t, g, "f").Ref || r.Hash != sdk.ComputeHash(content) ||
							s.Records() != tc.records+i+1 {
							t.Errorf("after %d others: %d records, %+v, %v", i, s.Records(), r, err)
						}
					}
				})
			}
		}
	}
}

// Of two uploads without an answer under one name, the later one alone is sent again. One that was made upon an older
// version is none that the caller asks for.
func TestOnlyTheNewestUploadWithoutAnswerIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Keyless, testkit.Ours} {
		s, c := world(t, f)
		put := func(content string) error {
			_, err := c.Group("g").Put(t.Context(), "f", strings.NewReader(content))
			return err
		}
		s.DisturbUploads(lost(math.MaxInt32, 0))
		for _, content := range []string{"x", "y"} {
			if err := put(content); sdk.KindOf(err) != sdk.ErrUnavailable {
				t.Fatal(err)
			}
		}
		s.DisturbUploads(nil)
		for _, content := range []string{"y", "x"} {
			if err := put(content); err != nil {
				t.Error(err)
			}
		}
		if e := newest(t, c.Group("g"), "f"); s.Records() != 3 || e.Hash != sdk.ComputeHash([]byte("x")) {
			t.Errorf("dialect %d: %d records, the newest is %+v", f, s.Records(), e)
		}
	}
	s := testkit.Start(t, testkit.Ours)
	a := s.Account("alice", "100")
	c, other := s.Client(t, a), s.Client(t, a)
	if _, err := c.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := func(c *sdk.Client, content string, base sdk.Ref) (sdk.Receipt, error) {
		return c.Group("g").Put(t.Context(), "f", strings.NewReader(content), sdk.PutOptions{Base: &base})
	}
	s.DisturbUploads(lost(math.MaxInt32, 0))
	if _, err := put(c, "x", ""); sdk.KindOf(err) != sdk.ErrUnavailable {
		t.Fatal(err)
	}
	s.DisturbUploads(nil)
	later, err := put(other, "y", newest(t, c.Group("g"), "f").Ref)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := put(c, "x", later.Ref); err != nil || r.Ref != newest(t, c.Group("g"), "f").Ref || s.Records() != 3 {
		t.Errorf("%d records, %+v, %v", s.Records(), r, err)
	}
}

// A file that was removed, renamed or moved with its folder, by whatever client, has its name no more: the same content
// is another upload.
func TestUploadWithoutAnswerThatIsGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(g sdk.Group, e sdk.Entry) error{
		"removed": func(g sdk.Group, e sdk.Entry) error {
			_, err := g.RemoveVersions(t.Context(), []sdk.Entry{e})
			return err
		},
		"deleted": func(g sdk.Group, e sdk.Entry) error { _, err := g.Delete(t.Context(), e.Ref); return err },
		"renamed": func(g sdk.Group, e sdk.Entry) error { _, err := g.Rename(t.Context(), e.Ref, "g"); return err },
		"moved": func(g sdk.Group, e sdk.Entry) error {
			_, err := g.RenameFolder(t.Context(), "d", "e", e.ChangedSeq)
			return err
		},
	} {
		for size, content := range map[string][]byte{"small": []byte("x"), "in two requests": []byte("x"),
			"in blocks": noise(wire.WholeFileBytes + 1)} {
			for _, alone := range []bool{true, false} {
				t.Run(fmt.Sprint(name, ", ", size, ", alone ", alone), func(t *testing.T) {
					t.Parallel()
					dialect := testkit.Ours
					if size == "in two requests" {
						dialect = testkit.Keyless
					}
					s := testkit.Start(t, dialect)
					a := s.Account("alice", "100")
					g := s.Client(t, a).Group("g")
					if _, err := g.Register(t.Context()); err != nil {
						t.Fatal(err)
					}
					by := g
					if !alone {
						by = s.Client(t, a).Group("g")
					}
					put := func(modified time.Time) (sdk.Receipt, error) {
						return g.Put(t.Context(), "d/f", bytes.NewReader(content),
							sdk.PutOptions{Base: new(sdk.Ref("")), Attributes: sdk.Attributes{ModTime: modified}})
					}
					s.DisturbUploads(lost(math.MaxInt32, 0))
					if _, err := put(time.Unix(1e9, 0)); sdk.KindOf(err) != sdk.ErrUnavailable {
						t.Fatal(err)
					}
					s.DisturbUploads(nil)
					if err := change(by, newest(t, by, "d/f")); err != nil {
						t.Fatal(err)
					}
					if r, err := put(time.Unix(2e9, 0)); err != nil || r.Ref != newest(t, g, "d/f").Ref {
						t.Errorf("%+v, %v", r, err)
					}
				})
			}
		}
	}
}
