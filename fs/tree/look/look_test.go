package look

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
)

// mount is a tree without files: it counts what it is asked for. It lives in a bubble.
type mount struct {
	*Look
	budget policy.Budget
	t      *testing.T
	list   *List // of the group g
	events chan sdk.Event

	mu      sync.Mutex                  // guards the fields below
	take    time.Duration               // a look takes so long
	slow    string                      // only looks at it do; "" = all
	fail    error                       // how looks end
	price   func(context.Context) error // nil = looks are free
	row     sdk.Entry                   // the newest
	looks   map[string]int              // of "groups", "g", "price" and "member"
	deaf    bool                        // no event arrives
	unsent  bool                        // something waits
	sent    []bool                      // as Send was told
	noted   []error                     // as Note was told
	warned  []string                    // as Pending and Setting were told
	settled int                         // Settle was called so often
}

func bubble(t *testing.T, do func(t *testing.T, m *mount)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		life, stop := context.WithCancel(t.Context())
		defer stop()
		m := &mount{t: t, events: make(chan sdk.Event), looks: make(map[string]int)}
		m.budget.Now = time.Now
		m.Look = New(life, Config{Service: m, Interval: 2 * time.Second, Patience: 5 * time.Second, Now: time.Now,
			Log: slog.New(slog.DiscardHandler), Price: m.askPrice, Watch: m.watch, Judge: m.judge, Storage: m.storage,
			Budget:   &m.budget,
			Watching: func() (is bool) { m.set(func() { is = !m.deaf }); return is },
			Note:     func(err error) { m.set(func() { m.noted = append(m.noted, err) }) },
			Alone:    func(_ string, work func(context.Context)) { work(life) },
			Unsent:   func() (is bool) { m.set(func() { is = m.unsent }); return is },
			Send:     func(wasAway bool) { m.set(func() { m.sent, m.unsent = append(m.sent, wasAway), false }) },
			Pending:  func(e sdk.Event) { m.set(func() { m.warned = append(m.warned, e.Kind) }) },
			Setting:  func(g sdk.GroupID) { m.set(func() { m.warned = append(m.warned, "setting of "+string(g)) }) },
			Settle:   func(context.Context) { m.set(func() { m.settled++ }) },
		}, func(ctx context.Context) error { return m.lists(ctx, m.Groups, "groups") })
		v := view.New()
		m.list = m.NewList("g", v, func(ctx context.Context) error {
			err := m.lists(ctx, m.list, "g")
			if err == nil && m.row.Ref != "" {
				v.Apply(m.row)
				v.Listed([]sdk.Entry{m.row})
			}
			return err
		})
		m.ok(m.Groups.Refresh(t.Context(), 0))
		do(t, m)
		stop()
		m.Wait()
	})
}

// set changes or reads the fields.
func (m *mount) set(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *mount) fails() (err error) {
	m.set(func() { err = m.fail })
	return err
}

func (m *mount) count(name string) (n int) {
	m.set(func() { n = m.looks[name] })
	return n
}

func (m *mount) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *mount) lists(ctx context.Context, s *List, name string) error {
	err := s.Ask(ctx, func() (bool, error) {
		var take time.Duration
		m.set(func() {
			m.looks[name]++
			if m.slow == "" || m.slow == name {
				take = m.take
			}
		})
		time.Sleep(take)
		return false, m.fails()
	})
	if err == nil {
		s.Listed()
	}
	return err
}

func (m *mount) askPrice(ctx context.Context, _ sdk.GroupID) (sdk.Amount, error) {
	if m.price == nil {
		return sdk.Amount{}, nil
	}
	m.set(func() { m.looks["price"]++ })
	amount, err := wire.ParseTokens("1")
	return amount, errors.Join(err, m.price(ctx))
}

