package files

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// nameBatch is how many versions of a name one request removes or brings back.
const nameBatch = 1000

// mayRemove reports whether an account with a role may remove a file of uploader, bring
// the file back, and read it in the trash.
func mayRemove(g groups.Group, role wire.Role, account, uploader string) bool {
	switch role {
	case wire.RoleOwner:
		return true
	case wire.RoleWriter:
		return account == uploader || g.TrashWho == wire.TrashWriters
	default:
		return false
	}
}

// Remove puts all living versions of a name into the trash, each with a record. Members do not see them any more; no
// key is destroyed. The caller must be allowed to remove every one of them. The keys are destroyed when the trash time
// is over, which is never shorter than the delay of deletions in bulk. A file that the
// caller may remove but not delete waits for the owner of the group.
func (f *Files) Remove(ctx context.Context, account string, req wire.NameRequest) (out wire.NameResult, err error) {
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		out = wire.NameResult{} // it may run again
		g, list, err := f.versions(ctx, tx, account, req, removable, req.Seq, req.Seq, account, account)
		if err != nil {
			return err
		}
		for _, t := range list {
			if !mayRemove(g, roleIn(g, account), account, t.uploader) {
				return fault.New(wire.CodeNotAuthorized,
					"User not authorized: only %s, who uploaded it or an older version, and the owner of group %q "+
						"can remove it", t.uploader, g.ID)
			}
		}
		if out.More = len(list) > nameBatch; out.More {
			list = list[:nameBatch]
		}
		now := f.ledger.Now()
		ends := now.Add(max(time.Duration(g.TrashDays)*24*time.Hour, f.config.DestructionDelay)).UnixNano()
		var steps []step
		for i, t := range list {
			until := sql.NullInt64{Int64: ends, Valid: account == t.uploader || account == g.Owner}
			r, err := f.putInTrash(ctx, tx, t, account, until, i == 0)
			if err != nil {
				return err
			}
			steps = append(steps, step{r, t.seq})
			out.Until = cmp.Or(out.Until, untilText(until))
		}
		out.Files = int64(len(list))
		out.Recorded, err = f.answerOf(ctx, tx, steps...)
		return err
	})
	return out, err
}

// roleIn is the role of a writer of a group.
func roleIn(g groups.Group, account string) wire.Role {
	if account == g.Owner {
		return wire.RoleOwner
	}
	return wire.RoleWriter
}

func untilText(until sql.NullInt64) string {
	if !until.Valid {
		return ""
	}
	return strconv.FormatInt(until.Int64, 10)
}

func (f *Files) putInTrash(ctx context.Context, tx *store.Tx, t target, account string, until sql.NullInt64,
	isFirst bool) (chain.Row, error) {
	r, err := f.recordVersion(ctx, tx, trashRecord(chain.KindRemove, t, account, untilText(until)), isFirst)
	if err != nil {
		return r, err
	}
	return r, tx.Do(ctx, "put into the trash", "UPDATE files SET trash_ns = ?, trash_by = ?, trash_until_ns = ?, "+
		"changed_seq = ?, named_seq = ? WHERE ref = ?", r.TimeNS, account, until, r.Seq, r.Seq, t.ref)
}

// recordVersion appends the record of one version. Where the kind has a price, a name
// costs it once, and its other versions are free changes.
func (f *Files) recordVersion(ctx context.Context, tx *store.Tx, r chain.Record, isFirst bool) (chain.Row, error) {
	if isFirst {
		return f.ledger.Charge(ctx, tx, r.Kind, r)
	}
	return f.ledger.Free(ctx, tx, r.Kind, 1, r)
}

func trashRecord(kind string, t target, account, detail string) chain.Record {
	return chain.Record{Kind: kind, Account: account, Group: t.group, Ref: t.ref, FileHash: t.hash, Detail: detail,
		Tags: t.namedTags()}
}

// Restore takes those versions of a name out of the trash that account may remove,
// each with a record. Where the name has a living file, they become versions of it, in
// the order of their uploads.
func (f *Files) Restore(ctx context.Context, account string, req wire.NameRequest) (out wire.NameResult, err error) {
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		out = wire.NameResult{} // it may run again
		g, list, err := f.versions(ctx, tx, account, req, restorable, req.Seq, req.Seq, account)
		if err != nil {
			return err
		}
		var refused error
		var steps []step
		for i, t := range list {
			if !mayRemove(g, roleIn(g, account), account, t.uploader) {
				refused = fault.New(wire.CodeNotAuthorized,
					"User not authorized: only %s, who uploaded it, and the owner of group %q can bring it back",
					t.uploader, g.ID)
				break // only those of others follow
			}
			if out.More = i == nameBatch; out.More {
				break
			}
			r, err := f.takeFromTrash(ctx, tx, t, account, out.Files == 0)
			if err != nil {
				return err
			}
			steps = append(steps, step{r, t.seq})
			out.Files++
		}
		if out.Files == 0 {
			return refused
		}
		out.Recorded, err = f.answerOf(ctx, tx, steps...)
		return err
	})
	return out, err
}

