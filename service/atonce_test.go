package service_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// onPostgres runs a service on PostgreSQL on any engine, which destroys files at once.
func onPostgres(t *testing.T) *running {
	t.Helper()
	return runWith(t, service.Config{Database: engines.NewPostgres(t), DestructionDelay: -1})
}

// Members save, replace and destroy files in groups of their own and in one that all share, at two processes over one
// PostgreSQL at the same time. Every content and every key is its own, every chain is whole, and no place is given
// twice or left out.
func TestSavesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	const members, rounds = 6, 6
	r := onPostgres(t)
	processes := []*running{r, r.again()}
	alice := r.owner()
	var list []*user
	for i := range members {
		u := r.user(fmt.Sprint("member", i), "100")
		alice.adds(u)
		must[string](u, wire.OpRegisterGroup, object{"group_id": fmt.Sprint("own", i)})
		list = append(list, u.signsInAt(processes[i%2]))
	}
	before := len(r.ledgerRows())
	contents := make([]map[string][]byte, members) // of the files of the shared group that stay, by reference
	var all sync.WaitGroup
	for i, u := range list {
		contents[i] = map[string][]byte{}
		all.Go(func() {
			for round := range rounds {
				small := fmt.Appendf(nil, "content of %d, %d", i, round)
				large := bytes.Repeat(small, 2000)
				contents[i][u.mustPut(u.seals("g", fmt.Sprint("small", i, round), small)).CID] = small
				contents[i][u.upload("g", fmt.Sprint("large", i, round), large).CID] = large
				own := fmt.Sprint("own", i)
				gone := u.upload(own, "gone", large).CID // its key leaves a row that the next one takes
				u.mustPut(u.seals(own, "stays", small))
				must[string](u, wire.OpDeleteFile, object{"group_id": own, "ipfs_hash": gone})
			}
		})
	}
	all.Wait()
	for i := range contents {
		for ref, content := range contents[i] {
			list[(i+1)%members].reads(ref, string(content)) // at the other process
		}
	}
	for i, u := range list {
		if now := u.stored(fmt.Sprint("own", i)); now.Account.Bytes <= now.Group.Bytes || now.Group.Bytes == 0 {
			t.Errorf("%s keeps %+v", u.id, now)
		}
	}
	r.clean(members * rounds * 3)
	if n, want := len(r.ledgerRows())-before, members*rounds*(5+2); n != want {
		t.Errorf("%d records, want %d", n, want)
	}
	r.chainsAndPlaces()
}

// chainsAndPlaces compares numbers and places of all records with how many there are.
func (r *running) chainsAndPlaces() {
	r.t.Helper()
	r.checkpoint() // of all records: the newest have a place, too
	db := r.openDatabase()
	defer db.Close()
	for what, query := range map[string]string{
		"chains with a number twice or left out": `SELECT count(*) FROM (SELECT 1 FROM ledger LEFT JOIN chains USING (chain)
			GROUP BY chain, chains.number HAVING count(DISTINCT ledger.number) <> count(*) OR max(ledger.number) <> count(*)
			OR chains.number IS DISTINCT FROM count(*)) AS wrong`,
		"records without a place, or places without a record": `SELECT count(*) FROM ledger FULL JOIN places USING (seq)
			WHERE place IS NULL OR hash IS NULL`,
		"gaps between places": "SELECT max(place) - count(*) FROM places",
		"chains whose places do not ascend with their numbers": `SELECT count(*) FROM (SELECT place - lag(place)
			OVER (PARTITION BY chain ORDER BY number) AS step FROM placed) AS steps WHERE step <= 0`,
	} {
		var n int64
		ok(r.t, db.QueryRow(query).Scan(&n))
		if n != 0 {
			r.t.Errorf("%s: %d", what, n)
		}
	}
}

