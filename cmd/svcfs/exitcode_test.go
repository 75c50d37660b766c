package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

func TestExitCodeOf(t *testing.T) {
	kind := func(k sdk.Kind) error { return &sdk.Error{Op: "upload", Kind: k} }
	class := func(c tree.Class) error {
		return &tree.Error{Class: c, Op: "open", Path: "/g/f", Err: errors.New("why")}
	}
	for _, tc := range []struct {
		name string
		err  error
		want exitCode
	}{
		{"nothing", nil, exitOK},
		{"audience", kind(sdk.ErrAudience), exitAuth},
		{"not a member", kind(sdk.ErrNotAuthorized), exitAuth},
		{"dead credentials", kind(sdk.ErrUnauthenticated), exitAuth},
		{"not found", kind(sdk.ErrNotFound), exitNotFound},
		{"deleted", kind(sdk.ErrDeleted), exitNotFound},
		{"decryption failed", kind(sdk.ErrCorrupt), exitNotFound},
		{"another history", &sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeHistory}, exitProof},
		{"another history, in a mount", &tree.Error{Class: tree.ClassCorrupt,
			Err: &sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeHistory}}, exitProof},
		{"no receipt", &sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeReceipt}, exitProof},
		{"recorded wrongly", &sdk.Error{Kind: sdk.ErrCorrupt, Err: sdk.ErrWrongContent}, exitNotFound},
		{"bad argument", kind(sdk.ErrInvalid), exitUsage},
		{"balance", kind(sdk.ErrInsufficient), exitMoney},
		{"down", kind(sdk.ErrUnavailable), exitUnreachable},
		{"timeout", kind(sdk.ErrTimeout), exitUnreachable},
		{"rate limited", kind(sdk.ErrRateLimited), exitUnreachable},
		{"conflict", kind(sdk.ErrConflict), exitOther},
		{"too large", kind(sdk.ErrTooLarge), exitOther},
		{"wrapped", fmt.Errorf("outer: %w", kind(sdk.ErrInsufficient)), exitMoney},
		{"deadline", fmt.Errorf("outer: %w", context.DeadlineExceeded), exitUnreachable},
		{"mount: credentials", class(tree.ClassRejected), exitAuth},
		{"mount: revoked", class(tree.ClassRevoked), exitAuth},
		{"mount: absent", class(tree.ClassNotExist), exitNotFound},
		{"mount: corrupt", class(tree.ClassCorrupt), exitNotFound},
		{"mount: budget", class(tree.ClassBudget), exitMoney},
		{"mount: unreachable", class(tree.ClassUnreachable), exitUnreachable},
		{"mount: busy", class(tree.ClassBusy), exitOther},
		{"ours wins", refuse(exitUsage, "", kind(sdk.ErrUnavailable)), exitUsage},
		{"unknown", errors.New("something"), exitOther},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := exitCodeOf(tc.err); got != tc.want {
				t.Errorf("exitCodeOf(%v) = %d, want %d", tc.err, got, tc.want)
			}
		})
	}
}
