package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// Size returns how many records have a place, which is the place of the newest.
func Size(ctx context.Context, tx *store.Tx) (n int64, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(max(place), 0) FROM places").Scan(&n); err != nil {
		return 0, fmt.Errorf("read end of the ledger: %w", err)
	}
	return n, nil
}

// newestSeq returns the largest sequence of a record, 0 for an empty ledger.
func newestSeq(ctx context.Context, tx *store.Tx) (seq int64, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(max(seq), 0) FROM ledger").Scan(&seq); err != nil {
		return 0, fmt.Errorf("read the newest sequence: %w", err)
	}
	return seq, nil
}

// span returns the smallest and the largest sequence of the records with a place in (after, upTo]: so the indexes
// of groups and accounts, which are by sequence, find them. Other records may lie between.
func span(ctx context.Context, tx *store.Tx, after, upTo int64) (low, high int64, err error) {
	const bounds = "bound) FROM place_bounds WHERE place > ? AND place <= ?), 0)"
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE((SELECT min("+bounds+", COALESCE((SELECT max("+bounds,
		after, upTo, after, upTo).Scan(&low, &high); err != nil {
		return 0, 0, fmt.Errorf("read places: %w", err)
	}
	return low, high, nil
}

// Newest returns time and hash of the record with the last place, nil and the zero time for an
// empty ledger.
func Newest(ctx context.Context, tx *store.Tx) (at time.Time, hash []byte, err error) {
	var ns int64
	err = tx.QueryRowContext(ctx, "SELECT time_ns, hash FROM placed WHERE place > 0 ORDER BY place DESC LIMIT 1").
		Scan(&ns, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return at, nil, nil
	}
	if err != nil {
		return at, nil, fmt.Errorf("read last record: %w", err)
	}
	return time.Unix(0, ns), hash, nil
}

// Placed returns n records after a place, unchecked.
func Placed(ctx context.Context, tx *store.Tx, after int64, n int) ([]chain.Row, error) {
	rows := make([]chain.Row, 0, n)
	for r, err := range records(ctx, tx, "read rows", nil, "SELECT "+columns+" FROM placed AS ledger WHERE place > ? "+
		"ORDER BY place LIMIT ?", after, n) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	if len(rows) < n {
		return nil, fmt.Errorf("the ledger has %d rows behind row %d, want %d", len(rows), after, n)
	}
	return rows, nil
}

// NewestOf returns the sequence of the newest record of a group's own chain, 0 if it has none.
func NewestOf(ctx context.Context, tx *store.Tx, group string) (seq int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT COALESCE(max(seq), 0) FROM ledger WHERE group_id = ? AND kind <> '"+
		chain.KindClaim+"'", group).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("read the newest sequence of a chain: %w", err)
	}
	return seq, nil
}

// NewestInChain returns the time of the oldest of the n newest records of a group's own chain.
func NewestInChain(ctx context.Context, tx *store.Tx, group string, n int64) (time.Time, error) {
	var ns int64
	err := tx.QueryRowContext(ctx, "SELECT time_ns FROM ledger WHERE group_id = ? AND kind <> '"+
		chain.KindClaim+"' ORDER BY seq DESC LIMIT 1 OFFSET ?", group, n-1).Scan(&ns)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the chain's newest records: %w", err)
	}
	return time.Unix(0, ns), nil
}

// indexedTogether is how many records get their place in the table record_ids at once: see the
// trigger ledger_ids.
const indexedTogether = 2048

// selectIndexed and selectNotIndexed find the record with an id. Few records are not in the
// index yet.
const (
	selectIndexed = "SELECT ref FROM record_ids CROSS JOIN ledger WHERE record_ids.beginning = substr(CAST(? AS " +
		"TEXT), 1, 10) AND ledger.seq = record_ids.seq AND ledger.tx_id = ?"
	selectNotIndexed = "SELECT ref FROM ledger WHERE seq > ? AND tx_id = ?"
)

// RefOf returns the reference that a record is about, "" where there is no such record.
func RefOf(ctx context.Context, tx *store.Tx, txID string) (ref string, err error) {
	head, err := newestSeq(ctx, tx)
	if err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, selectIndexed, txID, txID).Scan(&ref)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, selectNotIndexed, head-head%indexedTogether, txID).Scan(&ref)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read record: %w", err)
	}
	return ref, nil
}