// While a transaction of one process has changed a group and is not committed, the others save in other groups, and
// what they save gets its place and its checkpoint. In that group they wait.
func TestAGroupDoesNotWaitForAnother(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := onPostgres(t)
	alice, bob := r.owner(), r.user("bob", "10")
	must[string](bob, wire.OpRegisterGroup, object{"group_id": "held"})
	other, err := store.Open(ctx, "", r.database)
	ok(t, err)
	t.Cleanup(func() { _ = other.Close() })
	errGivenUp := errors.New("given up")
	inside, leave, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first <- other.Write(ctx, ledger.In("held"), func(tx *store.Tx) error {
			defer func() { <-leave }()
			defer close(inside)
			_, err := ledger.New(nil, ledger.Bounds{}, time.Now).Append(ctx, tx,
				chain.Record{Kind: chain.KindRetention, Account: bob.id, Group: "held"})
			if err == nil { // and now the server has it
				_, err = ledger.Balance(ctx, tx, bob.id)
			}
			return cmp.Or(err, errGivenUp)
		})
	}()
	<-inside
	saved := alice.mustPut(alice.seals("g", "a", []byte("content of another group")))
	alice.reads(saved.CID, "content of another group")
	r.clean(1)
	waiting := make(chan int, 1)
	item := bob.seals("held", "b", []byte("content that waits"))
	go func() {
		status, _ := bob.puts(item)
		waiting <- status
	}()
	db := r.openDatabase()
	defer db.Close()
	proctest.Eventually(t, "a save in the group waits", func() bool {
		var n int
		ok(t, db.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n))
		return n == 1
	})
	close(leave)
	if err := <-first; !errors.Is(err, errGivenUp) {
		t.Error(err)
	}
	if status := <-waiting; status != 200 {
		t.Errorf("the save that waited: %d", status)
	}
	r.clean(2)
	r.chainsAndPlaces()
}

// Threat 23: an account that is disabled while its retrieval waits for a turn gets no key.
func TestThreat23DisabledWhileARetrievalWaits(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	other := r.again()
	alice := r.owner()
	ref := alice.mustPut(alice.seals("g", "a", []byte("secret"))).CID
	r.disabledMeanwhile(other, func() (int, string) {
		return alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
	})
}

// Threat 44: no change of an account whose request began before the account was disabled ends after that, whatever it
// is and however the account signed in.
func TestThreat44DisabledWhileAChangeWaits(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	other := r.again()
	alice := r.owner()
	ref := alice.mustPut(alice.seals("g", "a", []byte("secret"))).CID
	byKey := func() http.Header {
		return http.Header{wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {alice.id}}
	}
	tool := func(op string, req object) (int, string) {
		status, raw := r.post(wire.PathTools+op, byKey(), req)
		return status, string(raw)
	}
	for what, change := range map[string]func() (int, string){
		"a rename, by token": func() (int, string) {
			return alice.tool(wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "b"})
		},
		"a removal, by key": func() (int, string) {
			return tool(wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
		},
		"an upload that begins, by key": func() (int, string) {
			return tool(wire.OpPrepareUpload, object{"group_id": "g"})
		},
		"a save, by key": func() (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url, nil)
			ok(t, err)
			item := alice.seals("g", "late", []byte("x"))
			req.URL.Path, req.Header = wire.PathSealed+item.ID, byKey()
			frame := item.frame()
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(frame)), int64(len(frame))
			status, raw := alice.do(req)
			return status, string(raw)
		},
	} {
		t.Run(what, func(t *testing.T) {
			r.disabledMeanwhile(other, change)
			if _, err := r.svc.EnableAccount(t.Context(), "alice"); err != nil {
				t.Fatal(err)
			}
			alice.login()
		})
	}
	if got := alice.rows("g"); len(got) != 1 {
		t.Errorf("it has %v", got)
	}
}

