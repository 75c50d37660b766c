package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// MaxFolderFiles is how many versions of files one [Group.RenameFolder] renames, at most.
const MaxFolderFiles = wire.MaxFolderFiles

// FolderRename is the result of [Group.RenameFolder].
type FolderRename struct {
	Versions int64  // number of versions with new names
	Seq      Seq    // of the record, and the ChangedSeq of the versions
	Fee      Amount // charged for it
}

// RenameFolder renames all living files whose recorded name is folder, a slash and a rest:
// their names are to, a slash and the rest from then on. It is one record, so that the
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
// [MaxFolderFiles] versions; [ErrNotAuthorized]; [ErrCorrupt] if the service confirms the
// rename without proof. Only svcd has it.
func (g Group) RenameFolder(ctx context.Context, folder, to string, seen Seq) (FolderRename, error) {
	done, err := g.renameFolder(ctx, folder, to, seen)
	return done, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.wrap("rename folder", err))
}

func (g Group) renameFolder(ctx context.Context, folder, to string, seen Seq) (done FolderRename, err error) {
	if err := g.c.needOurs(ctx, "rename folders"); err != nil {
		return done, err
	}
	if !chain.IsFolderMove(folder, to) || seen <= 0 {
		return done, &Error{Kind: ErrInvalid, Code: wire.CodeValidation, Err: errors.New("a folder and its new name have no slash at an end, and none lies in the other")}
	}
	after := g.c.memory.Group(string(g.ID)).Number
	var answer wire.RenameFolderResult
	request := wire.RenameFolderRequest{GroupID: string(g.ID), Folder: folder, NewFolder: to, Seq: int64(seen)}
	if err := g.c.read(ctx, wire.OpRenameFolder, request, &answer); err != nil { // may be repeated, because the request names seen
		return done, err
	}
	r, err := g.c.checkFolder(ctx, g.ID, request, answer)
	if err != nil {
		return done, g.c.unconfirmed("rename", "folder may be renamed", err)
	}
	if r.Number <= after { // no hash covers Seq: the record may also be older than seen
		return done, &Error{Kind: ErrConflict, Code: wire.CodeConflict, Err: errors.New("the folder was renamed so before: list the group again")}
	}
	done = FolderRename{Versions: answer.Files, Seq: Seq(r.Seq)}
	if done.Fee, err = wire.ParseAmount(r.Fee); err != nil {
		return done, malformed(err)
	}
	return done, nil
}

// checkFolder verifies that the service recorded what was asked, and remembers that the
// group has come that far.
func (c *Client) checkFolder(ctx context.Context, g GroupID, asked wire.RenameFolderRequest, a wire.RenameFolderResult) (r chain.Record, err error) {
	if a.Record == nil || a.Receipt == nil || a.Files <= 0 {
		return r, malformed(errors.New("a rename without a receipt"))
	}
	if r, err = chainRecord(a.Record, g); err != nil {
		return r, malformed(err)
	}
	before, after, ok := chain.FolderOf(&r)
	if !ok || r.Kind != EventFolderRenamed || r.Chain != chain.OfGroup(string(g)) || r.Group != string(g) || r.Account != string(c.account) ||
		before != asked.Folder || after != asked.NewFolder || r.Seq <= asked.Seq {
		return r, malformed(errors.New("its receipt is for another record"))
	}
	place, err := retryWithNewKey(ctx, c, func() (chain.Place, error) { return c.openReceipt(ctx, &r, *a.Receipt) })
	if err != nil {
		return r, err
	}
	c.memory.SawGroup(string(g), place, 0, time.Now())
	return r, nil
}

// openReceipt verifies the signature of a receipt.
func (c *Client) openReceipt(ctx context.Context, r *chain.Record, receipt wire.ChainHead) (chain.Place, error) {
	log, _, err := c.trustedLog(ctx)
	if err != nil {
		return chain.Place{}, err
	}
	place, err := proof.CheckReceipt(log, r, receipt)
	return place, c.refusal(ctx, log, err)
}
