package sdk

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// DiskKeys are keys of the caller for [Sealed.Encode] and [DecodeSealed].
type DiskKeys struct {
	// Group is the key of the keyed hash of the group, 32 random bytes. Whoever has it can
	// try names of groups.
	Group []byte
	// Names is the key in the user's keyring under which group, name, hash and attributes are
	// kept, beside the key of the file. nil = there is none: then they are locked after
	// DecodeSealed.
	Names *format.Key
}

const (
	diskItemVersion  = 1
	diskLargeVersion = 2 // of Group.SealLarge
	// maxDiskItem bounds an encoded upload, in bytes: two sealed heads in base64.
	maxDiskItem = 4 * wire.MaxSealedHead
	// The key that seals the names of an item is derived for this purpose and this item.
	diskNamesDomain = "svc-sealed-item-1\x00"
)

// diskItem is an upload on a disk, without its ciphertext.
type diskItem struct {
	clearItem
	ByFile    []byte `json:"by_file"`              // namesItem, sealed under the key of the file
	ByKeyring []byte `json:"by_keyring,omitempty"` // the same, under DiskKeys.Names
}

// clearItem is the part in clear. Both seals are bound to it.
type clearItem struct {
	Version   int    `json:"version"`
	ID        string `json:"id"`
	Account   string `json:"account"`
	Time      int64  `json:"time"` // ns since the epoch
	Size      int64  `json:"size"` // plaintext, in bytes
	Base      string `json:"base,omitempty"`
	Group     string `json:"group"` // keyed hash, hex
	Epoch     int64  `json:"epoch"`
	SealedKey string `json:"sealed_key"`
	BlobSize  int64  `json:"blob_size"`
	BlobHash  string `json:"blob_hash"`
	HeadHash  string `json:"head_hash"`            // what the key is sealed with; its salt is sealed, so that it tells nothing
	BlockSize int64  `json:"block_size,omitempty"` // in version 2, in bytes
}

// namesItem is the part that is sealed.
type namesItem struct {
	Group     string          `json:"group"`
	FileHash  string          `json:"file_hash"`
	Salt      string          `json:"salt"`
	Format    json.RawMessage `json:"format"`
	Versioned bool            `json:"versioned,omitempty"`
	After     int64           `json:"after"`
}

// Encode returns the upload without its ciphertext and without its key, for a file. In clear
// are id, account, time, sizes, base, epoch, a keyed hash of the group, the hash of the
// ciphertext and the sealed key, which only the vault opens, for this account. Group, name,
// hash, type and attributes are encrypted, under the key of the file and under that of the
// keyring. The result belongs to the caller. Errors: [ErrInvalid] if neither key nor names
// are known, so that nothing new can be written.
func (s *Sealed) Encode(k DiskKeys) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	item := s.disk
	if s.key == nil && item.ByFile == nil {
		return nil, errNoFileKey
	}
	if s.key != nil && !s.isLocked() {
		item.clearItem = clearItem{Version: diskItemVersion, ID: s.head.ID, Account: string(s.account), Time: s.time.UnixNano(), Size: s.size, Base: s.head.Base,
			Group: groupHash(k, GroupID(s.head.GroupID)), Epoch: s.head.Epoch, SealedKey: s.head.SealedKey, BlobSize: s.head.BlobSize, BlobHash: s.head.BlobHash, HeadHash: s.bound.String(), BlockSize: s.blockBytes}
		if s.blockBytes > 0 {
			item.Version = diskLargeVersion
		}
		names, err := json.Marshal(namesItem{s.head.GroupID, s.head.FileHash, s.head.Salt, s.head.Format, s.head.Versioned, s.after})
		if err != nil {
			return nil, fmt.Errorf("encode upload: %w", err)
		}
		if item.ByFile, err = item.sealNames(s.key, names); err != nil {
			return nil, err
		}
		item.ByKeyring = nil
		if k.Names != nil {
			if item.ByKeyring, err = item.sealNames(k.Names, names); err != nil {
				return nil, err
			}
		}
		s.disk = item
	}
	raw, err := json.Marshal(item)
	if err != nil {
		return nil, fmt.Errorf("encode upload: %w", err)
	}
	return append(raw, '\n'), nil
}

// DecodeSealed reads what [Sealed.Encode] wrote. The result has neither the key of the file
// nor a ciphertext, see [Client.OpenSealed] and [Sealed.KeepIn]. With k.Names, as Encode had
// it, it is not locked and can be sent. raw stays the caller's. Errors: [ErrCorrupt].
func DecodeSealed(raw []byte, k DiskKeys) (*Sealed, error) {
	s, err := decodeSealed(raw, k)
	if err != nil {
		return nil, &Error{Op: "read upload", Kind: ErrCorrupt, Err: err}
	}
	return s, nil
}

