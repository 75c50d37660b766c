package files

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// Level is a page of what lies directly in a folder of a group: folders and files, in the
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
		return l.named(ctx, tx, of, folder, from, query, limit)
	})
	return l, err
}

// What a page ended with: the first letter of its After.
const (
	afterFolder   = "d"
	afterFile     = "f"
	afterNameless = "n"
)

// named reads the entries with names, from a name on, and begins with those without one where there is room.
func (l *Level) named(ctx context.Context, tx *store.Tx, of lister, folder, from string, query store.Query,
	limit int) error {
	for {
		batch, err := of.read(ctx, tx, query, beginning(from), from, levelBatch)
		if err != nil {
			return err
		}
		for _, row := range batch {
			name := *row.Filename
			below, is := strings.CutPrefix(name, folder)
			switch {
			case !is: // behind the folder
				l.After = ""
				return nil
			case query == selectNamesAfter && name == from, query == selectNamesFrom && name < from:
				continue // an older version, or in the folder that was added
			}
			if len(l.Folders)+len(l.Files) == limit {
				return nil // After is that of the last entry
			}
			if child, _, isFolder := strings.Cut(below, "/"); isFolder {
				child = folder + child
				l.Folders = append(l.Folders, child)
				l.After, from, query = afterFolder+child, child+"0", selectNamesFrom
			} else {
				l.Files = append(l.Files, row)
				l.After, from, query = afterFile+name, name, selectNamesAfter
			}
		}
		if len(batch) < levelBatch {
			break
		}
	}
	l.After = ""
	if folder != "" {
		return nil
	}
	return l.nameless(ctx, tx, of, strconv.Itoa(math.MaxInt64), limit)
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
	IsFolder bool   `json:"is_folder"` // files live beneath it
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
			err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM files WHERE group_id = ? AND "+inFolder+")",
				append([]any{g.ID}, inFolderArgs(names[i])...)...).Scan(&list[i].IsFolder)
		}
		return err
	})
	return list, err
}
