package sdk

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A large upload that waits lies on this machine's disk in blocks, under a key that is derived from the
// key of the upload, which is sealed to the vault as that of a small one is. It is sent in parts with
// keys of their own, as any file of format version 2: the key of the upload never becomes one of the
// service's files.

const (
	largeKeyDomain    = "svc-sealed-blocks-1"
	largeNameDomain   = "svc-sealed-upload-1\x00"
	largeUploadDomain = "svc-sealed-id-1\x00"
)

// LargeContent is the content of an upload for [Group.SealLarge].
type LargeContent struct {
	Layout format.Layout
	// Read fills into with a block, and returns its length. It is called for each block once, in order.
	Read func(ctx context.Context, block int64, into []byte) (int, error)
	// Body returns where the ciphertext of the upload with this id is written, from its beginning.
	Body func(id string) (io.Writer, error)
}

// SealLarge is [Group.Seal] for content of any size: it is encrypted block by block, and written to where
// Body says. The caller says with [Sealed.KeepIn] where it is read. Free. Errors: those of Seal; [ErrUnsupported] at a service without format version 2;
// those of Read and of writing. Only svcd has it.
func (g Group) SealLarge(ctx context.Context, name string, content LargeContent,
	opts ...UploadOption) (*Sealed, error) {
	s, err := g.c.sealLarge(ctx, uploadKey{group: g.ID, name: name}, content, applied(opts, UploadOption.put))
	return s, g.wrap("seal "+quote(name), err)
}

func (c *Client) sealLarge(ctx context.Context, k uploadKey, content LargeContent, o options) (*Sealed, error) {
	l := content.Layout
	if err := l.Check(); err != nil {
		return nil, &Error{Op: "check", Kind: ErrInvalid, Err: err}
	}
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkSize(l.Size, maxBlocks(caps)); err != nil {
		return nil, err
	}
	if _, err := c.vault(ctx); err != nil { // before anything is encrypted
		return nil, err
	}
	s := &Sealed{account: c.account, time: time.Now(), size: l.Size, blockBytes: l.BlockBytes, progress: o.progress,
		after: c.memory.Group(string(k.group)).Number}
	id, err := newUploadID(s.time)
	if err != nil {
		return nil, err
	}
	if s.key, err = format.RandomKey(); err != nil {
		return nil, err
	}
	to, err := content.Body(id)
	if err != nil {
		return nil, err
	}
	hash, sum, err := s.writeBlocks(ctx, c.pool, content, to)
	if err == nil {
		k.digest = hash
		s.facts, s.attrs, err = factsOf(k, l.Size, o.attrs)
	}
	if err != nil {
		s.Wipe()
		return nil, err
	}
	return s, c.sealHead(ctx, s, k, id, sum, l.SealedBytes(), o)
}

// newUploadID returns a random id. Ids made together are neighbours in the service's index.
func newUploadID(at time.Time) (string, error) {
	id := make([]byte, wire.UploadIDBytes)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	binary.BigEndian.PutUint64(id, uint64(at.UnixMilli())<<16|uint64(binary.BigEndian.Uint16(id[6:])))
	return hex.EncodeToString(id), nil
}

// writeBlocks writes the ciphertext, and returns the hashes of the content and of the ciphertext.
func (s *Sealed) writeBlocks(ctx context.Context, pool *mem.Pool, content LargeContent, to io.Writer) (hash, sum Digest,
	err error) {
	blocks, err := blocksUnder(s.key)
	if err != nil {
		return hash, sum, err
	}
	l := content.Layout
	buf, err := pool.Get(l.BlockBytes)
	if err != nil {
		return hash, sum, err
	}
	defer buf.Release()
	plain, cipher := sha256.New(), sha256.New()
	sealed := make([]byte, 0, l.BlockBytes+format.Overhead)
	for i := range l.Blocks() {
		if err := ctx.Err(); err != nil {
			return hash, sum, err
		}
		n, err := content.Read(ctx, i, buf.Bytes())
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
			return hash, sum, err
		}
		_, _ = plain.Write(buf.Bytes()[:n]) // never fails, as the next
		_, _ = cipher.Write(sealed)
	}
	return Digest(plain.Sum(nil)), Digest(cipher.Sum(nil)), nil
}