func (m *mount) watch(ctx context.Context, from sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
	if from != 0 {
		m.t.Errorf("watches from %d, want from now: what was before is listed", from)
	}
	return func(yield func(sdk.Event, error) bool) {
		for {
			select {
			case e := <-m.events:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// storage knows the space of the account alone.
func (m *mount) storage(_ context.Context, g sdk.GroupID) (sdk.Storage, error) {
	var take time.Duration
	m.set(func() { m.looks["storage"]++; take = m.take })
	time.Sleep(take)
	if g != "" {
		return sdk.Storage{}, errAway
	}
	return sdk.Storage{Left: 7}, nil
}

// judge takes every failure for one of a service that is away, but for those of the budget and of texts.
func (m *mount) judge(err error) *Failed {
	return &Failed{Time: time.Now(), Class: err.Error(), Away: sdk.KindOf(err) == sdk.ErrUnavailable, Dry: errors.As(err, new(policy.OverBudget))}
}

func (m *mount) Account() sdk.AccountID { return "me" }

func (m *mount) IsAuthorized(context.Context, sdk.GroupID, sdk.AccountID) (bool, error) {
	m.set(func() { m.looks["member"]++ })
	return true, m.fails()
}

// watched begins to poll and to watch.
func (m *mount) watched() {
	go m.Poll()
	go m.Watch()
	synctest.Wait()
}

// during counts the looks while something is done.
func (m *mount) during(name string, do func()) int {
	before := m.count(name)
	do()
	synctest.Wait()
	return m.count(name) - before
}

var errAway = &sdk.Error{Op: "list", Kind: sdk.ErrUnavailable, Err: errors.New("no route")}

// While the service announces changes, it is not asked all the time.
func TestWatchedMountsPollSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		if n := m.during("groups", func() { time.Sleep(10 * WatchedInterval) }); n != 10 {
			t.Errorf("asked %d times in %s", n, 10*WatchedInterval)
		}
	})
}

// An event that was lost is made up for, also while a save waits for the service.
func TestWatchedMountsLookWhileASaveWaits(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		m.ok(m.list.Use(t.Context(), 0))
		m.set(func() { m.fail = errAway })
		n := m.during("groups", func() {
			for range 2 * WatchedInterval / time.Second {
				m.set(func() { m.unsent = true })
				time.Sleep(time.Second)
			}
		})
		if n < 2 {
			t.Errorf("asked for the groups %d times", n)
		}
		m.set(func() { m.fail = nil })
		if n := m.during("g", func() { m.set(func() { m.unsent = true }); time.Sleep(WatchedInterval) }); n == 0 {
			t.Error("nobody looked")
		}
	})
}

// A save that failed in an outage which no look at the ledger saw, and which the watch
// outlived, is sent by itself.
func TestWatchedMountsSendWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		m.set(func() { m.unsent = true })
		time.Sleep(LongestProbe)
		synctest.Wait()
		if !slices.Equal(m.sent, []bool{false}) {
			t.Errorf("sends %v", m.sent)
		}
	})
}

// A service that is away is asked ever more rarely, while somebody looks or something waits; what waits is sent once
// it is back.
func TestAway(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		go m.Poll()
		m.ok(m.list.Use(t.Context(), 0))
		m.set(func() { m.fail = errAway })
		time.Sleep(time.Second)
		m.ok(m.list.Use(t.Context(), 0)) // from memory
		synctest.Wait()
		if m.Reached() || m.Failed() == nil || len(m.noted) > 0 {
			t.Errorf("reached %v, failed %v, noted %v", m.Reached(), m.Failed(), m.noted)
		}
		if n := m.during("groups", func() { time.Sleep(time.Hour) }); n > 1 {
			t.Errorf("asked %d times though nobody looked and nothing waits", n)
		}
		m.set(func() { m.unsent = true })
		if n := m.during("groups", func() { time.Sleep(10 * time.Minute) }); n < 60 || n > 80 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		m.set(func() { m.fail = nil })
		time.Sleep(2 * LongestProbe)
		synctest.Wait()
		if !m.Reached() || !slices.Equal(m.sent, []bool{true}) {
			t.Errorf("reached %v, sent %v", m.Reached(), m.sent)
		}
	})
}

