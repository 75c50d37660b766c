package service_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// values passes every value of every table of the database to each.
func (r *running) values(each func(table, column string, value any)) {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close()
	tables := "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%STRICT%'"
	if r.database != "" {
		tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
	}
	rows, err := db.Query(tables)
	ok(r.t, err)
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		ok(r.t, rows.Scan(&name))
		names = append(names, name)
	}
	ok(r.t, rows.Err())
	for _, table := range names {
		r.valuesOf(db, table, each)
	}
	if len(names) < 20 {
		r.t.Fatalf("only the tables %q were found", names)
	}
}

func (r *running) valuesOf(db *sql.DB, table string, each func(table, column string, value any)) {
	r.t.Helper()
	rows, err := db.Query("SELECT * FROM " + table)
	ok(r.t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	ok(r.t, err)
	row, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		ok(r.t, rows.Scan(into...))
		for i, value := range row {
			each(table, columns[i], value)
		}
	}
	ok(r.t, rows.Err())
}

// thief knows all hashes in a database: bytes, and texts in hex.
type thief map[[sha256.Size]byte]string

func (r *running) stolen() thief {
	r.t.Helper()
	known := thief{}
	r.values(func(table, column string, value any) {
		raw, isBytes := value.([]byte)
		if text, isText := value.(string); isText {
			raw = []byte(text)
		} else if !isBytes {
			return
		}
		for i := 0; i+sha256.Size <= len(raw); i++ {
			known[[sha256.Size]byte(raw[i:])] = table + "." + column
		}
		for i := 0; i+2*sha256.Size <= len(raw); i++ {
			if sum, err := hex.DecodeString(string(raw[i : i+2*sha256.Size])); err == nil {
				known[[sha256.Size]byte(sum)] = table + "." + column
			}
		}
	})
	return known
}

// TestThreat33GuessableContent: who has the database without the master key finds no hash with which
// to try what a file holds, neither while the file lives nor afterwards: not in the ledger, in no id of a
// record, and in no other table.
func TestThreat33GuessableContent(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	content := func(pin int) []byte { return fmt.Appendf(nil, "PIN %04d", pin) }
	lives, gone := alice.upload("g", "lives", content(2718)), alice.upload("g", "gone", content(3141))
	for _, ref := range []string{lives.CID, gone.CID} {
		must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": ref[:9]})
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone.CID})
	known := r.stolen()
	if known[sha256Of(lives.TransID)] == "" || known[sha256Of(gone.TransID)] == "" {
		t.Fatal("the ids of the records were not found: the search proves nothing")
	}
	type upload struct {
		wire.FinalizeUploadResult
		pin int
	}
	for _, u := range []upload{{lives, 2718}, {gone, 3141}} {
		for pin := range 10_000 {
			sum := sha256.Sum256(content(pin))
			// of the hosted network
			id := sha256.Sum256([]byte("g" + alice.id + hex.EncodeToString(sum[:]) + u.CID + u.Time))
			if where := known[sum] + known[id]; where != "" {
				t.Errorf("%s tells that %s holds %q", where, u.CID, content(pin))
			}
		}
	}
}

func sha256Of(text string) (sum [sha256.Size]byte) {
	_, _ = hex.Decode(sum[:], []byte(text))
	return sum
}

