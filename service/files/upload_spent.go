package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// spent returns the answer to an upload that is recorded already; known is false when its
// id is not spent.
func (f *Files) spent(ctx context.Context, tx *store.Tx, s *sealed) (out wire.FinalizeUploadResult, known bool,
	err error) {
	seq, tag, err := spentBy(ctx, tx, s.account, s.id)
	if err != nil || seq == 0 {
		return out, false, err
	}
	r, err := ledger.At(ctx, tx, seq)
	if err != nil {
		return out, false, err
	}
	if r.Group != s.GroupID || r.Detail != s.name || !bytes.Equal(tag, s.tag) {
		return out, false, isSpent()
	}
	if tag == nil {
		if err := f.isSameContent(ctx, tx, r, s); err != nil {
			return out, false, err
		}
	}
	receipt, err := f.log.Receipt(ctx, tx, r)
	out = answerOf(&r.Record, s.FileHash, receipt)
	out.Repeated = true
	return out, true, err
}

// isSameContent refuses an upload without a tag that has other bytes than the one that was recorded under its id.
func (f *Files) isSameContent(ctx context.Context, tx *store.Tx, r chain.Row, s *sealed) error {
	var sum []byte
	if err := tx.QueryRowContext(ctx, "SELECT blob_sum FROM files WHERE ref = ?", r.Ref).Scan(&sum); err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	if [sha256.Size]byte(sum) != s.sum {
		return isSpent()
	}
	o, lives, err := f.opened(ctx, tx, r.Group, r.Seq)
	if err == nil && lives && hashText(o.Hash) != s.FileHash {
		err = isSpent()
	}
	return err
}

func askSpent(account string, id [wire.UploadIDBytes]byte) store.Ask {
	return store.Ask{Query: "SELECT seq, tag FROM spent_uploads WHERE id = ?", Args: []any{spentID(account, id)}}
}

// spentBy returns the sequence of the record that an upload of an account made, and its tag; 0 when the account
// has not spent the id. An id is an account's own: who learns that of another's upload, such as from
// a stolen disk, cannot spend it before its owner does.
func spentBy(ctx context.Context, tx *store.Tx, account string, id [wire.UploadIDBytes]byte) (seq int64, tag []byte,
	err error) {
	err = tx.Ask(ctx, askSpent(account, id)).Scan(&seq, &tag)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, nil, fmt.Errorf("look for the id of the upload: %w", err)
	}
	return seq, tag, nil
}

// idTime is how many bytes of an id are its time, see [wire.UploadIDBytes].
const idTime = 6

// spentID is how a spent id of an account is noted. Its time stays in front, so that neighbours do.
func spentID(account string, id [wire.UploadIDBytes]byte) []byte {
	sum := sha256.Sum256(append([]byte("svc-spent-1\x00"+account+"\x00"), id[:]...))
	return append(id[:idTime:idTime], sum[:len(id)-idTime]...)
}

func isSpent() error {
	return fault.New(wire.CodeSpent, "the id was used for another upload: send this one under a new id")
}
