package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Verify checks every living file: its blob has the right size, its key unwraps, what its record commits to
// opens, and with readData its bytes have their checksum. Of a file of format version 2 it also checks
// that manifest and hashes lead to what the ledger has, and that each part is there, with its
// size, and with readData with its blocks. It calls report with each file that fails.
func (f *Files) Verify(ctx context.Context, readData bool,
	report func(ref string, err error)) (checked int, err error) {
	type row struct {
		ref, group, content, commitment string
		seq                             int64
		opening                         []byte // sealed
		file
	}
	var all []row
	parts, err := f.verifyParts(ctx, readData)
	if err != nil {
		return 0, err
	}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		for rows, err := range tx.Rows(ctx, `SELECT ref, group_id, blob_id, blob_size, blob_sum, key_version, `+
			selectWrapped+`, CASE WHEN content <> '' THEN format ELSE '' END, content,
			file_hash, seq, `+selectOpening+` FROM files WHERE deleted_ns IS NULL ORDER BY seq`) {
			var r row
			var sum []byte
			if err == nil {
				err = rows.Scan(&r.ref, &r.group, &r.blob.ID, &r.blob.Size, &sum, &r.keyVersion, &r.wrapped,
					&r.format, &r.content, &r.commitment, &r.seq, &r.opening)
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
		err := f.verify(ctx, r.group, r.ref, r.content, r.file, parts, readData)
		if err == nil {
			err = f.verifyOpening(ctx, r.group, r.commitment, r.seq, r.opening)
		}
		if err != nil && f.lives(ctx, r.ref) {
			report(r.ref, err)
		}
	}
	return checked, err
}

// verifyOpening checks that members of a group are told what the record of an upload commits to.
func (f *Files) verifyOpening(ctx context.Context, group, commitment string, seq int64, sealed []byte) error {
	var key keys.ListKey
	err := f.store.Look(ctx, func(tx *store.Tx) (err error) {
		key, err = f.committedListKey(ctx, tx, group)
		return err
	})
	if err != nil {
		return err
	}
	if o, ok := key.Open(seq, sealed); !ok || o.Commitment() != commitment {
		return errors.New("what its record commits to does not open: members cannot prove its content, and do not " +
			"get it")
	}
	return nil
}

// lives reports that a file was not deleted meanwhile.
func (f *Files) lives(ctx context.Context, ref string) bool {
	lives := true
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT deleted_ns IS NULL FROM files WHERE ref = ?", ref).Scan(&lives)
	})
	return err != nil || lives
}

func (f *Files) verify(ctx context.Context, group, ref, content string, row file, parts damagedParts,
	readData bool) error {
	key := row.key(group, ref)
	if content != "" {
		return f.verifyBlocks(ctx, ref, content, row.format, key, parts)
	}
	if _, err := f.keys.CheckKey(ctx, f.store, vaultwire.Check{WrappedKey: key}); err != nil {
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
