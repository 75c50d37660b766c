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

// headOf returns the reference of the newest version of a name, "" without any. Clients order versions by their
// uploads, too.
func headOf(ctx context.Context, tx *store.Tx, group, name string) (head string, err error) {
	err = tx.QueryRowContext(ctx, selectNewest, group, name, name).Scan(&head)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for the newest version of a name: %w", err)
	}
	return head, nil
}

// selectNewest finds the living version of a name that was uploaded last.
const selectNewest = "SELECT ref FROM files WHERE group_id = ? AND " + groups.SelectNamed +
	" AND deleted_ns IS NULL AND trash_ns IS NULL ORDER BY seq DESC LIMIT 1"
