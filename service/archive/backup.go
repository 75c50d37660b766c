package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

const (
	// ManifestName is the file that a complete backup ends with.
	ManifestName = "backup.json"
	// BlobFolder is the folder of blobs in a backup, as in a data directory.
	BlobFolder = "blobs"
	// snapshotTries bounds how often a backup begins because files were deleted
	// meanwhile. The last time, writers wait.
	snapshotTries = 3
)

// Manifest describes a backup.
type Manifest struct {
	Program   string `json:"program"`
	CreatedNS int64  `json:"created_ns"`
	Contract  string `json:"contract"`
	MasterKey string `json:"master_key"` // its name
	Summary
}

// errGone means that a blob of the snapshot does not exist any more.
var errGone = errors.New("a blob is gone")

// Backup writes the service to an empty or new directory while it may be
// serving: the database in one state, then every blob this state refers to,
// linked where source and backup are on one file system, else copied. Where deletions
// take blobs away meanwhile, writers wait in the end for what is new since the try before.
// A service over PostgreSQL is refused.
func Backup(ctx context.Context, dir string, s Service) (Manifest, error) {
	if !s.Store.HasSnapshots() {
		return Manifest{}, fault.New(wire.CodeUnsupported, "a backup directory needs SQLite: run pg_dump and then copy the files, as service/OPERATING.md shows, or use: svcd export FILE")
	}
	m := Manifest{Program: s.Version, CreatedNS: time.Now().UnixNano(), Contract: s.Contract, MasterKey: s.MasterKey}
	if err := takeEmpty(dir, ""); err != nil {
		return m, err
	}
	target, err := blob.OpenDir(filepath.Join(dir, BlobFolder))
	if err != nil {
		return m, err
	}
	defer target.Close()
	for range snapshotTries - 1 {
		m.Summary, err = snapshot(ctx, dir, target, s)
		if !errors.Is(err, errGone) {
			break
		}
	}
	if errors.Is(err, errGone) { // only what is new since the try before is left to copy
		err = s.Store.Load(ctx, func(*store.Tx) error {
			m.Summary, err = snapshot(ctx, dir, target, s)
			return err
		})
	}
	if errors.Is(err, errGone) {
		err = fmt.Errorf("%w: svcd verify shows the damage", err)
	}
	if err == nil {
		err = readCopied(ctx, dir, func(tx *store.Tx) error { return m.audit(ctx, tx) })
	}
	if err != nil {
		return m, fmt.Errorf("backup: %w", err)
	}
	if m.Digest, err = durableSum(filepath.Join(dir, store.FileName)); err != nil {
		return m, fmt.Errorf("backup: %w", err)
	}
	m.Seal = s.SealKey.seal(sealedBackup, m.Digest)
	return m, writeManifest(dir, m)
}

// durableSum makes a file durable and returns its SHA-256 in hex.
func durableSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	content := sha256.New()
	_, err = io.Copy(content, f)
	return hex.EncodeToString(content.Sum(nil)), errors.Join(err, f.Sync(), f.Close())
}

// takeEmpty makes a directory, or takes one that is empty except for a file named but.
func takeEmpty(dir, but string) error {
	if err := ownfile.MakeFolder(dir); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != but }) {
		return fault.New(wire.CodeValidation, "%s is not empty: give a new directory", dir)
	}
	return nil
}

// snapshot writes the database and the blobs that it refers to, and counts the blobs.
func snapshot(ctx context.Context, dir string, target *blob.Dir, s Service) (sum Summary, err error) {
	if err := s.Store.Snapshot(ctx, filepath.Join(dir, store.FileName)); err != nil {
		return sum, err
	}
	var list []blobRow
	err = readCopied(ctx, dir, func(tx *store.Tx) error {
		list, err = livingBlobs(ctx, tx)
		return err
	})
	if err != nil {
		return sum, err
	}
	keep := make(map[string]bool)
	for _, b := range list {
		size, err := copyBlob(ctx, s.Blobs, target, b)
		if err != nil {
			return sum, fmt.Errorf("blob %s: %w", b.id, err)
		}
		keep[b.id] = true
		sum.Blobs++
		sum.BlobBytes += size
	}
	return sum, target.Sweep(ctx, 0, func(id string) error { // of an earlier try
		if keep[id] {
			return nil
		}
		return target.Delete(ctx, id)
	})
}

