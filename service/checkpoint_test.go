package service_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/store"
)

// get fetches a path without any credential.
func (r *running) get(path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	status, body := r.do(req)
	return status, string(body)
}

// checkpoint fetches the checkpoint and verifies it as an outsider would.
func (r *running) checkpoint() tlog.Tree {
	r.t.Helper()
	verifier, err := note.NewVerifier(r.key())
	if err != nil {
		r.t.Fatal(err)
	}
	status, raw := r.get("/tlog/checkpoint")
	opened, err := note.Open([]byte(raw), note.VerifierList(verifier))
	if status != http.StatusOK || err != nil {
		r.t.Fatalf("checkpoint: %d %q: %v", status, raw, err)
	}
	var origin, root string
	var tree tlog.Tree
	if _, err := fmt.Sscanf(opened.Text, "%s\n%d\n%s\n", &origin, &tree.N, &root); err != nil {
		r.t.Fatal(err)
	}
	if want := strings.TrimPrefix(r.address(), "http://") + "/svc.testnet"; origin != want || verifier.Name() != want {
		r.t.Errorf("origin %q of key %q, want %q", origin, verifier.Name(), want)
	}
	if tree.Hash, err = tlog.ParseHash(root); err != nil {
		r.t.Fatal(err)
	}
	return tree
}

func (r *running) key() string {
	_, key := r.get("/tlog/key")
	return strings.TrimSuffix(key, "\n")
}

func (r *running) address() string {
	if r.public != "" {
		return r.public
	}
	return r.url
}

// again opens one more service over the same data, with the same public address.
func (r *running) again() *running { return r.againWith(service.Config{MaxFileBytes: 1 << 20}) }

