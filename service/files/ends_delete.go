package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// target is a file that is about to change, with the facts that a record about it holds.
type target struct {
	group, ref, hash, uploader, blobID string // hash is the commitment of its records
	name, contentType, attributes      string
	content                            string // of format version 2, else ""
	seq, timeNS                        int64  // of the upload
	// places in the chain: of the upload, and of the record that gave it its name
	number, named    int64
	deleted, inTrash bool
	freed            []string // blobs of parts that nothing uses once the file has ended
}

// targetColumns are the columns of files that [target.fields] reads.
const targetColumns = "ref, files.seq, file_hash, uploader, blob_id, filename, content_type, time_ns, attributes, " +
	"content, " +
	ledger.NumberOf + "files.seq), " + ledger.NumberOf + "named_seq)"

func (t *target) fields() []any {
	return []any{&t.ref, &t.seq, &t.hash, &t.uploader, &t.blobID, &t.name, &t.contentType, &t.timeNS, &t.attributes,
		&t.content, &t.number, &t.named}
}

// tags repeat the facts of the upload, so that a record about the file is complete
// without the record of the upload.
func (t *target) tags() []chain.Tag {
	return ledger.WithTags(contentTags(t.contentType, t.attributes, t.content), chain.Tag{Name: chain.TagUploader,
		Value: t.uploader},
		chain.Tag{Name: chain.TagUploaded, Value: strconv.FormatInt(t.timeNS, 10)},
		chain.Tag{Name: chain.TagUpload, Value: strconv.FormatInt(t.number, 10)})
}

// nameTag says which record gave the file its name: a name must not become younger where a record only
// changes attributes, or ends an old version, because a name that two files want stays with the older.
func (t *target) nameTag() chain.Tag {
	return chain.Tag{Name: chain.TagNamed, Value: strconv.FormatInt(t.named, 10)}
}

// namedTags are the tags of a record whose detail is not the name of the file.
func (t *target) namedTags() []chain.Tag {
	return ledger.WithTags(t.tags(), chain.Tag{Name: chain.TagName, Value: t.name})
}

// Delete destroys the key of a file, in one transaction with the record. Afterwards it
// removes the ciphertext, and old copies of the wrapped key in the database's files; the
// sweep repeats what fails. Only the uploader and the owner of the group may delete, as
// long as they are members and no readers.
//
// Deleting a deleted file changes nothing: the first record counts, nothing is cleaned
// again, and the call counts as a change without a price. When an account deletes too
// many files in a short time, the deletion is noted, refused as pending, and carried out
// later.
func (f *Files) Delete(ctx context.Context, account string, req wire.FileRequest) (out Changed, err error) {
	var victim target
	var due time.Time
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) (err error) {
		if victim, err = changeable(ctx, tx, account, req.GroupID, req.IPFSHash, "delete"); err != nil {
			return err
		}
		if victim.deleted {
			return f.ledger.CountFree(ctx, tx, account)
		}
		if due, err = f.pend(ctx, tx, victim, account); err != nil || !due.IsZero() {
			return err
		}
		r, err := f.shred(ctx, tx, &victim, account, wire.ReasonOwnerRequest)
		if err != nil {
			return err
		}
		out.Recorded, err = f.answerOf(ctx, tx, step{r, victim.seq})
		return err
	})
	if err == nil && !due.IsZero() {
		err = waits(req.GroupID, due)
	}
	if err != nil {
		return Changed{}, err
	}
	out.Text = fmt.Sprintf("Deleted '%s' from group '%s': its key is destroyed", victim.ref, victim.group)
	if victim.deleted {
		return out, nil
	}
	f.removeBlobs(ctx, victim)
	faultpoint.Hit("delete.blob_removed")
	_ = f.scrub(context.WithoutCancel(ctx)) // the sweep repeats it
	return out, nil
}

