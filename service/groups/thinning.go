package groups

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Thinning is how the older versions of the names of a group go. A version goes when
// enough newer living versions of its name exist, and nothing about it or them has changed
// for a time: that of the setting, and never less than the delay of destruction. So nobody
// pushes the versions of others out in a moment, whether by uploads, by new names or by
// bringing files back from the trash.
type Thinning struct {
	Group string
	keep  string // the setting
	stay  int64  // newest versions of a name that stay
	upTo  int64  // files whose newest record is up to this sequence have waited long enough
	seen  int64  // the names of files with a newest record up to this sequence were looked at,
	file  int64  // and of those with the next one up to this upload: one record may change many
}

// thinningAt returns the thinning by a setting at a time.
func thinningAt(ctx context.Context, tx *store.Tx, group string, k wire.Keep, delay time.Duration,
	at time.Time) (th Thinning, err error) {
	th = Thinning{Group: group, stay: max(k.Last, 1)}
	th.upTo, err = ledger.SeqAt(ctx, tx, at.Add(-max(time.Duration(k.Days)*24*time.Hour, delay, 0)))
	return th, err
}

// Thinnings returns the groups in which files have waited long enough whose names were not
// looked at yet.
func Thinnings(ctx context.Context, tx *store.Tx, l *ledger.Ledger, delay time.Duration) (list []Thinning, err error) {
	type row struct {
		Group
		seen, file, next int64
	}
	thinned, err := store.List(ctx, tx, "list groups with fewer versions",
		func(r *row) []any { return []any{&r.ID, &r.Versions, &r.seen, &r.file, &r.next} }, selectThinned)
	if err != nil {
		return nil, err
	}
	byKeep := map[wire.Keep]Thinning{} // what groups with one setting have in common
	for _, r := range thinned {
		k := r.keep()
		th, known := byKeep[k]
		if !known {
			if th, err = thinningAt(ctx, tx, "", k, delay, l.Now()); err != nil {
				return nil, err
			}
			byKeep[k] = th
		}
		th.Group, th.keep, th.seen, th.file = r.ID, r.Versions, r.seen, r.file
		if !k.KeepsAll() && r.next > 0 && r.next <= th.upTo {
			list = append(list, th)
		}
	}
	return list, nil
}

// selectThinned finds each group with a setting, and the first change after those that
// were looked at, 0 without.
const selectThinned = `SELECT id, versions, thinned_seq, thinned_file, COALESCE((SELECT min(changed_seq) FROM files
	WHERE group_id = groups.id AND changed_seq > thinned_seq), 0)
	FROM groups WHERE versions <> 'all' ORDER BY id`

