package tree

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

// told mounts alice without polling: she gets the events that the test sends, and no others.
func told(t *testing.T, w *world) (*mounted, chan<- sdk.Event) {
	t.Helper()
	events := make(chan sdk.Event)
	m := mount(t, w, alice, func(c *Config) {
		c.Watch = func(_ context.Context, from sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
			if from != 0 {
				t.Errorf("watches from %d, want from now: what was before is listed", from)
			}
			return treetest.Events(events), nil
		}
	})
	t.Cleanup(func() { close(events) })
	return m, events
}

func (m *mounted) shows(dir, name string) func() bool {
	d := m.dir(dir)
	return func() bool { return d.child(name) != nil } // does not look at the ledger
}

func TestEventsShowAtOnce(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("g", alice, bob)
	m, events := told(t, w)
	if _, err := m.dir("/g").Entries(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := w.Put("g", bob, "new", []byte("content"))
	events <- sdk.Event{ChangedSeq: e.Seq, Kind: sdk.EventUploaded, Group: "g", Ref: e.Ref, Account: bob}
	proctest.Eventually(t, "the upload shows", m.shows("/g", "new"))
	ok(t, m.save("/g/own", "saved here"))
	own := m.node("/g/own").(*File).entry.Load()
	before := w.Begun("entries")
	events <- sdk.Event{ChangedSeq: own.Seq, Kind: sdk.EventUploaded, Group: "g", Ref: own.Ref, Account: alice}
	events <- sdk.Event{ChangedSeq: e.Seq, Kind: sdk.EventUploaded, Group: "g", Ref: e.Ref, Account: bob}
	events <- sdk.Event{ChangedSeq: e.Seq, Kind: "newer than this program", Group: "g"}
	events <- sdk.Event{ChangedSeq: e.Seq, Kind: sdk.EventUploaded, Group: "of somebody else"}
	events <- sdk.Event{ChangedSeq: e.Seq, Kind: sdk.EventAdded, Group: "g", Account: "carol.svc.testnet"}
	w.Member("h", bob, alice)
	events <- sdk.Event{ChangedSeq: e.Seq + 1, Kind: sdk.EventAdded, Group: "h", Account: alice}
	proctest.Eventually(t, "the group shows", m.shows("/", "h"))
	if n := w.Begun("entries"); n != before {
		t.Errorf("%d listings for events that say nothing new", n-before)
	}
	ok(t, last(w.As(bob).RenameFile(t.Context(), "g", e.Ref, "renamed")))
	events <- sdk.Event{ChangedSeq: w.Seq(), Kind: sdk.EventRenamed, Group: "g", Ref: e.Ref, Account: bob}
	proctest.Eventually(t, "the new name shows", m.shows("/g", "renamed"))
	if m.shows("/g", "new")() {
		t.Error("the old name still shows")
	}
}

// Threats 14 and 34: a mount that watches loses a group with the event, before the next
// look at the ledger.
func TestEventsTakeAwayAtOnce(t *testing.T) {
	for name, take := range map[string]func(*world, sdk.Entry) sdk.Event{
		"deleted": func(w *world, e sdk.Entry) sdk.Event {
			w.Shred("g", e.Ref)
			return sdk.Event{ChangedSeq: w.Seq(), Kind: sdk.EventDeleted, Group: "g", Ref: e.Ref, Account: bob}
		},
		"revoked": func(w *world, _ sdk.Entry) sdk.Event {
			w.Revoke("g", alice)
			return sdk.Event{ChangedSeq: w.Seq() + 1, Kind: sdk.EventRevoked, Group: "g", Account: alice}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := treetest.NewWorld()
			w.Member("g", bob, alice)
			e := w.Put("g", bob, "f", []byte("content"))
			m, events := told(t, w)
			h, err := m.node("/g/f").(*File).Open(t.Context(), OpenFlags{Read: true})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			if got, err := readAll(t, h); err != nil || got != "content" {
				t.Fatalf("reads %q, %v", got, err)
			}
			events <- take(w, e)
			var failed *Error
			proctest.Eventually(t, "the open file fails", func() bool {
				_, err := readAll(t, h)
				return errors.As(err, &failed)
			})
			if failed.Class != ClassRevoked {
				t.Errorf("it fails with class %d: %v", failed.Class, failed)
			}
		})
	}
}

// M5: a revocation whose event does not arrive, because the machine slept or its connection died, counts at the next
// open.
func TestM5RevokedWhileTheWatchIsLost(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("g", bob, alice)
	w.Put("g", bob, "f", []byte("content"))
	var lost atomic.Bool
	var c clock
	events := make(chan sdk.Event)
	m := mount(t, w, alice, c.use, func(cfg *Config) {
		cfg.RefreshInterval = DefaultRefreshInterval
		cfg.Watching = func() bool { return !lost.Load() }
		cfg.Watch = func(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
			return treetest.Events(events), nil
		}
	})
	t.Cleanup(func() { close(events) })
	proctest.Eventually(t, "changes are announced", m.look.Watched)
	open := func() error {
		h, err := m.node("/g/f").(*File).Open(t.Context(), OpenFlags{Read: true})
		if err == nil {
			_, err = readAll(t, h)
			h.Release()
		}
		return err
	}
	ok(t, open())
	w.Revoke("g", alice)
	c.ns.Add(int64(time.Hour))
	ok(t, open()) // the service would have said so
	lost.Store(true)
	wantClass(t, open(), ClassRevoked)
	if n := m.contents.Cache.Stats().Entries; n != 0 {
		t.Errorf("%d files are still in memory", n)
	}
}

// Without a watch, and after its end, a program that looks soon sees changes.
func TestLooksShowNewsWithoutAWatch(t *testing.T) {
	for name, begin := range map[string]func() (iter.Seq2[sdk.Event, error], error){
		"not offered": func() (iter.Seq2[sdk.Event, error], error) { return nil, sdk.ErrUnsupported },
		"ended": func() (iter.Seq2[sdk.Event, error], error) {
			events := make(chan sdk.Event)
			close(events)
			return treetest.Events(events), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := treetest.NewWorld()
			w.Member("g", alice, bob)
			var begun atomic.Int32
			m := mount(t, w, alice, func(c *Config) {
				c.RefreshInterval = time.Millisecond
				c.Watch = func(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
					begun.Add(1)
					return begin()
				}
			})
			if _, err := m.dir("/g").Entries(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Put("g", bob, "new", nil)
			m.names("/g") // perhaps too soon for another question
			proctest.Eventually(t, "a look shows the upload", m.shows("/g", "new"))
			proctest.Eventually(t, "the watch was tried", func() bool { return begun.Load() == 1 })
		})
	}
}
