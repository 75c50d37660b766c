package groups

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Settings returns, for a member, the settings that have one value and apply at once.
func (gs *Groups) Settings(ctx context.Context, account string,
	req wire.GroupRequest) (out wire.GroupSettings, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		out = g.GroupSettings
		return err
	})
	return out, err
}

// SetSettings sets all settings that the request names, each with a record, or none. Files that are there keep their
// format; an upload in blocks that was begun can be finished only while the group takes it. What becomes of appends
// is for mounts: the service compares versions as ever. While keys are given sealed alone, the vault gives the key of
// a file that is saved in a sealed session alone, also after keys are given as before. Owner only.
func (gs *Groups) SetSettings(ctx context.Context, account string, req wire.SetGroupSettingsRequest) (string, error) {
	if req.GroupSettings == (wire.GroupSettings{}) {
		return "", fault.New(wire.CodeValidation, "Required: format, appends or keys")
	}
	if err := req.Check(); err != nil {
		return "", fault.New(wire.CodeValidation, "%v", err)
	}
	var records []chain.Record
	var said []string
	name := func(kind, value, says string) {
		records = append(records, chain.Record{Kind: kind, Account: account, Group: req.GroupID, Detail: value})
		said = append(said, fmt.Sprintf(says, req.GroupID, value))
	}
	if req.Format != 0 {
		name(chain.KindFormat, strconv.FormatInt(req.Format, 10),
			"New files of group '%s' have at most format version %s")
	}
	if req.Appends != "" {
		name(chain.KindAppends, req.Appends, "Appends in group '%s' to what others saved meanwhile: %s")
	}
	if req.Keys != "" {
		name(chain.KindKeys, req.Keys, "Keys of files of group '%s' are given: %s")
	}
	const does = "change the settings"
	err := gs.asOwner(ctx, account, req.GroupID, does, func(tx *store.Tx, g Group) error {
		if err := tx.Do(ctx, does, "UPDATE groups SET format = ?, appends = ?, keys = ? WHERE id = ?",
			cmp.Or(req.Format, g.Format), cmp.Or(req.Appends, g.Appends), cmp.Or(req.Keys, g.Keys), g.ID); err != nil {
			return err
		}
		for _, r := range records {
			if _, err := gs.ledger.Charge(ctx, tx, r.Kind, r); err != nil {
				return err
			}
		}
		return nil
	})
	return strings.Join(said, ". "), err
}

// RequireSealed refuses a program that is not sent keys sealed, for a group whose keys are given so alone.
func (g *Group) RequireSealed(isSealed bool) error {
	if g.Keys != wire.KeysSealed || isSealed {
		return nil
	}
	return fault.New(wire.CodeSealedOnly, "not authorized: the owner of group %q has keys of files given sealed "+
		"alone: use svcfs for its files", g.ID)
}
