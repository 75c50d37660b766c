package groups

import (
	"context"
	"slices"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// maxOpen bounds the list of groups that are open to join.
const maxOpen = 200

// Summary is a group as one account sees it.
type Summary struct {
	Group
	Role    wire.Role // of the account, "" when it is not a member
	Members int64
}

const selectSummary = "SELECT id, " + groupColumns + ", " + roleColumn +
	", (SELECT count(*) FROM members n WHERE n.group_id = groups.id) FROM groups WHERE ended_ns IS NULL"

// Overview returns a page of the groups an account belongs to, owned ones included:
// at most limit whose names come after one, "" for the first page.
func (gs *Groups) Overview(ctx context.Context, account, after string, limit int) ([]Summary, error) {
	return gs.summaries(ctx, selectSummary+` AND id IN (SELECT group_id FROM members JOIN groups g ON g.id = group_id
		AND g.ended_ns IS NULL
		WHERE account = ? AND group_id > ? ORDER BY group_id LIMIT ?) ORDER BY id`, account, account, after, limit)
}

// OpenTo returns the groups with an open join window that an account can join, at most
// 200: of each owner as many as of any other, so that nobody hides those of others. An
// open window makes a group public.
func (gs *Groups) OpenTo(ctx context.Context, account string) ([]Summary, error) {
	return gs.summaries(ctx, selectSummary+` AND id IN (SELECT id FROM groups WHERE ended_ns IS NULL
		AND joinable = ? AND join_expires > ? AND (join_max_uses IS NULL OR join_uses < join_max_uses)
		AND NOT EXISTS (SELECT 1 FROM members m WHERE m.group_id = groups.id AND m.account = ?)
		AND NOT `+ledger.WasRevoked+`groups.id)
		ORDER BY row_number() OVER (PARTITION BY owner ORDER BY id), id LIMIT ?) ORDER BY id`, account, true,
		gs.ledger.Now().UnixNano(), account, account, maxOpen)
}

func (gs *Groups) summaries(ctx context.Context, query store.Query, args ...any) ([]Summary, error) {
	var list []Summary
	err := gs.store.Read(ctx, func(tx *store.Tx) (err error) {
		list, err = store.List(ctx, tx, "list groups", func(g *Summary) []any {
			return slices.Concat([]any{&g.ID}, g.fields(), []any{&g.Role, &g.Members})
		}, query, args...)
		return err
	})
	return list, err
}
