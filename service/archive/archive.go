// Package archive moves a whole service: as a stream that every database and blob store
// writes and reads, or as a directory from which a service can be started.
//
// A stream is a tar file: header.json, then blobs/ID, then rows/TABLE/N.jsonl with a
// JSON object per row, and trailer.json. The header of the blob of a part says how long its sealed blocks
// are, so that an import compares the part with its leaves. The trailer proves that the stream is complete.
// It is sealed with the master key: anyone who could alter rows could become owner of a
// group. A stream holds ciphertext, wrapped keys and hashes of API keys, but never the
// master key.
package archive

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	formatName    = "svcd-export"
	formatVersion = 1

	headerName  = "header.json"
	trailerName = "trailer.json"
	blobPrefix  = "blobs/"
	rowsPrefix  = "rows/"

	// sealedRecord is in the header of a part's blob: the bytes of a full sealed block, so that an
	// import can take its leaves while it arrives.
	sealedRecord = "SVCD.sealed"
)

// Service is the service that is moved.
type Service struct {
	Store     *store.Store
	Blobs     blob.Store
	Contract  string
	MasterKey string // name of the master key, which says nothing about it
	SealKey   SealKey
	Version   string // of the program
}

// SealKey is derived from the master key. It prints as "redacted".
type SealKey struct {
	locked.Redacted
	raw [sha256.Size]byte
}

// NewSealKey wraps the key.
func NewSealKey(raw [sha256.Size]byte) SealKey { return SealKey{raw: raw} }

// seal proves that the holder of the master key made a digest.
func (k SealKey) seal(kind, digest string) string {
	mac := hmac.New(sha256.New, k.raw[:])
	fmt.Fprintf(mac, "%s %s", kind, digest)
	return hex.EncodeToString(mac.Sum(nil))
}

// check refuses a digest that was not sealed with the master key.
func (k SealKey) check(kind string, s Summary) error {
	if !hmac.Equal([]byte(k.seal(kind, s.Digest)), []byte(s.Seal)) {
		return errors.New("it was not sealed with this master key: it was changed, or belongs to another master key")
	}
	return nil
}

// Kinds of seals.
const (
	sealedStream = "stream"
	sealedBackup = "backup"
)

// Header begins a stream.
type Header struct {
	Format    string   `json:"format"`
	Version   int      `json:"version"`
	Program   string   `json:"program"`
	Schema    int      `json:"schema"`
	Engine    string   `json:"engine"` // of the exported service
	Contract  string   `json:"contract"`
	MasterKey string   `json:"master_key"`
	CreatedNS int64    `json:"created_ns"`
	Tables    []string `json:"tables"` // in the order in which they can be filled
}

// Summary ends a stream, and describes its content.
type Summary struct {
	Blobs      int64            `json:"blobs"`
	BlobBytes  int64            `json:"blob_bytes"`
	Rows       map[string]int64 `json:"rows"`
	LedgerRoot string           `json:"ledger_root"` // hash of the last record, hex
	Digest     string           `json:"digest"`      // hex SHA-256 of all entries before, or of a backup's database
	Seal       string           `json:"seal"`        // hex, of the digest
}

// leftBehind are tables that start empty in the new service: leases, sign-ins at the old
// address, and sums that the database counts itself.
func leftBehind() []string {
	return []string{"leases", "sign_in_links", "web_sessions", "stored_bytes", "record_ids"}
}

// tables lists the tables that are moved.
func (s Service) tables(ctx context.Context, tx *store.Tx) ([]store.Table, error) {
	all, err := s.Store.Tables(ctx, tx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(t store.Table) bool { return slices.Contains(leftBehind(), t.Name) }), nil
}

// blobRow is a blob that the database refers to.
type blobRow struct {
	id     string
	sum    [sha256.Size]byte // SHA-256; of a part the root of its leaves
	sealed int64             // of a part: bytes of a full sealed block; 0 = no part
}

// hasher hashes the bytes of a blob.
type hasher interface {
	io.Writer
	Sum(b []byte) []byte
}

// newHasher returns the hash that proves a blob: SHA-256, or for a part the root of the leaves of sealed
// blocks of so many bytes.
func newHasher(sealed int64) hasher {
	if sealed > 0 {
		return format.NewRootHash(sealed)
	}
	return sha256.New()
}

// rootOf returns the root of the leaves in a row of parts, or of a damaged row a hash that no blob has.
func rootOf(leaves []byte) format.Hash {
	var tree format.Tree
	if len(leaves)%sha256.Size != 0 {
		return format.Hash{}
	}
	for leaf := range slices.Chunk(leaves, sha256.Size) {
		tree.Add(format.Hash(leaf))
	}
	return tree.Root()
}

// livingBlobs lists the blobs of files that can be retrieved and of uploads under
// way, without those of legacy references whose bytes are elsewhere, and without contents in
// the database, which are rows.
func livingBlobs(ctx context.Context, tx *store.Tx) (list []blobRow, err error) {
	for rows, err := range tx.Rows(ctx, `SELECT blob_id, blob_sum, 0 FROM files WHERE deleted_ns IS NULL AND blob_id <> ref AND blob_id NOT LIKE '`+files.SmallPrefix+`%'
		UNION ALL SELECT blob_id, blob_sum, 0 FROM uploads WHERE blob_id IS NOT NULL AND blob_id NOT LIKE '`+files.SmallPrefix+`%'
		UNION ALL SELECT blob_id, leaves, block_size FROM parts ORDER BY 1`) {
		var r blobRow
		var proof []byte
		var blockBytes int64
		if err == nil {
			err = rows.Scan(&r.id, &proof, &blockBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		if blockBytes > 0 {
			r.sum, r.sealed = rootOf(proof), blockBytes+format.Overhead
		} else {
			copy(r.sum[:], proof)
		}
		list = append(list, r)
	}
	return list, nil
}

// ledgerRoot returns the hash of the last record, "" for an empty ledger.
func ledgerRoot(ctx context.Context, tx *store.Tx) (string, error) {
	_, hash, err := ledger.Newest(ctx, tx)
	return hex.EncodeToString(hash), err
}
