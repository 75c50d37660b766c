// Package apikey reads the API key of an account from a place where a program may
// keep it: the environment, a file closed to other users, the output of a
// command, the system keyring, or a file of stored keys. It does not take a key
// from the command line, which every user of a machine can read.
//
// Errors are [*sdk.Error]: [sdk.ErrInvalid] for a place that must not be used in
// its present state, [sdk.ErrUnauthenticated] for a place without a key. No error
// holds a key.
package apikey

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
)

// maxBytes is the largest input that is searched for a key, in bytes.
const maxBytes = 4096

// ErrNone means that a place holds no key. [First] then tries the next place.
var ErrNone = errors.New("no key is stored")

// ErrDamaged means that a file of keys does not have the form that [KeyFile] writes. The
// path stands before it in the error.
var ErrDamaged = errors.New("is damaged")

// Source reads the key from one place. from describes the place for a message. The error is
// [ErrNone] if there is no key.
type Source func(ctx context.Context) (key sdk.Secret, from string, err error)

// First returns the key of the first source that has one, and the description of that
// source. If a source cannot be used in its present state, First returns its error and
// tries no further source. If no source has a key, the error is [sdk.ErrUnauthenticated]
// and [ErrNone].
func First(ctx context.Context, sources ...Source) (key sdk.Secret, from string, err error) {
	for _, source := range sources {
		if key, from, err = source(ctx); !errors.Is(err, ErrNone) {
			return key, from, err
		}
	}
	return sdk.Secret{}, "", none("", ErrNone)
}

// Env returns the source of an environment variable. It removes the variable, so that no
// child process inherits the key.
func Env(variable string) Source {
	return func(context.Context) (sdk.Secret, string, error) {
		text, found := os.LookupEnv(variable)
		if !found || text == "" {
			return sdk.Secret{}, "", ErrNone
		}
		if err := os.Unsetenv(variable); err != nil {
			return sdk.Secret{}, "", invalid("", fmt.Errorf("remove %s from the environment: %w", variable, err))
		}
		key, err := Parse(text, variable)
		return key, variable, err
	}
}

// File returns the source of the first line of a file, see [ReadFile].
func File(path string) Source {
	return func(context.Context) (sdk.Secret, string, error) {
		key, err := ReadFile(path)
		return key, path, err
	}
}

// Command returns the source of the first line that a command prints, see [RunCommand].
func Command(command string, stderr io.Writer) Source {
	return func(ctx context.Context) (sdk.Secret, string, error) {
		key, err := RunCommand(ctx, command, stderr)
		return key, "command", err
	}
}

// Stored returns the source of the key that a store holds for an account at an address.
func Stored(in Store, address string, account sdk.AccountID) Source {
	return func(context.Context) (sdk.Secret, string, error) {
		key, err := in.Get(address, account)
		return key, in.Name(), err
	}
}

// ReadFile reads the key from the first line of the file at path. The file must keep the
// rules of package ownfile for secrets. A pipe, such as <(…) of a shell, has no rules.
func ReadFile(path string) (sdk.Secret, error) {
	f, err := ownfile.Open(path, ownfile.Secret)
	if err != nil {
		return sdk.Secret{}, invalid("", err)
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads the key from the first line of r. from describes r in messages.
func Read(r io.Reader, from string) (sdk.Secret, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxBytes+1)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return sdk.Secret{}, invalid("", fmt.Errorf("%s: %w", from, err))
	}
	if len(line) > maxBytes {
		return sdk.Secret{}, invalid(wire.CodeInvalidKey, fmt.Errorf("the API key from %s is longer than %d bytes",
			from, maxBytes))
	}
	return Parse(line, from)
}

// RunCommand runs command with /bin/sh and returns the first line of its output as the key.
// The command's standard error goes to stderr; nil discards it.
func RunCommand(ctx context.Context, command string, stderr io.Writer) (sdk.Secret, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	defer clear(out)
	if err != nil {
		return sdk.Secret{}, none("", fmt.Errorf("the key command: %w", err))
	}
	return Read(bytes.NewReader(out), "the key command")
}

// Parse returns text as a key. It refuses text that cannot be a key. from describes the
// place in messages.
func Parse(text, from string) (sdk.Secret, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return sdk.Secret{}, none(wire.CodeAuthRequired, fmt.Errorf("the API key from %s is empty", from))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sdk.Secret{}, invalid(wire.CodeInvalidKey,
			fmt.Errorf("the API key from %s holds characters that no key has", from))
	}
	return sdk.NewSecret(text), nil
}

// Op is the Op of every [sdk.Error] of this package.
const Op = "read API key"

// invalid returns the error for a place that must not be used in its present state.
func invalid(code string, err error) error {
	return &sdk.Error{Op: Op, Kind: sdk.ErrInvalid, Code: code, Err: err}
}

// none returns the error for a place without a key.
func none(code string, err error) error {
	return &sdk.Error{Op: Op, Kind: sdk.ErrUnauthenticated, Code: code, Err: err}
}
