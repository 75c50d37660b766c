package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Sealed is an upload that is ready to be sent: the content is encrypted, and its key is
// sealed to the vault of the service. It has an id of its own, so that sending it again
// records and charges nothing again. [Group.Seal] makes one, and [Client.SendSealed] sends it.
// It prints as its id.
//
// The key of the file is in memory only, until [Sealed.Wipe]. A Sealed is safe for concurrent use.
type Sealed struct {
	account   AccountID
	time      time.Time
	size      int64  // plaintext, in bytes
	contentID Digest // of an upload of format version 2, whose ciphertext is its manifest; else zero

	progress func(done, total int64) // may be nil

	mu     sync.Mutex
	head   wire.SealedHead
	facts  format.Metadata // of head.Format
	attrs  Attributes      // of head.Format
	after  int64           // known number of records of the group before
	key    *format.Key     // nil = not in memory
	cipher io.ReaderAt     // nil = the caller has not said where it is
	nonce  [format.NonceBytes]byte
	tag    [format.TagBytes]byte
	unsure bool // a request had no valid answer: the upload may be recorded
}

// Seal encrypts content under a new key, seals that key to the vault of the service, and
// returns the upload, which is not sent. content stays the caller's, and may have at most
// [wire.WholeFileBytes]; the result holds a ciphertext of its own.
//
// Seal is free and needs no authentication. It is local once the client knows the service's
// capabilities and, verified, the key of its vault; else it asks for both. Errors:
// [ErrUnsupported] at a service that takes no sealed uploads; [ErrTooLarge]; [ErrInvalid] for
// attributes that cannot be recorded, or a save without id or key; [ErrCorrupt] with [wire.CodeVaultKey] if the key of
// the vault must not be used; [ErrUnavailable], [ErrTimeout]. Only svcd has it.
//
// save, if it is not nil, makes the upload use the id of a save, and keys that follow from its key. Sent again, it is
// recorded and paid once: the receipt is the first one, whatever became of the file since.
func (g Group) Seal(ctx context.Context, name string, content []byte, save *saving.Save,
	opts ...PutOptions) (*Sealed, error) {
	k := uploadKey{group: g.ID, name: name, digest: ComputeHash(content)}
	o := asked(opts)
	o.save = save
	s, err := g.c.uploads.seal(ctx, k, content, o)
	return s, g.wrap("seal "+quote(name), err)
}

// seal is Group.Seal for content whose hash is known.
func (u *uploader) seal(ctx context.Context, k uploadKey, content []byte, o options) (*Sealed, error) {
	caps, err := u.c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	size := int64(len(content))
	if err := checkSize(size, min(u.maxWhole(caps), wire.WholeFileBytes)); err != nil {
		return nil, err
	}
	if _, err := u.c.vault.current(ctx); err != nil { // before anything is encrypted
		return nil, err
	}
	s := &Sealed{account: u.c.account, time: time.Now(), size: size, progress: o.progress,
		after: countBefore(o.save, u.c.memory.Group(string(k.group)).Number)}
	if s.facts, s.attrs, err = factsOf(k, size, o.attrs); err != nil {
		return nil, err
	}
	id, err := uploadID(o.save, s.time)
	if err != nil {
		return nil, err
	}
	if s.key, err = format.RandomKey(); err != nil {
		return nil, err
	}
	blob, err := s.encrypt(u.c.pool, content, o.compress)
	if err != nil {
		return nil, err
	}
	copy(s.nonce[:], blob)
	copy(s.tag[:], blob[len(blob)-format.TagBytes:])
	s.cipher = bytes.NewReader(blob)
	return s, u.sealHead(ctx, s, k, id, sha256.Sum256(blob), int64(len(blob)), o)
}

// uploadID is the id of the save, else a new one.
func uploadID(save *saving.Save, at time.Time) (string, error) {
	if save == nil {
		return saving.NewID(at)
	}
	if err := save.Check(); err != nil {
		return "", &Error{Op: "check", Kind: ErrInvalid, Err: err}
	}
	return save.ID, nil
}

// countBefore is how many records of its group the record of an upload follows at least; known are those that are known
// now.
func countBefore(save *saving.Save, known int64) int64 {
	if save == nil {
		return known
	}
	return min(save.After, known)
}

// sealHead makes the head of an upload whose ciphertext, or whose manifest, has a hash and a size, and seals the key of
// the file with it.
func (u *uploader) sealHead(ctx context.Context, s *Sealed, k uploadKey, id string, sum Digest, size int64,
	o options) error {
	vault, err := u.c.vault.current(ctx)
	if err != nil {
		return err
	}
	meta, err := json.Marshal(s.facts)
	if err != nil {
		return err
	}
	salt, tag := saltOf(s.key), ""
	if o.save != nil {
		salt, tag = saltOf(o.save.Key), o.save.Tag(string(k.group), k.name, o.base)
	}
	s.head = wire.SealedHead{ID: id, GroupID: string(k.group), FileHash: hashText(k.digest),
		Salt: hex.EncodeToString(salt[:]), Format: meta,
		BlobSize: size, BlobHash: sum.String(), Versioned: true, Base: o.base, From: o.from, Tag: tag,
		Upon: o.upon}
	return s.sealKey(vault)
}