// againWith is again with other settings.
func (r *running) againWith(cfg service.Config) *running {
	r.t.Helper()
	cfg.DataDir, cfg.Database, cfg.PublicURL = r.dir, r.database, r.address()
	svc, err := openService(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewServer(svc.Handler())
	r.t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		if err := svc.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return &running{t: r.t, svc: svc, dir: r.dir, url: server.URL, database: r.database, public: r.address()}
}

// at is the same account at another process of the service.
func (u *user) at(r *running) *user {
	there := *u
	there.running = r
	return &there
}

// signsInAt is at with a token of that service.
func (u *user) signsInAt(r *running) *user {
	there := u.at(r)
	there.login()
	return there
}

// tiles reads the service's tiles for x/mod, which checks them.
type tiles struct{ *running }

func (tiles) Height() int { return 8 }

func (r tiles) ReadTiles(list []tlog.Tile) (data [][]byte, err error) {
	for _, t := range list {
		status, raw := r.get("/tlog/" + strings.Replace(t.Path(), "tile/8/", "tile/", 1))
		if status != http.StatusOK || len(raw) != t.W*tlog.HashSize {
			return nil, fmt.Errorf("%s: %d, %d bytes", t.Path(), status, len(raw))
		}
		data = append(data, []byte(raw))
	}
	return data, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// Everything an outsider needs is there without a credential: each record is in
// the signed tree, and each tree continues the one before.
func TestThreat26OutsidersCheckTheLedger(t *testing.T) {
	t.Parallel()
	r := run(t)
	if tree := r.checkpoint(); tree.N != 0 || tree.Hash != tlog.Hash(sha256.Sum256(nil)) {
		t.Errorf("empty ledger: %+v", tree)
	}
	alice := r.user("alice", "1000")
	before := r.checkpoint()
	for i := range 300 {
		must[string](alice, wire.OpRegisterGroup, object{"group_id": fmt.Sprint(i)})
	}
	after := r.checkpoint()
	if before.N != 1 || after.N != 301 {
		t.Fatalf("trees of %d and %d records", before.N, after.N)
	}
	reader := tlog.TileHashReader(after, tiles{r})
	proof, err := tlog.ProveTree(after.N, before.N, reader)
	if err != nil || tlog.CheckTree(proof, after.N, after.Hash, before.N, before.Hash) != nil {
		t.Errorf("consistency: %v", err)
	}
	hashes := r.hashes()
	for seq, hash := range hashes {
		proof, err := tlog.ProveRecord(after.N, seq-1, reader)
		if err != nil || tlog.CheckRecord(proof, after.N, after.Hash, seq-1, tlog.RecordHash(hash)) != nil {
			t.Fatalf("inclusion of row %d: %v", seq, err)
		}
	}
	for path, want := range map[string]string{"entries/000": "", "entries/001.p/45": ""} {
		status, bundle := r.get("/tlog/tile/" + path)
		for seq := int64(1); seq <= 301; seq++ {
			if (seq > 256) == (path == "entries/001.p/45") {
				want += "\x00\x20" + string(hashes[seq])
			}
		}
		if status != http.StatusOK || bundle != want {
			t.Errorf("bundle %s: %d, %d bytes, want %d", path, status, len(bundle), len(want))
		}
	}
	for _, path := range []string{"0/001", "0/001.p/46", "0/002.p/1", "1/000", "1/000.p/2", "2/000.p/1", "63/000.p/1",
		"64/000", "8/0/000", "data/000",
		"0/000.p/0", "0/000.p/256", "0/0", "0/x000/000", "0/-01", "-1/000", "entries/002", "entries/001",
		"0/x999/x999/x999/x999/x999/x999/999",
		"..%2f..%2fmaster.key", "0/..%2f000"} {
		if status, body := r.get("/tlog/tile/" + path); status != http.StatusNotFound {
			t.Errorf("tile %s: %d, %d bytes", path, status, len(body))
		}
	}
}

// hashes reads the record hashes, by row.
func (r *running) hashes() map[int64][]byte {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close() // it is asked hundreds of times
	rows, err := db.Query("SELECT seq, hash FROM ledger")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	all := map[int64][]byte{}
	for rows.Next() {
		var seq int64
		var hash []byte
		ok(r.t, rows.Scan(&seq, &hash))
		all[seq] = hash
	}
	return all
}

// layouts are those of records that a client of today reads.
func layouts() []string { return []string{chain.Layout} }

// forgeChain makes the chains valid again after a change of rows, as an attacker with
// the whole database could.
func (r *running) forgeChain() {
	r.t.Helper()
	db := r.openDatabase()
	rows, err := db.Query("SELECT seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, " +
		"request, chain, tags FROM ledger ORDER BY seq")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	literal := func(hash chain.Hash) string {
		if r.database != "" {
			return fmt.Sprintf(`'\x%x'`, hash)
		}
		return fmt.Sprintf("x'%x'", hash)
	}
	statements, ends := "", map[string]chain.Place{}
	for rows.Next() {
		var c chain.Record
		var tags string
		ok(r.t, rows.Scan(&c.Seq, &c.Tx, &c.Kind, &c.TimeNS, &c.Account, &c.Group, &c.Ref, &c.FileHash, &c.Detail,
			&c.Fee, &c.Request, &c.Chain, &tags))
		var flat []string
		var err error
		if tags != "" {
			err = json.Unmarshal([]byte(tags), &flat)
		}
		if err == nil {
			c.Tags, err = chain.ParseTags(flat)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		end := ends[c.Chain]
		c.Prev, c.Number = end.Hash, end.Number+1
		ends[c.Chain] = chain.PlaceOf(&c)
		statements += fmt.Sprintf("UPDATE ledger SET prev_hash = %s, hash = %s, number = %d WHERE seq = %d; ",
			literal(c.Prev), literal(c.Sum()), c.Number, c.Seq)
	}
	ok(r.t, errors.Join(rows.Err(), rows.Close()))
	statements += "DELETE FROM chains; "
	for name, end := range ends {
		statements += fmt.Sprintf("INSERT INTO chains (chain, number, hash, time_ns) SELECT '%s', %d, %s, max(time_ns) "+
			"FROM ledger WHERE chain = '%s'; ", name, end.Number, literal(end.Hash), name)
	}
	if _, err := db.Exec(statements); err != nil {
		r.t.Fatal(err)
	}
}

// A history that was rewritten together with its hash chain still differs from
// the one that was signed: the audit and the running service name the first
// row, nothing is signed any more, and files are served all the same.
func TestThreat26RewrittenHistoryContradictsTheCheckpoint(t *testing.T) {
	t.Parallel()
	const swap = "UPDATE ledger SET seq = -2 WHERE seq = 2; UPDATE ledger SET seq = 2 WHERE seq = 3; UPDATE ledger " +
		"SET seq = 3 WHERE seq = -2; " +
		"UPDATE ledger SET time_ns = (SELECT time_ns FROM ledger WHERE seq = 1) + seq WHERE seq > 1"
	for _, tc := range []struct{ name, statement, want string }{
		{"edited", "UPDATE ledger SET fee = '0' WHERE seq = 3", "row 3: the ledger contradicts"},
		{"newest edited", "UPDATE ledger SET detail = 'x' WHERE seq = 4", "row 4: the ledger contradicts"},
		{"newest deleted", "DELETE FROM ledger WHERE seq = 4", "row 4: the ledger contradicts"},
		{"deleted and closed up", "DELETE FROM ledger WHERE seq = 2; UPDATE ledger SET seq = 2 WHERE seq = 3; UPDATE " +
			"ledger SET seq = 3 WHERE seq = 4", "row 2: the ledger contradicts"},
		{"swapped", swap, "row 2: the ledger contradicts"},
		{"all deleted", "DELETE FROM ledger", "row 1: the ledger contradicts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t)
			alice := r.user("alice", "10")
			for _, g := range []string{"a", "b", "c"} {
				must[string](alice, wire.OpRegisterGroup, object{"group_id": g})
			}
			signed := r.checkpoint()
			if got, err := r.svc.AuditReport(t.Context()); err != nil || got.Records != 4 || got.Signed != 4 ||
				got.Root != signed.Hash.String() || got.Key != r.key() {
				t.Errorf("audit of the true history: %+v, %v", got, err)
			}
			statement := r.withoutTriggers() + tc.statement
			if _, err := r.openDatabase().Exec(statement); err != nil {
				t.Fatal(err)
			}
			r.forgeChain()
			if _, err := r.svc.Audit(t.Context()); !errors.Is(err, checkpoint.ErrContradiction) ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("audit says %v, want %s", err, tc.want)
			}
			again := r.again()
			must[string](alice.at(again), wire.OpRegisterGroup, object{"group_id": "d"})
			if got := again.checkpoint(); got != signed {
				t.Errorf("signed %+v after %+v", got, signed)
			}
			status, health := again.get("/health")
			var answer struct{ Status, Checkpoints string }
			if err := json.Unmarshal([]byte(health), &answer); err != nil || status != http.StatusServiceUnavailable ||
				answer.Status != "degraded" || !strings.Contains(answer.Checkpoints, "contradicts") {
				t.Errorf("health %d %s", status, health)
			}
			_, body := alice.at(again).tool(wire.OpGetGroupTransactions,
				object{"group_id": "a", "kinds": wire.KindsChain, "layouts": layouts(), "nonce": nonce})
			if !strings.Contains(body, wire.CodeUnproven) {
				t.Errorf("a list: %s", body)
			}
		})
	}
}

// A data directory that has signed checkpoints of another ledger is refused at the start, with what to do.
func TestDirectoryOfAnotherLedgerIsRefused(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.user("alice", "10")
	r.checkpoint()
	dir := filepath.Join(t.TempDir(), "data")
	ok(t, os.Mkdir(dir, 0o700))
	ok(t, os.CopyFS(filepath.Join(dir, checkpoint.Dir), os.DirFS(filepath.Join(r.dir, checkpoint.Dir))))
	svc, err := openService(t.Context(), service.Config{DataDir: dir, PublicURL: r.url})
	if err == nil {
		ok(t, svc.Close())
	}
	refused(t, "another ledger's directory", err, "belongs to another database")
	if step := service.NextStepOf(err); !strings.Contains(step, "--db, or") ||
		!strings.Contains(step, "a new, empty data directory") {
		t.Errorf("the next step is %q", step)
	}
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); err == nil {
		t.Error("a stray database was left")
	}
	ok(t, os.RemoveAll(filepath.Join(dir, checkpoint.Dir)))
	svc, err = openService(t.Context(), service.Config{DataDir: dir, PublicURL: r.url})
	ok(t, err)
	ok(t, svc.Close())
}

