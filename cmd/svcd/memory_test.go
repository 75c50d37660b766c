package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// needles are texts that are looked for in memory, by their names, and by their first bytes.
type needles map[[8]byte]map[string][]byte

func (n needles) add(name string, secret []byte) {
	for _, form := range [][]byte{secret, []byte(base64.StdEncoding.EncodeToString(secret)),
		[]byte(base64.RawURLEncoding.EncodeToString(secret))} {
		first := [8]byte(form)
		if n[first] == nil {
			n[first] = map[string][]byte{}
		}
		n[first][name] = form
	}
}

// in are the names of those in the memory of a process.
func (n needles) in(t *testing.T, pid int) map[string]bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if errors.Is(err, fs.ErrPermission) { // nobody else may look into svcd
		t.Skip(proctest.LeftOut + "only root can read the memory of svcd")
	}
	ok(t, err)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	ok(t, err)
	defer memory.Close()
	found, searched := map[string]bool{}, 0
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var may string
		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &may)
		ok(t, err)
		if may[0] != 'r' || strings.Contains(line, "[vsyscall]") {
			continue
		}
		raw := make([]byte, to-from)
		size, err := memory.ReadAt(raw, int64(from))
		if size == 0 && (errors.Is(err, syscall.EIO) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EFAULT)) {
			continue // the kernel's own, or locked away
		}
		searched += size
		n.search(raw[:size], found)
	}
	t.Logf("searched %d MiB", searched>>20)
	return found
}

func (n needles) search(raw []byte, found map[string]bool) {
	for i := 0; i+8 <= len(raw); i++ {
		for name, form := range n[[8]byte(raw[i:i+8])] {
			if bytes.HasPrefix(raw[i:], form) {
				found[name] = true
			}
		}
	}
}

// Threat 79: after many uploads and reads of svcfs the memory of svcd has no API key, no key of a file, no root, no key
// of the log or of sessions, and no master key. What a client read in the clear is found there, so the search is good.
func TestThreat79MemoryOfSvcdHasNoKeys(t *testing.T) {
	const files = 20
	reads := 2 // of each
	if n, err := strconv.Atoi(os.Getenv("SVCD_READS")); err == nil {
		reads = n
	}
	p := startServe(t)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	out := mustRun(t, "account", "create", "alice", "--data", p.data, "--balance", "1000000")
	ok(t, json.Unmarshal([]byte(out), &made))
	c, err := sdk.New(sdk.AccountID(made.ID), sdk.Config{URL: p.url, APIKey: sdk.NewSecret(made.Key)})
	ok(t, err)
	defer c.Close()
	g := c.Group("g")
	_, err = g.Register(t.Context())
	ok(t, err)
	for i := range files {
		name := fmt.Sprint("file", i)
		_, err := g.Put(t.Context(), name, strings.NewReader(name))
		ok(t, err)
	}
	list, err := g.Entries(t.Context())
	ok(t, err)
	for i := range files * reads {
		e := list[i%files]
		f, err := g.OpenEntry(t.Context(), e)
		ok(t, err)
		if content, err := io.ReadAll(f); err != nil || string(content) != e.Name {
			t.Errorf("%q: %v", content, err)
		}
		_ = f.Close()
	}
	s, err := store.Open(t.Context(), p.data, "")
	ok(t, err)
	defer s.Close()
	from := vaultwire.InDirectory(p.data)
	keys, err := vaulttest.Open(t.Context(), s, from)
	ok(t, err)
	secrets := needles{}
	master, err := os.ReadFile(filepath.Join(p.data, "master.key"))
	ok(t, err)
	secrets.add("master key", master[:32])
	secrets.add("API key", []byte(made.Key))
	for _, purpose := range vaultwire.Purposes() {
		if purpose == vaultwire.PurposeTickets { // which svcd signs itself
			continue
		}
		secret, err := vaulttest.Secret(t.Context(), s, from, purpose)
		ok(t, err)
		secrets.add("key for "+purpose, secret)
	}
	var inClear string
	ok(t, s.Read(t.Context(), func(tx *store.Tx) error {
		for rows, err := range tx.Rows(t.Context(), `SELECT ref, wrapped_key FROM files
			JOIN file_keys ON file_keys.id = key_id
			UNION ALL SELECT ref, substr(data, 1, 60) FROM files JOIN small_contents ON small_contents.id = -key_id`) {
			if err != nil {
				return err
			}
			key := vaultwire.WrappedKey{Binding: vaultwire.Binding{Group: "g", Version: 1}}
			if err := rows.Scan(&key.Binding.Ref, &key.Wrapped); err != nil {
				return err
			}
			opened, err := vaulttest.OpenFile(t.Context(), keys, key)
			if err != nil {
				return err
			}
			secrets.add("key of a file "+key.Binding.Ref, opened.Key)
			inClear = key.Binding.Ref
		}
		return nil
	}))
	secrets.add("id of the account", []byte(made.ID))
	found := secrets.in(t, p.cmd.Process.Pid)
	if !found["id of the account"] {
		t.Error("the search finds nothing")
	}
	delete(found, "id of the account")
	for name := range found {
		t.Errorf("the memory of svcd has the %s", name)
	}
	for range 20 {
		call[wire.PrepareRetrieveResult](t, p, made.ID, made.Key, wire.OpPrepareRetrieve,
			map[string]string{"group_id": "g", "ipfs_hash": inClear})
	}
	if found := secrets.in(t, p.cmd.Process.Pid); !found["key of a file "+inClear] {
		t.Error("a key that svcd gave in the clear is not found")
	}
}