// readCopied reads a copied database.
func readCopied(ctx context.Context, dir string, f func(*store.Tx) error) (err error) {
	copied, err := store.Open(ctx, dir, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	return copied.Read(ctx, f)
}

// audit audits the ledger of a copied database, and notes its length and root.
func (s *Summary) audit(ctx context.Context, tx *store.Tx) (err error) {
	s.Rows = make(map[string]int64)
	if s.Rows["ledger"], err = ledger.Audit(ctx, tx); err != nil {
		return err
	}
	s.LedgerRoot, err = ledgerRoot(ctx, tx)
	return err
}

// copyBlob brings a blob into the backup and returns its size. A linked blob shares its
// bytes with the service; a copied blob is compared with its checksum.
func copyBlob(ctx context.Context, from blob.Store, target *blob.Dir, b blobRow) (int64, error) {
	path := target.Where(b.id)
	if info, err := os.Stat(path); err == nil {
		return info.Size(), nil
	}
	if err := ownfile.MakeFolder(filepath.Dir(path)); err != nil {
		return 0, err
	}
	if source, ok := from.(*blob.Dir); ok && os.Link(source.Where(b.id), path) == nil {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		return info.Size(), ownfile.SyncFolder(filepath.Dir(path))
	}
	size, err := copyChecked(ctx, from, path, b)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, errGone
	case errors.Is(err, errChanged):
		return 0, errors.New("it was changed since it was stored: svcd verify --read-data names its file")
	}
	return size, err
}

// errChanged means that a blob does not have its checksum.
var errChanged = errors.New("it was changed")

// copyChecked copies a blob to a new file in an existing folder, and compares it with
// its checksum.
func copyChecked(ctx context.Context, from blob.Store, path string, b blobRow) (size int64, err error) {
	r, size, err := from.Open(ctx, b.id)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	content := newHasher(b.sealed)
	err = writeFile(path, r, content)
	if err == nil && [sha256.Size]byte(content.Sum(nil)) != b.sum {
		err = errChanged
	}
	return size, err
}

// writeFile writes a new file with mode 0600, hashes its bytes, and makes it durable.
func writeFile(path string, r io.Reader, content hasher) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(f, content), r)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return ownfile.SyncFolder(filepath.Dir(path))
}

func writeManifest(dir string, m Manifest) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := ownfile.Replace(filepath.Join(dir, ManifestName), append(raw, '\n')); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// Restore fills a data directory from a backup. The directory may hold a master key and
// nothing else. It is left as it was when the backup is incomplete, or differs from the
// sealed one.
func Restore(ctx context.Context, from, dir string, key SealKey) (Manifest, error) {
	var m Manifest
	raw, err := os.ReadFile(filepath.Join(from, ManifestName))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return m, fault.New(wire.CodeValidation, "%s is not a complete backup: it has no readable %s", from, ManifestName)
	}
	if err := key.check(sealedBackup, m.Summary); err != nil {
		return m, fmt.Errorf("restore: %s, which names the master key %q: %w", ManifestName, m.MasterKey, err)
	}
	if err := takeEmpty(dir, vault.FileName); err != nil {
		return m, err
	}
	return m, restore(ctx, from, dir, m)
}

func restore(ctx context.Context, from, dir string, m Manifest) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("restore: %w", err), os.RemoveAll(filepath.Join(dir, store.FileName)), os.RemoveAll(filepath.Join(dir, BlobFolder)))
		}
	}()
	copied, err := copyFile(filepath.Join(from, store.FileName), filepath.Join(dir, store.FileName))
	if err != nil {
		return err
	}
	if hex.EncodeToString(copied[:]) != m.Digest {
		return errors.New("the database is not the one its manifest speaks of")
	}
	var sum Summary
	var list []blobRow
	err = readCopied(ctx, dir, func(tx *store.Tx) error {
		if err := sum.audit(ctx, tx); err != nil {
			return err
		}
		list, err = livingBlobs(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if sum.LedgerRoot != m.LedgerRoot || int64(len(list)) != m.Blobs {
		return errors.New("the database is not the one its manifest speaks of")
	}
	source, err := blob.OpenDir(filepath.Join(from, BlobFolder))
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := blob.OpenDir(filepath.Join(dir, BlobFolder))
	if err != nil {
		return err
	}
	defer target.Close()
	for _, b := range list {
		path := target.Where(b.id)
		if err := ownfile.MakeFolder(filepath.Dir(path)); err != nil {
			return err
		}
		_, err := copyChecked(ctx, source, path, b) // never linked: the backup stays as it is, whatever happens to the data directory
		if errors.Is(err, errChanged) {
			err = errors.New("it is damaged in the backup")
		}
		if err != nil {
			return fmt.Errorf("blob %s: %w", b.id, err)
		}
	}
	return ownfile.SyncFolder(dir)
}

func copyFile(from, to string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(from)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	content := sha256.New()
	err = writeFile(to, f, content)
	return [sha256.Size]byte(content.Sum(nil)), err
}
