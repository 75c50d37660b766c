package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// Compare compares every row of every table that is derived from the ledger with
// the state, which is that of the whole ledger. [ErrBroken] names table, row and
// column of the first that differs, and both values; or the first record of a retrieval that nobody may have made.
func (s *State) Compare(ctx context.Context, tx *store.Tx) error {
	if s.accounts == nil {
		s.Apply(&chain.Row{})
	}
	if s.claim != nil {
		return s.claim
	}
	for _, compare := range []func(context.Context, *store.Tx) error{
		s.compareAccounts, s.compareGroups, s.compareMembers, s.compareFiles, s.compareFolders, s.comparePending,
		s.compareInvites, s.compareGroupInvites,
	} {
		if err := compare(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// fact is a column with its value in the database and the value that follows from the
// ledger.
type fact struct {
	column    string
	has, want any
}

// shown is a value for a message: text is quoted, because clients chose it.
func shown(value any) any {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return value
}

// nothing is a column without a value.
type nothing struct{}

func (nothing) String() string { return "NULL" }

// null is how a number is compared that may be NULL.
func null(n sql.NullInt64) any {
	if !n.Valid {
		return nothing{}
	}
	return n.Int64
}

func pointed(n *int64) any {
	if n == nil {
		return nothing{}
	}
	return *n
}

// compareTable compares the rows of a table with those that follow from the ledger. scan
// reads a row and returns its key, and the facts to compare with a state; nil = it is of another part.
func compareTable[K comparable, V any](ctx context.Context, tx *store.Tx, table string, query store.Query,
	want map[K]V, scan func(store.Row) (K, func(V) []fact, error)) error {
	missing, err := compareRows(ctx, tx, table, query, want, scan)
	if err != nil || len(missing) == 0 {
		return err
	}
	var keys []string
	for key := range missing {
		keys = append(keys, fmt.Sprint(key))
	}
	return fmt.Errorf("table %s, %q: %w: it is missing", table, slices.Min(keys), ErrBroken)
}

// compareRows is compareTable, but returns missing rows.
func compareRows[K comparable, V any](ctx context.Context, tx *store.Tx, table string, query store.Query,
	want map[K]V, scan func(store.Row) (K, func(V) []fact, error)) (missing map[K]V, err error) {
	missing = maps.Clone(want)
	for rows, err := range tx.Rows(ctx, query) {
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", table, err)
		}
		key, facts, err := scan(rows)
		state, known := want[key]
		broken := func(text string, args ...any) error {
			return fmt.Errorf("table %s, %q: %w: %s", table, fmt.Sprint(key), ErrBroken, fmt.Sprintf(text, args...))
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, broken("a field has the wrong type")
		case facts == nil:
			continue // of another part
		case !known:
			return nil, broken("the ledger knows nothing of it")
		}
		for _, f := range facts(state) {
			if f.has != f.want {
				return nil, broken("%s is %v, and the ledger says %v", f.column, shown(f.has), shown(f.want))
			}
		}
		delete(missing, key)
	}
	return missing, nil
}

func (s *State) compareAccounts(ctx context.Context, tx *store.Tx) error {
	return compareTable(ctx, tx, "accounts",
		"SELECT id, balance, key_generation, disabled_ns IS NOT NULL, deleted_ns IS NOT NULL FROM accounts ORDER BY id",
		s.accounts,
		func(rows store.Row) (id string, facts func(*accountState) []fact, err error) {
			var balance string
			var generation int64
			var disabled, deleted bool
			err = rows.Scan(&id, &balance, &generation, &disabled, &deleted)
			return id, func(a *accountState) []fact {
				want := a.generations[0]
				if generation == a.generations[1] {
					want = generation
				}
				return []fact{{"balance", balance, a.balance.String()}, {"key_generation", generation, want},
					{"disabled_ns IS NOT NULL", disabled, a.disabled}, {"deleted_ns IS NOT NULL", deleted, a.deleted}}
			}, err
		})
}

func (s *State) compareGroups(ctx context.Context, tx *store.Tx) error {
	return compareTable(ctx, tx, "groups", `SELECT id, owner, joinable, join_expires, join_max_uses, join_uses,
		retention_days, key_version, join_role, pending_retention, pending_retention_ns, trash_days, trash_who,
		versions, COALESCE(pending_versions, ''), pending_versions_ns, format, appends, keys,
		COALESCE(offer_to, ''), offer_from_ns, offer_until_ns, pending_end_ns, ended_ns
		FROM groups ORDER BY id`, s.groups,
		func(rows store.Row) (id string, facts func(*groupState) []fact, err error) {
			var has groupState
			var expires, maxUses, retention, pending, pendingNS, nextVersionsNS sql.NullInt64
			var offerFrom, offerUntil, end, ended sql.NullInt64
			var versions string
			err = rows.Scan(&id, &has.owner, &has.joinable, &expires, &maxUses, &has.uses,
				&retention, &has.keyVersion, &has.joinRole, &pending, &pendingNS, &has.trashDays, &has.trashWho,
				&versions, &has.nextVersions, &nextVersionsNS, &has.format, &has.appends, &has.keys,
				&has.offerTo, &offerFrom, &offerUntil, &end, &ended)
			return id, func(g *groupState) []fact {
				return []fact{
					{"owner", has.owner, g.owner}, {"joinable", has.joinable, g.joinable},
					{"join_expires", null(expires), pointed(g.expires)}, {"join_uses", has.uses, g.uses},
					{"retention_days", null(retention), pointed(g.retention)},
					{"key_version", has.keyVersion, g.keyVersion},
					{"pending_retention", null(pending), pointed(g.pending)},
					{"pending_retention_ns", null(pendingNS), pointed(g.pendingNS)},
					{"join_role", has.joinRole, g.joinRole}, {"trash_days", has.trashDays, g.trashDays},
					{"trash_who", has.trashWho, g.trashWho}, {"versions", versions, g.versions.String()},
					{"pending_versions", has.nextVersions, g.nextVersions},
					{"pending_versions_ns", null(nextVersionsNS), pointed(g.nextVersionsNS)},
					{"format", has.format, g.format}, {"appends", has.appends, g.appends}, {"keys", has.keys, g.keys},
					{"join_max_uses", null(maxUses), pointed(g.maxUses)},
					{"offer_to", has.offerTo, g.offerTo}, {"offer_from_ns", null(offerFrom), pointed(g.offerFrom)},
					{"offer_until_ns", null(offerUntil), pointed(g.offerUntil)},
					{"pending_end_ns", null(end), pointed(g.end)}, {"ended_ns", null(ended), pointed(g.ended)},
				}
			}, err
		})
}

func (s *State) compareMembers(ctx context.Context, tx *store.Tx) error {
	return compareTable(ctx, tx, "members",
		"SELECT group_id, account, since, role FROM members ORDER BY group_id, account", s.members,
		func(rows store.Row) (k memberKey, facts func(*memberState) []fact, err error) {
			var has memberState
			err = rows.Scan(&k.group, &k.account, &has.since, &has.role)
			return k, func(m *memberState) []fact {
				return []fact{{"since", has.since, m.since}, {"role", has.role, m.role}}
			}, err
		})
}

func (s *State) compareFiles(ctx context.Context, tx *store.Tx) error {
	return compareTable(ctx, tx, "files", `SELECT ref, group_id, seq, changed_seq, named_seq, tx_id, uploader,
		file_hash, time_ns, filename, content_type, deleted_ns, deleted_by, deleted_why,
		trash_ns, trash_by, trash_until_ns, key_id IS NOT NULL, attributes, versioned, content,
		(SELECT sealed FROM openings WHERE openings.seq = files.seq), blob_size FROM files ORDER BY seq, ref`, s.files,
		func(rows store.Row) (ref string, facts func(*fileState) []fact, err error) {
			var has fileState
			var deletedNS, trashNS, trashUntil sql.NullInt64
			var by, why, trashBy sql.NullString
			var hasKey bool
			var opening []byte
			var blobSize int64
			err = rows.Scan(&ref, &has.group, &has.seq, &has.changed, &has.named, &has.txID, &has.uploader,
				&has.hash, &has.timeNS, &has.name, &has.contentType, &deletedNS, &by, &why,
				&trashNS, &trashBy, &trashUntil, &hasKey, &has.attributes, &has.versioned, &has.content,
				&opening, &blobSize)
			if !s.Part.has(ref) {
				return ref, nil, err
			}
			return ref, func(f *fileState) []fact {
				var deleted chain.Row
				if f.deleted != nil {
					deleted = *f.deleted
				}
				var trash trashState
				if f.trash != nil {
					trash = *f.trash
				}
				return []fact{
					{"group_id", has.group, f.group}, {"seq", has.seq, f.seq}, {"changed_seq", has.changed, f.changed},
					{"named_seq", has.named, f.named}, {"tx_id", has.txID, f.txID},
					{"uploader", has.uploader, f.uploader}, {"file_hash", has.hash, f.hash},
					{"time_ns", has.timeNS, f.timeNS}, {"deleted_ns IS NOT NULL", deletedNS.Valid, f.deleted != nil},
					{"deleted_ns", deletedNS.Int64, deleted.TimeNS}, {"deleted_by", by.String, deleted.Account},
					{"deleted_why", why.String, deleted.Detail}, {"key_id IS NOT NULL", hasKey, f.deleted == nil},
					{"trash_ns IS NOT NULL", trashNS.Valid, f.trash != nil}, {"trash_ns", trashNS.Int64, trash.since},
					{"trash_by", trashBy.String, trash.by}, {"trash_until_ns", null(trashUntil), pointed(trash.until)},
					{"attributes", has.attributes, f.attributes}, {"content", has.content, f.content},
					{"its opening is wiped", len(bytes.Trim(opening, "\x00")) == 0, f.deleted != nil},
					{"the size of its blob is wiped", f.deleted == nil || blobSize == 0, true},
					{"versioned", has.versioned, f.versioned}, {"filename", has.name, f.name},
					{"content_type", has.contentType, f.contentType},
				}
			}, err
		})
}

func (s *State) compareFolders(ctx context.Context, tx *store.Tx) error {
	return compareTable(ctx, tx, "folders",
		"SELECT ref, group_id, account, seq, time_ns, path FROM folders ORDER BY seq, ref", s.folders,
		func(rows store.Row) (ref string, facts func(*folderState) []fact, err error) {
			var has folderState
			err = rows.Scan(&ref, &has.group, &has.account, &has.seq, &has.timeNS, &has.path)
			if !s.Part.has(ref) {
				return ref, nil, err
			}
			return ref, func(d *folderState) []fact {
				return []fact{{"group_id", has.group, d.group}, {"account", has.account, d.account},
					{"seq", has.seq, d.seq}, {"time_ns", has.timeNS, d.timeNS}, {"path", has.path, d.path}}
			}, err
		})
}

// comparePending compares the pending deletions: the ledger must have a request for
// each. A deletion that was cancelled has no row.
func (s *State) comparePending(ctx context.Context, tx *store.Tx) error {
	_, err := compareRows(ctx, tx, "pending_deletions",
		"SELECT ref, group_id, account, due_ns FROM pending_deletions ORDER BY ref", s.pending,
		func(rows store.Row) (ref string, facts func(pendingState) []fact, err error) {
			var has pendingState
			err = rows.Scan(&ref, &has.group, &has.account, &has.due)
			if !s.Part.has(ref) {
				return ref, nil, err
			}
			return ref, func(p pendingState) []fact {
				return []fact{{"group_id", has.group, p.group}, {"account", has.account, p.account},
					{"due_ns", has.due, p.due}}
			}, err
		})
	return err
}

// compareInvites compares the invites: the ledger must have a record of each. One that is too old has no row.
func (s *State) compareInvites(ctx context.Context, tx *store.Tx) error {
	_, err := compareRows(ctx, tx, "invites", "SELECT id, account, balance, expires_ns FROM invites ORDER BY id",
		s.invites, func(rows store.Row) (id string, facts func(inviteState) []fact, err error) {
			var has inviteState
			err = rows.Scan(&id, &has.account, &has.balance, &has.expires)
			return id, func(i inviteState) []fact {
				return []fact{{"account", has.account, i.account}, {"balance", has.balance, i.balance},
					{"expires_ns", has.expires, i.expires}}
			}, err
		})
	return err
}

func (s *State) compareGroupInvites(ctx context.Context, tx *store.Tx) error {
	_, err := compareRows(ctx, tx, "group_invites",
		"SELECT id, group_id, role, expires_ns FROM group_invites ORDER BY id",
		s.invites, func(rows store.Row) (id string, facts func(inviteState) []fact, err error) {
			var has inviteState
			err = rows.Scan(&id, &has.group, &has.role, &has.expires)
			return id, func(i inviteState) []fact {
				return []fact{{"group_id", has.group, i.group}, {"role", has.role, i.role},
					{"expires_ns", has.expires, i.expires}}
			}, err
		})
	return err
}

// Rowless calls visit with every file that lives by the records that are there, and has no row. The ledger
// may lack records.
func Rowless(ctx context.Context, tx *store.Tx, visit func(group, name, ref string)) error {
	var s State
	for r, err := range records(ctx, tx, "read ledger", nil, "SELECT "+columns+" FROM ledger ORDER BY seq") {
		if err != nil {
			return err
		}
		s.Apply(&r)
	}
	for ref, err := range store.Each(ctx, tx, "list files", func(ref *string) []any { return []any{ref} },
		"SELECT ref FROM files") {
		if err != nil {
			return err
		}
		delete(s.files, ref)
	}
	for _, ref := range slices.Sorted(maps.Keys(s.files)) {
		if f := s.files[ref]; f.deleted == nil {
			visit(f.group, f.name, ref)
		}
	}
	return nil
}
