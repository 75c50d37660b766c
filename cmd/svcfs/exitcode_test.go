package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
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
		{"audience", kind(sdk.KindAudience), exitAuth},
		{"not a member", kind(sdk.KindNotAuthorized), exitAuth},
		{"dead credentials", kind(sdk.KindUnauthenticated), exitAuth},
		{"not found", kind(sdk.KindNotFound), exitNotFound},
		{"deleted", kind(sdk.KindDeleted), exitNotFound},
		{"decryption failed", kind(sdk.KindCorrupt), exitNotFound},
		{"bad argument", kind(sdk.KindInvalid), exitUsage},
		{"balance", kind(sdk.KindInsufficient), exitMoney},
		{"down", kind(sdk.KindUnavailable), exitUnreachable},
		{"timeout", kind(sdk.KindTimeout), exitUnreachable},
		{"rate limited", kind(sdk.KindRateLimited), exitUnreachable},
		{"conflict", kind(sdk.KindConflict), exitOther},
		{"too large", kind(sdk.KindTooLarge), exitOther},
		{"wrapped", fmt.Errorf("outer: %w", kind(sdk.KindInsufficient)), exitMoney},
		{"deadline", fmt.Errorf("outer: %w", context.DeadlineExceeded), exitUnreachable},
		{"mount: credentials", class(tree.ClassRejected), exitAuth},
		{"mount: revoked", class(tree.ClassRevoked), exitAuth},
		{"mount: absent", class(tree.ClassNotExist), exitNotFound},
		{"mount: corrupt", class(tree.ClassCorrupt), exitNotFound},
		{"mount: budget", class(tree.ClassBudget), exitMoney},
		{"mount: unreachable", class(tree.ClassUnreachable), exitUnreachable},
		{"mount: busy", class(tree.ClassBusy), exitOther},
		{"ours wins", refuse(exitUsage, "", kind(sdk.KindUnavailable)), exitUsage},
		{"unknown", errors.New("something"), exitOther},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := exitCodeOf(tc.err); got != tc.want {
				t.Errorf("exitCodeOf(%v) = %d, want %d", tc.err, got, tc.want)
			}
		})
	}
}
