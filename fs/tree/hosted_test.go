package tree

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// hosted is a mount of bob's at the stand-in of the hosted network, which does not
// announce changes, beside alice's client. They share the group team.
func hosted(t *testing.T, s *testkit.Server, change ...func(*Config)) (*mounted, *sdk.Client) {
	t.Helper()
	alice, bob := s.Client(t, s.Account("alice", "10")), s.Client(t, s.Account("bob", "10"))
	return hostedBy(t, alice, bob, change...), alice
}

// hostedBy is hosted of clients that there are.
func hostedBy(t *testing.T, alice, bob *sdk.Client, change ...func(*Config)) *mounted {
	t.Helper()
	if _, err := alice.Group("team").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Group("team").Add(t.Context(), bob.Account()); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Remote: Client{bob}, Watch: bob.Watch, Price: bob.Price, ReadPrice: Client{bob}.ReadPrice, EmptyDelay: time.Hour}
	return &mounted{Tree: grow(t, cfg, change), t: t}
}

// by makes time pass only when the test says so, in steps of what a mount does by
// itself.
type clock struct{ ns atomic.Int64 }

func (c *clock) use(cfg *Config) {
	c.ns.Store(time.Now().UnixNano())
	cfg.clock = func() time.Time { return time.Unix(0, c.ns.Load()) }
}

// pass lets time pass for a mount, and do it every step.
func (c *clock) pass(m *mounted, d time.Duration, do func()) {
	for end := c.ns.Load() + int64(d); c.ns.Load() < end; {
		c.ns.Add(int64(m.cfg.RefreshInterval))
		m.look.Tick(m.life)
		if do != nil {
			do()
		}
		m.look.Wait()
	}
}

// asked counts the looks at the records and at the list of groups.
func asked(s *testkit.Server) (records, groups int) {
	return s.Hits(wire.PathTools + wire.OpGetGroupTransactions), s.Hits(wire.PathTools + wire.OpGetMemberGroups)
}

