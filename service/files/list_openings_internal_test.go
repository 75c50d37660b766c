package files

import (
	"errors"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Writes are committed together, and each sees those before it: one that reads the list key which another
// one made must not keep it in memory, because the commit may fail. What it sealed later could
// never be opened again.
func TestListKeyOfACommitThatFailed(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	k, err := vaulttest.Open(t.Context(), s, vaultwire.InDirectory(dir))
	if err != nil {
		t.Fatal(err)
	}
	write := func(f func(*store.Tx) error) error {
		t.Helper()
		return s.Write(t.Context(), store.Everything(), f)
	}
	if err := write(func(tx *store.Tx) error {
		for _, statement := range []store.Query{
			"INSERT INTO accounts (id, credential, key_generation, balance, created_ns) VALUES ('alice', x'00', 1, " +
				"'0', 1)",
			"INSERT INTO groups (id, owner, joinable, key_version) VALUES ('g', 'alice', FALSE, 1)",
		} {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f := &Files{store: s, keys: k}
	opening := chain.Opening{Size: 7, Hash: chain.Hash{1}}
	lost := errors.New("the commit fails")
	if err := write(func(tx *store.Tx) error {
		if err := f.keepOpening(t.Context(), tx, "g", 1, &opening); err != nil {
			return err
		}
		if o, ok, err := f.opened(t.Context(), tx, "g", 1); err != nil || !ok || o != opening { // another write
			t.Errorf("read back: %v, %t, %v", o, ok, err)
		}
		return lost
	}); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	if err := write(func(tx *store.Tx) error { return f.keepOpening(t.Context(), tx, "g", 2, &opening) }); err != nil {
		t.Fatal(err)
	}
	restarted := &Files{store: s, keys: k}
	if err := s.Read(t.Context(), func(tx *store.Tx) error {
		o, ok, err := restarted.opened(t.Context(), tx, "g", 2)
		if !ok || o != opening {
			t.Errorf("after a restart what the record commits to is %v, %t", o, ok)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
