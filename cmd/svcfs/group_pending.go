package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

// pendingDestruction is what 'group pending' prints as JSON.
type pendingDestruction struct {
	Group         string     `json:"group_id"`
	RetentionDays *int64     `json:"retention_days,omitempty"`
	RetentionAt   *time.Time `json:"retention_at,omitempty"`
	Files         int64      `json:"files"`
	FilesAt       *time.Time `json:"files_at,omitempty"`
	VersionsKeep  string     `json:"versions_keep,omitempty"`
	VersionsAt    *time.Time `json:"versions_at,omitempty"`
	Versions      int64      `json:"versions,omitempty"`
	GroupAt       *time.Time `json:"group_at,omitempty"`

	OfferedTo  sdk.AccountID `json:"offered_to,omitempty"`
	OfferFrom  *time.Time    `json:"offer_from,omitempty"`
	OfferUntil *time.Time    `json:"offer_until,omitempty"`
}

func (a *app) groupPendingCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pending GROUP",
		Short: "Show the deletions that are pending in a group, and to whom it is offered",
		Long: `Show what waits to be destroyed in a group, and the member that it is offered to. A
service that delays destruction delays the end of a group, a retention window below 7
days or that destroys more than 100 files within a day, deletions of one account beyond
100 files in an hour or 500 in a day, and keeping fewer versions, which also tells how
many older versions go in that time. The owner of
the group cancels them with 'svcfs group keep', and an offer with 'svcfs group hand-over
GROUP none'.`,
		Example: "  svcfs group pending team",
		Args:    exactly(1, "one GROUP"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			p, err := g.Settings().Pending(ctx)
			if err != nil {
				return err
			}
			return a.printPendingOfGroup(args[0], p)
		}),
		ValidArgsFunction: a.completeGroup,
	}
}

func (a *app) printPendingOfGroup(group string, p sdk.Pending) error {
	var days *int64
	if !p.RetentionAt.IsZero() {
		days = &p.RetentionDays
	}
	if a.asJSON {
		doc := pendingDestruction{Group: group, RetentionDays: days, RetentionAt: timeOrNil(p.RetentionAt),
			Files: p.Files, FilesAt: timeOrNil(p.FilesAt),
			VersionsAt: timeOrNil(p.VersionsAt), Versions: p.Versions, GroupAt: timeOrNil(p.GroupAt),
			OfferedTo: p.OfferedTo, OfferFrom: timeOrNil(p.OfferFrom), OfferUntil: timeOrNil(p.OfferUntil)}
		if doc.VersionsAt != nil {
			doc.VersionsKeep = p.VersionsKeep.String()
		}
		return a.printJSON(doc)
	}
	if p.OfferedTo != "" {
		a.ui.printf("offered to %s, who may accept it from %s until %s\n", escapeName(string(p.OfferedTo)),
			timeText(p.OfferFrom), timeText(p.OfferUntil))
	}
	if p.GroupAt.IsZero() && days == nil && p.Files == 0 && p.VersionsAt.IsZero() && p.Versions == 0 {
		a.ui.printf("nothing waits to be destroyed\n")
		return nil
	}
	if !p.GroupAt.IsZero() {
		a.ui.printf("the group is deleted with all its files at %s\n", timeText(p.GroupAt))
	}
	if days != nil {
		a.ui.printf("retention becomes %s at %s\n", plural(int(*days), "day"), timeText(p.RetentionAt))
	}
	if p.Files > 0 {
		a.ui.printf("%s to be deleted, the first at %s\n", plural(int(p.Files), "file"), timeText(p.FilesAt))
	}
	if !p.VersionsAt.IsZero() {
		a.ui.printf("kept from %s on: %s\n", timeText(p.VersionsAt), keepText(p.VersionsKeep))
	}
	if p.Versions > 0 {
		a.ui.printf("%s to go because newer ones replaced them\n", plural(int(p.Versions), "older version"))
	}
	return nil
}

func (a *app) groupKeepCommand() *cobra.Command {
	return a.groupChangeCommand("keep GROUP", "Cancel all pending deletions of a group, also its own, and keep all "+
		"versions", "  svcfs group keep team",
		func(g sdk.Group, ctx context.Context) (sdk.Change, error) { return g.Settings().Keep(ctx) })
}
