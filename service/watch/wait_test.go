package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/sequencer"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// world is a service without prices, as far as watch sees it.
type world struct {
	t      testing.TB
	open   func() (*store.Store, error) // the database, as another process has it
	store  *store.Store
	ledger *ledger.Ledger
	groups *groups.Groups
	users  *auth.Accounts
	reads  atomic.Int64

	sequencers map[*store.Store]*sequencer.Sequencer
}

func newWorld(t testing.TB, database string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, sequencers: map[*store.Store]*sequencer.Sequencer{}, open: func() (*store.Store, error) {
		return store.Open(context.Background(), dir, database)
	}}
	w.store = w.process()
	w.ledger = ledger.New(ledger.Fees{}, ledger.Bounds{}, time.Now)
	w.users = auth.NewAccounts(w.store, w.ledger, w.keys(dir), "svc.testnet", nil)
	w.groups = groups.New(w.store, w.ledger, w.users, 0)
	return w
}

// keys are those of a vault of its own.
func (w *world) keys(dir string) *keys.Keys {
	w.t.Helper()
	k, err := vaulttest.Open(context.Background(), w.store, vaultwire.InDirectory(dir))
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// process opens the database once more. The reads of the first one are counted.
func (w *world) process() *store.Store {
	w.t.Helper()
	s, err := w.open()
	if err != nil {
		w.t.Fatal(err)
	}
	isFirst := len(w.sequencers) == 0
	s.Observe(func(call string, _ time.Duration, _ error) {
		if isFirst && call == "read" {
			w.reads.Add(1)
		}
	})
	q := sequencer.New(s, fmt.Sprint("process", len(w.sequencers)), slog.New(slog.DiscardHandler))
	w.sequencers[s] = q
	w.t.Cleanup(func() {
		q.Close()
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

// settle waits until every record has its place.
func (w *world) settle() {
	w.t.Helper()
	if err := w.sequencers[w.store].Settle(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) watch(s *store.Store) *Watch {
	watch := New(s, w.sequencers[s])
	w.t.Cleanup(watch.Close)
	return watch
}

// account makes an account.
func (w *world) account(name string) string {
	w.t.Helper()
	id, _, err := w.users.Create(w.t.Context(), name, wire.Amount{})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) register(account, group string) {
	w.t.Helper()
	if _, err := w.groups.Register(w.t.Context(), account, group, true); err != nil {
		w.t.Fatal(err)
	}
}

// upload appends the record of one, and returns its sequence.
func (w *world) upload(account, group string) int64 {
	w.t.Helper()
	return w.record(chain.KindRecord, account, group)
}

func (w *world) record(kind, account, group string) (seq int64) {
	w.t.Helper()
	err := w.store.Write(w.t.Context(), store.Everything(), func(tx *store.Tx) error {
		r, err := w.ledger.Append(w.t.Context(), tx, chain.Record{Kind: kind, Account: account, Group: group})
		seq = r.Seq
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

func stillThere() error { return nil }

// follower watches until ctx ends and keeps the events it got.
type follower struct {
	mu   sync.Mutex
	seqs []int64
	err  error
}

func (f *follower) follow(ctx context.Context, w *Watch, account string, after int64) {
	for ctx.Err() == nil {
		got, err := w.Events(ctx, account, wire.WatchRequest{AfterSeq: &after, TimeoutMS: wire.MaxWatchMillis},
			stillThere)
		if ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		if f.err = err; err == nil {
			for _, e := range got.Events {
				f.seqs = append(f.seqs, e.Seq)
			}
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
		after = got.Seq
	}
}

func (f *follower) told() ([]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seqs), f.err
}

// waiting returns the waiters by account, once all are waiting.
func waiting(t *testing.T, w *Watch, accounts int) (all map[string]*waiter) {
	t.Helper()
	proctest.Eventually(t, "all wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		all = make(map[string]*waiter)
		for me := range w.waiters.all {
			all[me.account] = me
		}
		return len(all) == accounts
	})
	return all
}

// A record of this process is told at once: nobody waits for the look at what other processes recorded.
func TestOwnRecordsAreToldAtOnce(t *testing.T) {
	w := newWorld(t, "")
	watch := w.watch(w.store)
	watch.interval = time.Hour
	owner := w.account("owner")
	w.register(owner, "g")
	f := new(follower)
	go f.follow(t.Context(), watch, owner, headNow(t, watch))
	for range 3 {
		waiting(t, watch, 1)
		seq := w.upload(owner, "g")
		proctest.Eventually(t, "the record is told", func() bool {
			told, _ := f.told()
			return slices.Contains(told, seq)
		})
	}
}

// Who may not ask any more when the events are read is told nothing, also without a wait; and nothing is told that was
// recorded after the caller was asked about.
func TestWhoMayNotAskAnyMoreIsToldNothing(t *testing.T) {
	w := newWorld(t, "")
	watch := w.watch(w.store)
	owner := w.account("owner")
	w.register(owner, "g")
	before, gone, after := headNow(t, watch), errors.New("gone"), int64(0)
	for _, want := range []error{nil, gone} {
		got, err := watch.Events(t.Context(), owner, wire.WatchRequest{AfterSeq: &after}, func() error {
			w.upload(owner, "g")
			return want
		})
		if !errors.Is(err, want) || err == nil && got.Seq != before {
			t.Errorf("told up to %d and %v, want %d and %v", got.Seq, err, before, want)
		}
	}
}

// A request reads so many records of others and no more: then it answers where it stopped, at once, and the next one
// goes on from there.
func TestAWatchStopsOnALongWay(t *testing.T) {
	w := newWorld(t, "")
	watch := w.watch(w.store)
	watch.rows = 2
	owner, stranger := w.account("owner"), w.account("stranger")
	w.register(owner, "g")
	err := w.store.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		for range maxScans * watch.rows {
			if _, err := w.ledger.Append(t.Context(), tx, chain.Record{Kind: chain.KindRecord, Account: owner,
				Group: "g"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.register(stranger, "his")
	var after int64
	for _, want := range []wire.WatchResult{{Seq: maxScans * watch.rows}, {Seq: headNow(t, watch),
		Events: make([]wire.Event, 1)}} {
		got, err := watch.Events(t.Context(), stranger, wire.WatchRequest{AfterSeq: &after,
			TimeoutMS: wire.MaxWatchMillis}, stillThere)
		if err != nil || got.Seq != want.Seq || got.Events == nil || len(got.Events) != len(want.Events) {
			t.Errorf("after %d: %+v, %v, want %+v", after, got, err, want)
		}
		after = got.Seq
	}
}

// An event wakes the accounts that it concerns, and no others: the members of its group,
// and an account that became or stopped being a member.
func TestAnEventWakesWhomItConcerns(t *testing.T) {
	w := newWorld(t, "")
	watch := w.watch(w.store)
	owner, member, guest := w.account("owner"), w.account("member"), w.account("guest")
	w.register(owner, "g")
	if _, err := w.groups.OpenJoin(t.Context(), owner,
		wire.OpenJoinRequest{GroupID: "g", ExpiresAt: fmt.Sprint(time.Now().Add(time.Hour).UnixNano())}); err != nil {
		t.Fatal(err)
	}
	var others []string
	for i := range 200 {
		others = append(others, w.account(fmt.Sprintf("other%d", i)))
		w.register(others[i], fmt.Sprintf("g%d", i))
	}
	accounts := append([]string{owner, member, guest}, others...)
	start := headNow(t, watch)
	for _, account := range accounts {
		go new(follower).follow(t.Context(), watch, account, start)
	}
	run := func(_ string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for _, step := range []struct {
		name  string
		do    func()
		wakes []string
	}{
		{"upload", func() { w.upload(owner, "g") }, []string{owner}},
		{"retrieval", func() { w.record(chain.KindClaim, owner, "g") }, nil},
		{"admission", func() {
			added, err := w.groups.Add(ctx, owner, wire.AddMemberRequest{GroupID: "g", MemberID: member})
			run(added.Text, err)
		}, []string{owner, member}},
		{"join", func() { run(w.groups.Join(ctx, guest, wire.GroupRequest{GroupID: "g"})) },
			[]string{owner, member, guest}},
		{"retention", func() { run(w.groups.SetRetention(ctx, owner, wire.RetentionRequest{GroupID: "g"})) },
			[]string{owner, member, guest}},
		{"revocation", func() { run(w.groups.Revoke(ctx, owner, wire.MemberRequest{GroupID: "g", MemberID: member})) },
			[]string{owner, member, guest}},
		{"upload after the revocation", func() { w.upload(owner, "g") }, []string{owner, guest}},
		{"registration", func() { w.register(member, "another") }, []string{member}},
		{"upload of another group", func() { w.upload(others[7], "g7") }, []string{others[7]}},
	} {
		before := waiting(t, watch, len(accounts))
		step.do()
		for _, account := range step.wakes {
			proctest.Eventually(t, step.name+" wakes "+account, func() bool {
				watch.mu.Lock()
				defer watch.mu.Unlock()
				_, still := watch.waiters.all[before[account]]
				return !still
			})
		}
		end := headNow(t, watch)
		proctest.Eventually(t, step.name+" was polled", func() bool {
			watch.mu.Lock()
			defer watch.mu.Unlock()
			return watch.head >= end && watch.endPoll != nil
		})
		for account, me := range waiting(t, watch, len(accounts)) {
			if woken := me != before[account]; woken != slices.Contains(step.wakes, account) {
				t.Errorf("%s: woken %t: %s", step.name, woken, account)
			}
		}
	}
}

func headNow(t testing.TB, w *Watch) int64 {
	t.Helper()
	got, err := w.Events(t.Context(), "nobody", wire.WatchRequest{}, stillThere)
	if err != nil {
		t.Fatal(err)
	}
	return got.Seq
}

// An account in more groups than a waiter remembers gets the events of each of them.
func TestThreat31MemberOfManyGroups(t *testing.T) {
	w := newWorld(t, "")
	watch := w.watch(w.store)
	owner := w.account("owner")
	err := w.store.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		for i := range maxGroups + 1 {
			id := fmt.Sprintf("g%d", i)
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO groups (id, owner, joinable, key_version) VALUES "+
				"(?, ?, ?, 1)", id, owner, false); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO members (group_id, account, since) VALUES (?, ?, 1)",
				id, owner); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{}
	go f.follow(t.Context(), watch, owner, headNow(t, watch))
	for i := range 3 {
		proctest.Eventually(t, "it waits", func() bool {
			watch.mu.Lock()
			defer watch.mu.Unlock()
			return len(watch.waiters.ofEvery) == 1
		})
		watch.mu.Lock()
		if n := len(watch.waiters.ofGroup); n > 0 {
			t.Errorf("%d groups are remembered", n)
		}
		watch.mu.Unlock()
		want := w.upload(owner, fmt.Sprintf("g%d", i*maxGroups/2))
		proctest.Eventually(t, "it is told", func() bool {
			got, err := f.told()
			return err == nil && len(got) == i+1 && got[i] == want
		})
	}
}

// A poller that is ahead of a caller makes the caller look once more: the events between
// them went to earlier waiters.
func TestAWaiterWhomThePollerOvertook(t *testing.T) {
	w := newWorld(t, "")
	watch := w.watch(w.store)
	owner, other := w.account("owner"), w.account("other")
	w.register(owner, "g")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &follower{}
	go f.follow(ctx, watch, other, headNow(t, watch))
	_, seq, late, err := watch.read(ctx, owner, headNow(t, watch))
	if err != nil {
		t.Fatal(err)
	}
	want := w.upload(owner, "g")
	proctest.Eventually(t, "the poller saw it", func() bool {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		return watch.head >= want
	})
	if again, err := watch.wait(ctx, late, time.After(proctest.Hang)); !again || err != nil {
		t.Errorf("it waits: %t, %v", again, err)
	}
	if got, _, _, err := watch.read(ctx, owner, seq); err != nil || len(got) != 1 || got[0].Seq != want {
		t.Errorf("told %v, %v", got, err)
	}
	if len(watch.waiters.withAccount) > 1 {
		t.Errorf("waiters left behind: %v", watch.waiters.withAccount)
	}
}

// No event is missed: many accounts wait in several processes while members come, go and
// upload. Each account gets at least the events that a look at the end shows, and at
// most those that a look after every single event would have shown.
func TestWatchMissesNothing(t *testing.T) {
	server := pgtest.Start(t)
	for name, database := range map[string]string{"sqlite": "", "postgres": server.NewDatabase(t)} {
		t.Run(name, func(t *testing.T) { missesNothing(t, newWorld(t, database), 40, 1) })
		t.Run(name+", many at a time", func(t *testing.T) {
			if database != "" {
				database = server.NewDatabase(t)
			}
			missesNothing(t, newWorld(t, database), 160, 40)
		})
	}
}

// missesNothing has so many events happen, at a pace of so many until everybody
// must know.
func missesNothing(t *testing.T, w *world, events, pace int) {
	const accounts = 12
	processes := []*Watch{w.watch(w.process()), w.watch(w.process()), w.watch(w.process())}
	reference := w.watch(w.store)
	random := rand.New(rand.NewPCG(1, uint64(pace)))
	var ids []string
	followers := make(map[string][]*follower)
	may := make(map[string][]int64)
	for i := range accounts {
		id := w.account(fmt.Sprintf("account%d", i))
		ids = append(ids, id)
		for range 1 + random.IntN(2) {
			f := &follower{}
			followers[id] = append(followers[id], f)
			go f.follow(t.Context(), processes[random.IntN(len(processes))], id, 0)
		}
	}
	last := make(map[string]int64)
	for done := range events {
		w.change(random, ids)
		w.settle()
		for _, id := range ids {
			seqs, upTo := seen(t, reference, id, last[id])
			may[id], last[id] = append(may[id], seqs...), upTo
		}
		if (done+1)%pace > 0 {
			continue
		}
		for _, id := range ids {
			must := may[id] // no waiter was late
			if pace > 1 {
				must, _ = seen(t, reference, id, 0)
			}
			for i, f := range followers[id] {
				proctest.Eventually(t, fmt.Sprintf("event %d, watch %d of %s", done, i, id), func() bool {
					got, err := f.told()
					return err == nil && containsAll(got, must)
				})
				if got, _ := f.told(); !slices.IsSorted(got) || !containsAll(may[id], got) {
					t.Fatalf("%s was told %v, which may be %v", id, got, may[id])
				}
			}
		}
	}
}

// change makes an event for members. It opens a group that does not exist yet.
func (w *world) change(random *rand.Rand, ids []string) {
	w.t.Helper()
	ctx := w.t.Context()
	group, account := fmt.Sprintf("g%d", random.IntN(6)), ids[random.IntN(len(ids))]
	g, role, err := w.groups.View(ctx, group, account)
	if err != nil {
		_, err = w.groups.OpenJoin(ctx, account,
			wire.OpenJoinRequest{GroupID: group, ExpiresAt: fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	} else {
		switch what := random.IntN(4); {
		case what == 0 && role != "" && account != g.Owner:
			_, err = w.groups.Revoke(ctx, g.Owner, wire.MemberRequest{GroupID: group, MemberID: account})
		case what == 1 && role == "":
			if _, err = w.groups.Join(ctx, account, wire.GroupRequest{GroupID: group}); err != nil { // it was revoked
				_, err = w.groups.Add(ctx, g.Owner, wire.AddMemberRequest{GroupID: group, MemberID: account})
			}
		case what == 2 && role == "":
			_, err = w.groups.Add(ctx, g.Owner, wire.AddMemberRequest{GroupID: group, MemberID: account})
		default:
			w.upload(g.Owner, group)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// seen returns the events after a sequence that an account sees now.
func seen(t *testing.T, w *Watch, account string, after int64) (seqs []int64, upTo int64) {
	t.Helper()
	for {
		events, upTo, _, err := w.read(t.Context(), account, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		if after = upTo; len(events) < maxEvents {
			return seqs, after
		}
	}
}

func containsAll(all, some []int64) bool {
	for _, seq := range some {
		if !slices.Contains(all, seq) {
			return false
		}
	}
	return true
}

// The cost of one upload for the database while 200 accounts wait, each for a group of
// its own.
func BenchmarkUploadAmong200Watchers(b *testing.B) {
	w := newWorld(b, "")
	watch := w.watch(w.store)
	var followers []*follower
	var ids []string
	for i := range 200 {
		ids = append(ids, w.account(fmt.Sprintf("account%d", i)))
		w.register(ids[i], fmt.Sprintf("g%d", i))
	}
	head := headNow(b, watch)
	for i := range 200 {
		followers = append(followers, &follower{})
		go followers[i].follow(b.Context(), watch, ids[i], head)
	}
	var want [200]int
	i := 0
	proctest.Eventually(b, "all wait", func() bool { return w.reads.Load() >= 201 })
	before := w.reads.Load()
	for b.Loop() {
		w.upload(ids[i%200], fmt.Sprintf("g%d", i%200))
		want[i%200]++
		proctest.Eventually(b, "told", func() bool {
			got, err := followers[i%200].told()
			return err == nil && len(got) == want[i%200]
		})
		i++
	}
	b.ReportMetric(float64(w.reads.Load()-before)/float64(i), "reads/event")
}