// A start without --db made a service of its own in the directory: who names the database again is told what to move.
func TestDirectoryOfAStartWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // has both
	}
	database := engines.NewPostgres(t)
	r := runWith(t, service.Config{DataDir: t.TempDir()})
	r.user("alice", "10")
	r.checkpoint()
	svc, err := openService(t.Context(), service.Config{DataDir: r.dir, Database: database})
	if err == nil {
		ok(t, svc.Close())
	}
	refused(t, "another ledger's directory", err, "belongs to another database")
	if step := service.NextStepOf(err); !strings.Contains(step, filepath.Join(r.dir, store.FileName)+" now: leave --db") ||
		!strings.Contains(step, filepath.Join(r.dir, checkpoint.Dir)+" away") {
		t.Errorf("the next step is %q", step)
	}
}

// A contract other than that of the accounts is refused at the start, with what to do. Without accounts the contract
// may change.
func TestAnotherContractIsRefused(t *testing.T) {
	t.Parallel()
	r := run(t)
	open := func(contract string) error {
		svc, err := openService(t.Context(),
			service.Config{DataDir: r.dir, Database: r.database, ContractID: contract})
		if err == nil {
			err = svc.Close()
		}
		return err
	}
	ok(t, open("files.example.org"))
	ok(t, open(""))
	r.user("alice", "10")
	err := open("files.example.org")
	refused(t, "another contract", err, "are of contract svc.testnet, not files.example.org")
	if step := service.NextStepOf(err); !strings.HasPrefix(step, "give --contract svc.testnet") {
		t.Errorf("the next step is %q", step)
	}
	ok(t, open("svc.testnet"))
}

