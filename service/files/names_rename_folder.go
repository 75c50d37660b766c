package files

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// RenameFolder gives all living files beneath a folder, and the recorded folders there, their new
// names, with one record: all or none. The caller must be allowed to rename each, see
// [Files.Rename]. Price and free changes are those of the renames that it stands for. A request that was carried out
// after req.Seq is answered again.
func (f *Files) RenameFolder(ctx context.Context, account string,
	req wire.RenameFolderRequest) (out wire.RenameFolderResult, err error) {
	for _, name := range []string{req.Folder, req.NewFolder} {
		if err := checkName(name); err != nil {
			return out, err
		}
	}
	if req.Seq <= 0 || !chain.IsFolderMove(req.Folder, req.NewFolder) {
		return out, fault.New(wire.CodeValidation,
			"Required: folder and new_folder without a slash at the end, of which none lies in the other, and seq")
	}
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		g, err := groups.RequireWriter(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		r, err := ledger.FolderRenamed(ctx, tx, g.ID, account, req.Folder, req.NewFolder, req.Seq)
		if err != nil {
			return err
		}
		if r.Seq == 0 {
			if r, err = f.renameFolder(ctx, tx, g, account, req.Folder, req.NewFolder); err != nil {
				return err
			}
		}
		out.Receipt, err = f.log.Receipt(ctx, tx, r)
		out.Record = recordRow(&r.Record)
		out.Files, _ = strconv.ParseInt(r.Tag(chain.TagFiles), 10, 64)
		return err
	})
	return out, err
}

// beneath is a living file in a folder, or a recorded folder: little of each, because there may be very many.
type beneath struct {
	uploader, name string
}

// inFolder is the condition for the living files beneath a folder; [inFolderArgs] are its
// arguments. The index files_by_name holds the beginnings of names only.
const inFolder = "deleted_ns IS NULL AND trash_ns IS NULL AND substr(filename, 1, 200) >= ? AND substr(filename, 1, " +
	"200) <= ? AND substr(filename, 1, ?) = ?"

// isFolderIn is inFolder for recorded folders. A folder is in itself.
const isFolderIn = "substr(path, 1, 200) >= ? AND substr(path, 1, 200) <= ? AND substr(path, 1, ?) = ?"

// indexedName is how many characters of a name the index files_by_name holds.
const indexedName = 200

func inFolderArgs(folder string) []any {
	prefix := folder + "/"
	first, last := prefix, folder+"0" // the byte after the slash
	if runes := []rune(prefix); len(runes) > indexedName {
		first = string(runes[:indexedName])
		last = first
	}
	return []any{first, last, utf8.RuneCountInString(prefix), prefix}
}

// selectBeneath lists the living files beneath a folder.
const selectBeneath = "SELECT uploader, filename FROM files WHERE group_id = ? AND " + inFolder + " ORDER BY seq"

// selectTaken finds a file beneath a folder whose new name is that of a living file, among
// those whose new name the index holds as a whole. It begins with the files that are
// renamed: their number is bounded. The bounds of old names keep PostgreSQL, which may know
// nothing of a new group, from reading all names for each.
const selectTaken = "SELECT filename FROM files WHERE group_id = ? AND " + inFolder + ` AND length(filename) < ? AND
	EXISTS (SELECT 1 FROM files old WHERE old.group_id = files.group_id
	AND old.deleted_ns IS NULL AND old.trash_ns IS NULL
	AND substr(old.filename, 1, 200) = CAST(? AS TEXT) || substr(files.filename, ?)
	AND substr(old.filename, 1, 200) >= ? AND substr(old.filename, 1, 200) <= ?) LIMIT 1`

// selectBeginning lists the living names with a beginning.
const selectBeginning = "SELECT filename FROM files WHERE group_id = ? AND deleted_ns IS NULL AND trash_ns IS NULL " +
	"AND substr(filename, 1, 200) = ?"

func (f *Files) renameFolder(ctx context.Context, tx *store.Tx, g groups.Group, account, from,
	to string) (r chain.Row, err error) {
	m := folderMove{group: g, account: account, from: from, to: to}
	list, err := m.list(ctx, tx, selectBeneath)
	if err != nil {
		return r, err
	}
	folders, err := m.list(ctx, tx, selectFoldersIn)
	if err != nil {
		return r, err
	}
	if len(list)+len(folders) == 0 {
		return r, fault.New(wire.CodeFileNotFound, "file not found: no file is beneath that folder in group %q", g.ID)
	}
	if err := notTaken(ctx, tx, g.ID, from, to, list); err != nil {
		return r, err
	}
	if err := foldersNotTaken(ctx, tx, g.ID, from, to, folders); err != nil {
		return r, err
	}
	return f.recordFolder(ctx, tx, g.ID, account, from, to, len(list)+len(folders))
}

