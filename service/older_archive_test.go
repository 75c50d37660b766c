package service_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/vault"
)

// sealed gives the trailer of a changed stream the digest and the seal that the service
// itself would give it.
func sealed(t *testing.T, dataDir string, list []entry) []byte {
	t.Helper()
	list = readStream(t, withDigest(t, list))
	last := &list[len(list)-1]
	var trailer map[string]any
	ok(t, json.Unmarshal(last.data, &trailer))
	master, err := vault.Source{File: filepath.Join(dataDir, vault.FileName)}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := master.ArchiveSeal()
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key[:])
	fmt.Fprintf(mac, "stream %s", trailer["digest"])
	trailer["seal"] = hex.EncodeToString(mac.Sum(nil))
	if last.data, err = json.Marshal(trailer); err != nil {
		t.Fatal(err)
	}
	return writeStream(t, list)
}

// An export of a service from before files had parts is read: what its rows lack has
// the default. One that is older still names the way.
func TestImportOfAnOlderSchema(t *testing.T) {
	source := run(t)
	owner, contents := fillService(t, source, 5)
	var b bytes.Buffer
	if _, err := source.svc.Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	since := map[string][]string{"files": {"content"}, "groups": {"format"}, "uploads": {"base", "block_size", "began_ns"}}
	older := func(schema int) []byte {
		var list []entry
		for _, e := range readStream(t, b.Bytes()) {
			table, _, _ := strings.Cut(strings.TrimPrefix(e.name, "rows/"), "/")
			switch {
			case e.name == headerPrefix:
				var header map[string]any
				ok(t, json.Unmarshal(e.data, &header))
				if schema != 0 {
					header["schema"] = schema
				}
				e.data, _ = json.Marshal(header)
			case since[table] != nil:
				var rows bytes.Buffer
				for line := range bytes.Lines(e.data) {
					var row map[string]json.RawMessage
					ok(t, json.Unmarshal(line, &row))
					for _, column := range since[table] {
						delete(row, column)
					}
					ok(t, json.NewEncoder(&rows).Encode(row))
				}
				e.data = rows.Bytes()
			}
			list = append(list, e)
		}
		return sealed(t, source.dir, list)
	}
	target := runWith(t, service.Config{DataDir: masterKeyOnly(t, source.dir), Database: newDatabase(t)})
	refused(t, "much older", errOf(target.svc.Import(t.Context(), bytes.NewReader(older(17)))), "upgrade that service, then export again")
	refused(t, "not older", errOf(target.svc.Import(t.Context(), bytes.NewReader(older(0)))), "a row has no format")
	if _, err := target.svc.Import(t.Context(), bytes.NewReader(older(18))); err != nil {
		t.Fatal(err)
	}
	target.clean(len(contents) + 1)
	u := owner.signsInAt(target)
	for ref, want := range contents {
		u.reads(ref, string(want))
	}
	if got := must[wire.FormatResult](u, wire.OpGetGroupFormat, object{"group_id": "g"}); got.Format != 2 {
		t.Errorf("the format is %d", got.Format)
	}
}