// The root betrays a rewritten database and tree, because the attacker lacks the key.
func TestThreat26RewrittenTreeContradictsTheCheckpoint(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "10")
	for _, g := range []string{"a", "b", "c"} {
		must[string](alice, wire.OpRegisterGroup, object{"group_id": g})
	}
	signed := r.checkpoint()
	note := filepath.Join(r.dir, checkpoint.Dir, "checkpoint")
	honest, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.openDatabase().Exec(r.withoutTriggers() + "UPDATE ledger SET fee = '0' WHERE seq = 3"); err != nil {
		t.Fatal(err)
	}
	r.forgeChain()
	ok(t, os.RemoveAll(filepath.Join(r.dir, checkpoint.Dir)))
	if forged := r.again().checkpoint(); forged.N != signed.N || forged.Hash == signed.Hash {
		t.Fatalf("the forged tree is %+v, the honest one %+v", forged, signed)
	}
	ok(t, os.WriteFile(note, honest, 0o600))
	const want = "rows 1 to 4: the ledger contradicts"
	check := func(when string) {
		t.Helper()
		if _, err := r.svc.Audit(t.Context()); !errors.Is(err, checkpoint.ErrContradiction) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: audit says %v, want %s", when, err, want)
		}
	}
	check("tree forged")
	again := r.again()
	if got := again.checkpoint(); got != signed {
		t.Errorf("signed %+v after %+v", got, signed)
	}
	if _, health := again.get("/health"); !strings.Contains(health, want) {
		t.Errorf("health %s, want %s", health, want)
	}
	ok(t, os.Remove(filepath.Join(r.dir, checkpoint.Dir, "hashes")))
	check("tree gone")
}

// treeOf is a checkpoint without what its vault counted, and its signature.
func treeOf(checkpoint string) string {
	tree, _, _ := strings.Cut(checkpoint, wire.OpensLine)
	return tree
}

