// Package vault keeps the keys, standing in for the trusted execution
// environment of the hosted service. It is the only package that sees the master key, the roots, and the keys
// that sign the log and sessions. It has no database: the service gives it the wrapped keys.
//
// The master key wraps the keys of the service, which the database keeps. One of
// them, the root, gives by HKDF-SHA256 one key per group and version; that
// wraps a random key per file with AES-256-GCM, bound to group, reference and
// version. Only wrapped keys leave the package for the database; without the
// master key the database and the blobs are noise.
package vault

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const keyBytes = vaultwire.KeyBytes

// Vault implements [vaultwire.Vault]. It prints as "redacted".
type Vault struct {
	locked.Redacted

	source      vaultwire.Source
	other       vaultwire.Source // of a master key that may be brought in; zero = none
	measurement string
	now         func() time.Time
	hold        cipher.AEAD // of keys on their way to their places
	legacy      bool        // it gives keys of files from before this service

	mu      sync.RWMutex // guards the rest
	master  Master
	next    *Master // nil = none is brought in
	keys    []serviceKey
	inUse   map[string]int64              // versions of the keys that stay the same as long as the vault runs
	secrets map[int64]*format.VaultSecret // by epoch, as they are needed
	signers map[int64]ed25519.PrivateKey  // of the log, likewise

	following sync.Mutex // guards log
	log       vaultwire.Log

	opens       *opens
	groups      *groups
	sessions    *lru.Cache[[sha256.Size]byte, session]              // by the hash of their token
	comparing   sync.Mutex                                          // guards a comparison with credentials
	credentials *lru.Cache[[sha256.Size]byte, vaultwire.Credential] // the newest of an account, by the hash of its name
}

// New reads the master key. next is that of another one, which may be brought in; zero = none. measurement is what the
// vault says of its program: hex SHA-256. now is the clock by which epochs and tokens end.
func New(ctx context.Context, source, next vaultwire.Source, measurement string, now func() time.Time) (*Vault,
	error) {
	master, err := ReadMaster(ctx, source)
	if err != nil {
		return nil, err
	}
	key := locked.New(keyBytes)
	_, _ = rand.Read(key.Slice()) // never fails
	hold, err := newGCM(key.Slice())
	if err != nil {
		return nil, err
	}
	opens, err := newOpens()
	if err != nil {
		return nil, err
	}
	groups, err := newGroups()
	if err != nil {
		return nil, err
	}
	sessions, err := lru.New[[sha256.Size]byte, session](maxSessions)
	if err != nil {
		return nil, err
	}
	credentials, err := lru.New[[sha256.Size]byte, vaultwire.Credential](maxCredentials)
	if err != nil {
		return nil, err
	}
	return &Vault{source: source, other: next, measurement: measurement, now: now, hold: hold, master: master,
		inUse: map[string]int64{}, secrets: map[int64]*format.VaultSecret{},
		signers: map[int64]ed25519.PrivateKey{}, opens: opens, groups: groups, sessions: sessions,
		credentials: credentials}, nil
}

// AllowLegacy has the vault give the keys of groups that files from before this service are sealed with: they open all
// such files of a group, and no record says so. It is called before the vault is asked.
func (v *Vault) AllowLegacy() { v.legacy = true }

// newGCM makes an AEAD whose output begins with its random nonce.
func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// groupKey derives the key of one version of a group from a root.
func groupKey(root serviceKey, group string, version int64) (cipher.AEAD, error) {
	salt := vaultwire.Binding{Group: group, Version: version}.Bytes() // of keys that are given sealed alone, too
	key, err := hkdf.Key(sha256.New, root.raw.Slice(), salt, "svc-group-key-1", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive group key: %w", err)
	}
	defer clear(key)
	return newGCM(key)
}

// Wrap implements [vaultwire.Vault].
func (v *Vault) Wrap(_ context.Context, q vaultwire.Wrap) (a vaultwire.Wrapped, err error) {
	key := q.Key
	if strings.HasPrefix(q.Binding.Ref, format.JournalRef("")) { // which comes sealed as the key of a file does
		return a, fmt.Errorf("wrap key: no file is called so: %w", vaultwire.ErrNotOpened)
	}
	if q.Binding.Sealed && q.Held == nil {
		return a, fmt.Errorf("wrap key: it came in the clear: %w", vaultwire.ErrSealedOnly)
	}
	if q.Held != nil {
		if q.Binding.Ref == "" { // a list key is opened without a retrieval
			return a, fmt.Errorf("wrap key: a held key belongs to a file: %w", vaultwire.ErrNotOpened)
		}
		if key, err = v.hold.Open(nil, nil, q.Held, []byte(q.Binding.Group)); err != nil {
			return a, fmt.Errorf("wrap key: %w", vaultwire.ErrHeld)
		}
		defer clear(key)
	}
	if len(key) != keyBytes {
		return a, fmt.Errorf("wrap key: it has %d bytes", len(key))
	}
	a.Wrapped, err = v.wrap(q.Root, q.Binding, key)
	return a, err
}

