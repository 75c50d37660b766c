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