// Trees come out the same wherever they are computed: in another process over
// the same directory, after a restart, after a crash between two writes, and
// from nothing.
func TestCheckpointsAreAFunctionOfTheLedger(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "100")
	register := func(n int) {
		for range n {
			must[string](alice, wire.OpRegisterGroup, object{"group_id": fmt.Sprint(r.checkpoint().N)})
		}
	}
	register(5)
	other := r.again()
	register(3)
	t.Run("all processes sign the same", func(t *testing.T) {
		_, one := r.get("/tlog/checkpoint")
		if _, two := other.get("/tlog/checkpoint"); treeOf(one) != treeOf(two) || one == "" {
			t.Errorf("two processes sign\n%s\n%s", one, two)
		}
		if r.database != "" { // another machine has the master key and the database
			there := *r
			there.dir = t.TempDir()
			key, err := os.ReadFile(filepath.Join(r.dir, "master.key"))
			if err == nil {
				err = os.WriteFile(filepath.Join(there.dir, "master.key"), key, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, three := there.again().get("/tlog/checkpoint"); treeOf(three) != treeOf(one) {
				t.Errorf("another machine signs\n%s\n%s", three, one)
			}
		}
	})
	dir := filepath.Join(r.dir, checkpoint.Dir)
	before, err := os.ReadFile(filepath.Join(dir, "hashes"))
	if err != nil {
		t.Fatal(err)
	}
	// A crash after the hashes of a row were half written.
	ok(t, os.WriteFile(filepath.Join(dir, "hashes"), append(before, "half a hash"...), 0o600))
	restarted := r.again()
	want := restarted.checkpoint()
	must[string](alice.at(restarted), wire.OpRegisterGroup, object{"group_id": "one more"})
	grown := restarted.checkpoint()
	if want.N != 9 || grown.N != 10 {
		t.Errorf("trees of %d and %d records", want.N, grown.N)
	}
	if _, err := tlog.ProveRecord(grown.N, 9, tlog.TileHashReader(grown, tiles{restarted})); err != nil {
		t.Error(err)
	}
	ok(t, os.RemoveAll(dir))
	if got := r.again().checkpoint(); got != grown {
		t.Errorf("made anew: %+v, want %+v", got, grown)
	}
}

// A tree that was tampered with on disk is not repaired in silence.
func TestThreat26DamagedTreeIsReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file string
		change     func(raw []byte) []byte
		want       string
	}{
		{"hash flipped", "hashes", func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw },
			"row 3: the ledger contradicts"},
		{"hashes cut", "hashes", func(raw []byte) []byte { return raw[:len(raw)-1] }, "row 3: the ledger contradicts"},
		{"hashes gone", "hashes", func([]byte) []byte { return nil }, "row 1: the ledger contradicts"},
		{"signature of nobody", "checkpoint", func(raw []byte) []byte {
			return []byte(strings.Replace(string(raw), "\n3\n", "\n2\n", 1))
		}, "a key of this log"},
		{"not a checkpoint", "checkpoint", func([]byte) []byte { return []byte("x") }, "a key of this log"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t)
			alice := r.user("alice", "10")
			for _, g := range []string{"a", "b"} {
				must[string](alice, wire.OpRegisterGroup, object{"group_id": g})
			}
			r.checkpoint()
			path := filepath.Join(r.dir, checkpoint.Dir, tc.file)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			ok(t, os.WriteFile(path, tc.change(raw), 0o600))
			if _, err := r.svc.Audit(t.Context()); !errors.Is(err, checkpoint.ErrContradiction) ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("audit says %v, want %s", err, tc.want)
			}
			again := r.again()
			again.get("/tlog/checkpoint")
			if _, health := again.get("/health"); !strings.Contains(health, tc.want) ||
				strings.Contains(health, r.dir) {
				t.Errorf("health %s, want %s", health, tc.want)
			}
		})
	}
}

// Under another address of the service the log keeps its name, and so the key that members have pinned.
func TestLogKeepsItsNameUnderAnotherAddress(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.user("alice", "10")
	first := r.checkpoint()
	_, before := r.get("/tlog/checkpoint")
	_, key := r.get("/tlog/key")
	r.public = "https://files.example.org"
	moved := r.again()
	name, _, _ := strings.Cut(before, "\n")
	if _, raw := moved.get("/tlog/checkpoint"); !strings.HasPrefix(raw, name+"\n1\n"+first.Hash.String()+"\n") {
		t.Errorf("checkpoint %q, before %q", raw, before)
	}
	if _, now := moved.get("/tlog/key"); now != key {
		t.Errorf("key %q, before %q", now, key)
	}
}

