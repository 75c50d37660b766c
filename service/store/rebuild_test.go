package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// The table of files is built anew by the migration 25: every row, what refers to it, and what
// counts it is as before.
func TestFilesAreBuiltAnew(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.FileName)+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.Exec(statement, args...); err != nil {
			t.Fatalf("%.80s: %v", statement, err)
		}
	}
	files, err := filepath.Glob("migrations/sqlite/*.sql")
	if err != nil || len(files) < 25 {
		t.Fatal(files, err)
	}
	for _, file := range files[:24] {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		exec(string(raw))
	}
	exec("PRAGMA user_version = 24")
	exec("BEGIN")
	exec("INSERT INTO accounts (id, key_hash, key_generation, balance, created_ns) VALUES ('a', x'00', 1, '1', 1)")
	exec("INSERT INTO groups (id, owner, joinable, key_version) VALUES ('g', 'a', 0, 1)")
	for i := range 300 {
		blob := fmt.Sprintf("%032x", i)
		if i%3 == 0 {
			blob = fmt.Sprintf("row:%012d:%016x", i, i)
			exec("INSERT INTO small_contents (id, size, data, free) VALUES (?, 256, zeroblob(256), 0)", i)
		}
		exec(`INSERT INTO files (ref, group_id, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, original_size, content_type, format, blob_id, blob_size, blob_sum,
			key_version, attributes, versioned) VALUES (?, 'g', ?, ?, ?, 'a', 'h', 5, ?, 7, 'text/plain', 'null', ?, 100, x'01', 1, '{}', 1)`,
			fmt.Sprint("ref", i), i, i, fmt.Sprint("tx", i), fmt.Sprint("name", i), blob)
	}
	exec("INSERT INTO parts (id, blob_id, blob_size, blob_sum, group_id, account, blocks, block_size, leaves) VALUES ('p', 'pb', 10, x'02', 'g', 'a', '0', 1, x'03')")
	exec("INSERT INTO part_uses (part, ref) VALUES ('p', 'ref7')")
	exec("INSERT INTO contents (ref, block_size, manifest, tops) VALUES ('ref7', 1, x'04', x'')")
	exec("COMMIT")
	dump := func() (text string) {
		t.Helper()
		for _, query := range []string{"SELECT group_concat(ref || seq || changed_seq || tx_id || filename || blob_id || blob_size || attributes || versioned || content || backend, ';') FROM (SELECT * FROM files ORDER BY seq)",
			"SELECT group_concat(part || ref) FROM part_uses", "SELECT group_concat(ref || hex(manifest)) FROM contents", "SELECT group_concat(kind || name || bytes) FROM stored_bytes"} {
			var one string
			if err := db.QueryRow(query).Scan(&one); err != nil {
				t.Fatal(err)
			}
			text += one + "\n"
		}
		return text
	}
	before := dump()
	s, err := store.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if after := dump(); after != before {
		t.Errorf("before:\n%.300s\nafter:\n%.300s", before, after)
	}
	for query, want := range map[string]string{"SELECT count(*) FROM pragma_foreign_key_check": "0", "SELECT * FROM pragma_integrity_check": "ok"} {
		var got string
		if err := db.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s, %v", query, got, err)
		}
	}
	exec("UPDATE files SET deleted_ns = 9 WHERE ref IN ('ref3', 'ref4')") // counted, and the small content is destroyed
	var bytes, free int64
	if err := db.QueryRow("SELECT (SELECT bytes FROM stored_bytes WHERE kind = 'group'), (SELECT count(*) FROM small_contents WHERE free)").Scan(&bytes, &free); err != nil || bytes != 298*100+10 || free != 1 {
		t.Errorf("%d bytes are counted, %d rows are free, %v", bytes, free, err)
	}
	for _, statement := range []string{"INSERT INTO part_uses (part, ref) VALUES ('p', 'none')", "UPDATE files SET blob_id = '" + fmt.Sprintf("%032x", 1) + "' WHERE ref = 'ref2'"} {
		if _, err := db.Exec(statement); err == nil {
			t.Errorf("taken: %s", statement)
		}
	}
}
