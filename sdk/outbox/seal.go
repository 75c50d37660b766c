package outbox

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/saving"
)

// Everything that is written is encrypted under a key of its own: it is derived from the key of the journal with
// random bytes that no other write has. So a log that is cut, rolled back and written on uses no key twice.

const (
	metaDomain    = "svc-journal-save-1\x00"
	namesDomain   = "svc-journal-names-1\x00"
	groupDomain   = "svc-journal-group-1\x00"
	contentDomain = "svc-journal-content-1\x00"
	blocksDomain  = "svc-journal-blocks-1\x00"
	uploadDomain  = "svc-journal-upload-1\x00"
	partDomain    = "svc-journal-part-1\x00"
	saltBytes     = 16
)

// meta is what the disk has of an item encrypted, beside its content.
type meta struct {
	Group      sdk.GroupID    `json:"group"`
	Name       string         `json:"name"`
	Base       *sdk.Ref       `json:"base,omitempty"`
	Upon       *sdk.Ref       `json:"upon,omitempty"` // of a conflict: see [sdk.PutOptions]
	Attributes sdk.Attributes `json:"attributes,omitzero"`
	Hash       digest         `json:"hash,omitzero"`   // of the content, zero = not known
	Salt       []byte         `json:"salt"`            // of the keys of the content
	After      int64          `json:"after"`           // see [saving.Save]
	Block      int64          `json:"block,omitempty"` // plaintext of a block of a large save, in bytes
	// Changed are the blocks that the disk has, "" = none, Sum is the SHA-256 over them, and From has the others.
	Changed string `json:"changed,omitempty"`
	Sum     digest `json:"sum,omitzero"`
	From    From   `json:"from,omitzero"`

	Temporary bool `json:"temporary,omitempty"` // see [Save]

	changed format.Extents // as Changed says
}

// digest is an [sdk.Digest] in few bytes.
type digest sdk.Digest

// MarshalText writes base64.
func (d digest) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, d[:]), nil
}

// UnmarshalText reads it.
func (d *digest) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw) != len(d) {
		return errDamaged
	}
	*d = digest(raw)
	return nil
}

// layout returns how the content of a large save is cut.
func (m *meta) layout(size int64) format.Layout {
	return format.Layout{Size: size, BlockBytes: m.Block}
}

// sealedMeta is meta on the disk.
type sealedMeta struct {
	ByJournal []byte `json:"by_journal"`
	ByKeyring []byte `json:"by_keyring,omitempty"` // the same, under the key of the keyring
}

// derive returns a key of one purpose.
type derive func(domain string, salt []byte) (*format.Key, error)

// from derives keys from one that is no journal's.
func from(key *format.Key) derive {
	return func(domain string, salt []byte) (*format.Key, error) {
		raw, err := hkdf.Key(sha256.New, key.Bytes(), salt, domain, format.KeyBytes)
		if err != nil {
			return nil, fmt.Errorf("derive a key: %w", err)
		}
		defer clear(raw)
		return format.NewKey(raw)
	}
}

func newSalt() []byte {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	return salt
}

// seal encrypts text for one purpose under a new key.
func (d derive) seal(domain string, text []byte) ([]byte, error) {
	salt := newSalt()
	key, err := d(domain, salt)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	blob, err := format.SealBlob(key, text)
	return append(salt, blob...), err
}

// open decrypts what seal returned.
func (d derive) open(domain string, sealed []byte) ([]byte, error) {
	if len(sealed) < saltBytes {
		return nil, errDamaged
	}
	key, err := d(domain, sealed[:saltBytes])
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	text, err := format.OpenBlob(key, sealed[saltBytes:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return text, nil
}

// bound is a domain for what belongs to an item alone: to what is in clear of it and never changes.
func (c *Clear) bound(domain string) string {
	text, _ := json.Marshal([]any{c.ID, c.Account, c.Journal, c.Size, c.Time.UnixNano(), c.Body, c.File})
	return domain + string(text)
}

// sealMeta encrypts what is known of an item, under the key of its journal and that of the keyring, if there is one.
func (m *meta) sealMeta(c *Clear, journal derive, keyring *format.Key) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a save: %w", err)
	}
	var sealed sealedMeta
	if sealed.ByJournal, err = journal.seal(c.bound(metaDomain), text); err != nil {
		return nil, err
	}
	if keyring != nil {
		if sealed.ByKeyring, err = from(keyring).seal(c.bound(namesDomain), text); err != nil {
			return nil, err
		}
	}
	return json.Marshal(sealed)
}

// errNoKey: the key that would tell is not there.
var errNoKey = errors.New("there is no key for the names")