func decodeSealed(raw []byte, k DiskKeys) (*Sealed, error) {
	var item diskItem
	if len(raw) > maxDiskItem {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(raw), maxDiskItem)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&item); err != nil {
		return nil, call.DescribeJSON(err)
	}
	l := format.Layout{Size: item.Size, BlockBytes: item.BlockSize}
	switch {
	case item.Version == diskItemVersion && item.BlockSize == 0:
	case item.Version == diskLargeVersion && l.Check() == nil && item.BlobSize == l.SealedBytes():
	default:
		return nil, fmt.Errorf("version %d: want %d or %d", item.Version, diskItemVersion, diskLargeVersion)
	}
	s := &Sealed{account: AccountID(item.Account), time: time.Unix(0, item.Time), size: item.Size, blockBytes: item.BlockSize, disk: item,
		head: wire.SealedHead{ID: item.ID, Epoch: item.Epoch, SealedKey: item.SealedKey, BlobSize: item.BlobSize, BlobHash: item.BlobHash, Base: item.Base}}
	form := s.head // without what is sealed
	form.GroupID, form.FileHash, form.Salt, form.Format = "g", item.BlobHash, item.BlobHash, json.RawMessage(`{}`)
	if err := form.Check(s.mostBlob()); err != nil {
		return nil, err
	}
	bound, err := parseDigest(item.HeadHash)
	if err != nil {
		return nil, err
	}
	s.bound = bound
	if item.Account == "" || item.Size < 0 || item.Size > wire.WholeFileBytes && s.blockBytes == 0 {
		return nil, errors.New("its account or its size makes no sense")
	}
	if k.Names == nil || item.ByKeyring == nil {
		return s, nil
	}
	return s, s.unlock(k.Names, item.ByKeyring)
}

// unlock reads the sealed names. The caller holds mu, or is alone.
func (s *Sealed) unlock(key *format.Key, sealed []byte) error {
	raw, err := s.disk.openNames(key, sealed)
	if err != nil {
		return err
	}
	var names namesItem
	if err := json.Unmarshal(raw, &names); err != nil {
		return call.DescribeJSON(err)
	}
	facts, err := format.ParseMetadata(names.Format)
	if err != nil {
		return err
	}
	attrs, err := format.ParseAttributes(facts.Attributes)
	if err != nil {
		return err
	}
	head := s.head
	head.GroupID, head.FileHash, head.Salt, head.Format, head.Versioned = names.Group, names.FileHash, names.Salt, names.Format, names.Versioned
	if err := head.Check(s.mostBlob()); err != nil {
		return err
	}
	s.head, s.facts, s.attrs, s.after = head, facts, attrs, names.After
	return nil
}

// IsIn reports whether the upload is for a group. k has the key that [Sealed.Encode] had; it is
// not used for an upload that is not locked.
func (s *Sealed) IsIn(k DiskKeys, g GroupID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isLocked() {
		return GroupID(s.head.GroupID) == g
	}
	return hmac.Equal([]byte(s.disk.Group), []byte(groupHash(k, g)))
}

func groupHash(k DiskKeys, g GroupID) string {
	mac := hmac.New(sha256.New, k.Group)
	mac.Write([]byte(g))
	return hex.EncodeToString(mac.Sum(nil))
}

// namesKey derives the key of the sealed part from the key of the file or of the keyring, for
// this item and its clear part only.
func (i *clearItem) namesKey(key *format.Key) (*format.Key, error) {
	bound, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(bound)
	raw, err := hkdf.Key(sha256.New, key.Bytes(), nil, diskNamesDomain+base64.StdEncoding.EncodeToString(sum[:]), format.KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	defer clear(raw)
	return format.NewKey(raw)
}

func (i *clearItem) sealNames(key *format.Key, names []byte) ([]byte, error) {
	derived, err := i.namesKey(key)
	if err != nil {
		return nil, err
	}
	defer derived.Wipe()
	return format.SealBlob(derived, names)
}

func (i *clearItem) openNames(key *format.Key, sealed []byte) ([]byte, error) {
	derived, err := i.namesKey(key)
	if err != nil {
		return nil, err
	}
	defer derived.Wipe()
	names, err := format.OpenBlob(derived, bytes.Clone(sealed))
	if err != nil {
		return nil, fmt.Errorf("open the names of the upload: %w", err)
	}
	return names, nil
}