// living returns a file that account may rename or give attributes.
func living(ctx context.Context, tx *store.Tx, account, group, ref, action string) (target, error) {
	t, err := changeable(ctx, tx, account, group, ref, action)
	switch {
	case err != nil:
		return t, err
	case t.deleted:
		return t, fault.New(wire.CodeFileDeleted, "File deleted: its key was destroyed")
	case t.inTrash:
		return t, fault.New(wire.CodeFileDeleted, "File deleted: it is in the trash: bring it back first")
	default:
		return t, nil
	}
}

// changeable returns a file that account may delete, rename or give attributes.
func changeable(ctx context.Context, tx *store.Tx, account, group, ref, action string) (t target, err error) {
	g, err := groups.RequireWriter(ctx, tx, group, account)
	if err != nil {
		return t, err
	}
	t = target{group: group}
	err = tx.QueryRowContext(ctx, "SELECT "+targetColumns+", deleted_ns IS NOT NULL, trash_ns IS NOT NULL FROM files "+
		"WHERE ref = ? AND group_id = ?", ref, group).
		Scan(append(t.fields(), &t.deleted, &t.inTrash)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return t, fault.New(wire.CodeFileNotFound, "file not found: no such reference in group %q", group)
	case err != nil:
		return t, fmt.Errorf("read file: %w", err)
	case t.uploader != account && g.Owner != account:
		return t, fault.New(wire.CodeNotAuthorized,
			"User not authorized: only %s, who uploaded the file, and the owner of group %q can %s it", t.uploader,
			group, action)
	}
	return t, nil
}

// shred destroys the key of a file, charges for it and records the reason.
func (f *Files) shred(ctx context.Context, tx *store.Tx, t *target, by, reason string) (chain.Row, error) {
	r, err := f.ledger.Charge(ctx, tx, chain.KindTombstone, tombstone(t, by, reason))
	if err != nil {
		return r, err
	}
	return r, shredded(ctx, tx, t, r)
}

// shredPaid is [Files.shred] for a deletion that was paid for before, or is free.
func (f *Files) shredPaid(ctx context.Context, tx *store.Tx, t *target, by, reason string) error {
	return f.shredRecord(ctx, tx, t, tombstone(t, by, reason))
}

// shredByPolicy is [Files.shredPaid] for what the service deletes by a setting of the group.
// The record keeps the age of the name, so that the name stays where it is.
func (f *Files) shredByPolicy(ctx context.Context, tx *store.Tx, t *target, reason string) error {
	r := tombstone(t, f.config.ContractID, reason)
	r.Tags = ledger.WithTags(r.Tags, t.nameTag())
	return f.shredRecord(ctx, tx, t, r)
}

func (f *Files) shredRecord(ctx context.Context, tx *store.Tx, t *target, record chain.Record) error {
	r, err := f.ledger.Append(ctx, tx, record)
	if err != nil {
		return err
	}
	return shredded(ctx, tx, t, r)
}

func tombstone(t *target, by, reason string) chain.Record {
	return chain.Record{Kind: chain.KindTombstone, Account: by, Group: t.group, Ref: t.ref, FileHash: t.hash,
		Detail: reason,
		Tags:   t.namedTags()}
}

// shredded destroys the key of a file whose deletion has the record r, what its records commit to, and what
// its client said of it. No size stays.
func shredded(ctx context.Context, tx *store.Tx, t *target, r chain.Row) error {
	if err := destroyKeys(ctx, tx, "SELECT key_id FROM files WHERE ref = ?", t.ref); err != nil {
		return err
	}
	if err := destroyOpening(ctx, tx, t.ref); err != nil {
		return err
	}
	err := tx.Do(ctx, "record deletion",
		"UPDATE files SET key_id = NULL, format = 'null', blob_size = 0, deleted_ns = ?, deleted_by = ?, deleted_why "+
			"= ?, trash_ns = NULL, trash_by = NULL, trash_until_ns = NULL, changed_seq = ? WHERE ref = ?", r.TimeNS,
		r.Account, r.Detail, r.Seq, t.ref)
	if err != nil {
		return err
	}
	if t.content != "" {
		t.freed, err = endUses(ctx, tx, t.ref, r.Seq)
	}
	return err
}
