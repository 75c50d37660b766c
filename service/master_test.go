package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// roots returns how many roots wrap keys of files, and how many master keys open
// the database.
func (r *running) roots() (roots, masters int) {
	r.t.Helper()
	s, err := store.Open(r.t.Context(), r.dir, r.database)
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close()
	err = s.Read(r.t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(r.t.Context(), `SELECT (SELECT count(DISTINCT version) FROM service_keys WHERE purpose = 'file keys'),
			(SELECT count(DISTINCT master) FROM service_keys)`).Scan(&roots, &masters)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return roots, masters
}

// beside opens another process's service over the same data.
func (r *running) beside(key service.MasterKey) (*service.Service, error) {
	r.t.Helper()
	svc, err := openService(r.t.Context(), service.Config{DataDir: r.dir, Database: r.database, MasterKey: key})
	if err == nil {
		r.t.Cleanup(func() { _ = svc.Close() })
	}
	return svc, err
}

func masterOf(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// rotated brings in another master key from beside the running service, to the
// end on every database.
func (r *running) rotated() service.Rotation {
	r.t.Helper()
	svc, err := r.beside(service.MasterKey{})
	if err != nil {
		r.t.Fatal(err)
	}
	done, err := svc.RotateMasterKey(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if done.Finished != (r.database == "") {
		r.t.Errorf("finished: %v", done.Finished)
	}
	if !done.Finished {
		if _, err := svc.FinishMasterKey(r.t.Context(), false); err != nil {
			r.t.Fatal(err)
		}
	}
	return done
}

// Threat 33, after a theft of the master key: a new one changes nothing for
// clients, and the old one opens nothing that the database holds now.
func TestThreat33MasterKeyRotation(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	up := alice.upload("g", "before", []byte("before"))
	small := alice.mustPut(alice.seals("g", "small", noise(5000))) // its key lies before the content
	open := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	before, key, old := r.logKey(), filepath.Join(r.dir, "master.key"), masterOf(t, filepath.Join(r.dir, "master.key"))
	oldVault := r.openVault()
	wrapped := r.wrappedKeys()

	done := r.rotated()
	if done.Keys != 4 || done.Bad != 0 || !bytes.Equal(masterOf(t, done.Before), old) ||
		bytes.Equal(masterOf(t, key), old) {
		t.Errorf("%+v", done)
	}
	if roots, masters := r.roots(); roots != 1 || masters != 1 {
		t.Errorf("%d roots, %d master keys", roots, masters)
	}
	for _, ref := range []string{up.CID, small.CID} {
		if len(wrapped[ref]) == 0 || r.databaseHolds(wrapped[ref]) && r.database == "" {
			t.Error("the database's files hold what the old master key opens")
		}
	}
	// The running service goes on, with the token from before.
	if content, _ := alice.retrieve("g", up.CID); string(content) != "before" || r.logKey() != before {
		t.Errorf("%q, log key %q", content, r.logKey())
	}
	must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
		wire.FinalizeUploadRequest{UploadID: open.UploadID, FileHash: hash([]byte("x")),
			EncryptedData: seal(t, open.Key, []byte("x"))})
	late := alice.upload("g", "after", []byte("after"))
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 4 {
		t.Errorf("%d files, %v", n, err)
	}
	// A second time: the running service has never read the first new key.
	r.rotated()
	if content, _ := alice.retrieve("g", late.CID); string(content) != "after" {
		t.Errorf("%q", content)
	}
	alice.upload("g", "later", []byte("later"))

	// The thief of the old key.
	if _, err := r.beside(service.MasterKey{File: done.Before}); err == nil ||
		!strings.Contains(err.Error(), "another master key") {
		t.Errorf("the old master key opens the database: %v", err)
	}
	if r.databaseHolds(r.serviceKey(vaultwire.PurposeTokens)) {
		t.Error("the database holds a key in the clear")
	}
	for ref, wrapped := range r.wrappedKeys() {
		if err := unwrapWith(oldVault, ref, wrapped); err == nil {
			t.Errorf("%s: what the old master key gave opens its key", ref)
		}
	}
}

// unwrapWith unwraps with the keys a thief has, without the database.
func unwrapWith(k *keys.Keys, ref string, wrapped []byte) error {
	_, err := k.Check(context.Background(), vaultwire.Check{WrappedKey: vaultwire.WrappedKey{Wrapped: wrapped,
		Binding: vaultwire.Binding{Group: "g", Ref: ref, Version: 1}}})
	return err
}

// Two processes serve while a third brings in other master keys: no upload and
// no retrieval fails, and every file opens afterwards.
func TestMasterKeyRotationUnderLoad(t *testing.T) {
	t.Parallel()
	r := run(t)
	other := runWith(t, service.Config{DataDir: r.dir, Database: r.database})
	var stop atomic.Bool
	var all sync.WaitGroup
	for i, at := range []*running{r, other} {
		u := at.user(fmt.Sprint("user", i), "100")
		group := fmt.Sprint("g", i)
		must[string](u, wire.OpRegisterGroup, object{"group_id": group})
		all.Go(func() {
			for n := 0; !stop.Load() && n < 2000; n++ {
				name := fmt.Sprint("file ", n)
				up := u.upload(group, name, []byte(name))
				if content, _ := u.retrieve(group, up.CID); string(content) != name {
					t.Errorf("%s: %q", name, content)
				}
			}
		})
	}
	for range 3 {
		r.rotated()
	}
	stop.Store(true)
	all.Wait()
	again, err := r.beside(service.MasterKey{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := again.Verify(t.Context(), false, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n == 0 {
		t.Errorf("%d files, %v", n, err)
	}
	if roots, masters := r.roots(); roots != 1 || masters != 1 {
		t.Errorf("%d roots, %d master keys", roots, masters)
	}
}

// A rotation that was interrupted is run again, or cancelled.
func TestMasterKeyRotationInterrupted(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	up := alice.upload("g", "kept", []byte("kept"))
	key := filepath.Join(r.dir, "master.key")
	old := masterOf(t, key)
	put := func(raw []byte) {
		t.Helper()
		ok(t, os.WriteFile(key, raw, 0o600))
	}
	begin := func() []byte { // and end before the new key is in its place
		t.Helper()
		v := r.openVault()
		_, err := v.ReadNext(t.Context(), vaultwire.ReadNext{Make: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), r.dir, r.database)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ok(t, s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error { return v.Begin(t.Context(), tx) }))
		return masterOf(t, key+".new")
	}
	reads := func() {
		t.Helper()
		svc, err := r.beside(service.MasterKey{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := svc.Verify(t.Context(), false, func(ref string, err error) { t.Error(ref, err) }); err != nil {
			t.Error(err)
		}
	}
	t.Run("before the new key is in its place", func(t *testing.T) {
		next := begin()
		reads()
		r.rotated()
		if !bytes.Equal(masterOf(t, key), next) {
			t.Error("the prepared key was not taken")
		}
		reads()
	})
	t.Run("the new key was lost before it came to its place", func(t *testing.T) {
		current := masterOf(t, key)
		begin()
		ok(t, os.Remove(key+".new"))
		svc, err := r.beside(service.MasterKey{})
		if err != nil {
			t.Fatal(err)
		}
		if next, err := svc.MasterKeyNextStep(t.Context()); err != nil ||
			!strings.Contains(next, "run it again: svcd rotate-master-key") {
			t.Errorf("the next step: %q, %v", next, err)
		}
		refused(t, "went on without the key", errOf(svc.RotateMasterKey(t.Context())), "--cancel")
		refused(t, "finished without the key", errOf(svc.FinishMasterKey(t.Context(), false)),
			"bring the new one to its place")
		if _, err := svc.FinishMasterKey(t.Context(), true); err != nil {
			t.Error(err)
		}
		refused(t, "cancelled twice", errOf(svc.FinishMasterKey(t.Context(), true)), "no other master key")
		reads()
		put(old)
		if _, err := r.beside(service.MasterKey{}); err == nil || !strings.Contains(err.Error(), "another master key") {
			t.Errorf("the first key opens the database: %v", err)
		}
		put(current)
		if content, _ := alice.retrieve("g", up.CID); string(content) != "kept" {
			t.Errorf("%q", content)
		}
	})
}

// The master key comes from a command, as base64 or 32 bytes, and another one
// while the old one goes on.
func TestMasterKeyFromACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := service.MasterKey{Command: "printf %s " + strings.Repeat("A", 43) + "="}
	r := runWith(t, service.Config{DataDir: filepath.Join(dir, "data"), MasterKey: key})
	alice := r.owner()
	up := alice.upload("g", "kept", []byte("kept"))
	if _, err := os.Stat(filepath.Join(r.dir, "master.key")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a master key was made in the data directory", err)
	}
	for command, want := range map[string]string{"exit 3": "exit status 3", "true": "holds no key",
		"echo secret-canary": "holds no key"} {
		_, err := r.beside(service.MasterKey{Command: command})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-canary") {
			t.Errorf("%s: %v", command, err)
		}
	}
	svc, err := r.beside(key)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, "no place for the new key", errOf(svc.RotateMasterKey(t.Context())), "--new-master-key-file")
	file := filepath.Join(dir, "new.key")
	svc, err = openService(t.Context(), service.Config{DataDir: r.dir, Database: r.database, MasterKey: key,
		NextMasterKey: service.MasterKey{File: file}})
	ok(t, err)
	t.Cleanup(func() { _ = svc.Close() })
	done, err := svc.RotateMasterKey(t.Context())
	if err != nil || done.Finished || done.Keys != 2 || done.Before != "" {
		t.Errorf("%+v, %v", done, err)
	}
	next := service.MasterKey{Command: "cat " + file}
	for _, both := range []service.MasterKey{key, next} {
		if _, err := r.beside(both); err != nil {
			t.Errorf("%v: %v", both.Command, err)
		}
	}
	alice.retrieve("g", up.CID) // reads the new root by the key from before, as the sweep does
	after, err := r.beside(next)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := after.FinishMasterKey(t.Context(), false); err != nil || !done.Finished {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := r.beside(key); !strings.Contains(service.NextStepOf(err), "have the command print") {
		t.Errorf("the old key opens the database: %v", err)
	}
	if content, _ := alice.retrieve("g", up.CID); string(content) != "kept" {
		t.Errorf("%q", content)
	}
}
