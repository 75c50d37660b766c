package files

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// rewrapRows is how many keys one transaction wraps anew.
const rewrapRows = 200

// wrappedRow is the key of a file, or a list key, with its binding.
type wrappedRow struct {
	vaultwire.WrappedKey
	place string // the rows are in the order of it
	keyID int64
}

// Rewrap wraps the key of every file, and the list key of every group, by the newest root, in place, and returns how
// many keys it changed and how many no root opens. An interrupted Rewrap is simply run again.
// Files that are added meanwhile use the newest root already. Uploads are read before
// files, so that an upload that becomes a file is found in one of the two.
func (f *Files) Rewrap(ctx context.Context) (changed, bad int, err error) {
	for _, page := range []store.Query{
		`SELECT uploads.id, key_id, group_id, ref, key_version, wrapped_key FROM uploads JOIN file_keys
			ON file_keys.id = uploads.key_id
			WHERE uploads.id > ? ORDER BY uploads.id LIMIT ?`,
		"SELECT ref, key_id, group_id, ref, key_version, " + selectWrapped +
			` FROM files WHERE key_id IS NOT NULL AND ref > ? ORDER BY ref LIMIT ?`,
		`SELECT groups.id, list_key, groups.id, '', 0, wrapped_key FROM groups JOIN file_keys ON file_keys.id = list_key
			WHERE groups.id > ? ORDER BY groups.id LIMIT ?`,
	} {
		for after, more := "", true; more; {
			var c, b, n int
			err := f.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
				rows, err := wrappedRows(ctx, tx, page, after)
				if err != nil || len(rows) == 0 {
					n = 0
					return err
				}
				n, after = len(rows), rows[len(rows)-1].place
				c, b, err = f.rewrapPage(ctx, tx, rows)
				return err
			})
			if err != nil {
				return changed, bad, fmt.Errorf("wrap keys anew: %w", err)
			}
			changed, bad, more = changed+c, bad+b, n == rewrapRows
		}
	}
	return changed, bad, nil
}

func wrappedRows(ctx context.Context, tx *store.Tx, page store.Query, after string) ([]wrappedRow, error) {
	return store.List(ctx, tx, "read wrapped keys", func(r *wrappedRow) []any {
		return []any{&r.place, &r.keyID, &r.Binding.Group, &r.Binding.Ref, &r.Binding.Version, &r.Wrapped}
	}, page, after, rewrapRows)
}

func (f *Files) rewrapPage(ctx context.Context, tx *store.Tx, rows []wrappedRow) (changed, bad int, err error) {
	list := make([]vaultwire.WrappedKey, len(rows))
	for i, r := range rows {
		list[i] = r.WrappedKey
	}
	again, err := f.keys.RewrapKeys(ctx, tx, list)
	if err != nil {
		return 0, 0, err
	}
	for i, wrapped := range again.Wrapped {
		if wrapped == nil {
			continue
		}
		if err := replaceKey(ctx, tx, rows[i].keyID, wrapped); err != nil {
			return changed, 0, err
		}
		changed++
	}
	return changed, len(again.Bad), nil // svcd verify names them
}

// replaceKey overwrites a wrapped key by another.
func replaceKey(ctx context.Context, tx *store.Tx, id int64, wrapped []byte) error {
	if id > 0 {
		_, err := tx.ExecContext(ctx, "UPDATE file_keys SET wrapped_key = ? WHERE id = ?", wrapped, id)
		return err
	}
	var data []byte
	if err := tx.QueryRowContext(ctx, "SELECT data FROM small_contents WHERE id = ?", -id).Scan(&data); err != nil {
		return err
	}
	copy(data, wrapped)
	_, err := tx.ExecContext(ctx, "UPDATE small_contents SET data = ? WHERE id = ?", data, -id)
	return err
}
