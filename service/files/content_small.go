package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/store"
)

// Small ciphertext is a row of the database, so that a save is one commit. The row belongs to
// the transaction that records its owner, and triggers destroy it with its owner; see the
// table small_contents.

const (
	// SmallBytes is the largest ciphertext that lies in the database, in bytes.
	SmallBytes = 16 << 10
	// smallStep: rows are so many bytes long, or a multiple, so that one that is free fits
	// many contents.
	smallStep = 256

	// SmallPrefix begins the id of ciphertext in the database. The row follows in smallDigits
	// digits, and after keyBefore the wrapped key of the file lies before the ciphertext.
	SmallPrefix = "row:"
	smallDigits = 12
	smallAt     = "5, 12" // the row in an id, as SQL's substr counts
	keyBefore   = "+"
	noKeyBefore = ":"
)

// SmallRow returns the row of an id; ok is false for the id of a blob.
func SmallRow(id string) (row int64, ok bool) {
	rest, ok := strings.CutPrefix(id, SmallPrefix)
	if !ok || len(rest) < smallDigits {
		return 0, false
	}
	row, err := strconv.ParseInt(rest[:smallDigits], 10, 64)
	return row, err == nil
}

// keyIn returns how many bytes of key lie before the ciphertext in the row of an id.
func keyIn(id string) int64 {
	if strings.HasPrefix(id[len(SmallPrefix)+smallDigits:], keyBefore) {
		return wrappedBytes
	}
	return 0
}

// arrived is ciphertext that came. Small is kept by [Files.settle], in the transaction of its
// owner; else it is a blob already.
type arrived struct {
	blob.Info
	small []byte // nil = it is a blob
	key   []byte // wrapped, lies before small; nil = it lies elsewhere
}

// smallContent is ciphertext that is in memory.
func smallContent(data []byte) arrived {
	return arrived{Info: blob.Info{Size: int64(len(data)), Sum: sha256.Sum256(data)}, small: data}
}

// padded is small ciphertext as its row has it.
func padded(key, small []byte) []byte {
	data := make([]byte, (len(key)+len(small)+smallStep-1)/smallStep*smallStep)
	copy(data[copy(data, key):], small)
	return data
}

// askPlace asks for the row of a small content of so many bytes, and whether it is one that is free, else new. On
// PostgreSQL it is new.
func askPlace(size int) store.Ask {
	return store.Ask{Query: `SELECT id, TRUE FROM (SELECT id FROM free_small_contents WHERE size = ? LIMIT 1) AS again
		UNION ALL SELECT id, FALSE FROM next_small_contents LIMIT 1`, Args: []any{size}}
}

// settle keeps small ciphertext, gives it its id, and returns its row.
func (f *Files) settle(ctx context.Context, tx *store.Tx, a *arrived) (row int64, err error) {
	if a.small == nil {
		return 0, nil
	}
	data := padded(a.key, a.small)
	var isFree bool
	if err := tx.Ask(ctx, askPlace(len(data))).Scan(&row, &isFree); err != nil {
		return 0, fmt.Errorf("look for a place for small content: %w", err)
	}
	if isFree {
		err = tx.Do(ctx, "keep small content", "UPDATE small_contents SET data = ?, free = ? WHERE id = ?", data, false,
			row)
	} else {
		err = tx.Do(ctx, "keep small content", "INSERT INTO small_contents (id, size, data, free) VALUES (?, ?, ?, ?)",
			row, len(data), data, false)
	}
	if err != nil {
		return 0, err
	}
	where := noKeyBefore
	if len(a.key) > 0 {
		where = keyBefore
	}
	var unique [8]byte // rows are used again, ids are not
	_, _ = rand.Read(unique[:])
	a.ID = fmt.Sprintf("%s%0*d%s%s", SmallPrefix, smallDigits, row, where, hex.EncodeToString(unique[:]))
	return row, nil
}

// contentStore is the file store with the small contents of the database.
type contentStore struct {
	Blobs
	store  *store.Store
	traces *atomic.Bool // see [Files.scrub]
}

// Read returns a whole content.
func (c contentStore) Read(ctx context.Context, id string, size int64) ([]byte, error) {
	row, ok := SmallRow(id)
	if !ok {
		return c.Blobs.Read(ctx, id, size)
	}
	var data []byte
	err := c.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT data FROM small_contents WHERE id = ?", row).Scan(&data)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("read small content: %w", fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("read small content: %w", err)
	}
	return smallIn(data, id, size)
}

// smallIn is the small content of an id in its row.
func smallIn(data []byte, id string, size int64) ([]byte, error) {
	from := keyIn(id)
	to := from + size
	if int64(len(data)) < to || int64(len(data)) >= to+smallStep {
		return nil, fmt.Errorf("read small content: %w: %d bytes, want %d", blob.ErrSize, len(data), to)
	}
	return data[from:to], nil
}

// Delete removes a blob. Small content went with its owner, and leaves traces.
func (c contentStore) Delete(ctx context.Context, id string) error {
	if _, ok := SmallRow(id); ok {
		c.traces.Store(true)
		return nil
	}
	if id == "" { // small content whose owner was not recorded
		return nil
	}
	return c.Blobs.Delete(ctx, id)
}

// openSmall opens a small content.
func (c contentStore) openSmall(ctx context.Context, want blob.Info) (io.ReadSeekCloser, error) {
	data, err := c.Read(ctx, want.ID, want.Size)
	return inMemory{bytes.NewReader(data)}, err
}

// inMemory is an open content without a file.
type inMemory struct{ *bytes.Reader }

// Close does nothing.
func (inMemory) Close() error { return nil }

// arrive receives ciphertext of so many bytes, 0 for an unknown size, unless it would use the
// reserve of the disk.
func (f *Files) arrive(ctx context.Context, r io.Reader, size int64) (a arrived, err error) {
	if f.config.SmallBytes <= 0 || size > f.config.SmallBytes {
		a.Info, err = f.put(ctx, r, size)
		return a, err
	}
	coming, err := f.config.Space.Begin(size)
	if err != nil {
		return a, err
	}
	defer coming.End()
	var first bytes.Buffer
	n, err := first.ReadFrom(io.LimitReader(coming.Reader(r), f.config.SmallBytes+1))
	switch {
	case err != nil:
		return a, err
	case n > f.config.SmallBytes:
		a.Info, err = f.put(ctx, io.MultiReader(&first, r), size)
		return a, err
	case n < format.Overhead:
		return a, tooShort(n)
	}
	return smallContent(first.Bytes()), nil
}
