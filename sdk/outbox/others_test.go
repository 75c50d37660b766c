package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// O7: a save upon a save replaces that one, also when the process ends, or the power goes, behind the
// record of the first: it is no conflict. Busy files wait just there (O5).
func TestO7SaveUponASaveAfterACrash(t *testing.T) {
	for n := range 8 {
		keyring, lost, more := n&1 > 0, n&2 > 0, n&4 > 0
		run(t, func(c *outbox.Config) {
			c.Keys.Group = make([]byte, 32)
			if keyring {
				c.Keys.Names, _ = format.RandomKey()
			}
		}, func(t *testing.T, b *box) {
			b.hold()
			i := b.put("log", "1", ref(""))
			synctest.Wait() // it was tried
			i = b.put("log", "22", ref(string(i.Ref())))
			if more {
				i = b.put("log", "333", ref(string(i.Ref())))
			}
			b.fail(nil)
			b.Again()
			synctest.Wait()
			if b.s.Contents["g/log"] != "1" {
				t.Fatalf("recorded %v", b.s.Contents)
			}
			if more {
				b.put("log", "4444", ref(string(i.Ref())))
			}
			for range 2 {
				b.restart(lost)
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if want := map[bool]string{true: "4444", false: "22"}[more]; b.s.Contents["g/log"] != want ||
				len(b.s.Contents) != 1 {
				t.Errorf("keyring %v, power lost %v, more %v: recorded %v, sent %v, told %v", keyring, lost, more, b.s.Contents,
					b.s.Sent(), b.told)
			}
			b.wantStates("")
			if left := b.Status().Bytes; left != 0 {
				t.Errorf("%d bytes are left on the disk", left)
			}
		})
	}
}

// O7: of many items that an earlier process left, a save upon a save is no conflict, however far apart the two
// are: the first is recorded long before the other is opened.
func TestO7ManySavesUponSavesAfterARestart(t *testing.T) {
	for _, keyring := range []bool{false, true} {
		run(t, func(c *outbox.Config) {
			c.Keys.Group = make([]byte, 32)
			if keyring {
				c.Keys.Names, _ = format.RandomKey()
			}
		}, func(t *testing.T, b *box) {
			const n = 150
			b.hold()
			i := b.put("log", "1", ref(""))
			synctest.Wait() // it was tried
			for k := range n {
				b.put(fmt.Sprint(k), "x", ref(""))
			}
			b.put("log", "22", ref(string(i.Ref())))
			synctest.Wait()
			refuse := b.s.Refuse
			b.s.Refuse = func(op string, l *outbox.Upload) error {
				if op == "open" {
					time.Sleep(time.Second)
				}
				return refuse(op, l)
			}
			b.restart(true)
			b.fail(nil)
			time.Sleep(25 * time.Second)
			synctest.Wait()
			if b.s.Contents["g/log"] == "1" {
				b.restart(true) // the first is recorded, and the other is closed
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			b.wantStates("")
			if b.s.Contents["g/log"] != "22" || len(b.s.Contents) != n+1 {
				t.Errorf("keyring %v: %d names, log holds %q", keyring, len(b.s.Contents), b.s.Contents["g/log"])
			}
		})
	}
}

// O5: who wants all to be recorded waits for no pause of a busy file, also when another save of it is
// recorded meanwhile; and what an earlier process left waits for none.
func TestO5NoPauseWhereSomebodyWaits(t *testing.T) {
	for _, again := range []bool{false, true} {
		run(t, func(c *outbox.Config) { c.Keys.Group = make([]byte, 32) }, func(t *testing.T, b *box) {
			b.hold()
			i := b.put("log", "1", ref(""))
			synctest.Wait() // it was tried
			b.put("log", "22", ref(string(i.Ref())))
			b.put("other", "x", ref(""))
			if again {
				b.restart(false)
				b.fail(nil)
				time.Sleep(2 * time.Second) // it looks for the service
			} else {
				b.fail(nil)
				b.Flush()
			}
			synctest.Wait()
			b.wantStates("")
			if fmt.Sprint(b.s.Contents) != "map[g/log:22 g/other:x]" {
				t.Errorf("recorded %v", b.s.Contents)
			}
		})
	}
}

// O9: a start waits for nothing: not for the service, not for what waits, and it reads no content.
func TestO9StartWaitsForNothing(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Keys.Names, _ = format.RandomKey() }, func(t *testing.T, b *box) {
		b.hold()
		const n, size = 1000, 30_000 // what was written last is read: whether it is whole
		for i := range n {
			b.put(fmt.Sprint(i), strings.Repeat("x", size), nil)
		}
		synctest.Wait()
		answer := make(chan struct{})
		b.s.Refuse = func(string, *outbox.Upload) error { <-answer; return nil }
		began := time.Now()
		b.restart(true)
		if took := time.Since(began); took != 0 {
			t.Errorf("the start took %s", took)
		}
		synctest.Wait()
		if read := b.disk.Bytes(); read > n*size/10 {
			t.Errorf("the start read %d of %d bytes", read, n*size)
		}
		b.put("now", "1", nil)
		if s := b.Status(); s.Items != n+1 {
			t.Errorf("status %+v", s)
		}
		close(answer)
		time.Sleep(time.Hour)
		b.wantStates("")
		if len(b.s.Contents) != n+1 {
			t.Errorf("%d are recorded", len(b.s.Contents))
		}
	})
}

