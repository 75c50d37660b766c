package checkpoint_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// following is a key in a vault that follows the log.
type following struct {
	keyOf
	log    vaultwire.Log
	before func(question string) // called before each answer; nil = nothing
}

func (f *following) comes(question string) {
	if before := f.before; before != nil {
		f.before = nil
		before(question)
		if f.before == nil {
			f.before = before
		}
	}
}

func (f *following) NewestTree(context.Context) (vaultwire.Tree, error) {
	f.comes("newest")
	return f.log.Tree, nil
}

func (f *following) Extend(_ context.Context, e vaultwire.Extension) (err error) {
	f.comes("extend")
	f.log, _, err = f.log.Extended(e)
	return err
}

func (f *following) Sign(ctx context.Context, q vaultwire.Sign) (vaultwire.Signed, error) {
	f.comes("sign")
	if q.Tree != nil && *q.Tree != f.log.Tree {
		return vaultwire.Signed{}, vaultwire.ErrNotFollowing
	}
	return f.keyOf.Sign(ctx, q)
}

// once calls do at the n-th question of a kind, from 1 on.
func (f *following) once(question string, n int, do func()) {
	f.before = func(asked string) {
		if asked != question {
			return
		}
		if n--; n == 0 {
			do()
		}
	}
}

// Two processes at one vault sign as they come: who was overtaken, at whatever question, reads on and signs all. The
// same holds where the vault begins anew meanwhile.
func TestTwoLogsAtOneVault(t *testing.T) {
	for _, question := range []string{"newest", "extend", "sign"} {
		for name, meanwhile := range map[string]func(*testing.T, *following, func(int) *checkpoint.Log){
			"another process": func(t *testing.T, _ *following, commits func(int) *checkpoint.Log) {
				if err := commits(1).Update(t.Context()); err != nil {
					t.Error(err)
				}
			},
			"another process of many records": func(t *testing.T, _ *following, commits func(int) *checkpoint.Log) {
				if err := commits(2*vaultwire.MostRecords + 1).Update(t.Context()); err != nil {
					t.Error(err)
				}
			},
			"another vault": func(_ *testing.T, key *following, _ func(int) *checkpoint.Log) {
				key.log = vaultwire.Log{}
			},
			"another vault and process": func(t *testing.T, key *following, commits func(int) *checkpoint.Log) {
				key.log = vaultwire.Log{}
				if err := commits(1).Update(t.Context()); err != nil {
					t.Error(err)
				}
			},
		} {
			for _, n := range []int{1, 2*vaultwire.MostRecords + 7} {
				t.Run(fmt.Sprint(question, ", ", name, ", ", n), func(t *testing.T) {
					s, dir := ledgerOf(t, 5)
					key, rows := &following{keyOf: theKey()}, int64(5)
					one, two := openAt(t, s, dir, new(settled), key), openAt(t, s, t.TempDir(), new(settled), key)
					commits := func(n int) *checkpoint.Log {
						appendRows(t, s, n)
						rows += int64(n)
						return one
					}
					for _, l := range []*checkpoint.Log{one, two, commits(3), two} {
						if err := l.Update(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					commits(n)
					came := false
					key.once(question, 1, func() { came = true; meanwhile(t, key, commits) })
					if err := two.Update(t.Context()); err != nil || !came || key.log.Tree.Records != rows {
						t.Errorf("%d of %d records are signed: %v", key.log.Tree.Records, rows, err)
					}
				})
			}
		}
	}
}

// Who is always overtaken gives up until the next look. It shows no checkpoint that is older than that of the others.
func TestAlwaysOvertaken(t *testing.T) {
	s, dir := ledgerOf(t, 5)
	key := &following{keyOf: theKey()}
	one, two := openAt(t, s, dir, new(settled), key), openAt(t, s, t.TempDir(), new(settled), key)
	handler := two.Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
		w.WriteHeader(fault.Of(err).Status())
	})
	shows := func(want int) {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tlog/checkpoint", nil))
		if w.Code != want {
			t.Errorf("checkpoint: %d, want %d", w.Code, want)
		}
	}
	shows(http.StatusOK)
	appendRows(t, s, 1)
	key.before = func(question string) {
		if question == "sign" {
			appendRows(t, s, 1)
			if err := one.Update(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if err := two.Update(t.Context()); err == nil || !two.Behind() {
		t.Errorf("it is overtaken for ever: %v", err)
	}
	shows(http.StatusServiceUnavailable)
	key.before = nil
	if err := two.Update(t.Context()); err != nil || two.Behind() {
		t.Error(err)
	}
	shows(http.StatusOK)
}

// A vault that began anew may follow a process that is behind: the others wait until it has what they have, and read
// the ledger anew if it does not come.
func TestVaultThatFollowsAProcessBehind(t *testing.T) {
	for name, comes := range map[string]bool{"which comes": true, "which ended": false} {
		t.Run(name, func(t *testing.T) {
			s, dir := ledgerOf(t, 5)
			key, now := &following{keyOf: theKey()}, time.Now()
			behind := openAt(t, s, dir, new(settled), key)
			if err := behind.Update(t.Context()); err != nil {
				t.Fatal(err)
			}
			old := key.log
			appendRows(t, s, 3)
			ahead := openAt(t, s, t.TempDir(), &settled{now: func() time.Time { return now }}, key)
			if err := ahead.Update(t.Context()); err != nil {
				t.Fatal(err)
			}
			key.log = old
			appendRows(t, s, 1)
			if err := ahead.Update(t.Context()); err == nil || !strings.Contains(err.Error(), "5 of 8 rows") {
				t.Error(err)
			}
			if comes {
				if err := behind.Update(t.Context()); err != nil {
					t.Error(err)
				}
			} else {
				now = now.Add(11 * time.Second)
			}
			if err := ahead.Update(t.Context()); err != nil || ahead.Behind() || key.log.Tree.Records != 9 {
				t.Errorf("%d records are signed: %v", key.log.Tree.Records, err)
			}
		})
	}
}

// A vault that began anew is given the log at the next look, also where there are no other records.
func TestVaultThatBeginsAnewFollowsAtOnce(t *testing.T) {
	s, dir := ledgerOf(t, 5)
	key := &following{keyOf: theKey()}
	l := openAt(t, s, dir, new(settled), key)
	for range 2 {
		key.log = vaultwire.Log{}
		if err := l.Update(t.Context()); err != nil || key.log.Tree.Records != 5 {
			t.Errorf("it follows %d records: %v", key.log.Tree.Records, err)
		}
	}
}

// A ledger that lacks what the vault signed, or has something else there, is not signed until the vault begins anew.
func TestThreat77AnotherLedgerIsNotSigned(t *testing.T) {
	for what, n := range map[string]int{"an earlier state": 3, "other records": 7, "as many other records": 5} {
		s, dir := ledgerOf(t, 5)
		key := &following{keyOf: theKey()}
		if err := openAt(t, s, dir, new(settled), key).Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		other, dir := ledgerOf(t, n)
		l := openAt(t, other, dir, new(settled), key)
		err := l.Update(t.Context())
		if err == nil || !strings.Contains(err.Error(), "restart svcvault") || !l.Behind() ||
			key.log.Tree.Records != 5 {
			t.Errorf("%s: %v, and %d records are signed", what, err, key.log.Tree.Records)
		}
		key.log = vaultwire.Log{}
		if err := l.Update(t.Context()); err != nil || l.Behind() || key.log.Tree.Records != int64(n) {
			t.Errorf("%s, on purpose: %v, and %d records are signed", what, err, key.log.Tree.Records)
		}
	}
}

// A process that is asked for a tile of the checkpoint that another one showed has it, or signs it first.
func TestTilesOfTheCheckpointOfAnotherProcess(t *testing.T) {
	s, dir := ledgerOf(t, 5)
	one, two := open(t, s, dir), open(t, s, t.TempDir())
	if err := two.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendRows(t, s, 3)
	if err := one.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	handler := two.Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
		w.WriteHeader(fault.Of(err).Status())
	})
	for path, want := range map[string]int{"tile/0/000.p/8": http.StatusOK, "tile/entries/000.p/8": http.StatusOK,
		"tile/0/000.p/9": http.StatusNotFound} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tlog/"+path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
