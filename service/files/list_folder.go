package files

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// Level is a page of what lies directly in a folder of a group: folders, recorded ones too, and files, in the
// order of their recorded names, and at the top behind them the files without a name.
type Level struct {
	Folders []string              // recorded paths, without the slash at the end
	Files   []wire.TransactionRow // of each name the newest version that lives
	After   string                // where the next page begins; "" = there is none
}

// levelBatch is how many rows one query of a level reads. What follows in a folder, or are
// older versions, is skipped by the next query.
const levelBatch = 20

const (
	levelRows  = selectRows + " AND deleted_ns IS NULL AND trash_ns IS NULL AND substr(filename, 1, 200) >= ?"
	levelOrder = " ORDER BY substr(filename, 1, 200), filename, seq DESC LIMIT ?"

	selectNamesFrom  store.Query = levelRows + " AND filename >= ?" + levelOrder
	selectNamesAfter store.Query = levelRows + " AND filename > ?" + levelOrder

	// selectVersions are the versions of a name that are not destroyed, before a sequence.
	selectVersions = selectRows + " AND " + groups.SelectNamed +
		" AND deleted_ns IS NULL AND seq < ? ORDER BY seq DESC LIMIT ?"
	// selectFolder is the first recorded folder from a path on, and behind another.
	selectFolder store.Query = "SELECT path FROM folders WHERE group_id = ? AND substr(path, 1, 200) >= ? AND " +
		"path >= ? AND path > ? ORDER BY substr(path, 1, 200), path LIMIT 1"
	selectNameless = selectRows + " AND " + groups.SelectNamed +
		" AND deleted_ns IS NULL AND trash_ns IS NULL AND seq < ? ORDER BY seq DESC LIMIT ?"
)

// Level returns a page of at most limit entries of a folder: "" for the top of the group,
// else a recorded path with the slash at its end. after is "", or the After of the page before.
// Access is as in [Files.List].
func (f *Files) Level(ctx context.Context, account, group, folder, after string, limit int) (l Level, err error) {
	if folder != "" && !strings.HasSuffix(folder, "/") {
		return l, fault.New(wire.CodeValidation, "folder must be empty or end with a slash")
	}
	if err := checkName(folder); err != nil {
		return l, err
	}
	kind, rest := "", after
	if after != "" {
		kind, rest = after[:1], after[1:]
	}
	if err := checkName(rest); err != nil {
		return l, err
	}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		of, err := f.lister(ctx, tx, group, account)
		if err != nil {
			return err
		}
		from, query := folder, selectNamesFrom
		switch kind {
		case "":
			if folder == "" { // a file has no name, or one of at least a byte
				query = selectNamesAfter
			}
		case afterFolder:
			from = rest + "0" // the byte after the slash
		case afterFile:
			from, query = rest, selectNamesAfter
		case afterNameless:
			return l.nameless(ctx, tx, of, rest, limit)
		default:
			return fault.New(wire.CodeValidation, "after must be that of the page before")
		}
		w := levelWalk{l: &l, tx: tx, of: of, folder: folder, limit: limit, from: from, query: query}
		return w.named(ctx)
	})
	return l, err
}

// What a page ended with: the first letter of its After.
const (
	afterFolder   = "d"
	afterFile     = "f"
	afterNameless = "n"
)

// levelWalk fills a level: query reads the names from a name on, and recorded is the recorded folder that comes
// next, "" = none.
type levelWalk struct {
	l        *Level
	tx       *store.Tx
	of       lister
	folder   string
	limit    int
	from     string
	query    store.Query
	recorded string
}

// named reads the entries with names, and begins with those without one where there is room.
func (w *levelWalk) named(ctx context.Context) error {
	if err := w.nextRecorded(ctx); err != nil {
		return err
	}
	for isLast := false; !isLast; {
		batch, err := w.of.read(ctx, w.tx, w.query, beginning(w.from), w.from, levelBatch)
		if err != nil {
			return err
		}
		isLast = len(batch) < levelBatch
		for _, row := range batch {
			if !strings.HasPrefix(*row.Filename, w.folder) { // behind the folder
				isLast = true
				break
			}
			if isFull, err := w.add(ctx, row); isFull || err != nil {
				return err // After is that of the last entry
			}
		}
	}
	for w.recorded != "" {
		if w.isFull() {
			return nil
		}
		if err := w.addFolder(ctx, w.recorded); err != nil {
			return err
		}
	}
	w.l.After = ""
	if w.folder != "" {
		return nil
	}
	return w.l.nameless(ctx, w.tx, w.of, strconv.Itoa(math.MaxInt64), w.limit)
}

func (w *levelWalk) isFull() bool { return len(w.l.Folders)+len(w.l.Files) == w.limit }

