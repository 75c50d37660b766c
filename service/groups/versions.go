package groups

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// keep is which older versions stay. A text that nobody could set keeps all.
func (g Group) keep() wire.Keep {
	k, _ := wire.ParseKeep(g.Versions)
	return k
}

// KeptVersions returns, for a member, which older versions of its names a group keeps, and
// the setting that waits.
func (gs *Groups) KeptVersions(ctx context.Context, account string,
	req wire.GroupRequest) (out wire.VersionsResult, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		out.Keep = g.keep().String()
		if g.PendingVersions.Valid {
			out.Next, out.At = g.PendingVersions.String, strconv.FormatInt(g.PendingVersionsUntil.Int64, 10)
		}
		return nil
	})
	return out, err
}

func parseKeep(text string) (wire.Keep, error) {
	k, err := wire.ParseKeep(text)
	if err != nil {
		return k, fault.New(wire.CodeValidation, "keep: %v", err)
	}
	return k, nil
}

// SetVersions sets which older versions of its names a group keeps. Owner only. It deletes
// nothing itself. A setting that may take versions away which the present one keeps waits,
// each time, so that many short steps are no faster. Any other setting counts at once, and
// cancels one that waits.
func (gs *Groups) SetVersions(ctx context.Context, account string,
	req wire.SetVersionsRequest) (text string, err error) {
	k, err := parseKeep(req.Keep)
	if err != nil {
		return "", err
	}
	err = gs.asOwner(ctx, account, req.GroupID, "set which versions are kept", func(tx *store.Tx, g Group) error {
		if gs.delay > 0 && !k.Widens(g.keep()) {
			text, err = gs.pendVersions(ctx, tx, g, account, k)
			return err
		}
		text = fmt.Sprintf("Group '%s' keeps %s", g.ID, keepText(k))
		if err := setVersions(ctx, tx, g.ID, k); err != nil {
			return err
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindVersions, chain.Record{Kind: chain.KindVersions,
			Account: account, Group: g.ID, Detail: k.String()})
		return err
	})
	return text, err
}

func keepText(k wire.Keep) string {
	switch {
	case k.Days > 0:
		return fmt.Sprintf("older versions for %d days after a newer one", k.Days)
	case k.Last > 0:
		return fmt.Sprintf("the newest %d versions of each name", k.Last)
	default:
		return "all versions"
	}
}

// setVersions begins a setting. The sweep then looks at every name again.
func setVersions(ctx context.Context, tx *store.Tx, group string, k wire.Keep) error {
	return tx.Do(ctx, "set versions", "UPDATE groups SET versions = ?, pending_versions = NULL, pending_versions_ns "+
		"= NULL, thinned_seq = 0, thinned_file = 0 WHERE id = ?", k.String(), group)
}

// pendVersions notes a setting that waits. Asking again does not make it longer.
func (gs *Groups) pendVersions(ctx context.Context, tx *store.Tx, g Group, account string,
	k wire.Keep) (text string, err error) {
	due := gs.ledger.Now().Add(gs.delay)
	if g.PendingVersions.String == k.String() {
		due = time.Unix(0, g.PendingVersionsUntil.Int64)
	}
	text = fmt.Sprintf("Group '%s' keeps %s from %s on: until then it can be taken back with: svcfs group keep GROUP",
		g.ID, keepText(k), timeText(due))
	if _, err := tx.ExecContext(ctx, "UPDATE groups SET pending_versions = ?, pending_versions_ns = ? WHERE id = ?",
		k.String(), due.UnixNano(), g.ID); err != nil {
		return "", fmt.Errorf("set versions: %w", err)
	}
	_, err = gs.ledger.Charge(ctx, tx, chain.KindPending, chain.Record{Kind: chain.KindPending, Account: account,
		Group:  g.ID,
		Detail: fmt.Sprintf("versions %s %d", k, due.UnixNano())})
	return text, err
}

