// Package apikey finds an account's API key where a program may keep one: the
// environment, a file closed to others, the output of a command, the system
// keyring. There is no way to take it from a command line, which every user of a
// machine can read.
//
// Errors are [*sdk.Error]: [sdk.ErrInvalid] for a place that must not be used as
// it is, [sdk.ErrUnauthenticated] where no key came from it. No error holds a key.
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

// maxBytes bounds what is read in search of a key, in bytes.
const maxBytes = 4096

// ErrNone says that a place holds no key; [First] goes on to the next.
var ErrNone = errors.New("no key is stored")

// ErrDamaged says, after its path, that a file of keys is not what [KeyFile] wrote.
var ErrDamaged = errors.New("is damaged")

// Source is a place where a key may be. It tells in words where the key was, fit
// for a message. Without a key there the error is [ErrNone].
type Source func(ctx context.Context) (key sdk.Secret, from string, err error)

// First returns the key of the first source that has one, and where it was. A
// source that cannot be used as it is ends the search: it is never passed over
// in silence. Without any key the error is [sdk.ErrUnauthenticated] and [ErrNone].
func First(ctx context.Context, sources ...Source) (key sdk.Secret, from string, err error) {
	for _, source := range sources {
		if key, from, err = source(ctx); !errors.Is(err, ErrNone) {
			return key, from, err
		}
	}
	return sdk.Secret{}, "", none("", ErrNone)
}

// Env takes the key from an environment variable, which it removes: no child
// process inherits it.
func Env(variable string) Source {
	return func(context.Context) (sdk.Secret, string, error) {
		text, found := os.LookupEnv(variable)
		if !found || text == "" {
			return sdk.Secret{}, "", ErrNone
		}
		if err := os.Unsetenv(variable); err != nil {
			return sdk.Secret{}, "", invalid("", fmt.Errorf("take %s out of the environment: %w", variable, err))
		}
		key, err := Parse(text, variable)
		return key, variable, err
	}
}

// File takes the key from the first line of a file. See [ReadFile].
func File(path string) Source {
	return func(context.Context) (sdk.Secret, string, error) {
		key, err := ReadFile(path)
		return key, path, err
	}
}

// Command takes the key from the first line that a command prints. See
// [RunCommand].
func Command(command string, stderr io.Writer) Source {
	return func(ctx context.Context) (sdk.Secret, string, error) {
		key, err := RunCommand(ctx, command, stderr)
		return key, "command", err
	}
}

// Stored takes the key from where it was stored for an account at an address.
func Stored(in Store, address string, account sdk.AccountID) Source {
	return func(context.Context) (sdk.Secret, string, error) {
		key, err := in.Get(address, account)
		return key, in.Name(), err
	}
}

// ReadFile reads the key from the first line of the file at path, under the rules
// of package ownfile for secrets; a pipe, as the shell's <(…) makes, has none.
func ReadFile(path string) (sdk.Secret, error) {
	f, err := ownfile.Open(path, ownfile.Secret)
	if err != nil {
		return sdk.Secret{}, invalid("", err)
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads the key from the first line of r; from names r in messages.
func Read(r io.Reader, from string) (sdk.Secret, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxBytes+1)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return sdk.Secret{}, invalid("", fmt.Errorf("%s: %w", from, err))
	}
	if len(line) > maxBytes {
		return sdk.Secret{}, invalid(wire.CodeInvalidKey, fmt.Errorf("the API key from %s is longer than %d bytes", from, maxBytes))
	}
	return Parse(line, from)
}

// RunCommand runs command by /bin/sh; the first line it prints is the key, and
// what it says on standard error goes to stderr (nil: nowhere).
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

// Parse refuses what cannot be a key; from says in messages where it was.
func Parse(text, from string) (sdk.Secret, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return sdk.Secret{}, none(wire.CodeAuthRequired, fmt.Errorf("the API key from %s is empty", from))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sdk.Secret{}, invalid(wire.CodeInvalidKey, fmt.Errorf("the API key from %s holds characters no key has", from))
	}
	return sdk.NewSecret(text), nil
}

// Op is the [sdk.Error].Op of every error of this package.
const Op = "read API key"

// invalid is a place that must not be used as it is.
func invalid(code string, err error) error {
	return &sdk.Error{Op: Op, Kind: sdk.ErrInvalid, Code: code, Err: err}
}

// none is a place that gives no key.
func none(code string, err error) error {
	return &sdk.Error{Op: Op, Kind: sdk.ErrUnauthenticated, Code: code, Err: err}
}
