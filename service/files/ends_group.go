package files

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

// fromEnded finds the living files of groups that have ended, also those in the trash.
const (
	selectEnded = "SELECT " + targetColumns + ", group_id, (SELECT owner FROM groups WHERE id = group_id)" + fromEnded + " ORDER BY group_id, seq LIMIT ?"
	fromEnded   = " FROM files WHERE group_id IN (SELECT id FROM groups WHERE ended_ns IS NOT NULL) AND deleted_ns IS NULL"
)

// shredEnded destroys the keys of at most limit files of groups that have ended, by the name of the owner, who
// asked for it.
func (f *Files) shredEnded(ctx context.Context, tx *store.Tx, limit int) ([]target, error) {
	type victim struct {
		target
		owner string
	}
	list, err := store.List(ctx, tx, "list files of groups that have ended", func(v *victim) []any { return append(v.fields(), &v.group, &v.owner) }, selectEnded, limit)
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
	return shredded, nil
}
