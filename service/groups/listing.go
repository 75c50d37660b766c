package groups

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

// Listing is a list of groups, each with the role of the account in it, or of
// members, each with its role.
type Listing struct {
	Names []string
	Roles []wire.Role
	More  bool // the list continues after the page
}

// Add adds the next page.
func (l *Listing) Add(page Listing) {
	l.Names, l.Roles, l.More = append(l.Names, page.Names...), append(l.Roles, page.Roles...), page.More
}

// ofMember is the role in a row of members m with its group.
const ofMember = "CASE WHEN m.account = g.owner THEN '" + wire.RoleOwner + "' ELSE m.role END " +
	"FROM members m JOIN groups g ON g.id = m.group_id AND g.ended_ns IS NULL"

// selectOwned finds the groups that an account owns.
const selectOwned = "SELECT m.group_id, " + ofMember + " WHERE m.account = ? AND g.owner = m.account"

// Owned lists a page of the groups an account owns, in the order of their names. The
// query goes from the account to its groups: owners are members.
func (gs *Groups) Owned(ctx context.Context, account string, page wire.NamesRequest) (Listing, error) {
	return gs.page(ctx, page, selectOwned+" AND m.group_id > ? ORDER BY m.group_id LIMIT ?", account)
}

// Of lists a page of the groups an account belongs to, owned ones included, in the
// order of their names.
func (gs *Groups) Of(ctx context.Context, account string, page wire.NamesRequest) (Listing, error) {
	return gs.page(ctx, page, "SELECT m.group_id, "+ofMember+
		" WHERE m.account = ? AND m.group_id > ? ORDER BY m.group_id LIMIT ?", account)
}

// page reads one name more than the page holds, to learn whether the list continues.
func (gs *Groups) page(ctx context.Context, page wire.NamesRequest, query store.Query,
	account string) (list Listing, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		list, err = readListing(ctx, tx, query, account, page.After, page.Limit+1)
		return err
	})
	if list.More = len(list.Names) > page.Limit; list.More {
		list.Names, list.Roles = list.Names[:page.Limit], list.Roles[:page.Limit]
	}
	return list, err
}

// Members lists the members of a group, for a member, or for any caller when the group
// is open.
func (gs *Groups) Members(ctx context.Context, account string, req wire.GroupRequest) (list Listing, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		if _, err := MayList(ctx, tx, req.GroupID, account); err != nil {
			return err
		}
		list, err = readListing(ctx, tx,
			"SELECT m.account, "+ofMember+" WHERE m.group_id = ? ORDER BY m.since", req.GroupID)
		return err
	})
	return list, err
}

// readListing runs a query for names and roles.
func readListing(ctx context.Context, tx *store.Tx, query store.Query, args ...any) (Listing, error) {
	list := Listing{Names: []string{}, Roles: []wire.Role{}}
	for rows, err := range tx.Rows(ctx, query, args...) {
		var name string
		var role wire.Role
		if err == nil {
			err = rows.Scan(&name, &role)
		}
		if err != nil {
			return list, fmt.Errorf("list: %w", err)
		}
		list.Names, list.Roles = append(list.Names, name), append(list.Roles, role)
	}
	return list, nil
}
