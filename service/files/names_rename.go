package files

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Rename records another name for a file; reference and content stay. Only the uploader
// and the owner of the group may rename, as long as they are members and no readers.
func (f *Files) Rename(ctx context.Context, account string, req wire.RenameRequest) (string, error) {
	if req.Filename == "" {
		return "", fault.New(wire.CodeValidation, "Required: filename")
	}
	if err := checkName(req.Filename); err != nil {
		return "", err
	}
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		t, err := living(ctx, tx, account, req.GroupID, req.IPFSHash, "rename")
		if err != nil {
			return err
		}
		return f.recordRename(ctx, tx, t, account, req.Filename, func(ctx context.Context, tx *store.Tx,
			r chain.Record) (chain.Row, error) {
			return f.ledger.Charge(ctx, tx, chain.KindRename, r)
		})
	})
	return fmt.Sprintf("Renamed '%s' in group '%s'", req.IPFSHash, req.GroupID), err
}

// recordRename gives a file a name. add appends its record.
func (f *Files) recordRename(ctx context.Context, tx *store.Tx, t target, account, name string,
	add func(context.Context, *store.Tx, chain.Record) (chain.Row, error)) error {
	r, err := add(ctx, tx, chain.Record{Kind: chain.KindRename, Account: account, Group: t.group, Ref: t.ref,
		FileHash: t.hash, Detail: name, Tags: t.tags()})
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE files SET filename = ?, changed_seq = ?, named_seq = ? WHERE ref = ?",
		name, r.Seq, r.Seq, t.ref); err != nil {
		return fmt.Errorf("write name: %w", err)
	}
	return nil
}

// checkName refuses names that cannot be recorded. Any other name is only a
// value, also one with slashes.
func checkName(name string) error {
	if len(name) > MaxFilename || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fault.New(wire.CodeValidation, "filename must be UTF-8 of at most %d bytes without NUL", MaxFilename)
	}
	return nil
}
