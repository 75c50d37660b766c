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
