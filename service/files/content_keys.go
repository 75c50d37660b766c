package files

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Wrapped keys have a table of their own, file_keys. Its rows are appended, never
// removed, and overwritten by rows of the same size: so SQLite changes them in
// place. A row that moves to another page leaves a copy where it was, which no
// deletion reaches, and in the other tables rows move.
//
// Where the small content of a file comes with its key, the key lies before the content in
// small_contents, whose rows are kept in the same way: key_id is then the row's id, negative.

// wrappedBytes is the size of a wrapped key: nonce, key and tag.
const wrappedBytes = 12 + 32 + 16

// selectWrapped is, in wrappedBytes, the wrapped key that key_id of a row refers to, NULL without any.
const selectWrapped = `CASE WHEN key_id < 0 THEN (SELECT substr(data, 1, 60) FROM small_contents
	WHERE small_contents.id = -key_id)
	ELSE (SELECT wrapped_key FROM file_keys WHERE file_keys.id = key_id) END`

// wrapKey wraps a file's key by a root.
func (f *Files) wrapKey(ctx context.Context, tx *store.Tx, root int64, b vaultwire.Binding,
	key keys.Incoming) ([]byte, error) {
	wrapped, err := f.keys.WrapKey(ctx, tx, root, b, key)
	if err == nil && len(wrapped) != wrappedBytes {
		err = fmt.Errorf("store key: %d bytes, want %d", len(wrapped), wrappedBytes)
	}
	return wrapped, err
}

// askKeyPlace asks for the newest root, and for the place of a key: one that is free, NULL without any, and a new
// one.
func askKeyPlace() store.Ask {
	return store.Ask{Query: "SELECT (" + keys.SelectNewestRoot + "), (SELECT id FROM free_file_keys LIMIT 1), " +
		"(SELECT id FROM next_file_keys)", Whole: true}
}

// storeKey keeps a file's key, wrapped by the newest root, and returns its place.
func (f *Files) storeKey(ctx context.Context, tx *store.Tx, b vaultwire.Binding, key keys.Incoming) (id int64,
	err error) {
	var newest, after int64
	var free sql.NullInt64
	if err := tx.Ask(ctx, askKeyPlace()).Scan(&newest, &free, &after); err != nil {
		return 0, fmt.Errorf("look for a place for the key: %w", err)
	}
	wrapped, err := f.wrapKey(ctx, tx, newest, b, key)
	if err != nil {
		return 0, err
	}
	if free.Valid {
		return free.Int64, tx.Do(ctx, "store key", "UPDATE file_keys SET wrapped_key = ?, free = ? WHERE id = ?",
			wrapped, false, free.Int64)
	}
	return after, tx.Do(ctx, "store key", "INSERT INTO file_keys (id, wrapped_key, free) VALUES (?, ?, ?)", after,
		wrapped, false)
}

// destroyKeys overwrites keys; condition, with its args, selects their ids. Those that lie
// before a content are overwritten with it.
func destroyKeys(ctx context.Context, tx *store.Tx, condition store.Query, args ...any) error {
	return tx.Do(ctx, "destroy key", "UPDATE file_keys SET wrapped_key = ?, free = ? WHERE id IN ("+condition+")",
		append([]any{make([]byte, wrappedBytes), true}, args...)...)
}