// O3: a group whose sending does not get on keeps no other group waiting.
func TestO3GroupsDoNotWait(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		answer := make(chan struct{})
		b.s.Refuse = func(op string, l *outbox.Upload) error {
			if op == "send" && l.Group == "g" {
				<-answer
			}
			return nil
		}
		b.put("slow", "1", nil)
		synctest.Wait()
		for n := range 3 {
			i, err := b.Put(t.Context(), outbox.Save{Group: "h", Name: fmt.Sprint(n), Content: []byte("1")})
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
		}
		synctest.Wait()
		b.wantStates("slow sending")
		if len(b.s.Contents) != 3 {
			t.Errorf("recorded %v", b.s.Contents)
		}
		close(answer)
		synctest.Wait()
		b.wantStates("")
	})
}

// O12: an outbox that is closed in the middle of sending loses nothing: the next one sends it.
func TestO12ClosedWhileItSends(t *testing.T) {
	for _, arrives := range []bool{false, true} {
		run(t, func(c *outbox.Config) { c.Keys.Group = make([]byte, 32) }, func(t *testing.T, b *box) {
			answer := make(chan struct{})
			b.s.Refuse = func(op string, _ *outbox.Upload) error {
				if op == "send" {
					<-answer
					if !arrives {
						return &sdk.Error{Op: "upload", Kind: sdk.ErrCanceled, Err: errors.New("context canceled")}
					}
				}
				return nil
			}
			b.put("a", "1", ref(""))
			b.put("b", "2", ref(""))
			synctest.Wait()
			left := b.disk.Restarted(true)
			closed := make(chan error)
			go func() { closed <- b.Close() }()
			synctest.Wait()
			close(answer)
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if !arrives {
				left = b.disk.Restarted(true)
			}
			b.disk, b.s.Refuse = left, nil
			b.start()
			time.Sleep(time.Minute)
			b.wantStates("")
			if fmt.Sprint(b.s.Contents) != "map[g/a:1 g/b:2]" || b.s.Recorded() != 2 {
				t.Errorf("arrives %v: %d records, %v", arrives, b.s.Recorded(), b.s.Contents)
			}
		})
	}
}

// O12: the counters follow what is recorded, one by one.
func TestO12CountersMove(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
		next := make(chan struct{})
		b.s.Refuse = func(op string, _ *outbox.Upload) error {
			if op == "send" {
				<-next
			}
			return nil
		}
		const n = 5
		for i := range n {
			b.put(fmt.Sprint(i), strings.Repeat("x", 1000), nil)
			synctest.Wait()
		}
		last := b.Status()
		if last.Items != n || last.Sending == 0 {
			t.Errorf("status %+v", last)
		}
		steps := 0
		for range n {
			time.Sleep(time.Second)
			next <- struct{}{}
			synctest.Wait()
			now := b.Status()
			if now.Items > last.Items || now.Bytes > last.Bytes {
				t.Errorf("status %+v after %+v", now, last)
			}
			if now.Items < last.Items && now.Bytes < last.Bytes {
				steps++
			}
			last = now
		}
		if steps < 2 || last.Items != 0 || last.Bytes != 0 || last.Rate == 0 || last.Oldest != nil {
			t.Errorf("status %+v", last)
		}
	})
}

