package files

import (
	"context"
	"math"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// thinLook is for how many changed files one transaction looks for older versions.
const thinLook = 200

// surplus returns at most limit versions of a name that a thinning takes away.
func surplus(ctx context.Context, tx *store.Tx, look *groups.Look, name string, limit int) ([]target, error) {
	args, err := look.Surplus(ctx, tx, name)
	if err != nil || args == nil {
		return nil, err
	}
	list, err := store.List(ctx, tx, "list older versions", (*target).fields,
		"SELECT "+targetColumns+" FROM files WHERE "+groups.SelectSurplus+" LIMIT ?", append(args, limit)...)
	for i := range list {
		list[i].group = look.Group
	}
	return list, err
}

// thin destroys the keys of at most limit versions that their groups keep no longer. It
// looks at the names of files that changed since it looked before, and only at some of
// them. It returns what it shredded, and whether there may be more.
func (f *Files) thin(ctx context.Context, tx *store.Tx, work []groups.Thinning,
	limit int) (shredded []target, more bool, err error) {
	looks := thinLook
	for _, th := range work {
		if looks <= 0 || len(shredded) >= limit {
			return shredded, true, nil
		}
		if holds, err := th.Holds(ctx, tx); err != nil {
			return nil, false, err
		} else if !holds {
			continue
		}
		changes, err := th.Changes(ctx, tx, looks)
		if err != nil {
			return nil, false, err
		}
		found, seen, err := f.thinChanged(ctx, tx, th, changes, limit-len(shredded))
		if err != nil {
			return nil, false, err
		}
		shredded = append(shredded, found...)
		switch {
		case seen == len(changes) && len(changes) < looks:
			err = th.AllSeen(ctx, tx)
		case seen > 0:
			err = th.Seen(ctx, tx, changes[seen-1])
		}
		if err != nil {
			return nil, false, err
		}
		looks -= len(changes)
	}
	return shredded, looks <= 0, nil
}

// thinChanged shreds at most limit versions of the names of changed files. It returns how
// many of the files it is done with.
func (f *Files) thinChanged(ctx context.Context, tx *store.Tx, th groups.Thinning, changes []groups.Change,
	limit int) (shredded []target, seen int, err error) {
	look, looked := th.Look(changes), map[string]bool{"": true}
	for i, c := range changes {
		if looked[c.Name] {
			continue
		}
		looked[c.Name] = true
		found, err := surplus(ctx, tx, look, c.Name, limit-len(shredded))
		if err != nil {
			return nil, 0, err
		}
		for i := range found {
			if err := f.shredByPolicy(ctx, tx, &found[i], wire.ReasonVersionPolicy); err != nil {
				return nil, 0, err
			}
		}
		if shredded = append(shredded, found...); len(shredded) >= limit {
			return shredded, i, nil // the name may have more: it is looked at again
		}
	}
	return shredded, len(changes), nil
}

// Surplus is an older version that [Files.RemoveExpired] would remove.
type Surplus struct{ Group, Ref, Name string }

// Surplus lists the older versions that [Files.RemoveExpired] would remove.
func (f *Files) Surplus(ctx context.Context) (list []Surplus, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		work, err := groups.Thinnings(ctx, tx, f.ledger, f.config.DestructionDelay)
		if err != nil {
			return err
		}
		for _, th := range work {
			changes, err := th.Changes(ctx, tx, math.MaxInt)
			if err != nil {
				return err
			}
			look, looked := th.Look(changes), map[string]bool{}
			for _, c := range changes {
				if looked[c.Name] {
					continue
				}
				looked[c.Name] = true
				found, err := surplus(ctx, tx, look, c.Name, math.MaxInt)
				if err != nil {
					return err
				}
				for _, t := range found {
					list = append(list, Surplus{th.Group, t.ref, t.name})
				}
			}
		}
		return nil
	})
	return list, err
}
