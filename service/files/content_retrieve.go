package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Stored is the ciphertext of a file with its key.
type Stored struct {
	Key      keys.FileKey
	Format   json.RawMessage
	BlobID   string
	BlobSize int64
	Inline   []byte // the whole blob when it was asked for and small enough
	Fee      wire.Amount
	InBlocks *InBlocks // of format version 2; nil = it is one blob
}

// Retrieve hands out the key of a file to a member and charges the claim. A blob that is
// sent inline is read and compared with its checksum before the charge, so that a
// damaged file costs nothing. Of a larger blob only the size is checked; the reader
// checks tag and hash.
func (f *Files) Retrieve(ctx context.Context, found *Found, inlineUpTo int64) (Stored, error) {
	return f.retrieve(ctx, found, func(s *Stored, row *file) (err error) {
		s.Inline, err = f.readBlob(ctx, row, inlineUpTo)
		return err
	})
}

// RetrieveOpened is [Files.Retrieve] for content that is streamed. The content was read
// and checked before the charge, and is returned at its start. The caller closes it.
func (f *Files) RetrieveOpened(ctx context.Context, found *Found) (s Stored, content io.ReadSeekCloser, err error) {
	s, err = f.retrieve(ctx, found, func(_ *Stored, row *file) (err error) {
		if content, err = f.openBlob(ctx, row.blob); err != nil {
			return err
		}
		return checkSum(content, row.blob)
	})
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil && content != nil {
		err = errors.Join(err, content.Close())
	}
	return s, content, err
}

// Found is a file that a member asks for. Nothing was charged.
type Found struct {
	Size       int64 // bytes of ciphertext in one answer; 0 of a file in blocks
	Compressed bool

	by  *auth.Session
	req wire.PrepareRetrieveRequest
	row file
}

// Find checks the session, looks for a file, and asks the gateway for bytes that are not kept here.
func (f *Files) Find(ctx context.Context, by *auth.Session, req wire.PrepareRetrieveRequest) (*Found, error) {
	row, err := f.find(ctx, by, req)
	if err == nil {
		err = row.group.RequireSealed(by.IsSealed())
	}
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(req.ClaimID, 0) {
		return nil, fault.New(wire.CodeValidation, "claim_id holds a NUL character")
	}
	found := &Found{by: by, req: req, row: row}
	if row.content == "" {
		meta, err := format.ParseMetadata([]byte(row.format))
		// a format that is not understood is the reader's matter
		found.Size, found.Compressed = row.blob.Size, err == nil && meta.Compression != ""
	}
	return found, nil
}

// retrieve reads a file with read, and then charges for it.
func (f *Files) retrieve(ctx context.Context, found *Found, read func(*Stored, *file) error) (s Stored, err error) {
	account, req, row := found.by.Account, found.req, found.row
	s = Stored{BlobID: row.blob.ID, BlobSize: row.blob.Size, Format: json.RawMessage(row.format)}
	isPaid := f.IsUnread(account, req.IPFSHash)
	if isPaid && row.content == "" {
		if err := f.readAgain(ctx, row); err != nil {
			return s, f.unlessDeleted(ctx, account, req, err)
		}
	}
	if row.content != "" {
		s.InBlocks, err = f.openWithEdges(ctx, account, req, row)
	} else {
		err = read(&s, &row)
	}
	if err != nil {
		return s, f.unlessDeleted(ctx, account, req, err)
	}
	check := vaultwire.Check{WrappedKey: row.key(req.GroupID, req.IPFSHash), Token: found.by.Token()}
	err = f.log.WithGroup(ctx, req.GroupID, func() error {
		_, err := f.keys.CheckKey(ctx, f.store, check)
		return err
	})
	if err != nil {
		return s, f.unlessDeleted(ctx, account, req, found.by.Refused(err))
	}
	asks := func() []store.Ask {
		return []store.Ask{groups.AskFor(req.GroupID, account), askFile(req), askClaim(account, req),
			ledger.AskBalance(account), ledger.AskEnd(chain.Of(chain.KindClaim, account, req.GroupID))}
	}
	var claim chain.Row
	err = f.store.Write(ctx, ledger.In(req.GroupID, account).Asking(asks), func(tx *store.Tx) error {
		if row, err = getFile(ctx, tx, account, req); err != nil {
			return err
		}
		if err := row.group.RequireSealed(found.by.IsSealed()); err != nil {
			return err
		}
		if isPaid {
			claim, err = f.ledger.Free(ctx, tx, chain.KindClaim, 1, claimOf(account, req))
			return err
		}
		s.Fee, claim, err = f.claim(ctx, tx, account, req)
		return err
	})
	if err != nil {
		return s, err
	}
	// Only now, that the ledger has the record: no key is given out without.
	open := vaultwire.OpenFile{WrappedKey: row.key(req.GroupID, req.IPFSHash), Claim: claim.Record,
		Token: found.by.Token()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyPatience) // it is paid
	defer cancel()
	err = f.log.WithGroup(ctx, req.GroupID, func() error {
		s.Key, err = f.keys.FileKey(ctx, f.store, open)
		return err
	})
	if err != nil {
		f.unread.note(account, req.IPFSHash, true)
		return s, found.by.Refused(err)
	}
	if isPaid {
		f.unread.given(account, req.IPFSHash, row.content == "")
	}
	return s, nil
}