// What an event needs: a look at the groups, a look at its group, or a word to users.
func TestEvents(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		m.row = sdk.Entry{Ref: "known", Seq: 7, ChangedSeq: 7, Number: 7}
		m.ok(m.list.Use(t.Context(), 0))
		for _, tc := range []struct {
			what                string
			e                   sdk.Event
			groups, g, warnings int
		}{
			{"we were added", sdk.Event{Kind: sdk.EventAdded, Account: "me"}, 1, 0, 0},
			{"our role", sdk.Event{Kind: sdk.EventRole, Account: "me"}, 1, 0, 0},
			{"another was added", sdk.Event{Kind: sdk.EventAdded, Account: "other"}, 0, 0, 0},
			{"the group is gone", sdk.Event{Kind: sdk.EventGroupDeleted, Group: "g"}, 1, 0, 1},
			{"a file waits", sdk.Event{Kind: sdk.EventPending, Group: "g"}, 0, 0, 1},
			{"what becomes of appends", sdk.Event{Kind: sdk.EventAppends, Group: "g"}, 0, 0, 1},
			{"an upload", sdk.Event{Kind: sdk.EventUploaded, Group: "g", Ref: "new", ChangedSeq: 8}, 0, 1, 0},
			{"a known upload", sdk.Event{Kind: sdk.EventUploaded, Group: "g", Ref: "known", ChangedSeq: 7}, 0, 0, 0},
			{"one that was listed", sdk.Event{Kind: sdk.EventUploaded, Group: "g", Ref: "other", ChangedSeq: 6}, 0, 0, 0},
			{"what becomes of large files", sdk.Event{Kind: sdk.EventFormat, Group: "g"}, 0, 0, 1},
			{"another group", sdk.Event{Kind: sdk.EventUploaded, Group: "of somebody else", ChangedSeq: 9}, 0, 0, 0},
			{"unknown", sdk.Event{Kind: "newer than this program", Group: "g", ChangedSeq: 9}, 0, 0, 0},
		} {
			groups, g, warnings := m.count("groups"), m.count("g"), len(m.warned)
			m.events <- tc.e
			synctest.Wait()
			groups, g, warnings = m.count("groups")-groups, m.count("g")-g, len(m.warned)-warnings
			if groups != tc.groups || g != tc.g || warnings != tc.warnings {
				t.Errorf("%s: %d looks at the groups, %d at the group, %d warnings", tc.what, groups, g, warnings)
			}
		}
	})
}

// M5: while a large group is listed for an upload to it, what is announced after that counts at once. What is announced
// of this group is looked at afterwards, once, unless the look has shown it.
func TestM5SlowLookDoesNotDelayRevocation(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		m.ok(m.list.Use(t.Context(), 0))
		time.Sleep(3 * time.Second) // Tick looked, too
		uploaded := func(seq sdk.Seq) {
			m.events <- sdk.Event{Kind: sdk.EventUploaded, Group: "g", Ref: "new", ChangedSeq: seq}
			synctest.Wait()
		}
		m.set(func() { m.take, m.slow = 6*time.Second, "g" })
		m.row = sdk.Entry{Ref: "other", Seq: 9, ChangedSeq: 9, Number: 9}
		for _, phase := range []struct {
			announced []sdk.Seq
			looks     int
		}{{[]sdk.Seq{7, 8, 9}, 1}, {[]sdk.Seq{10, 11, 12}, 2}} {
			n := m.during("g", func() {
				began := time.Now()
				groups := m.during("groups", func() {
					for _, seq := range phase.announced {
						uploaded(seq)
					}
					m.events <- sdk.Event{Kind: sdk.EventRevoked, Group: "other", Account: "me"}
				})
				if took := time.Since(began); groups != 1 || took > 0 {
					t.Errorf("%d looks at the groups, after %s", groups, took)
				}
				time.Sleep(time.Duration(phase.looks) * m.take)
			})
			if n != phase.looks {
				t.Errorf("%d looks for %v", n, phase.announced)
			}
		}
	})
}

// An event whose look fails is made up for soon.
func TestEventsWhoseLookFails(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		for seq, outage := range []struct {
			fail  error
			until time.Duration
		}{{errAway, m.cfg.Interval}, {errors.New("refused"), 2 * m.cfg.Interval}} {
			m.ok(m.list.Use(t.Context(), 0))
			m.set(func() { m.fail = outage.fail })
			if n := m.during("g", func() {
				m.events <- sdk.Event{Kind: sdk.EventUploaded, Group: "g", Ref: "new", ChangedSeq: sdk.Seq(seq + 1)}
			}); n != 1 {
				t.Errorf("%v: %d looks for an event", outage.fail, n)
			}
			m.set(func() { m.fail = nil })
			if n := m.during("g", func() { time.Sleep(outage.until) }); n != 1 {
				t.Errorf("%v: %d looks once the service answers", outage.fail, n)
			}
		}
	})
}

