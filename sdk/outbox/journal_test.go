package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/saving"
)

// O9: after a restart one request opens the key of all saves of a journal.
func TestO9OneRequestOpensAJournal(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		const n = 150 // in three journals
		for i := range n {
			b.put(fmt.Sprint(i), "x", ref(""))
		}
		synctest.Wait()
		b.s.Mine = b.s.Mine[1:] // the group alone
		b.restart(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		b.wantStates("")
		if b.s.Opened != 3 || b.s.Recorded() != n {
			t.Errorf("%d journals were opened, %d saves are recorded", b.s.Opened, b.s.Recorded())
		}
	})
}

// Threat 52: when nothing of a journal waits any more, its key opens nowhere: at the service after a minute, or at an
// unmount, and also where the service was away meanwhile.
func TestThreat52JournalsEnd(t *testing.T) {
	for _, away := range []bool{false, true} {
		run(t, nil, func(t *testing.T, b *box) {
			b.put("a", "1", ref(""))
			synctest.Wait()
			if b.s.Ended() != 0 {
				t.Error("it has ended at once")
			}
			if away {
				b.hold()
				time.Sleep(time.Hour)
				if b.s.Ended() != 0 {
					t.Error("it has ended without the service")
				}
				b.restart(true)
				b.fail(nil)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if b.s.Ended() != 1 {
				t.Errorf("%d journals have ended", b.s.Ended())
			}
			b.put("b", "1", ref(""))
			b.Drain(t.Context())
			if b.s.Ended() != 2 {
				t.Errorf("%d journals have ended at an unmount", b.s.Ended())
			}
			_ = b.Close()
			if left := b.disk.Files(); len(left) > 0 {
				t.Errorf("%d files are left", len(left))
			}
			b.start()
		})
	}
}

// O9: a journal ends only when the disk knows that all its saves have ended: else a loss of power brings them back, and
// nobody could open them.
func TestO9JournalsEndBehindTheirSaves(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "1", ref(""))
		synctest.Wait()
		b.disk.Broken(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		if b.wantStates(""); b.s.Ended() != 0 {
			t.Error("the journal has ended")
		}
		b.restart(true)
		b.disk.Broken(false)
		time.Sleep(time.Hour)
		if b.wantStates(""); b.s.Recorded() != 1 || b.s.Ended() != 1 {
			t.Errorf("%d records, %d journals have ended", b.s.Recorded(), b.s.Ended())
		}
	})
}

// A disk that is full does not fill the log: that journals cannot end is told once a minute.
func TestFullDiskIsToldOnceAMinute(t *testing.T) {
	var told atomic.Int32
	run(t, func(c *outbox.Config) { c.Logger = slog.New(counting{slog.DiscardHandler, &told}) }, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "1", ref(""))
		synctest.Wait()
		b.disk.Broken(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		if n := told.Load(); n < 50 || n > 70 {
			t.Errorf("told %d times in an hour", n)
		}
		b.disk.Broken(false)
		time.Sleep(2 * time.Minute)
		if b.s.Ended() != 1 {
			t.Error("the journal has not ended")
		}
	})
}

// counting counts what is logged.
type counting struct {
	slog.Handler
	n *atomic.Int32
}

func (c counting) Enabled(context.Context, slog.Level) bool { return true }

func (c counting) Handle(context.Context, slog.Record) error { c.n.Add(1); return nil }

// O9: while a mount runs, its saves wait for any number of epochs of the vault; what was away for longer is parked, and
// says why.
func TestO9KeysAreSealedAnew(t *testing.T) {
	for _, runs := range []bool{true, false} {
		run(t, nil, func(t *testing.T, b *box) {
			b.hold()
			b.s.Refuse = refuseToSend(b.s.Refuse)
			b.put("a", "1", ref(""))
			for range 5 {
				b.s.NextEpoch()
				if runs {
					time.Sleep(7 * time.Hour)
				}
			}
			b.restart(true)
			b.fail(nil)
			time.Sleep(time.Hour)
			if runs {
				b.wantStates("")
				return
			}
			list := b.Items()
			if len(list) != 1 || list[0].State != "parked" || !strings.Contains(list[0].Reason, "nobody can open it any more") {
				t.Errorf("there is %+v", list)
			}
		})
	}
}