func askClaim(account string, req wire.PrepareRetrieveRequest) store.Ask {
	return store.Ask{Query: "SELECT time_ns FROM claims WHERE account = ? AND claim_id = ? AND ref = ?",
		Args: []any{account, req.ClaimID, req.IPFSHash}}
}

// claim charges a retrieval once per claim id, and returns the record of it: each opens the key once, and the others
// are free changes.
func (f *Files) claim(ctx context.Context, tx *store.Tx, account string,
	req wire.PrepareRetrieveRequest) (fee wire.Amount, record chain.Row, err error) {
	if req.ClaimID != "" {
		var at int64
		err := tx.Ask(ctx, askClaim(account, req)).Scan(&at)
		if err == nil && f.ledger.Now().Sub(time.Unix(0, at)) < claimLife {
			record, err = f.ledger.Free(ctx, tx, chain.KindClaim, 1, claimOf(account, req))
			return fee, record, err
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fee, record, fmt.Errorf("read claim: %w", err)
		}
	}
	record, err = f.ledger.Charge(ctx, tx, ledger.ActionRetrieve, claimOf(account, req))
	fee = f.ledger.Fee(ledger.ActionRetrieve)
	if err != nil || req.ClaimID == "" {
		return fee, record, err
	}
	return fee, record, tx.Do(ctx, "keep claim", `INSERT INTO claims (account, claim_id, ref, time_ns)
		VALUES (?, ?, ?, ?) ON CONFLICT (account, claim_id, ref) DO UPDATE
		SET time_ns = excluded.time_ns`, account, req.ClaimID, req.IPFSHash, f.ledger.Now().UnixNano())
}

func claimOf(account string, req wire.PrepareRetrieveRequest) chain.Record {
	return chain.Record{Kind: chain.KindClaim, Account: account, Group: req.GroupID, Ref: req.IPFSHash}
}

// file is the part of a row that a retrieval needs.
type file struct {
	blob       blob.Info // of the manifest, if there is a content
	format     string
	content    string // of format version 2, else ""
	keyVersion int64
	wrapped    []byte
	small      []byte // the row of small content; nil = it was not asked for, or is elsewhere
	group      groups.Group
}

// key returns the wrapped key of the file.
func (r *file) key(group, ref string) vaultwire.WrappedKey {
	return vaultwire.WrappedKey{Binding: vaultwire.Binding{Group: group, Ref: ref, Version: r.keyVersion},
		Wrapped: r.wrapped}
}

