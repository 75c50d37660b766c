package files

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Rename records another name for a file; reference and content stay. Only the uploader
// and the owner of the group may rename, as long as they are members and no readers.
func (f *Files) Rename(ctx context.Context, account string, req wire.RenameRequest) (out Changed, err error) {
	if req.Filename == "" {
		return out, fault.New(wire.CodeValidation, "Required: filename")
	}
	if err := checkName(req.Filename); err != nil {
		return out, err
	}
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		t, err := living(ctx, tx, account, req.GroupID, req.IPFSHash, "rename")
		if err != nil {
			return err
		}
		r, err := f.ledger.Charge(ctx, tx, chain.KindRename, chain.Record{Kind: chain.KindRename, Account: account,
			Group: t.group, Ref: t.ref, FileHash: t.hash, Detail: req.Filename, Tags: t.namedTags()})
		if err != nil {
			return err
		}
		if err := tx.Do(ctx, "write name", "UPDATE files SET filename = ?, changed_seq = ?, named_seq = ? WHERE "+
			"ref = ?", req.Filename, r.Seq, r.Seq, t.ref); err != nil {
			return err
		}
		out.Recorded, err = f.answerOf(ctx, tx, step{r, t.seq})
		return err
	})
	out.Text = fmt.Sprintf("Renamed '%s' in group '%s'", req.IPFSHash, req.GroupID)
	return out, err
}

// checkName refuses names that cannot be recorded. Any other name is only a
// value, also one with slashes.
func checkName(name string) error {
	if len(name) > MaxFilename || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fault.New(wire.CodeValidation, "filename must be UTF-8 of at most %d bytes without NUL", MaxFilename)
	}
	return nil
}