// O3: a journal that the service does not open for long holds up no other group, where the keyring says which group it
// is of. What waits for it is told so.
func TestO3JournalThatDoesNotOpenHoldsUpItsGroup(t *testing.T) {
	for _, keyring := range []bool{true, false} {
		run(t, func(c *outbox.Config) {
			if keyring {
				c.Keys.Names, _ = format.RandomKey()
			}
		}, func(t *testing.T, b *box) {
			b.hold()
			b.put("a", "1", ref(""))
			synctest.Wait()
			b.fail(nil)
			b.failFor(func(op string, u *outbox.Upload) error {
				if op == "open" && u.Group == "g" {
					return &sdk.Error{Op: "open", Kind: sdk.ErrOther, Err: errors.New("status 500")}
				}
				return nil
			})
			b.restart(true)
			time.Sleep(time.Hour)
			if i := b.Items()[0]; !strings.Contains(i.Reason, "500") || i.Next == nil || i.Next.Before(time.Now()) {
				t.Errorf("keyring %v: there is %+v", keyring, i)
			}
			i, err := b.Put(t.Context(), outbox.Save{Group: "h", Name: "b", Content: []byte("2")})
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
			if err := b.Settle(t.Context(), i.ID); keyring != (err == nil) || keyring != (b.s.Contents["h/b"] == "2") {
				t.Errorf("keyring %v: settled: %v, recorded %v", keyring, err, b.s.Contents)
			}
			if err := b.Before(t.Context(), "g"); !errors.Is(err, outbox.ErrAway) {
				t.Errorf("keyring %v: its own group does not wait: %v", keyring, err)
			}
			b.failFor(nil)
			time.Sleep(10 * time.Minute)
			if b.wantStates(""); fmt.Sprint(b.s.Contents) != "map[g/a:1 h/b:2]" {
				t.Errorf("keyring %v: recorded %v", keyring, b.s.Contents)
			}
		})
	}
}

// O3: journals that do not open, however many, keep no later one from being opened.
func TestO3JournalsThatDoNotOpenKeepNoOtherClosed(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Keys.Names, _ = format.RandomKey() }, func(t *testing.T, b *box) {
		b.hold()
		const stuck = 20
		for n := range stuck {
			g := sdk.GroupID(fmt.Sprint("stuck", n))
			b.s.Mine = append(b.s.Mine, sdk.Group{ID: g})
			if _, err := b.Put(t.Context(), outbox.Save{Group: g, Name: "a", Content: []byte("1")}); err != nil {
				t.Fatal(err)
			}
		}
		b.put("a", "1", ref(""))
		synctest.Wait()
		b.fail(nil)
		b.failFor(func(op string, u *outbox.Upload) error {
			if op == "open" && u.Group != "g" {
				return &sdk.Error{Op: "open", Kind: sdk.ErrOther, Err: errors.New("status 500")}
			}
			return nil
		})
		b.restart(true)
		time.Sleep(time.Minute)
		if left := len(b.Items()); left != stuck || b.s.Contents["g/a"] != "1" {
			t.Errorf("%d wait, recorded %v", left, b.s.Contents)
		}
	})
}

// O2, O9: a mount that can open no file for a while loses nothing, and parks nothing.
func TestO9NoFileCanBeOpenedAfterARestart(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "1", ref(""))
		b.put("b", "2", ref(""))
		synctest.Wait()
		b.restart(true)
		b.disk.FailsToOpen(syscall.EMFILE)
		b.fail(nil)
		time.Sleep(time.Hour)
		for _, i := range b.Items() {
			if i.State == outbox.Parked.String() || !strings.Contains(i.Reason, syscall.EMFILE.Error()) {
				t.Errorf("there is %+v", i)
			}
		}
		b.disk.FailsToOpen(nil)
		time.Sleep(10 * time.Minute)
		if b.wantStates(""); fmt.Sprint(b.s.Contents) != "map[g/a:1 g/b:2]" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O9, O2: a key that was sealed anew while the disk failed is sealed once more, soon.