// An imported service has a checkpoint of every record before it starts, under the name and the key that
// the log had.
func TestImportSignsACheckpoint(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.user("alice", "10")
	r.checkpoint()
	_, key := r.get("/tlog/key")
	var archived bytes.Buffer
	if _, err := r.svc.Export(t.Context(), &archived, nil); err != nil {
		t.Fatal(err)
	}
	dir := masterKeyOnly(t, r.dir)
	svc, err := openService(t.Context(), service.Config{DataDir: dir, Database: newDatabase(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	raw := archived.Bytes()
	isSigned := func() {
		t.Helper()
		report, err := svc.AuditReport(t.Context())
		if err != nil || report.Signed != report.Records || report.Records == 0 || report.Key != strings.TrimSpace(key) {
			t.Errorf("%+v, %v, want all records signed with %s", report, err, key)
		}
	}
	if _, err := svc.Import(t.Context(), bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	isSigned()
	if err := os.RemoveAll(filepath.Join(dir, checkpoint.Dir)); err != nil { // as when it was killed before it signed
		t.Fatal(err)
	}
	if _, err := svc.Import(t.Context(), bytes.NewReader(raw)); !errors.Is(err, archive.ErrImported) {
		t.Fatal(err)
	}
	isSigned()
}

// A service that was served while it was empty signed that with the key that an import replaces.
func TestImportAfterServing(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.user("alice", "10")
	served := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
	if tree := served.checkpoint(); tree.N != 0 {
		t.Fatalf("%d records were signed", tree.N)
	}
	svc := served.again().svc
	ok(t, errOf(svc.Import(t.Context(), bytes.NewReader(r.exports()))))
	if report, err := svc.AuditReport(t.Context()); err != nil || report.Signed != report.Records ||
		report.Records == 0 {
		t.Errorf("%+v, %v, want all records signed", report, err)
	}
}

// Only members see every record of their group with everything that its hash covers,
// page by page.
func TestRecordsOfAGroup(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	open := object{"group_id": "g", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())}
	must[string](alice, wire.OpCreateHackathonGroup, open)
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	ref := alice.upload("g", "name", []byte("content")).Location
	alice.retrieve("g", ref)
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "bob"})
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": "bob"})
	all := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g", "kinds": "all", "layouts": layouts()})
	t.Run("each has its hash and place in the chain", func(t *testing.T) {
		hashes := r.hashes()
		before, number := strings.Repeat("0", 64), int64(0) // in the group's chain
		var kinds []string
		for _, row := range all {
			kinds = append(kinds, row.Kind)
			raw, err := hex.DecodeString(row.Hash)
			if err != nil || !bytes.Equal(raw, hashes[row.Seq]) ||
				(row.Chain == "group:g") != (row.Kind != chain.KindClaim) {
				t.Errorf("row %d: hash %s in chain %s: %v", row.Seq, row.Hash, row.Chain, err)
			}
			if row.Chain == "group:g" {
				if row.PrevHash != before || row.Number != number+1 {
					t.Errorf("row %d: number %d after %s, want %d after %s", row.Seq, row.Number, row.PrevHash,
						number+1, before)
				}
				before, number = row.Hash, row.Number
			}
			if sum := sumOf(t, row); sum != row.Hash {
				t.Errorf("row %d: its fields give %s, not %s", row.Seq, sum, row.Hash)
			}
		}
		want := []string{"register_group", "open_hackathon_join", "record_transaction", "claim_token",
			"add_group_member", "revoke_group_member", "rotate_group_key"}
		if !slices.Equal(kinds, want) {
			t.Errorf("kinds %q, want %q", kinds, want)
		}
	})
	t.Run("by pages", func(t *testing.T) {
		var paged []wire.TransactionRow
		for after := int64(0); ; after = paged[len(paged)-1].Seq {
			page := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
				object{"group_id": "g", "kinds": "all", "layouts": layouts(), "after_seq": after, "limit": 4})
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
		}
		if len(paged) != len(all) {
			t.Errorf("%d rows by pages, %d at once", len(paged), len(all))
		}
	})
	t.Run("others see only rows", func(t *testing.T) {
		for _, tc := range []struct {
			group, kinds string
			want         int
		}{{"g", "all", 403}, {"g", "", 200}, {"", "all", 404}} {
			if status, body := bob.tool(wire.OpGetGroupTransactions, object{"group_id": tc.group, "kinds": tc.kinds,
				"layouts": layouts()}); status != tc.want {
				t.Errorf("bob asks for %+v: %d %s", tc, status, body)
			}
		}
		if status, body := alice.tool(wire.OpGetGroupTransactions,
			object{"group_id": "g", "kinds": "some"}); status != http.StatusBadRequest {
			t.Errorf("unknown kinds: %d %s", status, body)
		}
	})
}

// sumOf computes the hash of a listed record as service/LEDGER.md says.
func sumOf(t *testing.T, row wire.TransactionRow) string {
	t.Helper()
	ns, err := strconv.ParseUint(*row.Timestamp, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	prev, err := hex.DecodeString(row.PrevHash)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	number := func(n uint64) { b = binary.BigEndian.AppendUint64(b, n) }
	text := func(s string) { number(uint64(len(s))); b = append(b, s...) }
	text("svc-ledger-3")
	text(row.Chain)
	number(uint64(row.Number))
	number(ns)
	for _, s := range []string{row.TransID, row.Kind, row.UserID, row.GroupID, row.IPFSHash, commitmentOf(t, row),
		row.Detail, row.Fee, row.Request} {
		text(s)
	}
	number(uint64(len(row.Tags) / 2))
	for _, s := range row.Tags {
		text(s)
	}
	body := sha256.Sum256(b)
	return hash(append(prev, body[:]...))
}
