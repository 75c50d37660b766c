package files

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// The record of a file holds a commitment to size and hash of the plaintext. The table openings has
// what it opens to, sealed under the list key of the group. Lists give it to members. It is
// overwritten when the key of the file is destroyed.

// mostListKeys is how many list keys a process holds, about 1 KiB each.
const mostListKeys = 4096

// listKeys are list keys in memory, by group. The zero value is ready.
type listKeys struct {
	mu sync.Mutex
	of map[string]keys.ListKey
}

func (l *listKeys) get(group string) (keys.ListKey, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, ok := l.of[group]
	return key, ok
}

func (l *listKeys) keep(group string, key keys.ListKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || len(l.of) >= mostListKeys {
		l.of = map[string]keys.ListKey{}
	}
	l.of[group] = key
}

// listKey returns the list key of a group, the zero value if the group never had a file. A transaction that
// writes does not keep it in memory: it may see a key of its own, or of a write that is committed with
// it, and roll back.
func (f *Files) listKey(ctx context.Context, tx *store.Tx, group string) (keys.ListKey, error) {
	if key, ok := f.listKeys.get(group); ok {
		return key, nil
	}
	return f.readListKey(ctx, tx, group)
}

// committedListKey is listKey for a transaction that only reads: the next calls find the key in memory.
func (f *Files) committedListKey(ctx context.Context, tx *store.Tx, group string) (keys.ListKey, error) {
	if key, ok := f.listKeys.get(group); ok {
		return key, nil
	}
	key, err := f.readListKey(ctx, tx, group)
	if err == nil && key != (keys.ListKey{}) {
		f.listKeys.keep(group, key)
	}
	return key, err
}

func askListKey(group string) store.Ask {
	return store.Ask{Query: "SELECT wrapped_key FROM groups JOIN file_keys ON file_keys.id = list_key WHERE " +
		"groups.id = ?", Args: []any{group}}
}

func (f *Files) readListKey(ctx context.Context, tx *store.Tx, group string) (key keys.ListKey, err error) {
	var wrapped []byte
	err = tx.Ask(ctx, askListKey(group)).Scan(&wrapped)
	if errors.Is(err, sql.ErrNoRows) {
		return key, nil
	}
	if err != nil {
		return key, fmt.Errorf("read the list key: %w", err)
	}
	if key, err = f.keys.OpenListKey(ctx, tx, group, wrapped); err != nil {
		return key, fmt.Errorf("list key of group %q: %w", group, err)
	}
	return key, nil
}

// keepOpening seals the opening of the upload with a sequence. The first one of a group makes its
// list key.
func (f *Files) keepOpening(ctx context.Context, tx *store.Tx, group string, seq int64, o *chain.Opening) error {
	key, err := f.listKey(ctx, tx, group)
	if err == nil && key == (keys.ListKey{}) {
		key, err = f.makeListKey(ctx, tx, group)
	}
	if err != nil {
		return err
	}
	return tx.Do(ctx, "keep what the record commits to", "INSERT INTO openings (seq, sealed) VALUES (?, ?)", seq,
		key.Seal(seq, o))
}

func (f *Files) makeListKey(ctx context.Context, tx *store.Tx, group string) (key keys.ListKey, err error) {
	raw, err := format.RandomKey()
	if err != nil {
		return key, err
	}
	defer raw.Wipe()
	id, err := f.storeKey(ctx, tx, vaultwire.ListBinding(group), keys.InClear(raw))
	if err != nil {
		return key, err
	}
	if err := tx.Do(ctx, "keep the list key", "UPDATE groups SET list_key = ? WHERE id = ?", id, group); err != nil {
		return key, err
	}
	return keys.NewListKey(raw)
}

// selectOpening is the sealed opening of the file of a row, NULL without any.
const selectOpening = "(SELECT sealed FROM openings WHERE openings.seq = files.seq)"

// opened returns what the record of an upload of a group commits to; ok is false once that is
// destroyed.
func (f *Files) opened(ctx context.Context, tx *store.Tx, group string, seq int64) (o chain.Opening,
	ok bool, err error) {
	key, err := f.listKey(ctx, tx, group)
	if err != nil {
		return o, false, err
	}
	var sealed []byte
	err = tx.QueryRowContext(ctx, "SELECT sealed FROM openings WHERE seq = ?", seq).Scan(&sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return o, false, fmt.Errorf("read what a record commits to: %w", err)
	}
	o, ok = key.Open(seq, sealed)
	return o, ok, nil
}

// withContent returns the references of the living files of a group whose plaintext has a hash, among
// those of a condition, the oldest first. It opens what each commits to: the condition selects few.
func (f *Files) withContent(ctx context.Context, tx *store.Tx, group, hash string, condition store.Query,
	args ...any) (refs []string, err error) {
	key, err := f.listKey(ctx, tx, group)
	if err != nil {
		return nil, err
	}
	query := "SELECT ref, seq, " + selectOpening + " FROM files WHERE group_id = ? AND deleted_ns IS NULL AND " +
		condition + " ORDER BY seq"
	type file struct {
		ref    string
		seq    int64
		sealed []byte
	}
	for x, err := range store.Each(ctx, tx, "look for content",
		func(x *file) []any { return []any{&x.ref, &x.seq, &x.sealed} }, query, append([]any{group}, args...)...) {
		if err != nil {
			return nil, err
		}
		if o, ok := key.Open(x.seq, x.sealed); ok && hashText(o.Hash) == hash {
			refs = append(refs, x.ref)
		}
	}
	return refs, nil
}

// sameContent returns a file without a name, if it lives, and all of its group that clients show
// under the same name: without one, and with the same content and type.
func (f *Files) sameContent(ctx context.Context, tx *store.Tx, group, ref string) (map[string]bool, error) {
	var seq int64
	var contentType string
	err := tx.QueryRowContext(ctx, "SELECT seq, content_type FROM files WHERE ref = ? AND group_id = ?", ref,
		group).Scan(&seq, &contentType)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	o, ok, err := f.opened(ctx, tx, group, seq)
	if err != nil || !ok {
		return nil, err
	}
	refs, err := f.withContent(ctx, tx, group, hashText(o.Hash), groups.SelectNamed+" AND content_type = ?", "", "",
		contentType)
	same := make(map[string]bool, len(refs))
	for _, r := range refs {
		same[r] = true
	}
	return same, err
}

// destroyOpening overwrites what the record of a file commits to.
func destroyOpening(ctx context.Context, tx *store.Tx, ref string) error {
	return tx.Do(ctx, "destroy what the record commits to",
		"UPDATE openings SET sealed = ? WHERE seq = (SELECT seq FROM files WHERE ref = ?)",
		make([]byte, keys.SealedOpeningBytes), ref)
}

// checkSalt refuses a salt of another form; "" is none.
func checkSalt(text string) error {
	if text == "" || isHash(strings.ToLower(text)) {
		return nil
	}
	return fault.New(wire.CodeValidation, "salt must be 64-char hex (%d random bytes)", chain.SaltBytes)
}

// openingOf is what the record of an upload commits to. Salt and hash were checked.
func openingOf(hash, salt string, size int64) (o chain.Opening) {
	o.Size = size
	_, _ = hex.Decode(o.Hash[:], []byte(hash))
	if n, _ := hex.Decode(o.Salt[:], []byte(salt)); n == 0 {
		_, _ = rand.Read(o.Salt[:]) // never fails
	}
	return o
}

// hashText is the hash of a file in hex, "" where the writer did not know it.
func hashText(h chain.Hash) string {
	if h == (chain.Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}
