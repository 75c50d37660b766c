package groups

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Changes that destroy many files wait. Members can see them, and the owner can cancel
// them meanwhile: a stolen key, or a mistake, does not destroy a group in a moment.
const (
	// MinRetentionDays is the shortest retention window that counts at once.
	MinRetentionDays = 7
	// BulkFiles is how many files are destroyed at once: by one account in a group
	// in an hour, and by new retention windows in a day.
	BulkFiles = 100
)

// SetRetention sets the retention window in days; nil clears it. Owner only. It deletes
// nothing itself. A window that is shorter than the current one waits when it is below
// [MinRetentionDays], or would end more than [BulkFiles] files in a day. A window that
// does not wait cancels one that does.
func (gs *Groups) SetRetention(ctx context.Context, account string,
	req wire.RetentionRequest) (text string, err error) {
	group, days := req.GroupID, req.RetentionDays
	if days != nil && (*days < 0 || *days > 1<<31) {
		return "", fault.New(wire.CodeValidation, "retention_days must be 0 or more")
	}
	err = gs.asOwner(ctx, account, group, "set retention", func(tx *store.Tx, g Group) error {
		waits, err := gs.waits(ctx, tx, g, days)
		if err != nil {
			return err
		}
		if waits {
			text, err = gs.pendRetention(ctx, tx, g, account, *days)
			return err
		}
		text = fmt.Sprintf("Cleared retention window for group '%s'", group)
		detail := "none"
		if days != nil {
			detail = strconv.FormatInt(*days, 10)
			text = fmt.Sprintf("Set retention for group '%s' to %s days", group, detail)
		}
		if err := setWindow(ctx, tx, group, days); err != nil {
			return err
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindRetention, chain.Record{Kind: chain.KindRetention,
			Account: account, Group: group, Detail: detail})
		return err
	})
	return text, err
}

func setWindow(ctx context.Context, tx *store.Tx, group string, days *int64) error {
	return tx.Do(ctx, "set retention", "UPDATE groups SET retention_days = ?, pending_retention = NULL, "+
		"pending_retention_ns = NULL WHERE id = ?", days, group)
}

// BeginSettings begins what has waited: retention windows, versions and the ends of groups.
func BeginSettings(ctx context.Context, tx *store.Tx, l *ledger.Ledger) error {
	if err := beginWindows(ctx, tx, l); err != nil {
		return err
	}
	if err := beginVersions(ctx, tx, l); err != nil {
		return err
	}
	return beginEnds(ctx, tx, l)
}

// beginWindows begins the retention windows that are due.
func beginWindows(ctx context.Context, tx *store.Tx, l *ledger.Ledger) error {
	due, err := store.List(ctx, tx, "list retention windows that wait", func(g *Group) []any {
		return []any{&g.ID, &g.Owner, &g.PendingDays}
	},
		"SELECT id, owner, pending_retention FROM groups WHERE pending_retention_ns <= ? ORDER BY id",
		l.Now().UnixNano())
	if err != nil {
		return err
	}
	for _, g := range due {
		days := g.PendingDays.Int64
		if err := setWindow(ctx, tx, g.ID, &days); err != nil {
			return err
		}
		if _, err := l.Append(ctx, tx, chain.Record{Kind: chain.KindRetention, Account: g.Owner, Group: g.ID,
			Detail: strconv.FormatInt(days, 10)}); err != nil {
			return err
		}
	}
	return nil
}