// What a look missed because it began too early is not counted as seen by it.
func TestRefreshedIsWhenALookBegan(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.set(func() { m.take = time.Second })
		began := time.Now()
		m.ok(m.Refresh(t.Context()))
		if at := m.RefreshedAt(); !at.Equal(began) {
			t.Errorf("a look that began at %s says %s", began, at)
		}
		m.set(func() { m.fail = errAway })
		if err := m.Refresh(t.Context()); err == nil || !m.RefreshedAt().Equal(began) || m.settled != 1 {
			t.Errorf("a failed look: %v; settled %d times", err, m.settled)
		}
	})
}

// Only groups that were used lately are looked at.
func TestIdleGroups(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		refresh := func() { m.ok(m.Refresh(t.Context())) }
		if n := m.during("g", refresh); n != 0 {
			t.Error("a group that nobody used is listed")
		}
		m.ok(m.list.Use(t.Context(), -1))
		if n := m.during("g", refresh); n != 1 {
			t.Errorf("a group in use is listed %d times", n)
		}
		time.Sleep(idleAfter)
		if n := m.during("g", refresh); n != 0 {
			t.Error("an idle group is listed")
		}
		m.ok(m.list.Use(t.Context(), -1))
		m.Remove(m.list)
		if n := m.during("g", refresh); n != 0 {
			t.Error("a lost group is listed")
		}
	})
}

// A program waits for a second, others share what it asks, and the look goes on.
func TestSlowLooks(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.ok(m.list.Use(t.Context(), 0))
		time.Sleep(time.Second)
		m.set(func() { m.take = 3 * Patience })
		n := m.during("g", func() {
			for _, want := range []time.Duration{Patience, 0, 0} {
				began := time.Now()
				m.ok(m.list.Use(t.Context(), Patience/2))
				if took := time.Since(began); took != want {
					t.Errorf("waited %s, want %s", took, want)
				}
			}
			m.Wait()
		})
		if n != 1 {
			t.Errorf("asked %d times", n)
		}
		if n := m.during("g", func() { m.ok(m.list.Use(t.Context(), Patience/2)) }); n != 0 {
			t.Error("asked again for what has just come")
		}
	})
}

// Who waited for another's look does not look again.
func TestLooksAreShared(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.set(func() { m.take = time.Second })
		n := m.during("g", func() {
			go func() { _ = m.list.Use(t.Context(), time.Minute) }()
			m.ok(m.list.Use(t.Context(), time.Minute))
			time.Sleep(2 * time.Second)
		})
		if n != 1 {
			t.Errorf("%d looks", n)
		}
		ended, cancel := context.WithCancel(t.Context())
		go func() { _ = m.list.Refresh(t.Context(), 0) }()
		synctest.Wait()
		time.AfterFunc(time.Millisecond, cancel)
		if err := m.list.Refresh(ended, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("who left while another looks: %v", err)
		}
		time.Sleep(time.Second)
	})
}

// A look that is refused is noted once, until another is refused otherwise or succeeds.
func TestFailed(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		refused, otherwise := errors.New("refused"), errors.New("refused otherwise")
		for i, step := range []struct {
			fail  error
			noted int
		}{{refused, 1}, {refused, 1}, {otherwise, 2}, {errAway, 2}, {nil, 2}, {refused, 3}} {
			m.set(func() { m.fail = step.fail })
			if err := m.list.Refresh(t.Context(), 0); !errors.Is(err, step.fail) {
				t.Fatal(err)
			}
			if f := m.Failed(); (f != nil) != (step.fail != nil) || len(m.noted) != step.noted {
				t.Errorf("step %d: %v, noted %v", i, f, m.noted)
			}
		}
	})
}

// Once the budget allows no look, memory answers, and that is told once.
func TestDry(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.budget.Limit, _ = wire.ParseTokens("1") // one look
		m.price = func(context.Context) error { return nil }
		m.ok(m.list.Use(t.Context(), 0))
		if m.Paid() != 1 {
			t.Errorf("%d looks were paid for", m.Paid())
		}
		for range 3 {
			time.Sleep(2 * LongestPause)
			m.ok(m.list.Use(t.Context(), 0))
		}
		if len(m.noted) != 1 || m.Paid() != 1 {
			t.Errorf("noted %v, %d looks were paid for", m.noted, m.Paid())
		}
	})
}

