package sdk_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Random sequences of what a client that keeps uploads does, while answers and requests are lost, the
// epoch changes, and the client is started anew: at the end every upload is recorded once, paid
// once, and has the content that was sealed.
func TestSealedUploadsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			s := testkit.Start(t, testkit.Ours)
			alice, dir := s.Account("alice", "100"), t.TempDir()
			client := func() *sdk.Client {
				return s.Client(t, alice, func(cfg *sdk.Config) { cfg.StateDir = dir })
			}
			c := client()
			if _, err := c.Group("g").Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, err := c.Balance(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			var faults atomic.Int64 // per cent
			var dice atomic.Int64
			s.DisturbUploads(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					n := (dice.Add(1)*7919 + int64(seed)*31) % 100
					switch {
					case n >= faults.Load():
						next.ServeHTTP(w, r)
					case n%3 == 0: // the request is lost
						panic(http.ErrAbortHandler)
					case n%3 == 1: // the answer is lost
						next.ServeHTTP(httptest.NewRecorder(), r)
						panic(http.ErrAbortHandler)
					default:
						answer(http.StatusServiceUnavailable, wire.Error{Error: "not now", Code: wire.CodeUnavailable})(w, r)
					}
				})
			})
			type item struct {
				up      *sdk.Sealed
				save    saving.Save
				content []byte
				ref     sdk.Ref
			}
			var items []*item
			send := func(list []*item) {
				var ups []*sdk.Sealed
				for _, it := range list {
					ups = append(ups, it.up)
				}
				for i, sent := range c.SendSealed(t.Context(), ups...) {
					switch it := list[i]; {
					case sent.Err != nil && (sdk.KindOf(sent.Err) == sdk.ErrUnavailable || sdk.KindOf(sent.Err) == sdk.ErrOther):
					case sent.Err != nil:
						t.Errorf("%s: %v", it.up.Name(), sent.Err)
					case it.ref != "" && it.ref != sent.Receipt.Ref || sent.Receipt.Hash != sdk.ComputeHash(it.content):
						t.Errorf("%s was %s, and is %+v", it.up.Name(), it.ref, sent.Receipt)
					default:
						it.ref = sent.Receipt.Ref
					}
				}
			}
			for range 20 {
				faults.Store(int64(random.IntN(60)))
				switch step := random.IntN(10); {
				case step < 4:
					content := noise([]int64{0, 10, 5000, 90_000}[random.IntN(4)])
					var opts []sdk.PutOptions
					if random.IntN(2) == 0 {
						content = bytes.Repeat([]byte("again "), 1000)
						opts = append(opts, sdk.PutOptions{Compress: true})
					}
					save, err := c.Group("g").NewSave()
					if err == nil {
						save.Mark = sdk.ComputeHash(content)
						save.Key, err = format.RandomKey()
					}
					if err != nil {
						t.Fatal(err)
					}
					up, err := c.Group("g").Seal(t.Context(), fmt.Sprint("file ", len(items)), content, &save, opts...)
					if err != nil {
						t.Fatal(err)
					}
					items = append(items, &item{up: up, save: save, content: content})
				case step < 8 && len(items) > 0:
					var list []*item
					for range 1 + random.IntN(4) {
						if it := items[random.IntN(len(items))]; !slices.Contains(list, it) {
							list = append(list, it)
						}
					}
					send(list)
				case step == 8: // another epoch, which ends no earlier one
					s.NextEpoch(false)
				default: // the program is started anew
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					c = client()
					for _, it := range items { // sealed anew, it is the same save
						if it.up, err = c.Group("g").Seal(t.Context(), it.up.Name(), it.content, &it.save); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			faults.Store(0)
			for _, it := range items {
				send([]*item{it})
			}
			if s.Records() != len(items) {
				t.Errorf("%d records of %d uploads", s.Records(), len(items))
			}
			after, err := c.Balance(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			price, _ := c.Price("upload")
			for range items {
				after, _ = after.Add(price)
			}
			if after != before {
				t.Errorf("%d uploads left %s of %s", len(items), after.Tokens(), before.Tokens())
			}
			for _, it := range items {
				if got, e, err := sdktest.Read(t.Context(), c.Group("g"), string(it.ref)); err != nil || !bytes.Equal(got, it.content) {
					t.Errorf("%s: %d bytes, %v", e.Name, len(got), err)
				}
			}
		})
	}
}