// blocksUnder returns the cipher of the blocks of an upload with this key.
func blocksUnder(key *format.Key) (*format.BlockCipher, error) {
	raw, err := hkdf.Key(sha256.New, key.Bytes(), nil, largeKeyDomain, format.KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	defer clear(raw)
	derived, err := format.NewKey(raw)
	if err != nil {
		return nil, err
	}
	defer derived.Wipe()
	return format.NewBlockCipher(derived)
}

// Layout returns how the content of an upload of [Group.SealLarge] is cut; ok is false for any other.
func (s *Sealed) Layout() (l format.Layout, ok bool) {
	return format.Layout{Size: s.size, BlockBytes: s.blockBytes}, s.blockBytes > 0
}

// ResumeIn names the folder that remembers which parts of an upload of [Group.SealLarge] were sent. Without
// it, parts are sent again after an error.
func (s *Sealed) ResumeIn(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = dir
}

// SealedBlocks is the content of an upload of [Group.SealLarge], open for reading. It is safe for
// concurrent use.
type SealedBlocks struct {
	id     string
	layout format.Layout
	blocks *format.BlockCipher
	body   io.ReaderAt
}

// OpenBody opens the content in body, which stays the caller's. The key may be wiped afterwards. Free,
// local. Errors: [ErrInvalid] without the key, and for an upload that is not of SealLarge.
func (s *Sealed) OpenBody(body io.ReaderAt) (*SealedBlocks, error) {
	l, large := s.Layout()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !large:
		return nil, &Error{Op: "check", Kind: ErrInvalid, Err: errors.New("the upload is in one piece")}
	case s.key == nil:
		return nil, errNoFileKey
	}
	blocks, err := blocksUnder(s.key)
	if err != nil {
		return nil, err
	}
	return &SealedBlocks{s.head.ID, l, blocks, body}, nil
}

// Layout returns how the content is cut.
func (b *SealedBlocks) Layout() format.Layout { return b.layout }

// Read reads blocks from first on, each into a buffer, which it resizes and which stays the caller's. On
// error all are empty. Errors: [ErrCorrupt] for a ciphertext that was changed, and those of reading it.
func (b *SealedBlocks) Read(ctx context.Context, first int64, into []*mem.Buffer) error {
	err := func() error {
		for n, buf := range into {
			i := first + int64(n)
			if i < 0 || i >= b.layout.Blocks() {
				return &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of a file of %d", i,
					b.layout.Blocks())}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := buf.Resize(b.layout.Plain(i)); err != nil {
				return err
			}
			if err := b.block(i, buf.Bytes()); err != nil {
				return err
			}
		}
		return nil
	}()
	if err == nil {
		return nil
	}
	for _, buf := range into {
		_ = buf.Resize(0) // wipes; shrinking cannot fail
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return &Error{Op: "read upload " + b.id, Kind: classify(err), Err: err}
}

// block decrypts a block into p, which has room for all of it.
func (b *SealedBlocks) block(i int64, p []byte) error {
	sealed := make([]byte, b.layout.Sealed(i))
	if err := readAt(b.body, sealed, b.layout.Offset(i)); err != nil {
		return err
	}
	_, err := b.blocks.Open(p[:0], i, sealed)
	return err
}

// waitingFile is an upload of SealLarge as a file that Put reads, block by block.
type waitingFile struct {
	*SealedBlocks
	at int64
}

