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
		"that are not finished: finish them, or wait: each ends %.0f minutes after it began or bytes of it came", f.options.MaxOpenBytes, UploadLife.Minutes())}
}

// bound is how many bytes may be coming at a time for an account or a group.
type bound struct {
	key     string
	left    int64
	refused error // of more
}

// coming counts the bytes that are being sent to this process, by the key of a bound.
type coming struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// begin counts bytes that are about to come, if they fit into what every bound has
// left besides those that are coming already.
func (c *coming) begin(n int64, bounds ...bound) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range bounds {
		if c.bytes[b.key]+n > b.left {
			return b.refused
		}
	}
	if c.bytes == nil {
		c.bytes = make(map[string]int64)
	}
	for _, b := range bounds {
		c.bytes[b.key] += n
	}
	return nil
}

func (c *coming) end(n int64, bounds ...bound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range bounds {
		if c.bytes[b.key] -= n; c.bytes[b.key] == 0 {
			delete(c.bytes, b.key)
		}
	}
}

// counted reads what is coming, and counts what is more than was said.
type counted struct {
	r      io.Reader
	coming *coming
	bounds []bound
	said   int64 // bytes that are counted
	came   int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.came += int64(n)
	if more := c.came - c.said; more > 0 {
		if full := c.coming.begin(more, c.bounds...); full != nil {
			return 0, full
		}
		c.said += more
	}
	return n, err
}

func (c *counted) end() { c.coming.end(c.said, c.bounds...) }

// Spooled reads a request with a file inside JSON, which lies on the disk while it
// comes, longest bytes at most. Its bytes count for what the account keeps until end:
// the group is not known yet. One request may always come: its upload may be finished
// already, and if not, what the file really takes is told when it is read.
func (f *Files) Spooled(ctx context.Context, account string, r io.Reader, longest int64) (spooled io.Reader, end func(), err error) {
	var byAccount wire.StoredBytes
	err = f.store.Read(ctx, func(tx *store.Tx) (err error) {
		byAccount, _, err = f.stored(ctx, tx, account, "")
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	keep := keepBounds(account, "", byAccount, wire.StoredBytes{})
	for i := range keep {
		keep[i].left = max(keep[i].left, 0) + longest
	}
	c := &counted{r: r, coming: &f.coming, bounds: keep}
	return c, c.end, nil
}

// lively reads what is coming, and keeps the upload id good meanwhile.
type lively struct {
	r       io.Reader
	now     func() time.Time
	renew   func()
	expires time.Time
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 && l.expires.Sub(l.now()) < UploadLife*2/3 {
		l.expires = l.now().Add(UploadLife)
		l.renew()
	}
	return n, err
}

// renew makes an upload id good for another UploadLife. When that fails, it is tried
// again before the id ends.
func (f *Files) renew(ctx context.Context, account, uploadID string) {
	_ = f.store.Write(ctx, func(tx *store.Tx) error {
		if _, err := f.getUpload(ctx, tx, account, uploadID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE uploads SET expires_ns = ? WHERE id = ?", f.ledger.Now().Add(UploadLife).UnixNano(), uploadID)
		return err
	})
}

// PutBlob stores the ciphertext of an upload ahead of its finalize. size is how
// long it is, -1 when that is not known. What the account has uploaded and not
// finished, and what it and the group keep, is bounded over all processes; what is
// being sent besides, by each.
func (f *Files) PutBlob(ctx context.Context, account, uploadID string, r io.Reader, size int64) error {
	var open int64
	var keep []bound
	var expires time.Time
	if err := f.store.Read(ctx, func(tx *store.Tx) error {
		u, err := f.getUpload(ctx, tx, account, uploadID)
		if err != nil {
			return err
		}
		if _, err = groups.RequireWriter(ctx, tx, u.group, account); err != nil {
			return err
		}
		byAccount, byGroup, err := f.stored(ctx, tx, account, u.group)
		if err != nil {
			return err
		}
		expires = u.expires
		keep = keepBounds(account, u.group, byAccount, byGroup)
		for i := range keep {
			keep[i].left += u.blobSize()
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
	unfinished := bound{"unfinished " + account, f.options.MaxOpenBytes - open, f.tooManyBytes()}
	if err := f.coming.begin(size, unfinished); err != nil {
		return err
	}
	defer f.coming.end(size, unfinished)
	if err := f.coming.begin(known, keep...); err != nil {
		return err
	}
	arriving := &counted{r: r, coming: &f.coming, bounds: keep, said: known}
	defer arriving.end()
	info, err := f.put(ctx, &lively{arriving, f.ledger.Now, func() { f.renew(ctx, account, uploadID) }, expires}, known)
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
	u, err := f.getUpload(ctx, tx, account, uploadID)
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