// factsOf returns what is recorded beside the content, and the attributes among it.
func factsOf(k uploadKey, size int64, a Attributes) (format.Metadata, Attributes, error) {
	facts := format.NewMetadata(size, contentType(k.name), k.name)
	text, err := checkAttributes(a, k.digest)
	if err != nil {
		return facts, Attributes{}, err
	}
	if facts.Attributes = text; a.Target != "" {
		facts.ContentType = format.TypeSymlink
	}
	return facts, a, nil
}

// encrypt returns the ciphertext of content, compressed before if that pays.
func (s *Sealed) encrypt(pool *mem.Pool, content []byte, compress bool) ([]byte, error) {
	if compress && pays(content) {
		packed, err := deflated(pool, content)
		if err == nil {
			defer packed.Release()
			s.facts.Compression = format.CompressionDeflate
			return format.SealBlob(s.key, packed.Bytes())
		}
		if !errors.Is(err, errDoesNotPay) {
			return nil, err
		}
	}
	return format.SealBlob(s.key, content)
}

// encryptAgain makes the ciphertext once more. It fails for other content.
func (s *Sealed) encryptAgain(pool *mem.Pool, content []byte) error {
	if s.facts.Compression != "" {
		packed, err := deflated(pool, content)
		if err != nil {
			return err
		}
		defer packed.Release()
		content = packed.Bytes()
	}
	blob := make([]byte, format.NonceBytes+len(content), format.Overhead+len(content))
	copy(blob, s.nonce[:])
	copy(blob[format.NonceBytes:], content)
	sealed, err := format.Reseal(s.key, s.nonce[:], s.tag[:], blob[format.NonceBytes:])
	if err != nil {
		return err
	}
	s.keepIn(bytes.NewReader(blob[:format.NonceBytes+len(sealed)]))
	return nil
}

// sealKey seals the key of the file to a key of the vault. The id stays, so that a repetition
// stays one.
func (s *Sealed) sealKey(vault *vaultKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		return errNoFileKey
	}
	to := format.SealedFor{Service: vault.service, Account: string(s.account), Upload: s.head.ID,
		Epoch: vault.stated.Epoch}
	bound := s.head.Sum()
	sealed, err := vault.public.SealKey(to, bound, s.key)
	if err != nil {
		return err
	}
	s.head.Epoch, s.head.SealedKey = vault.stated.Epoch, base64.StdEncoding.EncodeToString(sealed)
	return nil
}

var (
	errNoFileKey = &Error{Op: "check", Kind: ErrInvalid, Err: errors.New("the key of the upload was wiped")}
	errNoCipher  = &Error{Op: "check", Kind: ErrInvalid,
		Err: errors.New("nobody said where the ciphertext of the upload is")}
)

// id returns the id of the upload, 32 hex digits, under which the service knows it.
func (s *Sealed) id() string { return s.head.ID }

// blobSize returns the size of the ciphertext, in bytes.
func (s *Sealed) blobSize() int64 { return s.head.BlobSize }

// base returns what [PutOptions].Base said: the newest version of the name, "" for none. set
// is false without it.
func (s *Sealed) base() (ref Ref, set bool) {
	if s.head.Base == wire.NoBase {
		return "", true
	}
	return Ref(s.head.Base), s.head.Base != ""
}

// hasKey reports whether the key of the file is in memory.
func (s *Sealed) hasKey() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key != nil
}

// Group returns the group.
func (s *Sealed) Group() GroupID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return GroupID(s.head.GroupID)
}

// Name returns the name.
func (s *Sealed) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.Filename
}

// hash returns the SHA-256 of the content.
func (s *Sealed) hash() Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, _ := parseDigest(s.head.FileHash)
	return d
}

// attributes returns those of [PutOptions].
func (s *Sealed) attributes() Attributes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attrs
}

// keepIn says where the ciphertext is from now on, such as in a file, which frees the memory
// of the present one. r must stay readable, from several goroutines, until the upload is not
// used any more.
func (s *Sealed) keepIn(r io.ReaderAt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cipher = r
}

// Wipe overwrites the key of the file in memory. The upload can still be sent.
func (s *Sealed) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		s.key.Wipe()
		s.key = nil
	}
}

// Format prints the id for every verb.
func (s *Sealed) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "sealed upload %s", s.id()) }

// own refuses an upload of another account.
func (q *sealedQueue) own(s *Sealed) error {
	if s.account != q.c.account {
		return &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("account %s sealed the upload, and this is %s",
			quote(string(s.account)), quote(string(q.c.account)))}
	}
	return nil
}