// Read returns one block. p has room for it.
func (f *waitingFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p[:min(int64(len(p)), f.layout.BlockBytes)], f.at)
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt reads whole blocks.
func (f *waitingFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		i := at / f.layout.BlockBytes
		if at >= f.layout.Size {
			return n, io.EOF
		}
		if at%f.layout.BlockBytes != 0 || int64(len(p)-n) < f.layout.Plain(i) {
			return n, &Error{Op: "check", Kind: ErrInvalid, Err: errors.New("a part of a block is to be read")}
		}
		if err := f.block(i, p[n:]); err != nil {
			return n, err
		}
		n += int(f.layout.Plain(i))
	}
	return n, nil
}

func (f *waitingFile) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return f.at, errors.ErrUnsupported
	}
	return f.at, nil
}

// Stat is that of the ciphertext.
func (f *waitingFile) Stat() (fs.FileInfo, error) {
	if body, ok := f.body.(interface{ Stat() (fs.FileInfo, error) }); ok {
		return body.Stat()
	}
	return nil, errors.ErrUnsupported
}

// sendLarge has an upload of SealLarge recorded. What arrived of an earlier attempt is not sent again.
func (c *Client) sendLarge(ctx context.Context, s *Sealed) (Receipt, error) {
	if err := c.ownSealed(s); err != nil {
		return Receipt{}, err
	}
	switch {
	case s.Locked():
		return Receipt{}, errNamesLocked
	case s.Ciphertext() == nil:
		return Receipt{}, errNoCipher
	}
	if !s.HasKey() {
		if err := c.openSealed(ctx, s, s.Group(), s.Group()); err != nil {
			return Receipt{}, err
		}
	}
	if vault, err := c.vault(ctx); err == nil && vault.stated.Epoch != s.Epoch() { // so that its key can be fetched after a restart
		if err := s.sealKey(vault); err != nil {
			return Receipt{}, err
		}
	}
	body, err := s.OpenBody(s.Ciphertext())
	if err != nil {
		return Receipt{}, err
	}
	stem, err := s.stateName()
	if err != nil {
		return Receipt{}, err
	}
	g := c.Group(s.Group())
	s.mu.Lock()
	o := options{attrs: s.attrs, progress: s.progress, resume: resume{dir: s.state, stem: stem}, base: s.head.Base,
		id: s.uploadID()}
	s.mu.Unlock()
	r, err := g.putBlocks(ctx, s.Name(), &waitingFile{SealedBlocks: body}, nil, s.size, o)
	switch {
	case isUploadGone(err): // the service keeps parts for some days only
		o.id = ""
		r, err = g.putBlocks(ctx, s.Name(), &waitingFile{SealedBlocks: body}, nil, s.size, o)
	case codeOf(err) == wire.CodeSpent: // it is recorded, and the answer was lost
		found, lookErr := g.findOwn(ctx, func(e *Entry) bool { return e.Name == s.Name() && e.Hash == s.Hash() })
		if lookErr != nil || found != nil {
			return *cmp.Or(found, new(Receipt)), lookErr
		}
	}
	return r, err
}

// uploadID is the id under which the upload is recorded in its group: always the same one, so that it is recorded once. Its
// time stays in front. Needs mu.
func (s *Sealed) uploadID() string {
	sum := sha256.Sum256([]byte(largeUploadDomain + s.head.ID + "\x00" + s.head.GroupID))
	const timeDigits = 12
	return s.head.ID[:timeDigits] + hex.EncodeToString(sum[:])[:2*wire.UploadIDBytes-timeDigits]
}

// stateName is what the state of the upload is called: nobody can tell the group from it.
func (s *Sealed) stateName() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		return "", errNoFileKey
	}
	mac := hmac.New(sha256.New, s.key.Bytes())
	_, _ = mac.Write([]byte(largeNameDomain + s.head.GroupID)) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16]), nil
}

// mostBlob bounds the ciphertext, in bytes.
func (s *Sealed) mostBlob() int64 {
	if s.blockBytes > 0 {
		return math.MaxInt64
	}
	return wire.MaxSealedBlob
}