// TestThreat34NothingOfTheContentIsLeft: of a destroyed file nothing tells hash or size, and what its
// record committed to is wiped from the database's files.
func TestThreat34NothingOfTheContentIsLeft(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	kept := alice.upload("g", "kept", []byte("still here"))
	sizes := map[int64]bool{}
	var refs []string
	// Five digits each: a word of a random id never has as many.
	for name, size := range map[string]int{"in the database": 14_321, "a blob": 54_321} {
		refs = append(refs, alice.upload("g", name, make([]byte, size)).CID)
		sizes[int64(size)], sizes[int64(size)+28] = true, true
	}
	found := func() (where []string) {
		r.values(func(table, column string, value any) {
			if n, isNumber := value.(int64); isNumber && sizes[n] {
				where = append(where, table+"."+column)
			}
			text, _ := value.(string)
			// a hash is one
			words := strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
			for size := range sizes {
				if slices.Contains(words, fmt.Sprint(size)) && column != "tx_id" && column != "request" {
					where = append(where, table+"."+column)
				}
			}
		})
		return where
	}
	if len(found()) == 0 {
		t.Fatal("no size was found before the deletion: the search proves nothing")
	}
	openings := r.openings()
	if len(openings) != 3 {
		t.Fatalf("%d openings are kept", len(openings))
	}
	for _, ref := range refs {
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	}
	if where := found(); len(where) > 0 {
		t.Errorf("sizes of destroyed files are left in %q", where)
	}
	for ref, sealed := range openings {
		if lives := ref == kept.CID; r.databaseHolds(sealed) != lives {
			t.Errorf("what the record of %s committed to is there: %t", ref, !lives)
		}
	}
	rows, proof := alice.chain("g", nil)
	r.verifies("g", rows, proof)
	for _, row := range rows {
		if row.IPFSHash != "" && (row.Opening != "") != (row.IPFSHash == kept.CID) {
			t.Errorf("%s of %s opens to %q", row.Kind, row.IPFSHash, row.Opening)
		}
	}
	for _, row := range alice.rows("g") {
		if row.IPFSHash != kept.CID && (row.OriginalSize != nil || row.FileHash == hash(make([]byte, 4_321))) {
			t.Errorf("a list tells %+v", row)
		}
	}
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 1 {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// openings reads what the records of files commit to, as it is kept.
func (r *running) openings() map[string][]byte {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close() // an open connection keeps SQLite's log
	rows, err := db.Query("SELECT ref, sealed FROM files JOIN openings ON openings.seq = files.seq")
	ok(r.t, err)
	defer rows.Close()
	all := map[string][]byte{}
	for rows.Next() {
		var ref string
		var sealed []byte
		ok(r.t, rows.Scan(&ref, &sealed))
		all[ref] = sealed
	}
	ok(r.t, rows.Err())
	return all
}

// TestThreat33StrangersToAnOpenGroup: who is no member of a group that is open to join sees the
// commitments of its files, and neither hash nor size.
func TestThreat33StrangersToAnOpenGroup(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpCreateHackathonGroup, object{"group_id": "open", "expires_at": "9000000000000000000"})
	content := []byte("for members")
	alice.upload("open", "f", content)
	tell := func(u *user) (hashes string, sizes int) {
		for _, row := range u.rows("open") {
			hashes += row.FileHash
			if row.OriginalSize != nil {
				sizes++
			}
		}
		rows, proof := u.chain("open", nil)
		r.verifies("open", rows, proof)
		for _, row := range rows {
			if o, err := chain.ParseOpening(row.Opening); err == nil {
				hashes += hex.EncodeToString(o.Hash[:])
				sizes++
			}
		}
		return hashes, sizes
	}
	listed, _ := bob.chain("open", nil)
	commitment := listed[len(listed)-1].FileHash
	if hashes, sizes := tell(bob); hashes != commitment || len(commitment) != 64 ||
		strings.Contains(hashes, hash(content)) || sizes != 0 {
		t.Errorf("a stranger sees %q, and %d sizes", hashes, sizes)
	}
	if hashes, sizes := tell(alice); hashes != hash(content)+hash(content) || sizes != 2 {
		t.Errorf("a member sees %q, and %d sizes", hashes, sizes)
	}
	must[string](bob, wire.OpJoinGroup, object{"group_id": "open"})
	if hashes, sizes := tell(bob); hashes != hash(content)+hash(content) || sizes != 2 {
		t.Errorf("who joined sees %q, and %d sizes", hashes, sizes)
	}
}