// WasNamed reports whether an account acted in the ledger, or was revoked.
func WasNamed(ctx context.Context, tx *store.Tx, account string) (was bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM ledger WHERE account = ? UNION ALL SELECT 1 FROM "+
		"ledger WHERE kind = '"+chain.KindRevoke+"' AND detail = ?)",
		account, account).Scan(&was)
	if err != nil {
		return false, fmt.Errorf("look for a name in the ledger: %w", err)
	}
	return was, nil
}

// WasRevoked is part of a query: true for an account, its argument, that was ever
// revoked from a group, or left it. The caller adds the column or placeholder of the group and a
// bracket.
const WasRevoked = "EXISTS (SELECT 1 FROM ledger r WHERE r.kind = '" + chain.KindRevoke +
	"' AND r.detail = ? AND r.group_id = "

// RenamedBy is part of a query: true when the record with a sequence is a new name, or new
// attributes, that an account, its argument, gave. The caller adds the column of the sequence and a
// bracket.
const RenamedBy = "EXISTS (SELECT 1 FROM ledger WHERE kind IN ('" + chain.KindRename + "', '" +
	chain.KindRenameFolder + "', '" + chain.KindAttributes + "') AND ledger.account = ? AND ledger.seq = "

// NumberOf is part of a query: the number in its chain of the record with a sequence. The caller adds the
// column of the sequence and a bracket.
const NumberOf = "(SELECT number FROM ledger WHERE ledger.seq = "

// SeqAt returns a sequence up to which the records of a group are not younger than t, and behind which they are; 0
// when all are younger. Times hardly ever go back, so that it reads few records of a long ledger: sequences of records
// that were written at the same time, in different chains, may be on either side.
func SeqAt(ctx context.Context, tx *store.Tx, t time.Time) (seq int64, err error) {
	last, err := newestSeq(ctx, tx)
	if err != nil {
		return 0, err
	}
	n := sort.Search(int(last), func(i int) bool { // sequences may have gaps
		var at int64
		if err == nil {
			err = tx.QueryRowContext(ctx, "SELECT time_ns FROM ledger WHERE seq > ? ORDER BY seq LIMIT 1", i).Scan(&at)
		}
		return at > t.UnixNano()
	})
	if err != nil {
		return 0, fmt.Errorf("read the time of a record: %w", err)
	}
	return int64(n), nil
}

// Viewer is the account that reads the records of a group. Only the owner of the group
// sees the retrievals of others.
type Viewer struct {
	Account string
	IsOwner bool
}

// inChain and isClaim select the records of a group after a sequence: those of its chain, each
// of which a viewer may see, and the retrievals that a viewer may see. Each has an index.
const (
	inChain = "group_id = ? AND ledger.seq > ? AND kind <> '" + chain.KindClaim + "'"
	isClaim = "group_id = ? AND ledger.seq > ? AND kind = '" + chain.KindClaim + "' AND (account = ? OR ?)"
)

// may returns the arguments of inChain and isClaim.
func (v Viewer) may(group string, after int64) []any {
	return []any{group, after, group, after, v.Account, v.IsOwner}
}

// Listed is a record of a list, with what is not listed as it is kept. Its byte slices are good until
// the next row.
type Listed struct {
	wire.TransactionRow
	Sum    []byte // hash of the record
	Upload int64  // of a record about a file, the sequence of its upload, else 0
	Sealed []byte // what that commits to, see [chain.Opening]; sealed under the list key of the group
}

// listed are the columns that rowScan reads, of a row of table ledger.
const listed = `ledger.seq, ledger.tx_id, kind, ledger.time_ns, account, ledger.ref, ledger.file_hash, detail, fee,
	request,
	chain, number, tags, hash,
	COALESCE(openings.seq, 0), openings.sealed`

// openingsOf joins the openings of the files that records are about.
const openingsOf = " LEFT JOIN openings ON openings.seq = CASE WHEN kind = '" +
	chain.KindRecord + `' THEN ledger.seq
	WHEN ledger.ref <> '' THEN (SELECT files.seq FROM files WHERE files.ref = ledger.ref) END`

// selectOfGroup reads the records of a group in turns of their two indexes, in order.
const selectOfGroup = "SELECT " + listed + ", prev_hash, place FROM placed AS ledger" + openingsOf + " WHERE " +
	inChain + " AND place > 0 UNION ALL SELECT " + listed + ", prev_hash, place FROM placed AS ledger" + openingsOf +
	" WHERE " + isClaim + " AND place > 0 ORDER BY 1 LIMIT ?"