// find returns a file for a member, and first fetches bytes that are not kept here. It
// refuses a file in blocks to a client that does not read them.
func (f *Files) find(ctx context.Context, by *auth.Session, req wire.PrepareRetrieveRequest) (file, error) {
	row, err := f.lookUp(ctx, by, req)
	if err == nil && row.content != "" && !slices.Contains(req.Formats, format.VersionBlocks) {
		err = unsupported()
	}
	if err != nil || row.content != "" || row.blob.ID != req.IPFSHash {
		return row, err
	}
	if err := f.fetchOnce(ctx, by.Account, req); err != nil {
		return row, err
	}
	return f.recorded(ctx, by.Account, req)
}

// lookUp is [Files.recorded] with what a retrieval needs beside, in one round trip: the session is checked, and a small
// content comes along.
func (f *Files) lookUp(ctx context.Context, by *auth.Session, req wire.PrepareRetrieveRequest) (row file, err error) {
	asks := append(by.Asks(), groups.AskFor(req.GroupID, by.Account), askFile(req), askSmall(req))
	err = f.store.LookAsking(ctx, asks, func(tx *store.Tx) error {
		if err := by.Check(ctx, tx); err != nil {
			return err
		}
		if row, err = getFile(ctx, tx, by.Account, req); err != nil {
			return err
		}
		if _, small := SmallRow(row.blob.ID); !small {
			return nil
		}
		err := tx.Ask(ctx, askSmall(req)).Scan(&row.small)
		if errors.Is(err, sql.ErrNoRows) { // it is looked for again, and found missing
			return nil
		}
		return err
	})
	return row, err
}

// askSmall asks for the row of a file's content, if that is small.
func askSmall(req wire.PrepareRetrieveRequest) store.Ask {
	return store.Ask{Query: `SELECT data FROM small_contents WHERE id = (SELECT CASE WHEN blob_id LIKE '` +
		SmallPrefix + `%' THEN CAST(substr(blob_id, ` + smallAt + `) AS BIGINT) END FROM files WHERE ref = ? AND
		group_id = ?)`, Args: []any{req.IPFSHash, req.GroupID}}
}

// recorded returns a file for a member as the database has it.
func (f *Files) recorded(ctx context.Context, account string, req wire.PrepareRetrieveRequest) (row file, err error) {
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		row, err = getFile(ctx, tx, account, req)
		return err
	})
	return row, err
}

// unlessDeleted returns err, the failure to read a blob, or the refusal of a file that
// was deleted meanwhile.
func (f *Files) unlessDeleted(ctx context.Context, account string, req wire.PrepareRetrieveRequest, err error) error {
	if _, now := f.recorded(ctx, account, req); now != nil {
		return now
	}
	return err
}

func askFile(req wire.PrepareRetrieveRequest) store.Ask {
	return store.Ask{Query: `SELECT blob_id, blob_size, blob_sum, format, key_version, ` + selectWrapped + `, uploader,
		deleted_ns IS NOT NULL, trash_ns IS NOT NULL, content
		FROM files WHERE ref = ? AND group_id = ?`, Args: []any{req.IPFSHash, req.GroupID}}
}

func getFile(ctx context.Context, tx *store.Tx, account string, req wire.PrepareRetrieveRequest) (row file, err error) {
	if row.group, err = groups.RequireMember(ctx, tx, req.GroupID, account); err != nil {
		return row, err
	}
	var sum []byte
	var uploader string
	var deleted, inTrash bool
	err = tx.Ask(ctx, askFile(req)).Scan(&row.blob.ID, &row.blob.Size, &sum, &row.format, &row.keyVersion,
		&row.wrapped, &uploader, &deleted, &inTrash, &row.content)
	if errors.Is(err, sql.ErrNoRows) {
		return row, fault.New(wire.CodeFileNotFound, "file not found: No key for this file in group %q", req.GroupID)
	}
	if err != nil {
		return row, fmt.Errorf("read file: %w", err)
	}
	// a small content that is missing is damage
	if _, small := SmallRow(row.blob.ID); deleted || row.wrapped == nil && !small {
		return row, fault.New(wire.CodeFileDeleted, "File deleted: its key was destroyed")
	}
	if inTrash {
		g, role, err := groups.GetFor(ctx, tx, req.GroupID, account)
		if err == nil && !mayRemove(g, role, account, uploader) {
			err = fault.New(wire.CodeFileDeleted, "File deleted: it is in the trash, and only those who may bring it "+
				"back can read it")
		}
		if err != nil {
			return row, err
		}
	}
	copy(row.blob.Sum[:], sum)
	return row, nil
}