// Holds reports whether the group has the setting yet, and its files were not looked at since.
func (th Thinning) Holds(ctx context.Context, tx *store.Tx) (holds bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM groups WHERE id = ? AND versions = ? AND thinned_seq = ?
		AND thinned_file = ?)`, th.Group, th.keep, th.seen, th.file).Scan(&holds)
	if err != nil {
		return false, fmt.Errorf("look for a setting of versions: %w", err)
	}
	return holds, nil
}

// Change is a file that changed, with its name; "" when it is gone or has none.
type Change struct {
	seq, file int64
	Name      string
}

// Changes returns at most limit files that have waited and were not looked at yet, in the
// order of their changes.
func (th Thinning) Changes(ctx context.Context, tx *store.Tx, limit int) ([]Change, error) {
	return store.List(ctx, tx, "list changes", func(c *Change) []any { return []any{&c.seq, &c.file, &c.Name} },
		SelectChanges, th.Group, th.seen, th.upTo, th.seen+1, th.file, limit)
}

// SelectChanges finds the files that changed.
const SelectChanges = `SELECT changed_seq, seq, CASE WHEN deleted_ns IS NULL AND trash_ns IS NULL THEN filename
	ELSE '' END FROM files
	WHERE group_id = ? AND changed_seq > ? AND changed_seq <= ? AND (changed_seq > ? OR seq > ?)
	ORDER BY changed_seq, seq LIMIT ?`

// Seen notes up to which change the names were looked at.
func (th Thinning) Seen(ctx context.Context, tx *store.Tx, c Change) error {
	return th.see(ctx, tx, c.seq-1, c.file)
}

// AllSeen notes that all names were looked at.
func (th Thinning) AllSeen(ctx context.Context, tx *store.Tx) error {
	return th.see(ctx, tx, th.upTo, 0)
}

func (th Thinning) see(ctx context.Context, tx *store.Tx, seq, file int64) error {
	return tx.Do(ctx, "note changes", "UPDATE groups SET thinned_seq = ?, thinned_file = ? WHERE id = ?", seq, file,
		th.Group)
}

// SelectNamed is the condition for a name, which is its two arguments. The index
// files_by_name holds the beginnings of names only.
const SelectNamed = "substr(filename, 1, 200) = substr(?, 1, 200) AND filename = ?"

// SelectOldestKept finds the oldest version of a name that must stay. "+ 0" keeps the
// database to the index of names.
const SelectOldestKept = "SELECT seq FROM files WHERE group_id = ? AND " + SelectNamed + ` AND deleted_ns IS NULL
	AND trash_ns IS NULL AND changed_seq + 0 <= ?
	ORDER BY seq DESC LIMIT 1 OFFSET ?`

// SelectSurplus is the condition for the versions of a name that go, in their order.
// [Thinning.Surplus] has its arguments.
const SelectSurplus = "group_id = ? AND " + SelectNamed +
	" AND versioned AND deleted_ns IS NULL AND trash_ns IS NULL AND changed_seq + 0 <= ? AND seq < ? ORDER BY seq"

// Surplus returns the arguments of [SelectSurplus], nil when no version of the name goes.
// Versions whose client did not know that names have versions never go: that client may
// hold their references.
func (th Thinning) Surplus(ctx context.Context, tx *store.Tx, name string) ([]any, error) {
	var kept int64
	err := tx.QueryRowContext(ctx, SelectOldestKept, th.Group, name, name, th.upTo, th.stay-1).Scan(&kept)
	if errors.Is(err, sql.ErrNoRows) || name == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the oldest version that stays: %w", err)
	}
	return []any{th.Group, name, name, th.upTo, kept}, nil
}

// indexedName is how many characters of a name the index files_by_name holds.
const indexedName = 200

// selectAlike lists the versions of all names with a beginning.
const selectAlike = "SELECT filename, seq, versioned FROM files WHERE group_id = ? AND substr(filename, 1, 200) = ? " +
	"AND deleted_ns IS NULL AND trash_ns IS NULL AND changed_seq + 0 <= ? ORDER BY seq DESC"

// Look looks for the versions that go of the names of some changes. Very many names can begin
// alike, beyond what the index holds: they are read once for all of these.
type Look struct {
	Thinning
	long map[string]*long // of the changes
	read map[string]bool  // beginnings
}

// long is a name that is longer than the index holds.
type long struct{ versions, kept, goes int64 }

// Look begins to look.
func (th Thinning) Look(changes []Change) *Look {
	l := &Look{th, map[string]*long{}, map[string]bool{}}
	for _, c := range changes {
		if utf8.RuneCountInString(c.Name) >= indexedName {
			l.long[c.Name] = &long{}
		}
	}
	return l
}

// Surplus is [Thinning.Surplus] for the name of one of the changes.
func (l *Look) Surplus(ctx context.Context, tx *store.Tx, name string) ([]any, error) {
	n := l.long[name]
	if n == nil {
		return l.Thinning.Surplus(ctx, tx, name)
	}
	if beginning := string([]rune(name)[:indexedName]); !l.read[beginning] {
		l.read[beginning] = true
		if err := l.readAlike(ctx, tx, beginning); err != nil {
			return nil, fmt.Errorf("look for long names: %w", err)
		}
	}
	if n.goes == 0 {
		return nil, nil
	}
	return []any{l.Group, name, name, l.upTo, n.kept}, nil
}

func (l *Look) readAlike(ctx context.Context, tx *store.Tx, beginning string) error {
	for rows, err := range tx.Rows(ctx, selectAlike, l.Group, beginning, l.upTo) {
		var name string
		var seq int64
		var versioned bool
		if err == nil {
			err = rows.Scan(&name, &seq, &versioned)
		}
		if err != nil {
			return err
		}
		n := l.long[name]
		if n == nil {
			continue
		}
		n.versions++
		switch {
		case n.versions == l.stay:
			n.kept = seq
		case n.versions > l.stay && versioned:
			n.goes++
		}
	}
	return nil
}

// count returns how many versions of the name of one of the changes go.
func (l *Look) count(ctx context.Context, tx *store.Tx, name string) (n int64, err error) {
	args, err := l.Surplus(ctx, tx, name)
	if err != nil || args == nil {
		return 0, err
	}
	if long := l.long[name]; long != nil {
		return long.goes, nil
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM files WHERE "+SelectSurplus+") AS s",
		args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count versions that go: %w", err)
	}
	return n, nil
}

// versionsThatGo counts the versions of a group that go within the delay by the present
// setting.
func (gs *Groups) versionsThatGo(ctx context.Context, tx *store.Tx, g Group) (n int64, err error) {
	k := g.keep()
	if k.KeepsAll() {
		return 0, nil
	}
	now := gs.ledger.Now()
	before, err := thinningAt(ctx, tx, g.ID, k, gs.delay, now)
	if err != nil {
		return 0, err
	}
	th, err := thinningAt(ctx, tx, g.ID, k, gs.delay, now.Add(max(gs.delay, 0)))
	if err != nil {
		return 0, err
	}
	th.seen = before.upTo
	changes, err := th.Changes(ctx, tx, wire.MaxPageNames)
	if err != nil {
		return 0, err
	}
	look, looked := th.Look(changes), map[string]bool{}
	for _, c := range changes {
		if looked[c.Name] {
			continue
		}
		looked[c.Name] = true
		more, err := look.count(ctx, tx, c.Name)
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}
