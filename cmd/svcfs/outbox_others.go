package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/outbox"
)

// tellOthers names the outboxes of this user that hold saves and that no mount has, but for the one in own
// ("" = none): those of a service whose address changed, or of another account.
func (a *app) tellOthers(ctx context.Context, own string) {
	parent := a.userDir("XDG_STATE_HOME", ".local/state", "outbox")
	if parent == "" {
		return
	}
	found, err := outbox.Folders(parent)
	if err != nil {
		a.ui.notice("another outbox cannot be read: %v", err)
	}
	for _, f := range found {
		if f.Dir == own {
			continue
		}
		if conn, err := dialOutbox(ctx, f.Dir); !errors.Is(err, errNoMount) {
			if err == nil {
				_ = conn.Close()
			}
			continue
		}
		if f.Place == (outbox.Place{}) {
			a.ui.notice("%s in the outbox %s, which no mount has; a mount of the service and the account that it is of sends what is there", waitWords(f.Items), filepath.Base(f.Dir))
			continue
		}
		a.ui.notice("%s in the outbox of %s at %s, which no mount has; to send: svcfs mount --outbox --url %s --account %s DIR", waitWords(f.Items),
			escapeText(string(f.Place.Account)), escapeText(f.Place.Service), escapeText(shellWord(f.Place.Service)), escapeText(shellWord(string(f.Place.Account))))
	}
}
