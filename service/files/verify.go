package files

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// Verify checks every living file: its blob has the right size, its key unwraps, and
// with readData its bytes have their checksum. It calls report with each file that
// fails.
func (f *Files) Verify(ctx context.Context, readData bool, report func(ref string, err error)) (checked int, err error) {
	type row struct {
		ref, group string
		file
	}
	var all []row
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		for rows, err := range tx.Rows(ctx, `SELECT ref, group_id, blob_id, blob_size, blob_sum, key_version, wrapped_key
			FROM files LEFT JOIN file_keys ON file_keys.id = files.key_id WHERE deleted_ns IS NULL ORDER BY seq`) {
			var r row
			var sum []byte
			if err == nil {
				err = rows.Scan(&r.ref, &r.group, &r.blob.ID, &r.blob.Size, &sum, &r.keyVersion, &r.wrapped)
			}
			if err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			copy(r.blob.Sum[:], sum)
			all = append(all, r)
		}
		return nil
	})
	for _, r := range all {
		if err := ctx.Err(); err != nil {
			return checked, err
		}
		checked++
		if err := f.verify(ctx, r.group, r.ref, r.file, readData); err != nil && f.lives(ctx, r.ref) {
			report(r.ref, err)
		}
	}
	return checked, err
}

// lives reports that a file was not deleted meanwhile.
func (f *Files) lives(ctx context.Context, ref string) bool {
	lives := true
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT deleted_ns IS NULL FROM files WHERE ref = ?", ref).Scan(&lives)
	})
	return err != nil || lives
}

func (f *Files) verify(ctx context.Context, group, ref string, row file, readData bool) error {
	err := f.store.Look(ctx, func(tx *store.Tx) error {
		_, _, err := f.vault.UnwrapFileKey(ctx, tx, vault.Binding{Group: group, Ref: ref, Version: row.keyVersion}, row.wrapped)
		return err
	})
	if err != nil {
		return err
	}
	if row.blob.ID == ref {
		return nil // a legacy reference whose bytes were not asked for yet
	}
	r, err := f.openBlob(ctx, row.blob)
	if err != nil {
		return err
	}
	defer r.Close()
	if !readData {
		return nil
	}
	return checkSum(r, row.blob)
}

func checkSum(r io.Reader, want blob.Info) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return damaged("unreadable", err)
	}
	if [sha256.Size]byte(hash.Sum(nil)) != want.Sum {
		return damaged("changed", nil)
	}
	return nil
}