// add adds what lies in the folder because of a file, and the recorded folders before it, as far as there is room.
func (w *levelWalk) add(ctx context.Context, row wire.TransactionRow) (isFull bool, err error) {
	name := *row.Filename
	if w.query == selectNamesAfter && name == w.from || w.query == selectNamesFrom && name < w.from {
		return false, nil // an older version, or in the folder that was added
	}
	for w.recorded != "" && w.recorded+"/" < name && !strings.HasPrefix(name, w.recorded+"/") && !w.isFull() {
		if err := w.addFolder(ctx, w.recorded); err != nil {
			return false, err
		}
	}
	if w.isFull() {
		return true, nil
	}
	if child, _, isFolder := strings.Cut(name[len(w.folder):], "/"); isFolder {
		return false, w.addFolder(ctx, w.folder+child)
	}
	w.l.Files = append(w.l.Files, row)
	w.l.After, w.from, w.query = afterFile+name, name, selectNamesAfter
	return false, nil
}

func (w *levelWalk) addFolder(ctx context.Context, child string) error {
	w.l.Folders = append(w.l.Folders, child)
	w.l.After, w.from, w.query = afterFolder+child, child+"0", selectNamesFrom // the byte after the slash
	return w.nextRecorded(ctx)
}

// nextRecorded looks for what lies in the folder, and is or holds the first recorded folder from a name on.
func (w *levelWalk) nextRecorded(ctx context.Context) error {
	var path string
	w.recorded = ""
	err := w.tx.QueryRowContext(ctx, selectFolder, w.of.group, beginning(w.from), w.from, w.folder).Scan(&path)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("list recorded folders: %w", err)
	}
	if below, is := strings.CutPrefix(path, w.folder); err == nil && is {
		child, _, _ := strings.Cut(below, "/")
		w.recorded = w.folder + child
	}
	return nil
}

// nameless reads files without a recorded name, the newest first: each is an entry.
func (l *Level) nameless(ctx context.Context, tx *store.Tx, of lister, before string, limit int) error {
	seq, err := strconv.ParseInt(before, 10, 64)
	if err != nil {
		return fault.New(wire.CodeValidation, "after must be that of the page before")
	}
	room := limit - len(l.Folders) - len(l.Files)
	rows, err := of.read(ctx, tx, selectNameless, "", "", seq, room+1)
	if err != nil {
		return err
	}
	if len(rows) > room {
		rows = rows[:room]
		l.After = afterNameless + before
		if room > 0 {
			l.After = afterNameless + strconv.FormatInt(rows[room-1].Seq, 10)
		}
	}
	l.Files = append(l.Files, rows...)
	return nil
}

// beginning is what the indexes files_by_name and folders_by_path hold of a name.
func beginning(name string) string {
	if runes := []rune(name); len(runes) > indexedName {
		return string(runes[:indexedName])
	}
	return name
}

// read runs a query that begins with selectRows.
func (l lister) read(ctx context.Context, tx *store.Tx, query store.Query,
	args ...any) (list []wire.TransactionRow, err error) {
	for rows, err := range tx.Rows(ctx, query, append([]any{l.group}, args...)...) {
		var row wire.TransactionRow
		if err == nil {
			row, err = l.scan(rows)
		}
		if err != nil {
			return nil, fmt.Errorf("list a folder: %w", err)
		}
		list = append(list, row)
	}
	return list, nil
}

// Versions returns a page of the versions of a name that can be read or brought back, the newest
// first: at most limit with a sequence below before, which is 0 for the first page. Access is as in
// [Files.List].
func (f *Files) Versions(ctx context.Context, account, group, name string, before int64,
	limit int) ([]wire.TransactionRow, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, _, err := f.rows(ctx, account, group, math.MaxInt, limit, selectVersions, name, name, before)
	return rows, err
}

// Name is what a name is in use for.
type Name struct {
	Head     string `json:"head"`      // reference of its newest version, or [wire.NoBase]
	IsFolder bool   `json:"is_folder"` // files live beneath it, or it is recorded
}

// LookAtNames tells a writer of a group what names are in use for, in their order.
func (f *Files) LookAtNames(ctx context.Context, account, group string, names []string) ([]Name, error) {
	list := make([]Name, len(names))
	for _, name := range names {
		if err := checkName(name); err != nil || name == "" {
			return nil, fault.New(wire.CodeValidation, "a file needs a name, of at most %d bytes", MaxFilename)
		}
	}
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.RequireWriter(ctx, tx, group, account)
		for i := 0; i < len(names) && err == nil; i++ {
			if list[i].Head, err = headOf(ctx, tx, g.ID, names[i]); err != nil {
				break
			}
			list[i].Head = cmp.Or(list[i].Head, wire.NoBase)
			in := append([]any{g.ID}, inFolderArgs(names[i])...)
			err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM files WHERE group_id = ? AND "+inFolder+
				") OR EXISTS (SELECT 1 FROM folders WHERE group_id = ? AND "+isFolderIn+")",
				append(in, in...)...).Scan(&list[i].IsFolder)
		}
		return err
	})
	return list, err
}