// A ledger that does not state its prices prevents no look.
func TestLooksGoOnWithoutAPrice(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.price = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		n := m.during("g", func() {
			for range 10 {
				m.ok(m.list.Use(t.Context(), time.Second/2))
				time.Sleep(time.Second)
			}
		})
		if n != 10 || m.count("price") != 1 {
			t.Errorf("%d looks within ten seconds, and %d questions for the price", n, m.count("price"))
		}
	})
}

// R4: looks that cost become rarer while they bring nothing new.
func TestPaidLooksBecomeRare(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.price = func(context.Context) error { return nil }
		go m.Poll()
		n := m.during("g", func() {
			for range 3600 {
				m.ok(m.list.Use(t.Context(), 0))
				time.Sleep(time.Second)
			}
		})
		if n < 58 || n > 68 || m.list.Price().IsZero() {
			t.Errorf("%d looks in an hour", n)
		}
	})
}

// M5: whether the account is still a member is asked while files are open, or before content in memory is given out.
func TestMembers(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		go m.Poll()
		m.ok(m.list.CheckMember(t.Context()))
		m.ok(m.list.CheckMember(t.Context()))
		if n := m.count("member"); n != 1 {
			t.Errorf("asked %d times in one moment", n)
		}
		if n := m.during("member", func() { time.Sleep(time.Minute) }); n != 0 {
			t.Errorf("asked %d times while nothing is open", n)
		}
		m.list.Open.Add(1)
		if n := m.during("member", func() { time.Sleep(time.Minute) }); n != 30 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// M5: a watch that goes on, but has lost its connection, announces nothing: members are asked for as without one,
// before content in memory is given out and while files are open. The groups are looked at once.
func TestM5MembersWhileTheWatchIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.watched()
		m.ok(m.list.Use(t.Context(), 0))
		check := func() {
			time.Sleep(m.cfg.Interval)
			m.ok(m.list.CheckMember(t.Context()))
		}
		m.list.Open.Add(1)
		if n := m.during("member", func() { check(); check() }); n != 0 {
			t.Errorf("asked %d times for what the service announces", n)
		}
		m.list.Open.Add(-1)
		m.set(func() { m.deaf = true })
		if n := m.during("member", func() { m.ok(m.list.CheckMember(t.Context())) }); n != 1 {
			t.Errorf("asked %d times though nothing is announced", n)
		}
		if n := m.during("groups", func() { time.Sleep(2 * m.cfg.Interval) }); n != 1 {
			t.Errorf("looked at the groups %d times", n)
		}
		m.list.Open.Add(1)
		if n := m.during("member", func() { time.Sleep(time.Minute) }); n != 30 {
			t.Errorf("asked %d times in a minute with an open file", n)
		}
		m.set(func() { m.deaf = false })
		if n := m.during("member", check); n != 0 {
			t.Errorf("asked %d times once changes are announced again", n)
		}
	})
}

// M5: that the account is a member does not stay new while the machine sleeps, and the clock that counts with it.
func TestM5MembershipAgesInASleep(t *testing.T) {
	s := New(t.Context(), Config{Now: time.Now}, nil).NewList("g", view.New(), nil)
	s.NoteMember()
	if at := s.memberAt.String(); strings.Contains(at, "m=") {
		t.Errorf("%s has the clock that stops", at)
	}
}

// A3: the space for files is asked for at most once in a while, nobody waits long for it, and that of the account stands
// for that of a group which is not known.
func TestStorage(t *testing.T) {
	bubble(t, func(t *testing.T, m *mount) {
		m.set(func() { m.take = time.Second })
		for _, step := range []struct {
			g     sdk.GroupID
			known bool
			took  time.Duration
		}{{"", false, storageWait}, {"g", false, storageWait}, {"", false, 0}, {"of others", false, 0}} {
			began := time.Now()
			if _, known := m.Storage(step.g); known != step.known || time.Since(began) != step.took {
				t.Errorf("%q is known: %v, after %s", step.g, known, time.Since(began))
			}
		}
		time.Sleep(StorageAge / 2)
		for _, g := range []sdk.GroupID{"", "g", "of others"} {
			if said, known := m.Storage(g); !known || said.Left != 7 {
				t.Errorf("%q has %+v, %v", g, said, known)
			}
		}
		if n := m.count("storage"); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}