func TestO9SealedAnewWhileTheDiskFails(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.s.Refuse = refuseToSend(b.s.Refuse)
		b.put("a", "1", ref(""))
		b.s.NextEpoch()
		time.Sleep(5 * time.Hour)
		b.disk.Broken(true)
		time.Sleep(2 * time.Hour)
		b.disk.Broken(false)
		time.Sleep(10 * time.Minute)
		b.s.NextEpoch()
		b.restart(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		if b.wantStates(""); b.s.Contents["g/a"] != "1" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// Threat 52: a log that is rolled back and written on uses no key twice: whatever is encrypted has random bytes of its
// own, from which its key is derived.
func TestThreat52NoKeyTwice(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Coalesce = -1; c.Keys.Names, _ = format.RandomKey() }, func(t *testing.T, b *box) {
		b.s.Refuse = refuseToSend(func(string, *outbox.Upload) error { return away })
		b.put("first", "1", nil)
		synctest.Wait()
		seen := map[string]string{} // sealed bytes by their salt
		note := func() {
			for _, at := range b.disk.Metas() {
				var m struct{ By_journal, By_keyring []byte }
				if json.Unmarshal(at, &m) != nil || len(m.By_journal) < 16 || len(m.By_keyring) < 16 {
					t.Fatalf("no metadata: %s", at)
				}
				for _, sealed := range [][]byte{m.By_journal, m.By_keyring} {
					salt, rest := string(sealed[:16]), string(sealed[16:])
					if was, ok := seen[salt]; ok && was != rest {
						t.Fatal("one salt was used for two texts")
					}
					seen[salt] = rest
				}
			}
		}
		old := b.disk.Restarted(false)
		for n := range 3 {
			i := b.put(fmt.Sprint("more", n), "3", nil)
			for _, name := range []string{"renamed", "again"} {
				if err := b.Rename(t.Context(), i.ID, fmt.Sprint(name, n), ""); err != nil {
					t.Fatal(err)
				}
			}
			note()
			_ = b.Close()
			b.disk = old.Restarted(false)
			b.start()
			synctest.Wait()
		}
		if len(seen) < 12 {
			t.Errorf("%d texts", len(seen))
		}
	})
}

// Threat 52: a service that gives another key than that of the journal is found out: nothing is sent, nothing is lost.
func TestThreat52OtherKeyAfterARestart(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "1", ref(""))
		synctest.Wait()
		b.s.Lies = true
		b.restart(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		if b.wantStates(" parked"); b.s.Recorded() != 0 {
			t.Errorf("recorded %v", b.s.Contents)
		}
		b.s.Lies = false
		b.restart(true)
		time.Sleep(time.Hour)
		if b.wantStates(""); b.s.Contents["g/a"] != "1" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// Threat 52: a wrong key that the service gave is not sealed anew in the place of the right one, and is asked for again
// when its user tries what is parked once more.
func TestThreat52WrongKeyIsNotKept(t *testing.T) {
	for _, again := range []string{"retry", "restart"} {
		for _, keyring := range []bool{true, false} {
			run(t, func(c *outbox.Config) {
				if keyring {
					c.Keys.Names, _ = format.RandomKey()
				}
			}, func(t *testing.T, b *box) {
				b.hold()
				b.put("a", "1", ref(""))
				synctest.Wait()
				b.s.Lies = true
				b.restart(true)
				b.fail(nil)
				time.Sleep(time.Hour)
				b.s.NextEpoch()
				time.Sleep(7 * time.Hour)
				b.s.Tell(true)
				if again == "restart" {
					b.restart(true)
				} else if err := b.Retry(""); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Hour)
				if b.wantStates(""); b.s.Contents["g/a"] != "1" {
					t.Errorf("%s, keyring %v: recorded %v", again, keyring, b.s.Contents)
				}
			})
		}
	}
}

// Threat 52: nothing readable of a save is on the disk, of a large one neither.
func TestThreat52NothingReadable(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Keys.Names, _ = format.RandomKey() }, func(t *testing.T, b *box) {
		b.hold()
		b.put("canary-name", "canary-content", ref("canary-base"))
		save := large("canary-large", "canary-blocks-of-a-large-file", nil, outbox.From{})
		if _, err := b.Put(t.Context(), save); err != nil {
			t.Fatal(err)
		}
		for name, raw := range b.disk.Files() {
			if bytes.Contains(raw, []byte("canary")) {
				t.Errorf("%s has a canary", name)
			}
		}
	})
}

// large is a save in blocks of eight bytes; changed nil = all of them.
func large(name, content string, changed format.Extents, from outbox.From) outbox.Save {
	l := format.Layout{Size: int64(len(content)), BlockBytes: 8}
	if changed == nil {
		changed = format.Extents{{First: 0, Count: l.Blocks()}}
	}
	return outbox.Save{Group: "g", Name: name, Large: &outbox.Large{Layout: l, Changed: changed, From: from,
		Read: func(_ context.Context, i int64, into []byte) (int, error) { return copy(into, content[i*8:]), nil }}}
}