// OfGroup passes at most limit records of a group after a sequence that a viewer may
// see, with all that their hashes cover and their places in the whole ledger. It leaves out those that have none yet.
func OfGroup(ctx context.Context, tx *store.Tx, group string, v Viewer, after int64,
	limit int) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		var prev []byte
		var place int64
		record := newRowScan(&prev, &place)
		for rows, err := range tx.Rows(ctx, selectOfGroup, append(v.may(group, after), limit)...) {
			var row Listed
			if err == nil {
				row, err = record.next(rows)
			}
			row.GroupID, row.PrevHash, row.Hash = group, hex.EncodeToString(prev), hex.EncodeToString(row.Sum)
			if place != row.Seq {
				row.Place = place
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// ofFolders are the records of folders of a group after a sequence: the index ledger_folders
// holds no others.
const ofFolders = "FROM ledger WHERE group_id = ? AND seq > ? AND kind IN ('" + chain.KindRenameFolder + "', '" +
	chain.KindMakeFolder + "', '" + chain.KindRemoveFolder + "')"

// FolderRenamed returns the record of a group after a sequence with which an account
// renamed one folder to another; its Seq is 0 when there is none.
func FolderRenamed(ctx context.Context, tx *store.Tx, group, account, before, after string,
	seq int64) (found chain.Row, err error) {
	for r, err := range records(ctx, tx, "look for a renamed folder", nil, "SELECT "+columns+" "+ofFolders+
		" AND kind = '"+chain.KindRenameFolder+"' AND ledger.account = ? AND detail = ? ORDER BY seq", group, seq,
		account, after) {
		if err != nil || r.Tag(chain.TagFolder) == before {
			return r, err
		}
	}
	return found, nil
}

// selectChain reads a page of a group's chain.
const selectChain = "SELECT " + listed + " FROM ledger" + openingsOf + " WHERE group_id = ? AND kind <> '" +
	chain.KindClaim + "' AND ledger.seq > ? ORDER BY ledger.seq LIMIT ?"

// OfChain passes at most limit records of a group's own chain after a sequence to each,
// until each has enough or fails.
func OfChain(ctx context.Context, tx *store.Tx, group string, after int64, limit int,
	each func(row Listed) (more bool, err error)) error {
	record := newRowScan()
	for rows, err := range tx.Rows(ctx, selectChain, group, after, limit) {
		var row Listed
		if err == nil {
			row, err = record.next(rows)
		}
		if err != nil {
			return fmt.Errorf("list the chain: %w", err)
		}
		if more, err := each(row); err != nil || !more {
			return err
		}
	}
	return nil
}

// fewRefs is how many references selectUploads takes, and aFew are their places.
const (
	fewRefs = 50
	tenRefs = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
	aFew    = tenRefs + ", " + tenRefs + ", " + tenRefs + ", " + tenRefs + ", " + tenRefs

	selectUploads = "SELECT " + listed + ", prev_hash, COALESCE(place, -1) FROM placed AS ledger" + openingsOf +
		" WHERE ledger.seq IN (SELECT files.seq FROM files WHERE files.ref IN (" + aFew + "))"
)

// Uploads passes the records that uploaded files, with the hashes before them and their places in the whole ledger, to
// each, in any order, until each has enough.
func Uploads(ctx context.Context, tx *store.Tx, refs []string, each func(row Listed) (more bool)) error {
	var prev []byte
	var place int64
	record := newRowScan(&prev, &place)
	for some := range slices.Chunk(refs, fewRefs) {
		args := make([]any, fewRefs) // nil = no reference
		for i, ref := range some {
			args[i] = ref
		}
		for rows, err := range tx.Rows(ctx, selectUploads, args...) {
			var row Listed
			if err == nil {
				row, err = record.next(rows)
			}
			if err != nil {
				return fmt.Errorf("read records of uploads: %w", err)
			}
			row.PrevHash = hex.EncodeToString(prev)
			if place != row.Seq {
				row.Place = place
			}
			if !each(row) {
				return nil
			}
		}
	}
	return nil
}

// rowScan reads records one by one, into memory that is taken once.
type rowScan struct {
	row    Listed
	timeNS int64
	tags   string
	into   []any
}

// newRowScan reads the listed columns, and more behind them.
func newRowScan(more ...any) *rowScan {
	s := &rowScan{}
	r := &s.row
	s.into = append([]any{&r.Seq, &r.TransID, &r.Kind, &s.timeNS, &r.UserID, &r.IPFSHash, &r.FileHash, &r.Detail,
		&r.Fee, &r.Request,
		&r.Chain, &r.Number, &s.tags, &r.Sum, &r.Upload, &r.Sealed}, more...)
	return s
}

func (s *rowScan) next(rows store.Row) (row Listed, err error) {
	if err := rows.Scan(s.into...); err != nil {
		return row, err
	}
	row = s.row
	stamp := strconv.FormatInt(s.timeNS, 10)
	row.Timestamp, row.ChangedSeq = &stamp, row.Seq
	row.Tags, err = splitTags(s.tags)
	return row, err
}

// eventKinds are the records that concern members.
const eventKinds = "'" + chain.KindRegister + "', '" + chain.KindAdd + "', '" + chain.KindJoin + "', '" +
	chain.KindRevoke + "', '" +
	chain.KindRecord + "', '" + chain.KindTombstone + "', '" + chain.KindRename + "', '" + chain.KindRetention +
	"', '" + chain.KindRole + "', '" +
	chain.KindPending + "', '" + chain.KindKeep + "', '" + chain.KindRemove + "', '" + chain.KindRestore + "', '" +
	chain.KindTrash + "', '" + chain.KindRenameFolder + "', '" + chain.KindMakeFolder + "', '" +
	chain.KindRemoveFolder + "', '" +
	chain.KindAttributes + "', '" + chain.KindVersions + "', '" + chain.KindFormat + "', '" +
	chain.KindAppends + "', '" + chain.KindKeys +
	"', '" + chain.KindOffer + "', '" + chain.KindAccept + "', '" + chain.KindDeleteGroup + "'"

// selectEvents finds the events in the groups of a member since it became one, of a group that ended those since
// then, and its own revocations, in the order of their places. The query goes from the groups to their records
// (CROSS JOIN keeps SQLite to that) and reads no records of others. A caller who has seen no event yet
// costs no more than the events it may see.
const selectEvents = `SELECT place, seq, kind, ledger.group_id, ref, ledger.account, detail, time_ns FROM members CROSS
	JOIN placed AS ledger
	WHERE members.account = ? AND ledger.group_id = members.group_id AND seq >= members.since AND seq >= ? AND seq <= ?
	AND place > ? AND place <= ? AND kind <> '` + chain.KindClaim + `' AND kind IN (` + eventKinds + `)
		AND NOT EXISTS (SELECT 1 FROM groups WHERE id = members.group_id AND ended_ns > ledger.time_ns)
	UNION ALL SELECT place, seq, kind, group_id, ref, account, detail, time_ns FROM placed AS ledger
	WHERE kind = '` + chain.KindRevoke + `' AND detail = ? AND place > ? AND place <= ?
	ORDER BY place LIMIT ?`

// Events returns at most limit records after one place and up to another that concern
// an account, without the fields that only hashes need.
func Events(ctx context.Context, tx *store.Tx, account string, after, upTo int64, limit int) ([]chain.Row, error) {
	if after >= upTo {
		return nil, nil
	}
	low, high, err := span(ctx, tx, after, upTo)
	if err != nil {
		return nil, err
	}
	return store.List(ctx, tx, "read events", func(r *chain.Row) []any {
		return []any{&r.Place, &r.Seq, &r.Kind, &r.Group, &r.Ref, &r.Account, &r.Detail, &r.TimeNS}
	}, selectEvents, account, low, high, after, upTo, account, after, upTo, limit)
}

// Concern names the accounts that new records concern: the members of a group, and an
// account that became a member or was revoked, "" without.
type Concern struct {
	Group, Account string
	Place          int64 // of the newest
}

// selectConcerns groups the new events. Most records are retrievals, which are no
// events.
const selectConcerns = `SELECT group_id, CASE
	WHEN kind IN ('` + chain.KindAdd + `', '` + chain.KindRevoke + `') THEN detail
	WHEN kind IN ('` + chain.KindRegister + `', '` + chain.KindJoin + `') THEN account ELSE '' END AS concerned,
	max(place)
	FROM placed WHERE place > ? AND place <= ? AND kind IN (` + eventKinds + `) GROUP BY group_id, concerned`

// Concerns returns the accounts that records after one place and up to another
// concern.
func Concerns(ctx context.Context, tx *store.Tx, after, upTo int64) ([]Concern, error) {
	into := func(c *Concern) []any { return []any{&c.Group, &c.Account, &c.Place} }
	return store.List(ctx, tx, "look for events", into, selectConcerns, after, upTo)
}
