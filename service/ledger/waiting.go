package ledger

import (
	"context"

	"github.com/svcfs/svcfs/service/store"
)

const forgetWaiting = `UPDATE groups
	SET pending_retention = NULL, pending_retention_ns = NULL, pending_versions = NULL, pending_versions_ns = NULL,
	pending_end_ns = NULL, offer_to = NULL, offer_from_ns = NULL, offer_until_ns = NULL
	WHERE COALESCE(pending_retention_ns, pending_versions_ns, pending_end_ns, offer_until_ns) IS NOT NULL AND `

// ForgetWaiting cancels what waits in a group: its settings, its end, and an offer to another owner.
func ForgetWaiting(ctx context.Context, tx *store.Tx, group string) error {
	return tx.Do(ctx, "forget what waits in a group", forgetWaiting+"id = ?", group)
}

// ForgetWaitingOf is [ForgetWaiting] for all groups that an account owns.
func ForgetWaitingOf(ctx context.Context, tx *store.Tx, owner string) error {
	return tx.Do(ctx, "forget what waits in the groups of an account", forgetWaiting+"owner = ?", owner)
}