// readBlob returns the whole blob if it has at most inlineUpTo bytes, after
// checking it; of a larger one it checks the size.
func (f *Files) readBlob(ctx context.Context, row *file, inlineUpTo int64) (data []byte, err error) {
	want := row.blob
	switch {
	case want.Size > inlineUpTo:
		return nil, f.checkSize(ctx, want)
	case row.small != nil:
		data, err = smallIn(row.small, want.ID, want.Size)
	default:
		data, err = f.blobs.Read(ctx, want.ID, want.Size)
	}
	switch {
	case errors.Is(err, blob.ErrSize):
		return nil, damaged("cut or extended", err)
	case err != nil:
		return nil, damaged("missing or unreadable", err)
	case sha256.Sum256(data) != want.Sum:
		return nil, damaged("changed", nil)
	}
	return data, nil
}

func (f *Files) checkSize(ctx context.Context, want blob.Info) error {
	r, err := f.openBlob(ctx, want)
	if err == nil {
		err = r.Close()
	}
	return err
}

// openBlob opens a blob that must have its size.
func (f *Files) openBlob(ctx context.Context, want blob.Info) (io.ReadSeekCloser, error) {
	if _, ok := SmallRow(want.ID); ok {
		r, err := f.blobs.openSmall(ctx, want)
		switch {
		case errors.Is(err, blob.ErrSize):
			return nil, damaged("cut or extended", err)
		case err != nil:
			return nil, damaged("missing or unreadable", err)
		}
		return r, nil
	}
	r, size, err := f.blobs.Open(ctx, want.ID)
	if err != nil {
		return nil, damaged("missing or unreadable", err)
	}
	if size != want.Size {
		return nil, errors.Join(damaged("cut or extended", nil), r.Close())
	}
	return r, nil
}

// damaged refuses to hand out damaged ciphertext; an outage of the store stays an
// outage.
func damaged(how string, cause error) error {
	if errors.Is(cause, blob.ErrUnavailable) || errors.Is(cause, store.ErrUnavailable) ||
		errors.Is(cause, context.Canceled) {
		return cause
	}
	return &fault.Error{Code: wire.CodeBlobCorrupt, Text: "stored ciphertext is corrupt (" + how +
		"): nothing was charged", Err: cause}
}

// OpenBlob opens ciphertext for the raw transfer of a member with a ticket.
func (f *Files) OpenBlob(ctx context.Context, account, group, ref string) (io.ReadSeekCloser, blob.Info, error) {
	req := wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: ref}
	row, err := f.find(ctx, auth.Checked(account), req)
	if err != nil {
		return nil, blob.Info{}, err
	}
	r, err := f.openBlob(ctx, row.blob)
	if err != nil {
		return nil, blob.Info{}, f.unlessDeleted(ctx, account, req, err)
	}
	return r, row.blob, nil
}

// BlobBegin returns the first bytes of the ciphertext behind a reference, for the operator.
func (f *Files) BlobBegin(ctx context.Context, ref string, limit int64) (begins []byte, err error) {
	var want blob.Info
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT blob_id, blob_size FROM files WHERE ref = ?", ref).Scan(&want.ID,
			&want.Size)
	})
	if err != nil {
		return nil, err
	}
	r, err := f.openBlob(ctx, want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, limit))
}

// BlobID returns the id of the blob behind a reference, for the operator.
func (f *Files) BlobID(ctx context.Context, ref string) (id string, err error) {
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT blob_id FROM files WHERE ref = ?", ref).Scan(&id)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.New(wire.CodeFileNotFound, "file not found: no such reference")
	}
	return id, err
}