// Parts of a service that took a SHA-256 of each, too, are read and checked: from its database, its backup
// and its export. What leaves it again is proved by the leaves.
func TestPartsWithSumsOpen(t *testing.T) {
	if newDatabase(t) != "" {
		return // the backup is a SQLite database
	}
	old := unpack(t, filepath.Join("testdata", "parts-22.tar.gz"))
	export, err := os.ReadFile(filepath.Join(old, "export.tar"))
	ok(t, err)
	checked := func(r *running) {
		t.Helper()
		r.clean(1)
		account, err := r.svc.RotateKey(t.Context(), "alice")
		ok(t, err)
		alice := &user{running: r, id: account.AccountID, key: account.APIKey.Reveal()}
		alice.login()
		rows := alice.rows("g")
		if got := string(alice.opens(rows[len(rows)-1].IPFSHash).blocks(0, 1)); got != "kept in one sealed block" {
			t.Errorf("the file holds %q", got)
		}
	}
	target := func() *running { return runWith(t, service.Config{DataDir: masterKeyOnly(t, old)}) }
	restore := func(backup string) (*running, error) {
		dir := masterKeyOnly(t, old)
		if _, err := service.Restore(t.Context(), backup, dir, service.MasterKey{}); err != nil {
			return nil, err
		}
		return runWith(t, service.Config{DataDir: dir}), nil
	}
	restored, err := restore(filepath.Join(old, "backup"))
	ok(t, err)
	checked(restored)
	imported := target()
	if _, err := imported.svc.Import(t.Context(), bytes.NewReader(export)); err != nil {
		t.Fatal(err)
	}
	checked(imported)
	var again bytes.Buffer
	if _, err := restored.svc.Export(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	moved := target()
	if _, err := moved.svc.Import(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	checked(moved)
	backup := filepath.Join(t.TempDir(), "backup")
	if _, err := moved.svc.Backup(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	restored, err = restore(backup)
	ok(t, err)
	checked(restored)

	list := readStream(t, export)
	for i := range list {
		if strings.HasPrefix(list[i].name, "blobs/") {
			list[i].data = bytes.Clone(list[i].data)
			list[i].data[20] ^= 1
		}
	}
	_, err = target().svc.Import(t.Context(), bytes.NewReader(sealed(t, old, list)))
	refused(t, "an old export with another part", err, "was changed on the way")
}

// A part whose bytes are not those of its leaves leaves no service, and enters none.
func TestChangedPartsDoNotMove(t *testing.T) {
	r := runWith(t, service.Config{Database: newDatabase(t)})
	alice := r.owner()
	alice.savesAll("f", contentOf("a", 3))
	var stream bytes.Buffer
	if _, err := r.svc.Export(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	list := readStream(t, stream.Bytes())
	imports := func(what, word string, change func(*entry)) {
		t.Helper()
		changed := slices.Clone(list)
		for i := range changed {
			if strings.HasPrefix(changed[i].name, "blobs/") {
				change(&changed[i])
			}
		}
		target := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
		_, err := target.svc.Import(t.Context(), bytes.NewReader(sealed(t, r.dir, changed)))
		if word == "" {
			ok(t, err)
			return
		}
		refused(t, what, err, word)
	}
	imports("as it was", "", func(*entry) {})
	imports("another byte", "was changed on the way", func(e *entry) {
		e.data = bytes.Clone(e.data)
		e.data[len(e.data)-1] ^= 1
	})
	imports("nothing that proves it", "was changed on the way", func(e *entry) { e.header = nil })
	imports("blocks of another size", "was changed on the way", func(e *entry) { e.header = map[string]string{"SVCD.sealed": "131100"} })
	imports("blocks of no size", "which svcd does not write", func(e *entry) { e.header = map[string]string{"SVCD.sealed": "-1"} })

	backup := filepath.Join(t.TempDir(), "backup")
	if r.database == "" {
		if _, err := r.svc.Backup(t.Context(), backup, false); err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "copy")
		ok(t, os.CopyFS(copied, os.DirFS(backup))) // the backup shares its files with the service
		backup = copied
	}
	for _, dir := range []string{filepath.Join(r.dir, "blobs"), filepath.Join(backup, "blobs")} {
		if found, _ := filepath.Glob(filepath.Join(dir, "??", "*")); len(found) > 0 {
			flip(t, found[0], 70_000)
		}
	}
	refused(t, "an export", errOf(r.svc.Export(t.Context(), io.Discard)), "was changed since it was stored")
	if r.database == "" {
		_, err := service.Restore(t.Context(), backup, masterKeyOnly(t, r.dir), service.MasterKey{})
		refused(t, "a backup", err, "it is damaged in the backup")
	}
}
