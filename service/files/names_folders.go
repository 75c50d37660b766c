package files

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// MakeFolder records a folder, so that it is there without a file beneath it. Every writer may,
// for free, and up to [wire.MaxFolders] in a group. It changes nothing if the folder was recorded
// before. The name of a living file is refused.
func (f *Files) MakeFolder(ctx context.Context, account string,
	req wire.FolderRequest) (out wire.FolderResult, err error) {
	return f.changeFolder(ctx, account, req, func(tx *store.Tx, g groups.Group, there folder) (r chain.Row, err error) {
		if there.ref != "" {
			return r, nil
		}
		if err := mayMakeFolder(ctx, tx, g.ID, account, req.Folder); err != nil {
			return r, err
		}
		ref := "folder-" + rand.Text()
		if r, err = f.recordMade(ctx, tx, chain.Record{Kind: chain.KindMakeFolder, Account: account, Group: g.ID,
			Ref: ref, Detail: req.Folder}); err != nil {
			return r, err
		}
		return r, tx.Do(ctx, "write folder", "INSERT INTO folders (ref, group_id, account, seq, time_ns, path) "+
			"VALUES (?, ?, ?, ?, ?, ?)", ref, g.ID, account, r.Seq, r.TimeNS, chain.FolderName(req.Folder))
	})
}

// RemoveFolder takes back that a folder was recorded: for the account that made it, and for the
// owner of the group, while no living file and no other recorded folder is beneath it.
func (f *Files) RemoveFolder(ctx context.Context, account string,
	req wire.FolderRequest) (out wire.FolderResult, err error) {
	return f.changeFolder(ctx, account, req, func(tx *store.Tx, g groups.Group, there folder) (r chain.Row, err error) {
		switch {
		case there.ref == "":
			return r, fault.New(wire.CodeFileNotFound, "file not found: group %q has no recorded folder of that name",
				g.ID)
		case account != there.account && account != g.Owner:
			return r, fault.New(wire.CodeNotAuthorized,
				"User not authorized: only %s, who made the folder, and the owner of group %q can remove it",
				there.account, g.ID)
		}
		if err := isEmpty(ctx, tx, g.ID, req.Folder); err != nil {
			return r, err
		}
		if r, err = f.recordMade(ctx, tx, chain.Record{Kind: chain.KindRemoveFolder, Account: account, Group: g.ID,
			Ref: there.ref, Detail: req.Folder,
			Tags: ledger.WithTags(nil, chain.Tag{Name: chain.TagUploader, Value: there.account},
				chain.Tag{Name: chain.TagUploaded, Value: strconv.FormatInt(there.timeNS, 10)})}); err != nil {
			return r, err
		}
		return r, tx.Do(ctx, "remove folder", "DELETE FROM folders WHERE ref = ?", there.ref)
	})
}

// folder is a recorded folder.
type folder struct {
	ref, account string
	timeNS       int64 // of the making
}

// changeFolder makes a change of the recorded folder that a request names; its ref is "" if there
// is none.
func (f *Files) changeFolder(ctx context.Context, account string, req wire.FolderRequest,
	change func(*store.Tx, groups.Group, folder) (chain.Row, error)) (out wire.FolderResult, err error) {
	if err := checkName(req.Folder); err != nil {
		return out, err
	}
	if !chain.IsFolder(req.Folder) {
		return out, fault.New(wire.CodeValidation, "Required: folder, without a slash at either end")
	}
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		g, err := groups.RequireWriter(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		path := chain.FolderName(req.Folder)
		list, err := store.List(ctx, tx, "look for a folder", func(d *folder) []any {
			return []any{&d.ref, &d.account, &d.timeNS}
		},
			"SELECT ref, account, time_ns FROM folders WHERE group_id = ? AND substr(path, 1, 200) = ? AND path = ?",
			g.ID, beginning(path), path)
		if err != nil {
			return err
		}
		var there folder
		if len(list) > 0 {
			there = list[0]
		}
		r, err := change(tx, g, there)
		if err != nil || r.Seq == 0 {
			return err
		}
		out.Record = recordRow(&r.Record)
		out.Receipt, err = f.log.Receipt(ctx, tx, r)
		return err
	})
	return out, err
}

// recordMade appends a record of a folder, which is free.
func (f *Files) recordMade(ctx context.Context, tx *store.Tx, r chain.Record) (chain.Row, error) {
	r.Fee = wire.Amount{}.String()
	return f.ledger.Free(ctx, tx, r.Kind, 1, r)
}

// mayMakeFolder refuses the name of a living file, and more folders than an account may have.
func mayMakeFolder(ctx context.Context, tx *store.Tx, group, account, name string) error {
	var isFile bool
	err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM files WHERE group_id = ? AND deleted_ns IS NULL AND "+
		"trash_ns IS NULL AND substr(filename, 1, 200) = ? AND filename = ?)",
		group, beginning(name), name).Scan(&isFile)
	if err != nil {
		return fmt.Errorf("look for a file: %w", err)
	}
	if isFile {
		return fault.New(wire.CodeConflict, "the name %.200q is that of a file in group %q: choose another folder",
			name, group)
	}
	var made int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM folders WHERE group_id = ? AND account = ?", group,
		account).Scan(&made); err != nil {
		return fmt.Errorf("count folders: %w", err)
	}
	if made >= wire.MaxFolders {
		return fault.New(wire.CodeTooLarge, "the account has %d recorded folders in group %q, which is the limit: "+
			"remove folders that are empty, or make folders by uploading files beneath them", made, group)
	}
	return nil
}

// isEmpty refuses a folder with something beneath it.
func isEmpty(ctx context.Context, tx *store.Tx, group, name string) error {
	in := inFolderArgs(name)
	var files, folders bool
	err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM files WHERE group_id = ? AND "+inFolder+
		"), EXISTS (SELECT 1 FROM folders WHERE group_id = ? AND "+isFolderIn+" AND path <> ?)",
		append(append(append([]any{group}, in...), append([]any{group}, in...)...),
			chain.FolderName(name))...).Scan(&files, &folders)
	if err != nil {
		return fmt.Errorf("look beneath a folder: %w", err)
	}
	if files || folders {
		return fault.New(wire.CodeConflict, "the folder is not empty: remove what is beneath it first")
	}
	return nil
}

// selectFoldersIn lists the recorded folders beneath a folder, and the folder itself.
const selectFoldersIn = "SELECT account, path FROM folders WHERE group_id = ? AND " + isFolderIn + " ORDER BY seq"

// foldersNotTaken refuses new names of folders that other recorded folders have. It reads each folder beneath
// the new name once.
func foldersNotTaken(ctx context.Context, tx *store.Tx, group, from, to string, moved []string) error {
	if len(moved) == 0 {
		return nil
	}
	become := make(map[string]bool, len(moved))
	for _, before := range moved {
		become[to+strings.TrimPrefix(before, from)] = true
	}
	for path, err := range store.Each(ctx, tx, "look for folders", func(path *string) []any { return []any{path} },
		"SELECT path FROM folders WHERE group_id = ? AND "+isFolderIn,
		append([]any{group}, inFolderArgs(to)...)...) {
		if err != nil {
			return err
		}
		if become[path] {
			return fault.New(wire.CodeConflict, "the folder %.200q is recorded in group %q: choose another folder, "+
				"or remove that one first", path, group)
		}
	}
	return nil
}
