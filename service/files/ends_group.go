package files

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

// fromEnded finds the living files of groups that have ended, also those in the trash. It asks for no order, so that an
// index of living files is read, and not the destroyed ones again and again.
const (
	selectEnded = "SELECT " + targetColumns + ", group_id, (SELECT owner FROM groups WHERE id = group_id)" +
		fromEnded + " LIMIT ?"
	fromEnded = " FROM files WHERE group_id IN (SELECT id FROM groups WHERE ended_ns IS NOT NULL) AND deleted_ns " +
		"IS NULL"
)

// shredEnded destroys the keys of at most limit files of groups that have ended, by the name of the owner, who
// asked for it.
func (f *Files) shredEnded(ctx context.Context, tx *store.Tx, limit int) ([]target, error) {
	type victim struct {
		target
		owner string
	}
	list, err := store.List(ctx, tx, "list files of groups that have ended",
		func(v *victim) []any { return append(v.fields(), &v.group, &v.owner) }, selectEnded, limit)
	if err != nil {
		return nil, err
	}
	var shredded []target
	for _, v := range list {
		if err := f.shredPaid(ctx, tx, &v.target, v.owner, wire.ReasonOwnerRequest); err != nil {
			return nil, err
		}
		shredded = append(shredded, v.target)
	}
	if len(shredded) == limit {
		return shredded, nil
	}
	return shredded, f.endLists(ctx, tx)
}

// endLists destroys the list keys of groups that have ended and have no file left.
func (f *Files) endLists(ctx context.Context, tx *store.Tx) error {
	const ended = " WHERE ended_ns IS NOT NULL AND list_key IS NOT NULL"
	if err := destroyKeys(ctx, tx, "SELECT list_key FROM groups"+ended); err != nil {
		return err
	}
	return tx.Do(ctx, "end the lists of groups", "UPDATE groups SET list_key = NULL"+ended)
}