// openMeta decrypts what sealMeta returned, with the key of the journal, or without it with that of the keyring.
func openMeta(c *Clear, raw []byte, journal derive, keyring *format.Key) (*meta, error) {
	var sealed sealedMeta
	if err := json.Unmarshal(raw, &sealed); err != nil {
		return nil, errDamaged
	}
	var text []byte
	var err error
	switch {
	case journal != nil:
		text, err = journal.open(c.bound(metaDomain), sealed.ByJournal)
	case keyring != nil && sealed.ByKeyring != nil:
		text, err = from(keyring).open(c.bound(namesDomain), sealed.ByKeyring)
	default:
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	m := new(meta)
	if err := json.Unmarshal(text, m); err != nil || m.Group == "" {
		return nil, errDamaged
	}
	if m.Changed != "" {
		if m.changed, err = format.ParseExtents(m.Changed, m.layout(c.Size).Blocks()); err != nil {
			return nil, errDamaged
		}
	}
	return m, nil
}

// saveID makes the save the same one each time it is sent. The caller wipes its key.
func (m *meta) saveID(c *Clear, journal derive) (s saving.Save, err error) {
	s.ID, s.After = c.ID, m.After
	if s.Key, err = journal(uploadDomain+c.ID, m.Salt); err != nil {
		return s, err
	}
	text, err := json.Marshal([]any{m.Hash, m.Block, m.Changed, m.Sum, m.From, c.Size})
	s.Mark = sha256.Sum256(text)
	return s, err
}

// sealContent encrypts the content of a small save.
func (m *meta) sealContent(c *Clear, journal derive, content []byte) ([]byte, error) {
	key, err := journal(contentDomain+c.ID, m.Salt)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	return format.SealBlob(key, content)
}

// openContent decrypts it into b.
func (m *meta) openContent(c *Clear, journal derive, sealed []byte, b *mem.Buffer) error {
	key, err := journal(contentDomain+c.ID, m.Salt)
	if err != nil {
		return err
	}
	defer key.Wipe()
	nonce, rest, err := format.SplitBlob(sealed)
	if err == nil {
		err = b.Resize(int64(len(rest)))
	}
	if err != nil {
		return err
	}
	copy(b.Bytes(), rest)
	plain, err := format.Open(key, nonce, b.Bytes())
	if err == nil {
		err = b.Resize(int64(len(plain)))
	}
	if err == nil && sdk.ComputeHash(b.Bytes()) != sdk.Digest(m.Hash) {
		err = errors.New("the content has another hash")
	}
	if err != nil {
		_ = b.Resize(0) // wipes; shrinking cannot fail
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// blocksUnder returns the cipher of the blocks of a large save.
func (m *meta) blocksUnder(c *Clear, journal derive) (*format.BlockCipher, error) {
	key, err := journal(blocksDomain+c.ID, m.Salt)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	return format.NewBlockCipher(key)
}

// writeBlocks encrypts the changed blocks of a large save into a file, and notes their hash, and that of the content if
// they are all of it.
func (m *meta) writeBlocks(ctx context.Context, pool *mem.Pool, c *Clear, journal derive, read ReadBlock,
	to io.Writer) error {
	l := m.layout(c.Size)
	blocks, err := m.blocksUnder(c, journal)
	if err != nil {
		return err
	}
	buf, err := pool.Get(l.BlockBytes)
	if err != nil {
		return err
	}
	defer buf.Release()
	plain, sealed := sha256.New(), make([]byte, 0, l.BlockBytes+format.Overhead)
	for i := range m.changed.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := read(ctx, i, buf.Bytes())
		if err == nil && int64(n) != l.Plain(i) {
			err = fmt.Errorf("block %d has %d bytes, want %d", i, n, l.Plain(i))
		}
		if err == nil {
			sealed, err = blocks.Seal(sealed[:0], i, buf.Bytes()[:n])
		}
		if err == nil {
			_, err = to.Write(sealed)
		}
		if err != nil {
			return err
		}
		_, _ = plain.Write(buf.Bytes()[:n]) // never fails
	}
	m.Sum = digest(plain.Sum(nil))
	if m.changed.Blocks() == l.Blocks() {
		m.Hash = m.Sum
	}
	return nil
}

// WaitingBlocks is the content of a large save that waits, open for reading: also when it is recorded meanwhile. The
// caller closes it. It has the changed blocks alone.
type WaitingBlocks struct {
	layout  format.Layout
	changed format.Extents
	from    From
	blocks  *format.BlockCipher
	body    oldFile // nil = nothing was changed
}

// Layout returns how the content is cut.
func (w *WaitingBlocks) Layout() format.Layout { return w.layout }

// Changed returns the blocks that Read reads.
func (w *WaitingBlocks) Changed() format.Extents { return w.changed }

// From returns the version that has the others.
func (w *WaitingBlocks) From() From { return w.from }

// Close frees the disk, if the save is not in the outbox any more.
func (w *WaitingBlocks) Close() error {
	if w.body == nil {
		return nil
	}
	return w.body.Close()
}

// Read fills into with a changed block, and returns its length.
func (w *WaitingBlocks) Read(block int64, into []byte) (int, error) {
	at, ok := w.changed.Index(block)
	if !ok {
		return 0, fmt.Errorf("block %d was not changed", block)
	}
	sealed := make([]byte, w.layout.Sealed(block))
	n, err := w.body.ReadAt(sealed, at*(w.layout.BlockBytes+format.Overhead))
	if n < len(sealed) {
		if isEnd(err) {
			err = errDamaged
		}
		return 0, fmt.Errorf("read block %d of what waits: %w", block, err)
	}
	plain, err := w.blocks.Open(into[:0], block, sealed)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return len(plain), nil
}

// openLarge opens the content of a large save.
func (s *store) openLarge(c *Clear, m *meta, journal derive) (*WaitingBlocks, error) {
	blocks, err := m.blocksUnder(c, journal)
	if err != nil {
		return nil, err
	}
	w := &WaitingBlocks{m.layout(c.Size), m.changed, m.From, blocks, nil}
	if c.File == "" {
		return w, nil
	}
	w.body, err = s.openBody(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("open what waits: %w", err)
	}
	return w, nil
}
