package sdk

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// FolderRename is the result of [Group.RenameFolder].
type FolderRename struct {
	Versions int64  // number of versions, and of recorded folders, with new names
	Seq      Seq    // of the record, and the ChangedSeq of the versions
	Number   int64  // of the record, and the Number of the versions
	Fee      Amount // charged for it
}

// RenameFolder renames all living files whose recorded name is folder, a slash and a rest:
// their names are to, a slash and the rest from then on. So are recorded folders there, and folder
// itself where it is recorded. It is one record, so that the
// whole folder is renamed or nothing. Neither name has a slash at an end. Files in the trash
// keep their names. seen is the largest ChangedSeq among the listed files of the folder. After
// a lost answer RenameFolder repeats the request, which then finds its own record behind
// seen and changes nothing.
//
// RenameFolder costs what [Group.Rename] costs for each version: mostly nothing. The caller
// must be allowed to rename each. It needs the API key. Errors: [ErrUnsupported] at a
// service that renames no folders, where nothing is sent; [ErrInvalid] for names that are
// no folders, or one inside the other; [ErrNotFound] if no file is beneath folder;
// [ErrConflict] if a file has one of the new names, or if the caller's list is too old; [ErrTooLarge] for more than
// [chain.MaxMoveBytes] of names; [ErrNotAuthorized]; [ErrCorrupt] if the service confirms the
// rename without proof. Only svcd has it.
func (g Group) RenameFolder(ctx context.Context, folder, to string, seen Seq) (FolderRename, error) {
	done, err := g.renameFolder(ctx, folder, to, seen)
	return done, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.wrap("rename folder", err))
}

func (g Group) renameFolder(ctx context.Context, folder, to string, seen Seq) (done FolderRename, err error) {
	if err := g.c.caps.offers(ctx, wire.OpRenameFolder); err != nil {
		return done, err
	}
	if !chain.IsFolderMove(folder, to) || seen <= 0 {
		return done, &Error{Kind: ErrInvalid, Code: wire.CodeValidation,
			Err: errors.New("a folder and its new name have no slash at an end, and none lies in the other")}
	}
	after := g.c.memory.Group(string(g.ID)).Number
	var answer wire.RenameFolderResult
	request := wire.RenameFolderRequest{GroupID: string(g.ID), Folder: folder, NewFolder: to, Seq: int64(seen)}
	// may be repeated, because the request names seen
	if err := g.c.read(ctx, wire.OpRenameFolder, request, &answer); err != nil {
		return done, err
	}
	r, err := g.c.receipts.ofFolder(ctx, g.ID, request, answer)
	if err != nil {
		return done, g.c.receipts.unconfirmed("rename", "folder may be renamed", err)
	}
	if r.Number <= after { // no hash covers Seq: the record may also be older than seen
		return done, &Error{Kind: ErrConflict, Code: wire.CodeConflict,
			Err: errors.New("the folder was renamed so before: list the group again")}
	}
	g.c.uploads.moved(g.ID, folder)
	done = FolderRename{Versions: answer.Files, Seq: Seq(r.Seq), Number: r.Number}
	if done.Fee, err = wire.ParseAmount(r.Fee); err != nil {
		return done, call.Malformed(err)
	}
	return done, nil
}

// ofFolder verifies that the service recorded what was asked, and remembers that the
// group has come that far.
func (rs receipts) ofFolder(ctx context.Context, g GroupID, asked wire.RenameFolderRequest,
	a wire.RenameFolderResult) (r chain.Record, err error) {
	if a.Files <= 0 {
		return r, call.Malformed(errors.New("a rename of nothing"))
	}
	return rs.ofChange(ctx, g, a.Record, a.Receipt, func(r *chain.Record) bool {
		before, after, ok := chain.FolderOf(r)
		return ok && r.Kind == EventFolderRenamed && before == asked.Folder && after == asked.NewFolder &&
			r.Seq > asked.Seq
	})
}

// MakeFolder records a folder, so that every mount shows it without a file beneath it. A folder
// of which a file's name tells needs no record. The name has no slash at an end. The result is the
// folder as [ListOptions].Folders lists it, or an entry without Ref if it was recorded before, which the
// next list proves. A repetition after a lost answer is such a case.
//
// MakeFolder is free. It needs the API key, and the role of a writer. Errors: [ErrUnsupported] at a
// service that records no folders, where nothing is sent; [ErrInvalid]; [ErrConflict] if a living file
// has the name; [ErrTooLarge] for more than 10,000 folders of this account in the group;
// [ErrRateLimited]; [ErrNotAuthorized]; [ErrCorrupt] if the service confirms without proof. Only
// svcd has it.
func (g Group) MakeFolder(ctx context.Context, folder string) (Entry, error) {
	made, err := g.changeFolder(ctx, wire.OpMakeFolder, EventFolderMade, folder)
	return made, g.wrap("make folder", err)
}

// RemoveFolder takes back that a folder was recorded, while no living file and no other recorded
// folder is beneath it. Its maker and the owner of the group may. The result is the folder as
// [ListOptions].Folders lists it.
//
// RemoveFolder is free. It needs the API key. Errors: [ErrUnsupported] at a service that records no
// folders, where nothing is sent; [ErrNotFound] if the folder is not recorded, as after a lost answer;
// [ErrConflict] if something is beneath it; [ErrNotAuthorized]; [ErrCorrupt] if the service confirms
// without proof. Only svcd has it.
func (g Group) RemoveFolder(ctx context.Context, folder string) (Entry, error) {
	removed, err := g.changeFolder(ctx, wire.OpRemoveFolder, EventFolderRemoved, folder)
	return removed, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.wrap("remove folder", err))
}

func (g Group) changeFolder(ctx context.Context, op, kind, folder string) (e Entry, err error) {
	if err := g.c.caps.offers(ctx, op); err != nil {
		return e, err
	}
	if !chain.IsFolder(folder) {
		return e, &Error{Kind: ErrInvalid, Code: wire.CodeValidation,
			Err: errors.New("a folder has no slash at an end")}
	}
	after := g.c.memory.Group(string(g.ID)).Number
	var answer wire.FolderResult
	change := g.c.tools.call(op, wire.FolderRequest{GroupID: string(g.ID), Folder: folder}, &answer)
	change.Kind = call.Soon // an account that made too many changes today is told so at once
	if err := g.c.calls.Do(ctx, change); err != nil {
		return e, err
	}
	if answer == (wire.FolderResult{}) && op == wire.OpMakeFolder {
		return e, nil
	}
	r, err := g.c.receipts.ofChange(ctx, g.ID, answer.Record, answer.Receipt, func(r *chain.Record) bool {
		return r.Kind == kind && r.Detail == folder && r.Ref != "" && r.Number > after
	})
	if err != nil {
		return e, g.c.receipts.unconfirmed("change", "folder may be recorded", err)
	}
	return folderEntry(&r), nil
}