func (v *Vault) wrap(root int64, b vaultwire.Binding, key []byte) ([]byte, error) {
	k, ok := v.key(vaultwire.PurposeFiles, root)
	if !ok {
		return nil, fmt.Errorf("root %d: %w", root, vaultwire.ErrUnknownKey)
	}
	aead, err := groupKey(k, b.Group, b.Version)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, key, b.Bytes()), nil
}

// unwrapped is a key, with the version of the root that wraps it, and its owner.
type unwrapped struct {
	key   []byte
	root  int64
	owner vaultwire.Binding
}

// unwrap returns a key, which the caller clears.
func (v *Vault) unwrap(q vaultwire.WrappedKey) (u unwrapped, err error) {
	for _, root := range v.versions(vaultwire.PurposeFiles) {
		aead, err := groupKey(root, q.Binding.Group, q.Binding.Version)
		if err != nil {
			return u, err
		}
		for _, q.Binding.Sealed = range []bool{false, true} {
			raw, err := aead.Open(nil, nil, q.Wrapped, q.Binding.Bytes())
			if err == nil && len(raw) == keyBytes {
				return unwrapped{raw, root.Version, q.Binding}, nil
			}
		}
	}
	return u, fmt.Errorf("unwrap file key: %w", vaultwire.ErrNotOpened)
}

// OpenList implements [vaultwire.Vault]. No file has an empty reference.
func (v *Vault) OpenList(_ context.Context, q vaultwire.OpenList) (a vaultwire.Opened, err error) {
	u, err := v.unwrap(vaultwire.WrappedKey{Binding: vaultwire.ListBinding(q.Group), Wrapped: q.Wrapped})
	a.Key = u.key
	return a, err
}

// Check implements [vaultwire.Vault].
func (v *Vault) Check(_ context.Context, q vaultwire.Check) (a vaultwire.Checked, err error) {
	const each = format.WrappedKeyBytes
	if len(q.Parts) > vaultwire.MaxParts*each || len(q.Parts)%each != 0 {
		return a, fmt.Errorf("check %d bytes of keys: want %d each, at most %d", len(q.Parts), each,
			vaultwire.MaxParts)
	}
	u, err := v.unwrap(q.WrappedKey)
	if err != nil {
		return a, err
	}
	defer clear(u.key)
	if q.Token != nil {
		session, err := v.sessionOf(q.Token)
		if err == nil {
			err = session.mayHave(u)
		}
		if err == nil {
			_, err = v.groups.check(q.Binding.Group, session)
		}
		if err != nil {
			return a, err
		}
	}
	key, err := format.NewKey(u.key)
	if err != nil {
		return a, err
	}
	defer key.Wipe()
	if q.KeyCheck != nil {
		check, err := format.KeyCheck(key)
		if err != nil {
			return a, err
		}
		a.Other = !bytes.Equal(check[:], q.KeyCheck)
	}
	for i := range len(q.Parts) / each {
		part, err := format.UnwrapKey(key, [each]byte(q.Parts[i*each:]))
		if err != nil {
			a.Bad = append(a.Bad, i)
			continue
		}
		part.Wipe()
	}
	return a, nil
}

// Rewrap implements [vaultwire.Vault].
func (v *Vault) Rewrap(_ context.Context, q vaultwire.Rewrap) (a vaultwire.Rewrapped, err error) {
	a.Wrapped = make([][]byte, len(q.Keys))
	for i, k := range q.Keys {
		u, err := v.unwrap(k)
		if err != nil {
			a.Bad = append(a.Bad, i)
			continue
		}
		if u.root != q.Root {
			a.Wrapped[i], err = v.wrap(q.Root, u.owner, u.key)
		}
		clear(u.key)
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// Files from before this service have no key of their own: they were sealed with
// a key of their group. Such a key is kept per file, wrapped like any other, so
// that it opens the file whatever happens to the group's version.

// Legacy implements [vaultwire.Vault]. The key is derived apart from the key that wraps file keys: its holder can open
// the group's legacy files of that version and nothing else.
func (v *Vault) Legacy(_ context.Context, b vaultwire.Binding) (a vaultwire.Opened, err error) {
	if !v.legacy {
		return a, vaultwire.ErrNoLegacy
	}
	from, err := v.newest(vaultwire.PurposeLegacy)
	if err != nil {
		return a, err
	}
	salt := vaultwire.Binding{Group: b.Group, Version: b.Version}.Bytes()
	a.Key, err = hkdf.Key(sha256.New, from.raw.Slice(), salt, "svc-legacy-key-1", keyBytes)
	if err != nil {
		err = fmt.Errorf("derive legacy key: %w", err)
	}
	return a, err
}