// O1, O9: of a large file the changed blocks wait; the others are those of the version that it was made from, also
// after a restart.
func TestO1ChangedBlocksWait(t *testing.T) {
	for _, again := range []bool{false, true} {
		run(t, nil, func(t *testing.T, b *box) {
			i, err := b.Put(t.Context(), large("film", "aaaaaaaabbbbbbbbcccccccc", nil, outbox.From{}))
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
			synctest.Wait()
			from := outbox.From{Group: "g", Ref: b.s.Head("g", "film")}
			b.hold()
			before := b.s.Blocks
			s := large("film", "aaaaaaaaBBBBBBBBcccccccc", format.Extents{{First: 1, Count: 1}}, from)
			s.Base = &from.Ref
			if i, err = b.Put(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
			if w, err := b.OpenBlocks(i.ID); err != nil {
				t.Error(err)
			} else {
				block := make([]byte, 8)
				if n, err := w.Read(1, block); err != nil || string(block[:n]) != "BBBBBBBB" || w.From() != from {
					t.Errorf("%q, %v, from %v", block[:n], err, w.From())
				}
				if _, err := w.Read(0, block); err == nil {
					t.Error("a block was read that is not there")
				}
				_ = w.Close()
			}
			if again {
				b.restart(true)
			}
			b.fail(nil)
			time.Sleep(time.Hour)
			b.wantStates("")
			if got := b.s.Contents["g/film"]; got != "aaaaaaaaBBBBBBBBcccccccc" || b.s.Blocks != before+1 {
				t.Errorf("recorded %q, of %d blocks", got, b.s.Blocks-before)
			}
		})
	}
}

// O8: a large save that is moved to another group is encrypted anew, under a journal of that group.
func TestO8LargeSaveMovesToAnotherGroup(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.fail(&sdk.Error{Op: "upload", Kind: sdk.ErrTooLarge, Err: errors.New("too large")})
		b.s.Refuse = refuseToSend(b.s.Refuse)
		i, err := b.Put(t.Context(), large("film", "some content in blocks", nil, outbox.From{}))
		if err != nil {
			t.Fatal(err)
		}
		b.Ready(i.ID)
		synctest.Wait()
		if err := b.Move(t.Context(), i.ID, "h"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.s.Mine = []sdk.Group{{ID: "h"}} // the old group is lost
		b.fail(nil)
		b.restart(true)
		time.Sleep(time.Hour)
		b.wantStates("")
		if fmt.Sprint(b.s.Contents) != "map[h/film:some content in blocks]" {
			t.Errorf("recorded %v", b.s.Contents)
		}
		b.Drain(t.Context())
		_ = b.Close()
		if left := b.disk.Files(); len(left) > 0 {
			t.Errorf("%d files are left", len(left))
		}
		b.start()
	})
}

// Threat 52: which parts were sent is believed of nobody else: neither of another save, nor of who can write.
func TestThreat52PartsOfOthers(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		var mu sync.Mutex // two groups are sent at a time
		got, full := map[string][]saving.Part{}, true
		b.s.Refuse = func(op string, u *outbox.Upload) error {
			if op != "send" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if got[u.Name] = u.Large.Sent; !full {
				return nil
			}
			if len(u.Large.Sent) == 0 {
				u.Large.Keep(saving.Part{ID: "canary of " + u.Name})
			}
			return &sdk.Error{Op: "upload", Kind: sdk.ErrStorageFull, Err: errors.New("the group is full")}
		}
		for name, group := range map[string]sdk.GroupID{"a": "g", "b": "h"} {
			save := large(name, "some content in blocks", nil, outbox.From{})
			save.Group = group
			i, err := b.Put(t.Context(), save)
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got["a"]) != 1 || len(got["b"]) != 1 {
			t.Fatalf("parts %v", got)
		}
		left := b.disk.Restarted(false)
		_ = b.Close()
		var files []string
		for name, raw := range left.Files() {
			if bytes.Contains(raw, []byte("canary")) {
				t.Errorf("%s has a canary", name)
			}
			if strings.HasSuffix(name, ".parts") {
				files = append(files, name)
			}
		}
		all := left.Files()
		planted := []byte("\n" + `{"id":"planted"}`)
		left.Add(map[string][]byte{files[0]: append(all[files[1]], planted...), files[1]: append(all[files[0]], planted...)})
		b.disk = left
		full = false
		b.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.wantStates(""); len(got["a"])+len(got["b"]) != 0 {
			t.Errorf("parts of others: %v", got)
		}
	})
}