// folderMove is a folder that is renamed, and what its new names count so far.
type folderMove struct {
	group             groups.Group
	account, from, to string
	bytes             int64 // see [chain.MoveBytes]
}

// list returns the names that a query finds beneath the folder. It refuses what the account may not rename, a new name
// that nobody may give, and more than one record may move, as soon as it finds that.
func (m *folderMove) list(ctx context.Context, tx *store.Tx, query store.Query) (names []string, err error) {
	for b, err := range store.Each(ctx, tx, "list a folder",
		func(b *beneath) []any { return []any{&b.uploader, &b.name} },
		query, append([]any{m.group.ID}, inFolderArgs(m.from)...)...) {
		if err != nil {
			return nil, err
		}
		if m.account != b.uploader && m.account != m.group.Owner {
			return nil, fault.New(wire.CodeNotAuthorized,
				"User not authorized: only %s, who uploaded a file beneath the folder or made a folder there, and "+
					"the owner of group %q can rename it", b.uploader, m.group.ID)
		}
		name := m.to + strings.TrimPrefix(b.name, m.from)
		if err := checkName(strings.TrimSuffix(name, "/")); err != nil {
			return nil, err
		}
		if m.bytes += chain.MoveBytes(name); m.bytes > chain.MaxMoveBytes {
			return nil, fault.New(wire.CodeTooLarge, "the folder holds too much for one rename, whose new names, and "+
				"64 bytes for each, may be %d MiB: rename the folders beneath it one by one", chain.MaxMoveBytes>>20)
		}
		names = append(names, b.name)
	}
	return names, nil
}

// notTaken refuses a folder when the name of a file beneath it is in use where the file
// would go.
func notTaken(ctx context.Context, tx *store.Tx, group, from, to string, list []string) error {
	rest := utf8.RuneCountInString(from) + 1
	longest := indexedName + rest - 1 - utf8.RuneCountInString(to)
	taken, err := store.Values[string](ctx, tx, "look for names in use", selectTaken,
		append(append(append([]any{group}, inFolderArgs(from)...), longest, to, rest), inFolderArgs(to)[:2]...)...)
	if err != nil {
		return err
	}
	if len(taken) > 0 {
		return isTaken(group, to+strings.TrimPrefix(taken[0], from))
	}
	return longNotTaken(ctx, tx, group, from, to, list)
}

func isTaken(group, name string) error {
	return fault.New(wire.CodeConflict, "the name %.200q is in use in group %q: choose another folder, or remove "+
		"that file first", name, group)
}

// longNotTaken is notTaken for names that are longer than the index holds. Very many can
// begin alike: each is read once for all the files that begin so.
func longNotTaken(ctx context.Context, tx *store.Tx, group, from, to string, list []string) error {
	moved, beginnings := map[string]bool{}, map[string]bool{} // names before
	for _, before := range list {
		if name := []rune(to + strings.TrimPrefix(before, from)); len(name) >= indexedName {
			moved[before], beginnings[string(name[:indexedName])] = true, true
		}
	}
	for beginning := range beginnings {
		for name, err := range store.Each(ctx, tx, "look for long names in use",
			func(name *string) []any { return []any{name} }, selectBeginning, group, beginning) {
			if err != nil {
				return err
			}
			if below, is := strings.CutPrefix(name, to+"/"); is && moved[from+"/"+below] {
				return isTaken(group, name)
			}
		}
	}
	return nil
}

// recordFolder appends the record and changes the rows.
func (f *Files) recordFolder(ctx context.Context, tx *store.Tx, group, account, from, to string,
	files int) (r chain.Row, err error) {
	r, err = f.ledger.ChargeTimes(ctx, tx, chain.KindRename, int64(files), chain.Record{Kind: chain.KindRenameFolder,
		Account: account, Group: group, Detail: to,
		Tags: ledger.WithTags(nil, chain.Tag{Name: chain.TagFolder, Value: from},
			chain.Tag{Name: chain.TagFiles, Value: strconv.Itoa(files)})})
	if err != nil {
		return r, err
	}
	rest := utf8.RuneCountInString(from) + 1
	err = tx.Do(ctx, "write names", "UPDATE files SET filename = CAST(? AS TEXT) || substr(filename, ?), changed_seq "+
		"= ?, named_seq = ? WHERE group_id = ? AND "+inFolder,
		append([]any{to, rest, r.Seq, r.Seq, group}, inFolderArgs(from)...)...)
	if err != nil {
		return r, err
	}
	return r, tx.Do(ctx, "write names of folders", "UPDATE folders SET path = CAST(? AS TEXT) || substr(path, ?) "+
		"WHERE group_id = ? AND "+isFolderIn, append([]any{to, rest, group}, inFolderArgs(from)...)...)
}