// takeFromTrash also takes back a deletion that waits, see [Files.pend].
func (f *Files) takeFromTrash(ctx context.Context, tx *store.Tx, t target, account string,
	isFirst bool) (chain.Row, error) {
	r, err := f.recordVersion(ctx, tx, trashRecord(chain.KindRestore, t, account, ""), isFirst)
	if err != nil {
		return r, err
	}
	err = tx.Do(ctx, "take from the trash", "UPDATE files SET trash_ns = NULL, trash_by = NULL, trash_until_ns = "+
		"NULL, changed_seq = ?, named_seq = ? WHERE ref = ?", r.Seq, r.Seq, t.ref)
	if err != nil {
		return r, err
	}
	return r, tx.Do(ctx, "forget a deletion that waits", "DELETE FROM pending_deletions WHERE ref = ?", t.ref)
}

// Which versions a request changes, and in which order: those that did not change after
// its sequence, the first two arguments. A new name from the same account is no such
// change: the request names it, and the account does not know the sequence of that
// record. Where a name has more versions than one request changes, those of others come
// first to refuse the removal as a whole, and last so that they keep none from returning.
const (
	removable = "trash_ns IS NULL AND (changed_seq <= ? OR seq <= ? AND " + ledger.RenamedBy +
		"files.changed_seq)) ORDER BY uploader = ?, seq"
	restorable = "trash_ns IS NOT NULL AND changed_seq <= ? AND seq <= ? ORDER BY uploader <> ?, seq"
)

// versions returns at most one more than [nameBatch] files of a name that are not
// deleted, for a writer of the group: those that are chosen, see [removable]. None is no
// error as long as the group has the name.
func (f *Files) versions(ctx context.Context, tx *store.Tx, account string, req wire.NameRequest, chosen store.Query,
	choice ...any) (g groups.Group, list []target, err error) {
	if req.Filename == "" && req.IPFSHash == "" || req.Seq <= 0 {
		return g, nil, fault.New(wire.CodeValidation,
			"Required: filename, or ipfs_hash of a file without a recorded name, and seq")
	}
	if g, err = groups.RequireWriter(ctx, tx, req.GroupID, account); err != nil {
		return g, nil, err
	}
	args := []any{g.ID, req.Filename, req.Filename}
	isNamed := func(string) bool { return true }
	if req.Filename == "" { // the same content without a name is the same name to a client
		same, err := f.sameContent(ctx, tx, g.ID, req.IPFSHash)
		if err != nil {
			return g, nil, err
		}
		isNamed = func(ref string) bool { return same[ref] }
	}
	const named = " FROM files WHERE group_id = ? AND " + groups.SelectNamed + " AND deleted_ns IS NULL"
	for t, err := range store.Each(ctx, tx, "list versions", (*target).fields,
		"SELECT "+targetColumns+named+" AND "+chosen, append(slices.Clone(args), choice...)...) {
		if err != nil {
			return g, nil, err
		}
		if isNamed(t.ref) {
			t.group = g.ID
			list = append(list, t)
		}
		if len(list) > nameBatch {
			break
		}
	}
	if len(list) > 0 {
		return g, list, nil
	}
	for ref, err := range store.Each(ctx, tx, "look for a name", func(ref *string) []any { return []any{ref} },
		"SELECT ref"+named, args...) {
		if err != nil || isNamed(ref) {
			return g, nil, err
		}
	}
	return g, nil, fault.New(wire.CodeFileNotFound, "file not found: no such name in group %q", g.ID)
}

// trashEnded is a file whose trash time is over.
type trashEnded struct {
	target
	by string
}

// endTrash destroys the keys of at most limit files whose trash time is over. It
// returns what it shredded.
func (f *Files) endTrash(ctx context.Context, tx *store.Tx, now time.Time, limit int) (shredded []target, err error) {
	ended, err := store.List(ctx, tx, "list what leaves the trash", func(e *trashEnded) []any {
		return append(e.fields(), &e.group, &e.by)
	},
		"SELECT "+targetColumns+", group_id, trash_by FROM files WHERE trash_until_ns <= ? ORDER BY trash_until_ns "+
			"LIMIT ?", now.UnixNano(), limit)
	if err != nil {
		return nil, err
	}
	for _, e := range ended {
		if err := f.shredPaid(ctx, tx, &e.target, e.by, wire.ReasonOwnerRequest); err != nil {
			return nil, err
		}
		shredded = append(shredded, e.target)
	}
	return shredded, nil
}
