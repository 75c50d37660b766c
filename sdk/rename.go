package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Rename records another name for a file. Content and reference stay. The result is the file as
// [Group.List] lists it, without Tx. The price is that of
// [Group.Delete]: mostly free. The same accounts may call it; it needs the API key. Errors:
// those of [Group.Delete], [ErrDeleted]. Only svcd has it.
func (g Group) Rename(ctx context.Context, ref Ref, name string) (Entry, error) {
	e, err := g.rename(ctx, ref, name)
	return e, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.c.wrap("rename", g.ID, ref, err))
}

func (g Group) rename(ctx context.Context, ref Ref, name string) (Entry, error) {
	var answer recorded
	after := g.c.memory.Group(string(g.ID)).Number
	request := wire.RenameRequest{GroupID: string(g.ID), IPFSHash: string(ref), Filename: name}
	if err := g.c.change(ctx, wire.OpRenameFile, request, &answer); err != nil {
		return Entry{}, err
	}
	return g.changedFile(ctx, after, answer.Recorded, func(r *chain.Record) bool {
		return r.Kind == EventRenamed && r.Ref == string(ref) && r.Detail == name
	})
}

// nameBackTime is how long [Group.RenameVersions] gives versions their name again, also after ctx has ended.
const nameBackTime = 30 * time.Second

// RenameVersions is [Group.Rename] for listed versions of one name, all or none: after a failure those that have the
// other name already get theirs again, because a second call would find the other name in use. It returns how many
// renames the service recorded, at most two for each version; each has the price of [Group.Rename]. The error says how
// many versions may have the other name, if one could not be named back. Errors: those of [Group.Rename].
func (g Group) RenameVersions(ctx context.Context, versions []Entry, name string) (renames int, err error) {
	for i, e := range versions {
		if _, err := g.Rename(ctx, e.Ref, name); err != nil {
			back, err := g.nameBack(ctx, versions, i, err)
			return i + back, err
		}
	}
	return len(versions), nil
}

// nameBack gives versions their name again of which one could not be renamed, for a reason. It returns how many renames
// the service recorded since.
func (g Group) nameBack(ctx context.Context, versions []Entry, failed int, why error) (renames int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nameBackTime)
	defer cancel()
	renamed := versions[:failed]
	var own *Error
	isUnproven := errors.As(why, &own) && own.Code == wire.CodeReceipt
	if len(versions) > 1 && (isUnproven || errors.Is(why, ErrUnavailable) || errors.Is(why, ErrTimeout) ||
		errors.Is(why, ErrCanceled)) { // it may be recorded
		renamed = versions[:failed+1]
		renames++
	}
	for _, e := range renamed {
		if _, err := g.Rename(ctx, e.Ref, e.Name); err != nil {
			return renames, fmt.Errorf("%w; of %d versions the oldest %d may have the new name now: %w", why,
				len(versions), len(renamed), err)
		}
		renames++
	}
	return renames, why
}
