package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// An upload is paid for when it is finished. What an account has begun, and may
// never finish, is bounded: in number, and in bytes that lie in the file store.
const (
	// maxOpenUploads bounds the uploads an account has begun and not finished.
	maxOpenUploads = 10_000
	// OpenBytes is how many bytes the unfinished uploads of an account hold, or
	// OpenFiles of the largest size if that is more, unless the operator says how many.
	OpenBytes = 16 << 30
	OpenFiles = 4
)

// canPay refuses an upload that the account could not pay, or one too many.
func (f *Files) canPay(ctx context.Context, tx *store.Tx, account string) error {
	var text string
	var open int
	err := tx.QueryRowContext(ctx, `SELECT balance, (SELECT count(*) FROM uploads WHERE account = accounts.id AND result IS NULL)
		FROM accounts WHERE id = ?`, account).Scan(&text, &open)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = ledger.Balance(ctx, tx, account) // refuses
	}
	if err != nil {
		return fmt.Errorf("count uploads: %w", err)
	}
	balance, err := wire.ParseAmount(text)
	if err != nil {
		return err
	}
	fee := f.ledger.Fee(ledger.ActionUpload)
	if balance.Cmp(fee) < 0 {
		return ledger.Insufficient(ledger.ActionUpload, fee, balance)
	}
	if open >= maxOpenUploads {
		return &fault.Error{Code: wire.CodeRateLimited, Text: "too many requests: too many uploads begun and not finished: finish them, or wait until they end", RetryAfter: time.Minute}
	}
	return nil
}

// openBytes is what an account has uploaded and not finished, without one upload.
func openBytes(ctx context.Context, tx *store.Tx, account, except string) (sum int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT CAST(COALESCE(sum(blob_size), 0) AS BIGINT) FROM uploads WHERE account = ? AND result IS NULL AND id <> ?",
		account, except).Scan(&sum)
	if err != nil {
		return 0, fmt.Errorf("count bytes of uploads: %w", err)
	}
	return sum, nil
}

func (f *Files) tooManyBytes() error {
	return &fault.Error{Code: wire.CodeRateLimited, RetryAfter: time.Minute, Text: fmt.Sprintf("too many requests: the account would have more than %d bytes in uploads "+
		"that are not finished: finish them, or wait: each ends %.0f minutes after it began", f.options.MaxOpenBytes, UploadLife.Minutes())}
}

// coming counts the bytes that accounts are sending to this process.
type coming struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// begin counts bytes that are about to come, if they fit into what an account has
// left besides those that are coming already.
func (c *coming) begin(account string, n, left int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes[account]+n > left {
		return false
	}
	if c.bytes == nil {
		c.bytes = make(map[string]int64)
	}
	c.bytes[account] += n
	return true
}

func (c *coming) end(account string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes[account] -= n; c.bytes[account] == 0 {
		delete(c.bytes, account)
	}
}

// PutBlob stores the ciphertext of an upload ahead of its finalize. size is how
// long it is, -1 when that is not known. What the account has uploaded and not
// finished is bounded over all processes; what it is sending besides, by each.
func (f *Files) PutBlob(ctx context.Context, account, uploadID string, r io.Reader, size int64) error {
	var open int64
	if err := f.store.Read(ctx, func(tx *store.Tx) error {
		u, err := getUpload(ctx, tx, account, uploadID)
		if err != nil {
			return err
		}
		if _, err = groups.RequireWriter(ctx, tx, u.group, account); err != nil {
			return err
		}
		if err := f.mayKeep(ctx, tx, account, u.group, max(size, format.Overhead)-u.blobSize()); err != nil {
			return err
		}
		open, err = openBytes(ctx, tx, account, uploadID)
		return err
	}); err != nil {
		return err
	}
	known := max(size, 0)
	if size < 0 {
		size = f.maxBytes + format.Overhead
	}
	if !f.coming.begin(account, size, f.options.MaxOpenBytes-open) {
		return f.tooManyBytes()
	}
	defer f.coming.end(account, size)
	info, err := f.put(ctx, r, known)
	if err != nil {
		return err
	}
	var useless string // the blob that is nobody's afterwards
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		useless, err = f.replaceBlob(ctx, tx, account, uploadID, info)
		return err
	})
	if hasNotHappened(err) {
		useless = info.ID
	}
	if useless != "" && (err == nil || hasNotHappened(err)) {
		f.discard(ctx, useless) // the sweep repeats it
	}
	return err
}

// replaceBlob gives a blob to an upload, and returns the one that is of no use any
// more, "" for none: that which the upload had, or this one when it is finished.
func (f *Files) replaceBlob(ctx context.Context, tx *store.Tx, account, uploadID string, info blob.Info) (useless string, err error) {
	u, err := getUpload(ctx, tx, account, uploadID)
	if err != nil {
		return "", err
	}
	if len(u.result) > 0 {
		return info.ID, nil
	}
	open, err := openBytes(ctx, tx, account, uploadID)
	if err != nil {
		return "", err
	}
	if open+info.Size > f.options.MaxOpenBytes {
		return "", f.tooManyBytes()
	}
	if err := f.mayKeep(ctx, tx, account, u.group, info.Size-u.blobSize()); err != nil {
		return "", err
	}
	if u.blob != nil {
		useless = u.blob.ID
	}
	_, err = tx.ExecContext(ctx, "UPDATE uploads SET blob_id = ?, blob_size = ?, blob_sum = ? WHERE id = ?", info.ID, info.Size, info.Sum[:], uploadID)
	return useless, err
}
