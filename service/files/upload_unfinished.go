package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// An upload is paid for when it is finished. The uploads that an account has begun and
// not finished are bounded: in number, and in bytes in the file store.
const (
	// maxOpenUploads bounds the uploads an account has begun and not finished.
	maxOpenUploads = 10_000
	// OpenBytes bounds the bytes in unfinished uploads of an account, or OpenFiles of the largest
	// whole file, or the largest file in blocks, if that is more, unless the operator sets a bound.
	OpenBytes = 16 << 30
	OpenFiles = 4
)

// canPay refuses an upload that the account could not pay, or one too many.
func (f *Files) canPay(ctx context.Context, tx *store.Tx, account string) error {
	var text string
	var open int
	err := tx.QueryRowContext(ctx, `SELECT balance, (SELECT count(*) FROM uploads WHERE account = accounts.id
		AND result IS NULL)
		+ (SELECT count(*) FROM part_uploads WHERE account = accounts.id) FROM accounts
		WHERE id = ?`, account).Scan(&text, &open)
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
		return &fault.Error{Code: wire.CodeRateLimited,
			Text: "too many requests: too many uploads begun and not finished: finish them, or wait " +
				"until they end",
			RetryAfter: time.Minute}
	}
	return nil
}

// selectOpen counts the bytes in unfinished uploads of an account, without the blob of one
// upload, and the parts of all of them. It reads no row of a part: each part that comes asks.
const selectOpen = `SELECT (SELECT CAST(COALESCE(sum(blob_size), 0) AS BIGINT) FROM uploads WHERE account = ?
	AND result IS NULL AND id <> ?) +
	CAST(COALESCE(sum(part_bytes), 0) AS BIGINT), CAST(COALESCE(sum(parts), 0) AS BIGINT) FROM part_uploads
	WHERE account = ?`

// openBytes runs selectOpen.
func openBytes(ctx context.Context, tx *store.Tx, account, except string) (sum, parts int64, err error) {
	if err := tx.QueryRowContext(ctx, selectOpen, account, except, account).Scan(&sum, &parts); err != nil {
		return 0, 0, fmt.Errorf("count bytes of uploads: %w", err)
	}
	return sum, parts, nil
}

func (f *Files) tooManyBytes() error {
	return &fault.Error{Code: wire.CodeRateLimited, RetryAfter: time.Minute,
		Text: fmt.Sprintf("too many requests: the account would have more than %d bytes in uploads "+
			"that are not finished: finish them, or wait: each ends %.0f minutes after it began or bytes of it came, "+
			"one "+
			"in parts %.0f hours", f.config.MaxOpenBytes, UploadLife.Minutes(), PartsLife.Hours())}
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

// begin counts bytes that are about to come, if every bound has room for them beside the
// bytes that are already coming.
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

// counted reads the bytes that are coming, and counts those beyond the announced size.
type counted struct {
	r      io.Reader
	coming *coming
	bounds []bound
	said   int64 // bytes that are counted already
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

// Spooled reads a request with a file inside JSON, of at most longest bytes, which comes
// to the disk first. Its bytes count toward the storage of the account until end is
// called; the group is not known yet. One request is always let in: its upload may be
// finished already. The real size of the file is checked once the request is read.
func (f *Files) Spooled(ctx context.Context, account string, r io.Reader, longest int64) (spooled io.Reader,
	end func(), err error) {
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