// O11: an outbox leaves half of the disk that is free without it to others, whatever its limit is.
func TestO11HalfOfTheFreeDisk(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.disk.Has(100_000)
		var err error
		n := 0
		for ; err == nil && n < 100; n++ {
			_, err = b.Put(t.Context(), outbox.Save{Group: "g", Name: fmt.Sprint(n), Content: make([]byte, 1000)})
		}
		s := b.Status()
		if !errors.Is(err, outbox.ErrFull) || s.Bytes > 50_000 || s.Bytes < 40_000 || s.Limit != 50_000 {
			t.Errorf("%v behind %d saves: %+v", err, n, s)
		}
		b.disk.Has(s.Bytes + 10_000) // others took the rest
		if _, err := b.Put(t.Context(), outbox.Save{Group: "g", Name: "more"}); !errors.Is(err, outbox.ErrFull) {
			t.Errorf("on a disk that others filled: %v", err)
		}
		if len(b.Items()) != n-1 {
			t.Errorf("%d items of %d", len(b.Items()), n-1)
		}
	})
}

// O4: a save that a later one replaced is gone before that one is: a loss of power never brings
// it back behind the later one.
func TestO4ReplacedSavesStayAway(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Coalesce, c.Keys.Group = -1, make([]byte, 32) }, func(t *testing.T, b *box) {
		b.hold()
		b.put("first", "x", nil)
		synctest.Wait()
		one := b.put("a", "1", ref(""))
		b.put("a", "22", ref(string(one.Ref())))
		var left *outbox.Disk // by a loss of power while the later one is sent
		refuse := b.s.Refuse
		b.s.Refuse = func(op string, l *outbox.Upload) error {
			if op == "send" && l.Name == "a" && left == nil {
				left = b.disk.Restarted(true)
			}
			return refuse(op, l)
		}
		b.fail(nil)
		b.Again()
		synctest.Wait()
		b.wantStates("")
		_ = b.Close()
		b.disk = left
		b.start()
		time.Sleep(time.Minute)
		b.wantStates("")
		if fmt.Sprint(b.s.Contents) != "map[g/a:22 g/first:x]" || b.s.Recorded() != 2 {
			t.Errorf("%d records, %v", b.s.Recorded(), b.s.Contents)
		}
	})
}

// O3: saves that come close together are sent together, and none waits for others longer than five seconds.
func TestO3SavesThatComeTogetherAreGathered(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Gather = 0 }, func(t *testing.T, b *box) {
		for i := range 100 {
			b.put(fmt.Sprint("file ", i), "x", nil)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(outbox.DefaultGather)
		synctest.Wait()
		if b.s.Recorded() != 100 || len(b.s.Requests) != 2 {
			t.Errorf("100 saves within half a second: %d are recorded by %d requests, want 2", b.s.Recorded(),
				len(b.s.Requests))
		}
		for i := range 20 {
			b.put(fmt.Sprint("slow ", i), "x", nil)
			time.Sleep(outbox.DefaultGather + time.Millisecond)
			synctest.Wait()
			if b.s.Recorded() != 101+i {
				t.Fatalf("save %d waits for others", i)
			}
		}
		first := time.Now()
		for i := 0; b.s.Recorded() == 120; i++ {
			b.put(fmt.Sprint("steady ", i), "x", nil)
			time.Sleep(outbox.DefaultGather - time.Millisecond)
			synctest.Wait()
		}
		if waited := time.Since(first); waited < time.Second || waited > 5*time.Second+outbox.DefaultGather {
			t.Errorf("a save waited %v for others", waited)
		}
		b.put("urgent", "x", nil)
		b.Flush()
		synctest.Wait()
		if b.s.Contents["g/urgent"] == "" {
			t.Error("a save waits for others though everything was to be sent")
		}
	})
}
