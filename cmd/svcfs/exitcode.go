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
)

// commandError is a failure with an exit code of its own and the next step.
type commandError struct {
	code exitCode
	err  error
	hint string
}

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// refuse returns an error of this command, with what to do next.
func refuse(code exitCode, hint string, err error) error {
	return &commandError{code: code, err: err, hint: hint}
}

// usage returns a mistake in the command line or settings.
func usage(hint, text string) error { return refuse(exitUsage, hint, errors.New(text)) }

// exitCodeOf classifies err: our own refusals first, then the tree's, then the
// service's.
func exitCodeOf(err error) exitCode {
	var own *commandError
	var fromTree *tree.Error
	var refused *sdk.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
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

// exitCodeOfClassName is exitCodeOfClass of a class as a mount tells it.
func exitCodeOfClassName(name string) exitCode {
	for class := tree.ClassOther; class <= tree.ClassConflict; class++ {
		if class.String() == name {
			return exitCodeOfClass(class)
		}
	}
	return exitOther
}
