package main

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
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
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &fromTree):
		return exitCodeOfClass(fromTree.Class)
	case errors.Is(err, sdk.ErrSignIn) && errors.Is(err, sdk.ErrNotFound): // no such account
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
	case sdk.KindAudience, sdk.KindNotAuthorized, sdk.KindUnauthenticated:
		return exitAuth
	case sdk.KindNotFound, sdk.KindDeleted, sdk.KindCorrupt:
		return exitNotFound
	case sdk.KindInvalid:
		return exitUsage
	case sdk.KindInsufficient:
		return exitMoney
	case sdk.KindUnavailable, sdk.KindTimeout, sdk.KindRateLimited:
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