func balance(t *testing.T, m *mounted) sdk.Amount {
	t.Helper()
	left, err := m.remote.(Client).Balance(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func amount(t *testing.T, tokens string) sdk.Amount {
	t.Helper()
	a, err := wire.ParseTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// R4 and N1 at a service that does not announce changes: a mount that is looked at asks the
// ledger ever more rarely while nothing new is there; an idle mount costs nothing; and the
// costs are counted.
func TestR4LooksWithoutAWatch(t *testing.T) {
	s := testkit.Start(t, testkit.Hosted)
	var c clock
	var before sdk.Amount
	m, alice := hosted(t, s, c.use, func(cfg *Config) {
		before, _ = cfg.Remote.(Client).Balance(t.Context(), "")
	})
	m.names("/")
	m.names("/team")
	records, groups := asked(s)
	if records != 1 || groups != 1 {
		t.Errorf("one ls of each asked for %d lists of records and %d of groups", records, groups)
	}
	c.pass(m, 24*time.Hour, nil)
	if r, g := asked(s); r != records || g != groups {
		t.Errorf("a day in which nobody looks asked %d and %d times", r-records, g-groups)
	}
	c.pass(m, time.Hour, func() { m.names("/team"); _, _ = m.lookup("/team/absent") })
	if r, g := asked(s); r-records > 66 || r-records < 58 || g-groups > 66 || g-groups < 58 {
		t.Errorf("an hour of looking at the group asked %d and %d times", r-records, g-groups)
	}
	if _, err := alice.Group("team").Put(t.Context(), "new", bytes.NewReader([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	seen := time.Duration(0)
	c.pass(m, 10*time.Minute, func() {
		if len(m.names("/team")) == 0 {
			seen += m.cfg.RefreshInterval
		}
	})
	if seen > look.LongestPause+m.cfg.RefreshInterval {
		t.Errorf("who goes on looking sees what is new after %s", seen)
	}
	if _, err := alice.Group("team").Put(t.Context(), "newer", bytes.NewReader([]byte("newer"))); err != nil {
		t.Fatal(err)
	}
	c.pass(m, 10*time.Minute, nil)
	if n := len(m.names("/team")); n != 2 {
		t.Errorf("who looks again after a pause sees %d files", n)
	}
	records, groups = asked(s)
	status := m.Status()
	spent, paid := amount(t, status.Spent), sdk.Amount{}
	if sum, ok := before.Sub(balance(t, m)); ok {
		paid = sum
	}
	if spent != paid || spent.IsZero() || status.Looks != int64(records+groups) {
		t.Errorf("%d looks and %s tokens are booked, %s were paid for %d and %d", status.Looks, status.Spent, paid.Tokens(), records, groups)
	}
}

// R6: looks count against the budget; known names are shown without them.
func TestR6LooksCountAgainstTheBudget(t *testing.T) {
	s := testkit.Start(t, testkit.Hosted)
	var c clock
	m, alice := hosted(t, s, c.use, func(cfg *Config) {
		cfg.Budget = amount(t, "0.0039") // one look at the groups, and one at a group
		if _, err := cfg.Remote.(Client).Group("other").Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := alice.Group("team").Put(t.Context(), "f", bytes.NewReader([]byte("content"))); err != nil {
		t.Fatal(err)
	}
	m.names("/team")
	_, err := m.dir("/other").Entries(t.Context())
	wantClass(t, err, ClassBudget)
	before := balance(t, m)
	c.pass(m, 10*time.Minute, func() {
		if a, b := len(m.names("/")), len(m.names("/team")); a != 2 || b != 1 {
			t.Fatalf("shows %d groups and %d files", a, b)
		}
	})
	if left := balance(t, m); left != before {
		t.Errorf("went on to spend: %s, then %s", before.Tokens(), left.Tokens())
	}
	if n := strings.Count(string(m.errors.Show()), "\n"); n != 3 { // other, and once for each that is shown
		t.Errorf("%d lines in errors:\n%s", n, m.errors.Show())
	}
}

// M5 and threat 14 at a service that does not announce changes: a revoked member reads no
// further byte, from an open file or from memory, and the check costs nothing.
func TestM5RevokedWithoutAWatch(t *testing.T) {
	for name, open := range map[string]bool{"open": true, "in memory": false} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, testkit.Hosted)
			var c clock
			m, alice := hosted(t, s, c.use)
			if _, err := alice.Group("team").Put(t.Context(), "f", bytes.NewReader([]byte("content"))); err != nil {
				t.Fatal(err)
			}
			f := m.node("/team/" + m.names("/team")[0]).(*File)
			h, err := f.Open(t.Context(), OpenFlags{Read: true})
			if err != nil {
				t.Fatal(err)
			}
			if !open {
				h.Release()
			}
			records, groups := asked(s)
			before := balance(t, m)
			c.pass(m, time.Hour, nil)
			if r, g := asked(s); r != records || g != groups || balance(t, m) != before {
				t.Errorf("an hour with a file open made %d and %d looks", r-records, g-groups)
			}
			if _, err := alice.Group("team").Revoke(t.Context(), m.remote.Account()); err != nil {
				t.Fatal(err)
			}
			c.pass(m, 2*m.cfg.RefreshInterval, nil)
			if open {
				_, err = readAll(t, h)
				wantClass(t, err, ClassRevoked)
				h.Release()
			}
			_, err = f.Open(t.Context(), OpenFlags{Read: true})
			wantClass(t, err, ClassRevoked)
			if n := m.contents.Cache.Stats().Entries; n != 0 {
				t.Errorf("%d files are still in memory", n)
			}
			if names := m.names("/"); len(names) != 0 {
				t.Errorf("still shows %v", names)
			}
		})
	}
}

// M5: a save that the service does not take holds up no look: without a watch at the members, with one
// at the records, in case that an event was lost.
func TestM5RevokedWhileASaveWaits(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("content"))
	var c clock
	m := mount(t, w, bob, c.use, func(cfg *Config) { cfg.RefreshInterval = DefaultRefreshInterval })
	h := m.open("/team/f", OpenFlags{Read: true})
	defer h.Release()
	w.Fail("upload", &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable})
	if err := m.save("/team/waits", "x"); err == nil {
		t.Fatal("saved")
	}
	c.pass(m, time.Minute, nil)
	for before := w.Begun("groups"); w.Begun("groups") == before; { // the next is long after
		c.pass(m, m.cfg.RefreshInterval, nil)
	}
	w.Revoke("team", bob)
	c.pass(m, m.cfg.RefreshInterval, nil)
	_, err := readAll(t, h)
	wantClass(t, err, ClassRevoked)
}

// A ledger with a wrong answer about a member takes nothing away, and costs ever less.
func TestM5DoubtsAboutAMember(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("content"))
	var c clock
	m := mount(t, w, bob, c.use, func(cfg *Config) { cfg.Remote, cfg.RefreshInterval = doubting{w.As(bob)}, DefaultRefreshInterval })
	h := m.open("/team/f", OpenFlags{Read: true})
	before := w.Begun("groups")
	c.pass(m, time.Hour, nil)
	if n := w.Begun("groups") - before; n > 66 {
		t.Errorf("looked %d times at the groups", n)
	}
	if got, err := readAll(t, h); got != "content" || err != nil {
		t.Errorf("reads %q, %v", got, err)
	}
}

// doubting is a service whose ledger knows no members.
type doubting struct{ treetest.Person }

func (doubting) IsAuthorized(context.Context, sdk.GroupID, sdk.AccountID) (bool, error) {
	return false, nil
}

// A list may take longer than the time limit while it moves (E2).
func TestE2LongListsAreWaitedFor(t *testing.T) {
	s := testkit.Start(t, testkit.Hosted)
	m, alice := hosted(t, s, func(c *Config) { c.MetadataTimeout = 2 * time.Second })
	r, err := alice.Group("team").Put(t.Context(), "f", bytes.NewReader([]byte("content")))
	if err != nil {
		t.Fatal(err)
	}
	s.Disturb(wire.PathTools+wire.OpGetGroupTransactions, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			for range 24 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 64<<10)))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
			}
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	if names := m.names("/team"); len(names) != 1 || !strings.HasPrefix(names[0], r.Hash.String()[:12]) {
		t.Errorf("lists %v", names)
	}
}
