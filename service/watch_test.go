package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
)

// watch asks for events after a sequence and waits at most so long.
func (u *user) watch(after int64, wait time.Duration) wire.WatchResult {
	u.t.Helper()
	return must[wire.WatchResult](u, wire.OpWatch, object{"after_seq": after, "timeout_ms": wait.Milliseconds()})
}

// kinds shows events in short.
func kinds(events []wire.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, e.Kind+" "+e.GroupID+" "+strings.TrimSuffix(e.Account, ".svc.testnet"))
	}
	return strings.Join(list, "; ")
}

func TestWatchTellsWhatConcernsTheCaller(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, member, stranger := r.user("owner", "10"), r.user("member", "10"), r.user("stranger", "10")
	start := must[wire.WatchResult](owner, wire.OpWatch, object{})
	if len(start.Events) > 0 || start.Seq != 3 {
		t.Fatalf("the beginning is %+v", start)
	}
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](stranger, wire.OpRegisterGroup, object{"group_id": "other"})
	before := owner.upload("g", "before", []byte("x"))
	owner.adds(member)
	up := member.upload("g", "f", []byte("x"))
	must[wire.PrepareRetrieveResult](member, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": up.CID})
	must[string](owner, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": up.CID, "filename": "new"})
	must[string](member, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": up.CID})
	owner.retention("g", 7)
	seen := "add_group_member g member; record_transaction g member; rename_file g owner; tombstone_transaction g " +
		"member; set_group_retention g owner"
	for _, tc := range []struct {
		u    *user
		want string
	}{
		{owner, "register_group g owner; record_transaction g owner; " + seen},
		{member, seen},
		{stranger, "register_group other stranger"},
	} {
		got := tc.u.watch(start.Seq, 0)
		if kinds(got.Events) != tc.want {
			t.Errorf("%s sees %s, want %s", tc.u.id, kinds(got.Events), tc.want)
		}
		if again := tc.u.watch(got.Seq, 0); len(again.Events) > 0 || again.Seq < got.Seq {
			t.Errorf("%s sees again %+v", tc.u.id, again)
		}
	}
	t.Run("events of files name the file", func(t *testing.T) {
		for _, e := range owner.watch(start.Seq, 0).Events {
			if isFile := e.Kind == chain.KindRecord || e.Kind == chain.KindTombstone ||
				e.Kind == chain.KindRename; isFile != (e.Ref != "") {
				t.Errorf("event %+v", e)
			}
			if e.Kind == chain.KindRecord && e.Ref != up.CID && e.Ref != before.CID || e.Time == "" {
				t.Errorf("event %+v", e)
			}
		}
	})
	t.Run("what is asked wrongly is refused", func(t *testing.T) {
		if got := owner.watch(1_000_000, 0); len(got.Events) > 0 || got.Seq >= 1_000_000 {
			t.Errorf("a sequence that is not reached yet gives %+v", got)
		}
		if status, body := (&user{running: r, id: owner.id, token: "x"}).tool(wire.OpWatch, object{}); status != 401 {
			t.Errorf("without credentials: %d %s", status, body)
		}
		if status, body := owner.tool(wire.OpWatch, object{"after_seq": "x"}); status != 400 {
			t.Errorf("no number: %d %s", status, body)
		}
	})
}

// Threat 24: the revocation is the last event of the group that a revoked member gets.
func TestThreat24WatchEndsWithTheRevocation(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, member := r.user("owner", "10"), r.user("member", "10")
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	owner.adds(member)
	seq := member.watch(0, 0).Seq
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": member.id})
	owner.upload("g", "secret", []byte("x"))
	if got := kinds(member.watch(seq, 0).Events); got != "revoke_group_member g member" {
		t.Errorf("the revoked member sees %s", got)
	}
	if got := kinds(member.watch(0, 0).Events); got != "revoke_group_member g member" {
		t.Errorf("from the beginning it sees %s", got)
	}
	if got := kinds(owner.watch(seq, 0).Events); got != "revoke_group_member g member; record_transaction g owner" {
		t.Errorf("the owner sees %s", got)
	}
	owner.adds(member)
	if got := kinds(member.watch(seq, 0).Events); got != "revoke_group_member g member; add_group_member g member" {
		t.Errorf("readmitted it sees %s", got)
	}
}

// waiting starts a watch.
func (u *user) waiting(after int64) <-chan wire.WatchResult {
	u.t.Helper()
	sent := make(chan wire.WatchResult, 1)
	go func() {
		var out struct{ Result wire.WatchResult }
		_, body := u.tool(wire.OpWatch, object{"after_seq": after, "timeout_ms": 30_000})
		_ = json.Unmarshal([]byte(body), &out)
		sent <- out.Result
	}()
	return sent
}

func receive(t *testing.T, from <-chan wire.WatchResult) wire.WatchResult {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(proctest.Hang):
		t.Fatal("the watch does not answer")
		panic("unreachable")
	}
}

// A waiting call returns at once on an event, also of another process.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	elsewhere, err := openService(t.Context(), service.Config{DataDir: r.dir, Database: r.database, PublicURL: r.url})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(elsewhere.Handler())
	t.Cleanup(func() { server.Close(); elsewhere.Close() })
	there := &user{running: &running{t: t, svc: elsewhere, dir: r.dir, url: server.URL}, id: alice.id,
		token: alice.token}
	seq := alice.watch(0, 0).Seq
	for _, writer := range []*user{alice, there} {
		var waiting []<-chan wire.WatchResult
		for range 3 {
			waiting = append(waiting, alice.waiting(seq), there.waiting(seq))
		}
		up := writer.upload("g", "f", []byte("x"))
		for _, w := range waiting {
			if got := receive(t, w); len(got.Events) != 1 || got.Events[0].Ref != up.CID || got.Seq < up.Seq {
				t.Errorf("told %+v", got)
			}
		}
		seq = up.Seq
	}
	if got := bob.watch(seq, 300*time.Millisecond); len(got.Events) > 0 || got.Seq < seq {
		t.Errorf("who is no member was told %+v", got)
	}
}

