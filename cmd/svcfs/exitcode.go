package main

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// The exit codes, see package cli.
type exitCode = cli.ExitCode

const (
	exitOK          = cli.ExitOK
	exitAuth        = cli.ExitAuth
	exitNotFound    = cli.ExitNotFound
	exitUsage       = cli.ExitUsage
	exitMoney       = cli.ExitMoney
	exitUnreachable = cli.ExitUnreachable
	exitOther       = cli.ExitOther
	exitProof       = cli.ExitProof
	exitInterrupted = cli.ExitInterrupted
)

// refuse returns an error of this command, with what to do next.
func refuse(code exitCode, hint string, err error) error { return cli.Refuse(code, hint, err) }

// usage returns a mistake in the command line or settings.
func usage(hint, text string) error { return refuse(exitUsage, hint, errors.New(text)) }

// exitCodeOf classifies err: our own refusals first, then the tree's, then the
// service's.
func exitCodeOf(err error) exitCode {
	var fromTree *tree.Error
	var refused *sdk.Error
	own := cli.FailureOf(err)
	switch {
	case err == nil:
		return exitOK
	case own != nil:
		return own.Code
	case isProof(err):
		return exitProof
	case errors.As(err, &fromTree):
		return exitCodeOfClass(fromTree.Class)
	case errors.As(err, &refused) && refused.Code == wire.CodeAccountUnknown: // the account that signs in
		return exitAuth
	}
	if code := exitCodeOfKind(sdk.KindOf(err)); code != exitOther {
		return code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exitUnreachable
	}
	return exitOther
}

// isProof reports whether what the service showed was proven false: its history, its keys, or the
// receipt of a save. Content that does not decrypt, or that its uploader recorded wrongly, is not that.
func isProof(err error) bool {
	var refused *sdk.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case wire.CodeHistory, wire.CodeLogKey, wire.CodeNoWitness, wire.CodeVaultKey, wire.CodeReceipt:
		return true
	}
	return false
}

func exitCodeOfKind(kind sdk.Kind) exitCode {
	switch kind {
	case sdk.ErrAudience, sdk.ErrNotAuthorized, sdk.ErrUnauthenticated:
		return exitAuth
	case sdk.ErrNotFound, sdk.ErrDeleted, sdk.ErrCorrupt:
		return exitNotFound
	case sdk.ErrInvalid:
		return exitUsage
	case sdk.ErrInsufficient:
		return exitMoney
	case sdk.ErrUnavailable, sdk.ErrTimeout, sdk.ErrRateLimited:
		return exitUnreachable
	}
	return exitOther
}

func exitCodeOfClass(class tree.Class) exitCode {
	switch class {
	case tree.ClassRejected, tree.ClassAccess, tree.ClassRevoked:
		return exitAuth
	case tree.ClassNotExist, tree.ClassCorrupt:
		return exitNotFound
	case tree.ClassInvalid:
		return exitUsage
	case tree.ClassBudget:
		return exitMoney
	case tree.ClassUnreachable, tree.ClassTimeout:
		return exitUnreachable
	}
	return exitOther
}

// exitCodeOfLook is exitCodeOfClass for a look at the lists of the service, as a mount tells it: a list
// holds no content, so that a corrupt one is one that is not proven.
func exitCodeOfLook(name string) exitCode {
	if name == tree.ClassCorrupt.String() {
		return exitProof
	}
	for class := tree.ClassOther; class <= tree.ClassConflict; class++ {
		if class.String() == name {
			return exitCodeOfClass(class)
		}
	}
	return exitOther
}