// beginVersions begins the settings of versions that are due.
func beginVersions(ctx context.Context, tx *store.Tx, l *ledger.Ledger) error {
	due, err := store.List(ctx, tx, "list settings of versions that wait", func(g *Group) []any {
		return []any{&g.ID, &g.Owner, &g.Versions}
	},
		"SELECT id, owner, pending_versions FROM groups WHERE pending_versions_ns <= ? ORDER BY id", l.Now().UnixNano())
	if err != nil {
		return err
	}
	for _, g := range due {
		k := g.keep()
		if err := setVersions(ctx, tx, g.ID, k); err != nil {
			return err
		}
		if _, err := l.Append(ctx, tx, chain.Record{Kind: chain.KindVersions, Account: g.Owner, Group: g.ID,
			Detail: k.String()}); err != nil {
			return err
		}
	}
	return nil
}

// withTried finds the versions of a group that would go. The versions that would stay are
// counted too, whichever client they came from.
const withTried = `WITH gone AS (SELECT ref, filename, blob_size FROM (
		SELECT ref, filename, blob_size, versioned, row_number() OVER (PARTITION BY filename ORDER BY seq DESC) AS place
		FROM files
		WHERE group_id = ? AND filename <> '' AND deleted_ns IS NULL AND trash_ns IS NULL AND changed_seq <= ?) AS v
	WHERE versioned AND place > ?) `

// selectTried finds the names that would lose versions. selectTriedParts finds the size of
// the parts that only such versions use, by the first of their names.
const (
	selectTried = withTried + `SELECT filename, count(*), CAST(sum(blob_size) AS BIGINT) FROM gone
		GROUP BY filename ORDER BY filename`
	selectTriedParts = withTried + `SELECT name, CAST(sum(size) AS BIGINT) FROM (
		SELECT min(gone.filename) AS name, parts.blob_size AS size FROM gone JOIN part_uses u ON u.ref = gone.ref
		JOIN parts ON parts.id = u.part
		GROUP BY parts.id, parts.blob_size HAVING count(*) = (SELECT count(*) FROM part_uses o
		WHERE o.part = parts.id)) AS p GROUP BY name`
)

// TryVersions returns what the first thinning by a setting would destroy, as if the setting
// were made now. Owner only: it reads the whole group.
func (gs *Groups) TryVersions(ctx context.Context, account string,
	req wire.TryVersionsRequest) (out wire.TryVersionsResult, err error) {
	out.Names = []wire.ThinnedName{}
	k, err := parseKeep(req.Keep)
	if err != nil {
		return out, err
	}
	err = gs.store.Read(ctx, func(tx *store.Tx) error {
		g, err := requireOwner(ctx, tx, req.GroupID, account, "try which versions would go")
		if err != nil || k.KeepsAll() {
			return err
		}
		begins := gs.ledger.Now().Add(max(gs.delay, 0))
		if k.Widens(g.keep()) {
			begins = gs.ledger.Now()
		}
		th, err := thinningAt(ctx, tx, g.ID, k, gs.delay, begins)
		if err != nil {
			return err
		}
		parts, err := th.triedParts(ctx, tx)
		if err != nil {
			return err
		}
		for n, err := range store.Each(ctx, tx, "try which versions would go",
			func(n *wire.ThinnedName) []any { return []any{&n.Filename, &n.Versions, &n.Bytes} },
			selectTried, g.ID, th.upTo, th.stay) {
			if err != nil {
				return err
			}
			n.Bytes += parts[n.Filename]
			out.Files++
			out.Versions += n.Versions
			out.Bytes += n.Bytes
			switch {
			case n.Filename <= req.After:
			case len(out.Names) == wire.MaxPageNames:
				out.More = true
			default:
				out.Names = append(out.Names, n)
			}
		}
		return nil
	})
	return out, err
}

// triedParts returns how many bytes of parts would go, by the name of a file.
func (th Thinning) triedParts(ctx context.Context, tx *store.Tx) (map[string]int64, error) {
	list, err := store.List(ctx, tx, "try which parts would go",
		func(n *wire.ThinnedName) []any { return []any{&n.Filename, &n.Bytes} },
		selectTriedParts, th.Group, th.upTo, th.stay)
	parts := make(map[string]int64, len(list))
	for _, n := range list {
		parts[n.Filename] = n.Bytes
	}
	return parts, err
}