// A watch checks the caller again before it returns events from its wait.
func TestWatchEndsWithTheKey(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	seq := bob.watch(0, 0).Seq
	answer := make(chan int, 1)
	go func() {
		status, _ := bob.tool(wire.OpWatch, object{"after_seq": seq, "timeout_ms": 30_000})
		answer <- status
	}()
	if _, err := r.svc.RotateKey(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	alice.upload("g", "f", []byte("x"))
	if status := <-answer; status != 401 {
		t.Errorf("after the key was rotated: %d", status)
	}
}

// Threat 31: an account holds a bounded number of watches, at no cost for others.
func TestThreat31WatchesAreBounded(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	seq := alice.watch(0, 0).Seq
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	refused := make(chan string, 40)
	for range 40 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/tools/watch",
				strings.NewReader(fmt.Sprintf(`{"after_seq":%d,"timeout_ms":30000}`, seq)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header = alice.header()
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return // given up below
			}
			defer resp.Body.Close()
			refused <- fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Retry-After"))
		})
	}
	for range 40 - 16 {
		if got := <-refused; got != "429 1" {
			t.Errorf("one too many: %s", got)
		}
	}
	bob.watch(seq, 0)
	cancel()
	all.Wait()
	for deadline := time.Now().Add(proctest.Hang); ; {
		status, _ := alice.tool(wire.OpWatch, object{})
		if status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after all were given up: %d", status)
		}
	}
}

// Threat 31: no sequence that a caller may claim to have seen keeps the service
// searching.
func TestThreat31WatchFromAnySequence(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	for _, after := range []int64{math.MaxInt64, math.MaxInt64 - 20_000, 1 << 62, -1, math.MinInt64} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/tools/watch",
			strings.NewReader(fmt.Sprintf(`{"after_seq":%d}`, after)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = alice.header()
		status, body := r.do(req)
		cancel()
		if sees := strings.Contains(string(body), `"register_group"`); status != http.StatusOK || sees != (after < 0) {
			t.Errorf("after %d: %d %s", after, status, body)
		}
	}
}

// The end of the service does not wait for waiting calls.
func TestWatchEndsAtShutdown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	dir, database := t.TempDir(), newDatabase(t)
	svc, err := openService(t.Context(), service.Config{DataDir: dir, Database: database, PublicURL: url})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Serve(ctx, l) }()
	alice := (&running{t: t, svc: svc, dir: dir, url: url, database: database}).user("alice", "10")
	seq := alice.watch(0, 0).Seq
	answers := make(chan wire.WatchResult, 20)
	for range cap(answers) {
		go func() { answers <- <-alice.waiting(seq) }()
	}
	for range cap(answers) - 16 {
		if got := receive(t, answers); got.Seq != 0 {
			t.Errorf("one too many was told %+v", got)
		}
	}
	stop() // 16 wait
	for range 16 {
		if got := receive(t, answers); len(got.Events) > 0 || got.Seq == 0 {
			t.Errorf("told at the end: %+v", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := svc.Close(); err != nil {
		t.Error(err)
	}
}