// waits reports whether a new window would destroy too many files to begin at once. It
// also counts files that would end while the window waited, and files that windows ended
// in the last day: neither patience nor many short steps get around the bound.
func (gs *Groups) waits(ctx context.Context, tx *store.Tx, g Group, days *int64) (bool, error) {
	if gs.delay <= 0 || days == nil || g.RetentionDays.Valid && *days >= g.RetentionDays.Int64 {
		return false, nil
	}
	if *days < MinRetentionDays {
		return true, nil
	}
	now := gs.ledger.Now()
	soon := now.Add(gs.delay - time.Duration(min(*days, maxDays))*24*time.Hour)
	var ends int64
	err := tx.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM files WHERE group_id = ? AND
		(deleted_ns IS NULL AND time_ns <= ? OR deleted_ns > ? AND deleted_why = ?) LIMIT ?) AS ended`,
		g.ID, soon.UnixNano(), now.Add(-24*time.Hour).UnixNano(), wire.ReasonRetentionPolicy, BulkFiles+1).Scan(&ends)
	if err != nil {
		return false, fmt.Errorf("count files that end: %w", err)
	}
	return ends > BulkFiles, nil
}

// maxDays is longer than any file was stored, and fits into nanoseconds.
const maxDays = 100_000

// pendRetention notes a window that waits. Asking again does not make it longer.
func (gs *Groups) pendRetention(ctx context.Context, tx *store.Tx, g Group, account string,
	days int64) (text string, err error) {
	due := gs.ledger.Now().Add(gs.delay)
	if g.PendingDays.Valid && g.PendingDays.Int64 == days {
		due = time.Unix(0, g.PendingUntil.Int64)
	}
	text = fmt.Sprintf("Retention for group '%s' becomes %d days at %s: until then it can be taken back with: svcfs "+
		"group keep GROUP", g.ID, days, timeText(due))
	if _, err := tx.ExecContext(ctx, "UPDATE groups SET pending_retention = ?, pending_retention_ns = ? WHERE id = ?",
		days, due.UnixNano(), g.ID); err != nil {
		return "", fmt.Errorf("set retention: %w", err)
	}
	_, err = gs.ledger.Charge(ctx, tx, chain.KindPending, chain.Record{Kind: chain.KindPending, Account: account,
		Group:  g.ID,
		Detail: fmt.Sprintf("retention %d %d", days, due.UnixNano())})
	return text, err
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Pending returns what waits in a group, for a member.
func (gs *Groups) Pending(ctx context.Context, account string,
	req wire.GroupRequest) (out wire.PendingResult, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		if g.PendingDays.Valid {
			out.RetentionDays, out.RetentionAt = &g.PendingDays.Int64, strconv.FormatInt(g.PendingUntil.Int64, 10)
		}
		var first int64
		err = tx.QueryRowContext(ctx, "SELECT count(*), COALESCE(min(due_ns), 0) FROM pending_deletions WHERE "+
			"group_id = ?", req.GroupID).Scan(&out.Files, &first)
		if err != nil {
			return fmt.Errorf("read pending deletions: %w", err)
		}
		if out.Files > 0 {
			out.FilesAt = strconv.FormatInt(first, 10)
		}
		if g.PendingVersions.Valid {
			out.VersionsKeep, out.VersionsAt = g.PendingVersions.String,
				strconv.FormatInt(g.PendingVersionsUntil.Int64, 10)
		}
		if g.PendingEnd.Valid {
			out.GroupAt = strconv.FormatInt(g.PendingEnd.Int64, 10)
		}
		if g.isOffered(gs.ledger.Now()) {
			out.OfferedTo = g.OfferTo.String
			out.OfferFrom, out.OfferUntil = strconv.FormatInt(g.OfferFrom.Int64, 10),
				strconv.FormatInt(g.OfferUntil.Int64, 10)
		}
		out.Versions, err = gs.versionsThatGo(ctx, tx, g)
		return err
	})
	return out, err
}

// Keep cancels every destruction that waits in a group, also that of the group. Older versions are always waiting
// in a group that thins them: from then on it keeps all. Owner only.
func (gs *Groups) Keep(ctx context.Context, account string, req wire.GroupRequest) (text string, err error) {
	group := req.GroupID
	err = gs.asOwner(ctx, account, group, "keep files", func(tx *store.Tx, g Group) error {
		n, err := tx.Count(ctx, "keep files", "DELETE FROM pending_deletions WHERE group_id = ?", group)
		if err != nil {
			return err
		}
		thins := !g.keep().KeepsAll() || g.PendingVersions.Valid
		if n == 0 && !g.PendingDays.Valid && !g.PendingEnd.Valid && !thins {
			text = fmt.Sprintf("Nothing waits to be destroyed in group '%s'", group)
			return nil
		}
		if err := tx.Do(ctx, "keep files", "UPDATE groups SET pending_retention = NULL, pending_retention_ns = NULL, "+
			"pending_end_ns = NULL WHERE id = ?", group); err != nil {
			return err
		}
		if err := setVersions(ctx, tx, group, wire.Keep{}); err != nil {
			return err
		}
		var kept []string
		if n > 0 {
			kept = append(kept, fmt.Sprintf("%d deletions were taken back", n))
		}
		if g.PendingDays.Valid {
			kept = append(kept, "the retention window stays as it is")
		}
		if g.PendingEnd.Valid {
			kept = append(kept, "the group is not deleted")
		}
		if thins {
			kept = append(kept, "all versions are kept from now on")
		}
		text = fmt.Sprintf("Kept what was to be destroyed in group '%s': %s", group, strings.Join(kept, "; "))
		_, err = gs.ledger.Charge(ctx, tx, chain.KindKeep, chain.Record{Kind: chain.KindKeep, Account: account,
			Group: group})
		return err
	})
	return text, err
}

// forgetDeletions cancels the deletions of an account that may not delete any more.
// Files that the account removed stay in the trash until the owner of the group decides.
func forgetDeletions(ctx context.Context, tx *store.Tx, group, member string) error {
	if err := tx.Do(ctx, "forget deletions", "DELETE FROM pending_deletions WHERE group_id = ? AND account = ?", group,
		member); err != nil {
		return err
	}
	return tx.Do(ctx, "hold removed files", "UPDATE files SET trash_until_ns = NULL WHERE group_id = ? AND trash_by "+
		"= ? AND trash_ns IS NOT NULL", group, member)
}