// disabledMeanwhile disables alice by another process while a request of hers waits behind that, which must be refused.
func (r *running) disabledMeanwhile(other *running, request func() (status int, body string)) {
	t := r.t
	db := r.openDatabase()
	waiting := func(want int) func() bool {
		return func() bool {
			var n int
			ok(t, db.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n))
			return n == want
		}
	}
	s, err := store.Open(t.Context(), "", r.database)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	var all sync.WaitGroup
	defer all.Wait()
	ok(t, s.Write(t.Context(), ledger.In("g"), func(tx *store.Tx) error {
		var one int
		ok(t, tx.QueryRowContext(t.Context(), "SELECT 1").Scan(&one)) // begins
		all.Go(func() {
			if _, err := other.svc.DisableAccount(t.Context(), "alice"); err != nil {
				t.Error(err)
			}
		})
		proctest.Eventually(t, "the end of the account waits", waiting(1))
		all.Go(func() {
			status, body := request()
			if status != http.StatusUnauthorized || !strings.Contains(body, wire.CodeDisabled) {
				t.Errorf("answered: %d %.300s", status, body)
			}
		})
		proctest.Eventually(t, "the request waits, too", waiting(2))
		return nil
	}))
}

// Two writes that look for a place for a key at the same time do not take the same free row.
func TestAFreeRowIsTakenOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := onPostgres(t)
	alice := r.owner()
	content := bytes.Repeat([]byte("content of a blob"), 2000)
	for _, up := range []wire.FinalizeUploadResult{alice.upload("g", "gone", content), alice.upload("g", "too", content)} {
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": up.CID})
	}
	db := r.openDatabase()
	defer db.Close()
	free := func() (n int) {
		ok(t, db.QueryRow("SELECT count(*) FROM file_keys WHERE free").Scan(&n))
		return n
	}
	if free() != 2 {
		t.Fatalf("%d rows are free, want 2", free())
	}
	held, err := db.BeginTx(ctx, nil) // another process, which is about to take one
	ok(t, err)
	var row int64
	ok(t, held.QueryRow("SELECT id FROM free_file_keys LIMIT 1").Scan(&row))
	alice.upload("g", "a", content)
	if free() != 1 {
		t.Errorf("%d rows are free, want 1: the other one was to be taken", free())
	}
	alice.upload("g", "b", content) // none is left: a new one is made
	var still bool
	if err := db.QueryRow("SELECT free FROM file_keys WHERE id = $1", row).Scan(&still); err != nil || !still {
		t.Errorf("the row that another took was taken: %v", err)
	}
	ok(t, held.Rollback())
	alice.upload("g", "c", content)
	if free() != 0 {
		t.Errorf("%d rows are free, want none", free())
	}
	r.clean(3)
}

// While nothing gives places, a save in one request is refused with 503 and Retry-After, and recorded once they come. A
// list of all records is refused, too.
func TestASaveIsRefusedWhilePlacesLag(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	alice := r.owner()
	hold, err := r.openDatabase().BeginTx(t.Context(), nil)
	ok(t, err)
	defer func() { _ = hold.Rollback() }()
	var size int64
	ok(t, hold.QueryRow("SELECT size FROM sequencer FOR UPDATE").Scan(&size))
	var item *sealedItem
	save := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url+wire.PathSealed+item.ID,
			bytes.NewReader(item.frame()))
		ok(t, err)
		req.Header = alice.header()
		resp, err := http.DefaultClient.Do(req)
		ok(t, err)
		ok(t, resp.Body.Close())
		return resp
	}
	var refused *http.Response
	proctest.Eventually(t, "the oldest record has waited too long", func() bool {
		item = alice.seals("g", "late", []byte("x"))
		refused = save()
		return refused.StatusCode != http.StatusOK
	})
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q", refused.Status, refused.Header.Get("Retry-After"))
	}
	all := object{"group_id": "g", "kinds": wire.KindsAll, "layouts": layouts()}
	if alice.okOr503(wire.OpGetGroupTransactions, all) {
		t.Error("a list of all records lacks one")
	}
	ok(t, hold.Rollback())
	proctest.Eventually(t, "the save is recorded", func() bool { return save().StatusCode == http.StatusOK })
}
