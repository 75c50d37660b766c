package service_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
)

// unpack writes a data directory that testdata holds into a new one.
func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A data directory that is older than chains opens, is intact, and continues. The first
// record of a chain counts and fixes the old ones in it. Old and new records are proven
// together, and the signed history is continued.
func TestThreat26OldLedgerContinues(t *testing.T) {
	if newDatabase(t) != "" {
		return // it is a SQLite database
	}
	dir := unpack(t, filepath.Join("testdata", "ledger-1.tar.gz"))
	signed, err := os.ReadFile(filepath.Join(dir, "tlog", "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Split(string(signed), "\n")
	size, err1 := strconv.ParseInt(old[1], 10, 64)
	root, err2 := tlog.ParseHash(old[2])
	if err1 != nil || err2 != nil || old[3] != "" {
		t.Fatalf("checkpoint %q", signed)
	}
	r := runWith(t, service.Config{DataDir: dir})
	audited := func(records int64) {
		t.Helper()
		if got, err := r.svc.Audit(t.Context()); err != nil || got != records {
			t.Errorf("audit: %d records, %v, want %d", got, err, records)
		}
	}
	audited(size)
	account, err := r.svc.RotateKey(t.Context(), "alice") // whose chain goes on, and no group's
	if err != nil {
		t.Fatal(err)
	}
	alice := &user{running: r, id: account.AccountID, key: account.APIKey.Reveal()}
	alice.login()
	rows, proof := alice.chain("team", object{"known_size": size})
	if now := r.verifies("team", rows, proof); now.N < size {
		t.Errorf("signed are %d of %d records", now.N, size)
	}
	if len(rows) != 12 || rows[0].Chain != "" || *rows[3].Filename != "late.txt" || rows[3].Detail != "" || *rows[3].OriginalSize != 4 || *rows[3].ContentType != "text/plain" {
		t.Errorf("%d rows, the fourth %+v", len(rows), rows[3])
	}
	if plain := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": "team", "kinds": wire.KindsAll}); len(plain) != 13 {
		t.Errorf("a client of the old layout lists %d old records", len(plain))
	}

	first := alice.upload("team", "first", []byte("new"))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "team", "ipfs_hash": rows[3].IPFSHash})
	rows, proof = alice.chain("team", object{"known_size": size})
	r.verifies("team", rows, proof)
	if row := rows[12]; row.Number != 13 || tag(row, chain.TagContinues) != "12" || tag(row, chain.TagAfter) != "" || row.TransID != first.TransID {
		t.Errorf("the first of the new layout in the chain: %+v", row)
	}
	if row := rows[13]; tag(row, chain.TagContinues) != "" || tag(row, chain.TagName) != "late.txt" || tag(row, chain.TagUploader) != "bob.svc.testnet" || tag(row, chain.TagSize) != "4" {
		t.Errorf("the second: %+v", row)
	}
	now := r.checkpoint()
	path, err := tlog.ProveTree(now.N, size, tlog.TileHashReader(now, tiles{r}))
	if err != nil || tlog.CheckTree(path, now.N, now.Hash, size, root) != nil {
		t.Errorf("the new tree of %d does not continue the old of %d: %v", now.N, size, err)
	}
	audited(size + 3) // rotated key, upload, deletion
	again := r.again()
	if got := again.checkpoint(); got != now {
		t.Errorf("after a restart: %+v, before %+v", got, now)
	}
	t.Run("it moves with both layouts, as a stream and as a backup", func(t *testing.T) {
		var stream bytes.Buffer
		if _, err := r.svc.Export(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		moved := runWith(t, service.Config{DataDir: masterKeyOnly(t, dir)})
		if _, err := moved.svc.Import(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if _, err := r.svc.Backup(t.Context(), backup, false); err != nil {
			t.Fatal(err)
		}
		home := masterKeyOnly(t, dir)
		if _, err := service.Restore(t.Context(), backup, home, service.MasterKey{}); err != nil {
			t.Fatal(err)
		}
		for name, there := range map[string]*running{"imported": moved, "restored": runWith(t, service.Config{DataDir: home})} {
			if got, err := there.svc.Audit(t.Context()); err != nil || got != size+3 {
				t.Errorf("%s: audit: %d records, %v", name, got, err)
			}
			alice := alice.signsInAt(there)
			rows, proof := alice.chain("team", nil)
			there.verifies("team", rows, proof)
		}
	})
}
