// Package archive writes a whole service as an archive, which every database and every blob store
// writes and reads, and reads it back. An archive is full, or an increment: it then holds what an
// earlier archive and those before it lack. ARCHIVE.md beside the package defines the bytes.
//
// The rows of each table, in order, are cut into pages by their content, so that a changed row changes
// its page alone. An index names the pages and blobs of one state of the service, wherever in the chain of
// archives they are. So an import has exactly the rows of the newest state, and what was deleted
// after an earlier archive stays deleted.
package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	formatName    = "svcd-archive"
	formatVersion = 1
)

// Service is the service that is moved.
type Service struct {
	Store     *store.Store
	Blobs     blob.Store
	Dir       string // for rows on their way, which are as secret as an archive
	Contract  string
	MasterKey string // name of the master key, which says nothing about it
	SealKey   SealKey
	Version   string // of the program
}

// Head begins an archive.
type Head struct {
	Format    string `json:"format"`
	Version   int    `json:"version"`
	Program   string `json:"program"`
	Schema    int    `json:"schema"`
	Contract  string `json:"contract"`
	MasterKey string `json:"master_key"`
	CreatedNS int64  `json:"created_ns"`
	ID        string `json:"id"`              // of the archive, random
	Since     string `json:"since,omitempty"` // ID of the archive that this one continues; "" = it is full
}

// accept refuses the head of an archive that is not of this service, or of a newer program.
func (s Service) accept(h *Head) error {
	switch {
	case h.Format != formatName || h.ID == "":
		return errNoArchive
	case h.Version > formatVersion:
		return fmt.Errorf("it was made by svcd %s, which is newer: install that version", h.Program)
	case h.Contract != s.Contract:
		return fmt.Errorf("it is of contract %s, this service has %s: give --contract %s", h.Contract, s.Contract,
			h.Contract)
	case h.MasterKey != s.MasterKey:
		return errors.New("it belongs to another master key: put master.key of the exported service, mode 0600, into " +
			"a new data directory; for svcd export --since make a full archive after the key was replaced")
	}
	return nil
}

var errNoArchive = errors.New("this is no archive of svcd")

// Summary describes the state that an archive holds.
type Summary struct {
	ID         string
	Records    int64  // of the ledger
	LedgerRoot string // hash of the last record, hex
	Blobs      int    // of the state, wherever in the chain they are
	BlobBytes  int64
	Bytes      int64 // of the new archive
	// what of the archives could not be read, and how many rows were lost with it; blobs that an export did not find
	Damage []string
}

// leftBehind are tables that start empty in the new service: leases, sign-ins at the old
// address, what the database counts itself, trees of names and what vaults know of groups, which follow from the rest.
func leftBehind() []string {
	return []string{"leases", "sign_in_links", "web_sessions", "stored_bytes", "record_ids", "unplaced",
		"sequencer", "name_trees", "name_pages", "group_states"}
}

// placesTable has the places of records, where the database does not make them of sequences.
const placesTable = "places"

// contentTable has contents of small files. An archive has its new pages of all other tables twice, because little
// can be read without them.
const contentTable = "small_contents"

// spool makes a file without a name, for rows.
func (s Service) spool() (*os.File, error) {
	f, err := os.CreateTemp(s.Dir, ".archive-*")
	if err == nil {
		err = os.Remove(f.Name()) // it goes with the process
	}
	return f, err
}

// tables lists the tables that are moved, in the order in which they can be filled.
func (s Service) tables(ctx context.Context, tx *store.Tx) ([]store.Table, error) {
	all, err := s.Store.Tables(ctx, tx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t store.Table) bool { return slices.Contains(leftBehind(), t.Name) })
	if n := slices.IndexFunc(all, func(t store.Table) bool { return t.Name == placesTable }); n > 0 {
		places := all[n] // come first: a record that has one when it comes gets no other
		all = slices.Insert(slices.Delete(all, n, n+1), 0, places)
	}
	return all, nil
}

// blobRow is a blob that the database refers to.
type blobRow struct {
	id     string
	size   int64
	sum    [sha256.Size]byte // SHA-256; of a part the root of its leaves
	sealed int64             // of a part: bytes of a full sealed block; 0 = no part
	part   string            // id of the part
	open   bool              // its upload is not recorded
}

// newHasher returns the hash that proves a blob: SHA-256, or for a part the root of the leaves of sealed
// blocks of so many bytes.
func newHasher(sealed int64) interface {
	io.Writer
	Sum(b []byte) []byte
} {
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
	for rows, err := range tx.Rows(ctx, `SELECT blob_id, blob_size, blob_sum, 0, '', 0 FROM files
		WHERE deleted_ns IS NULL AND blob_id <> ref AND blob_id NOT LIKE '`+files.SmallPrefix+`%'
		UNION ALL SELECT blob_id, blob_size, blob_sum, 0, '', 1 FROM uploads WHERE blob_id IS NOT NULL
		AND blob_id NOT LIKE '`+files.SmallPrefix+`%'
		UNION ALL SELECT blob_id, blob_size, leaves, block_size, id, CASE WHEN upload_id IS NULL THEN 0 ELSE 1 END
		FROM parts ORDER BY 1`) {
		var r blobRow
		var proof []byte
		var blockBytes int64
		if err == nil {
			err = rows.Scan(&r.id, &r.size, &proof, &blockBytes, &r.part, &r.open)
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

// partRow is a part with what proves its blob.
type partRow struct {
	blobRow
	blocks string
	leaves []byte
}

// partNow reads a part. The error is [sql.ErrNoRows] where there is none.
func partNow(ctx context.Context, tx *store.Tx, id string) (p partRow, err error) {
	p.part = id
	var blockBytes int64
	err = tx.QueryRowContext(ctx, "SELECT blob_id, blob_size, block_size, blocks, leaves FROM parts WHERE id = ?", id).
		Scan(&p.id, &p.size, &blockBytes, &p.blocks, &p.leaves)
	p.sum, p.sealed = rootOf(p.leaves), blockBytes+format.Overhead
	return p, err
}

// ledgerRoot returns how many records there are, and the hash of the last one, "" for none.
func ledgerRoot(ctx context.Context, tx *store.Tx) (int64, string, error) {
	n, err := ledger.Size(ctx, tx)
	if err != nil {
		return 0, "", err
	}
	_, hash, err := ledger.Newest(ctx, tx)
	return n, hex.EncodeToString(hash), err
}
