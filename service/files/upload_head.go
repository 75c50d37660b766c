package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// requireHead refuses an upload whose name has another newest version than its client knew.
func requireHead(ctx context.Context, tx *store.Tx, group, name, base string) error {
	if base == "" {
		return nil
	}
	head, err := headOf(ctx, tx, group, name)
	if err != nil {
		return err
	}
	if head == base || head == "" && base == wire.NoBase {
		return nil
	}
	return fault.New(wire.CodeHead, "the name has a newer version than the upload knows: nothing was recorded; list "+
		"the group, and send the upload again with the version that it follows")
}

// requireUpon refuses an upload that says it was made from a version which the group never had.
func requireUpon(ctx context.Context, tx *store.Tx, group, upon string) error {
	if upon == "" || upon == wire.NoBase {
		return nil
	}
	if strings.ContainsRune(upon, 0) { // in PostgreSQL it would fail all uploads of the transaction
		return fault.New(wire.CodeValidation, "upon holds a NUL character")
	}
	var of string
	err := tx.QueryRowContext(ctx, "SELECT group_id FROM files WHERE ref = ?", upon).Scan(&of)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the version that an upload was made from: %w", err)
	}
	if err != nil || of != group { // no word about files of other groups
		return fault.New(wire.CodeFileNotFound, "upon: group %q has no such file: nothing was recorded; send the "+
			"upload again without it", group)
	}
	return nil
}

// headOf returns the reference of the newest version of a name, "" without any: that which
// got the name last, by its upload or by a later record. It reads the version that was uploaded last,
// and those that changed since its name was given, however many there are.
func headOf(ctx context.Context, tx *store.Tx, group, name string) (head string, err error) {
	newest := int64(0) // the record that gave head its name
	among := func(query store.Query, args ...any) (undecided bool, err error) {
		list, err := store.List(ctx, tx, "look for the newest version of a name",
			func(v *version) []any { return []any{&v.ref, &v.changed, &v.named} },
			query, append([]any{group, name, name}, args...)...)
		for _, v := range list {
			if err != nil || v.changed <= newest { // all others got the name before
				return false, err
			}
			if v.named > newest {
				head, newest = v.ref, v.named
			}
		}
		return len(list) == mostChanged, err
	}
	if _, err = among(selectNewest); err != nil {
		return "", err
	}
	undecided, err := among(selectChanged, newest, mostChanged)
	if undecided {
		head = noVersion
	}
	return head, err
}

const (
	// mostChanged is how many versions of a name a save looks at that got other attributes after the
	// newest version had the name: all writers wait meanwhile.
	mostChanged = 100
	// noVersion stands for the newest version of a name with more of them. No version is called so.
	noVersion = "?"
)

// version is a living version of a name.
type version struct {
	ref            string
	changed, named int64 // sequences: of its newest record, and of that which gave it its name
}

// selectNewest finds the living version of a name that was uploaded last, selectChanged those that
// changed since their upload and after a record, the last ones first.
const (
	selectLiving = "SELECT ref, changed_seq, named_seq FROM files WHERE group_id = ? AND " + groups.SelectNamed +
		" AND deleted_ns IS NULL AND trash_ns IS NULL"
	selectNewest  = selectLiving + " ORDER BY seq DESC LIMIT 1"
	selectChanged = selectLiving + " AND changed_seq <> seq AND changed_seq > ? ORDER BY changed_seq DESC LIMIT ?"
)
