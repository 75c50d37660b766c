package main

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
)

// maxKeyBytes bounds what is read in search of an API key, in bytes.
const maxKeyBytes = 4096

// readKey fetches the API key from where the settings say it is.
func (a *app) readKey(ctx context.Context, from keySource) (sdk.Secret, error) {
	switch from.kind {
	case envKey:
		return parseKey(from.value, from.via)
	case envKeyFile:
		return a.readKeyFile(from.value)
	case envKeyCommand:
		return a.runKeyCommand(ctx, from.value)
	}
	return sdk.Secret{}, refuse(exitAuth, "set "+envKey+", or use --api-key-file FILE or --api-key-command COMMAND, or store it with: svcfs login", errors.New("no API key was given"))
}

func (a *app) readKeyFile(path string) (sdk.Secret, error) {
	if path == "-" {
		line, err := readKeyLine(a.stdin)
		if err != nil {
			return sdk.Secret{}, refuse(exitUsage, "pipe the key in: svcfs --api-key-file - … < FILE", fmt.Errorf("read API key from standard input: %w", err))
		}
		return parseKey(line, "standard input")
	}
	f, err := os.Open(path)
	if err != nil {
		return sdk.Secret{}, refuse(exitUsage, "check the path given to --api-key-file", fmt.Errorf("read API key: %w", err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sdk.Secret{}, fmt.Errorf("read API key: %w", err)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return sdk.Secret{}, usage("chmod 600 "+path, fmt.Sprintf("others may read the API key in %s (mode %04o)", path, info.Mode().Perm()))
	}
	line, err := readKeyLine(f)
	if err != nil {
		return sdk.Secret{}, refuse(exitUsage, "the file holds the key on its first line", fmt.Errorf("read API key from %s: %w", path, err))
	}
	return parseKey(line, path)
}

// runKeyCommand runs command by the shell; what it prints on standard error is
// shown, its first line of output is the key.
func (a *app) runKeyCommand(ctx context.Context, command string) (sdk.Secret, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stderr = a.ui.err
	out, err := cmd.Output()
	if err != nil {
		return sdk.Secret{}, refuse(exitAuth, "run the command by itself to see why", fmt.Errorf("--api-key-command: %w", err))
	}
	line, err := readKeyLine(bytes.NewReader(out))
	if err != nil {
		return sdk.Secret{}, refuse(exitAuth, "the command must print the key on its first line", fmt.Errorf("--api-key-command: %w", err))
	}
	return parseKey(line, "--api-key-command")
}

func readKeyLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxKeyBytes)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return line, nil
}

// parseKey refuses what cannot be a key, without ever showing it.
func parseKey(text, via string) (sdk.Secret, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return sdk.Secret{}, refuse(exitAuth, "the key begins with svc_sk_ and is shown once, when the account is made", fmt.Errorf("the API key from %s is empty", via))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sdk.Secret{}, usage("the key is one word that begins with svc_sk_", fmt.Sprintf("the API key from %s holds characters no key has", via))
	}
	return sdk.NewSecret(text), nil
}
