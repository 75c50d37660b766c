package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/outbox"
)

// tellOthersThan names the outboxes that hold saves beside that of a mount which begins.
func (a *app) tellOthersThan(ctx context.Context, s settings, p mountPlan) {
	if own, err := a.outboxDir(s); err == nil {
		a.tellOthers(ctx, p.screen, own)
	}
}

// tellOthers names the outboxes of this user that hold saves and that no mount has, but for the one in own
// ("" = none): those of a service whose address changed, or of another account.
func (a *app) tellOthers(ctx context.Context, ui *terminal, own string) {
	parent := a.userDir("XDG_STATE_HOME", ".local/state", "outbox")
	if parent == "" {
		return
	}
	found, err := outbox.Folders(parent)
	if err != nil {
		ui.notice("another outbox cannot be read: %v", err)
	}
	for _, f := range found {
		if f.Dir == own {
			continue
		}
		if conn, err := dialControl(ctx, f.Dir, outboxSocket); !errors.Is(err, errNoMount) {
			if err == nil {
				_ = conn.Close()
			}
			continue
		}
		if f.Place == (outbox.Place{}) {
			ui.notice("%s in the outbox %s, which no mount has; a mount of the service and the account that it is of "+
				"sends what is there", waitWords(f.Items), filepath.Base(f.Dir))
			continue
		}
		ui.notice("%s in the outbox of %s at %s, which no mount has; to send: svcfs mount --outbox --url %s "+
			"--account %s DIR", waitWords(f.Items),
			escapeText(string(f.Place.Account)), escapeText(f.Place.Service), escapeText(shellWord(f.Place.Service)),
			escapeText(shellWord(string(f.Place.Account))))
	}
}