// O11: the list of parts of a large save that keeps no block goes with it, too.
func TestO11PartsOfASaveWithoutBlocksGo(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		refuse := b.s.Refuse
		b.s.Refuse = func(op string, u *outbox.Upload) error {
			if op == "send" && u.Name == "copy" {
				u.Large.Keep(saving.Part{ID: "part"})
			}
			return refuse(op, u)
		}
		save := large("film", "some content in blocks", nil, outbox.From{})
		for range 2 {
			i, err := b.Put(t.Context(), save)
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
			b.Drain(t.Context())
			save = large("copy", "some content in blocks", format.Extents{}, outbox.From{Group: "g", Ref: b.s.Head("g", "film")})
		}
		_ = b.Close()
		if left := b.disk.Files(); len(left) > 0 || b.s.Contents["g/copy"] != "some content in blocks" {
			t.Errorf("%d files are left, recorded %v", len(left), b.s.Contents)
		}
		b.start()
	})
}

// O3: which parts of a large save were sent is known after a restart, and what cannot be read of that is forgotten.
func TestO3PartsThatWereSentAreKept(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		var got [][]saving.Part
		b.s.Refuse = func(op string, u *outbox.Upload) error {
			if op != "send" {
				return nil
			}
			got = append(got, u.Large.Sent)
			u.Large.Keep(saving.Part{ID: fmt.Sprint("part", len(got))})
			return away
		}
		i, err := b.Put(t.Context(), large("film", "some content in blocks", nil, outbox.From{}))
		if err != nil {
			t.Fatal(err)
		}
		b.Ready(i.ID)
		synctest.Wait()
		b.restart(false)
		synctest.Wait()
		left := b.disk.Restarted(false)
		_ = b.Close()
		for name, raw := range left.Files() {
			if strings.HasSuffix(name, ".parts") {
				left.Add(map[string][]byte{name: raw[:len(raw)-3]})
			}
		}
		b.disk = left
		b.start()
		synctest.Wait()
		if len(got) != 3 || len(got[0]) != 0 || len(got[1]) != 1 || got[1][0].ID != "part1" || len(got[2]) != 1 {
			t.Errorf("parts %+v", got)
		}
	})
}

// noMember is how a service answers who is no member.
var noMember = &sdk.Error{Op: "upload", Kind: sdk.ErrNotAuthorized, Err: errors.New("no member")}

// O8: a group that is lost while its key is sealed anew does not lose its saves: the disk keeps the key that opens
// them.
func TestO8LostWhileKeysAreSealedAnew(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		refuse := refuseToSend(b.s.Refuse)
		var lost atomic.Bool
		b.s.Refuse = func(op string, u *outbox.Upload) error {
			if op == "seal" && !lost.Swap(true) { // the next process seals, too
				b.Lost("g")
			}
			return refuse(op, u)
		}
		b.put("a", "1", ref(""))
		b.s.NextEpoch()
		time.Sleep(7 * time.Hour)
		b.restart(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		if b.wantStates(""); b.s.Contents["g/a"] != "1" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O8: a key that the service gave just before the account lost the group is not kept.
func TestO8LostWhileAKeyIsOpened(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Keys.Names, _ = format.RandomKey() }, func(t *testing.T, b *box) {
		b.hold()
		refuse := b.s.Refuse
		var opened atomic.Int32
		b.s.Refuse = func(op string, u *outbox.Upload) error {
			err := refuse(op, u)
			switch {
			case err != nil || op != "open" && op != "send":
			case op == "open" && opened.Add(1) == 1:
				b.Lost("g")
			default:
				err = noMember
			}
			return err
		}
		i := b.put("a", "1", ref(""))
		b.restart(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		buf, err := mem.NewPool().Get(0)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Release()
		if err := b.Content(i.ID, buf); !errors.Is(err, outbox.ErrLocked) || opened.Load() < 2 {
			t.Errorf("%v, %q, opened %d times", err, buf.Bytes(), opened.Load())
		}
		b.wantStates("a parked")
	})
}

// O9: a journal whose epoch the service does not know, because it was restored from a copy or because a forger wrote
// it, keeps no others from ending.
func TestO9UnknownEpochKeepsNoOthers(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.s.NextEpoch()
		b.put("a", "1", ref(""))
		synctest.Wait()
		b.s.ForgetEpoch()
		time.Sleep(time.Hour)
		if b.s.Ended() != 0 {
			t.Error("a journal of an epoch that the service does not know has ended")
		}
		b.put("b", "1", ref(""))
		b.Drain(t.Context())
		_ = b.Close()
		if left := b.disk.Files(); b.s.Ended() != 1 || len(left) > 0 {
			t.Errorf("%d journals have ended, %d files are left", b.s.Ended(), len(left))
		}
		b.start()
	})
}
