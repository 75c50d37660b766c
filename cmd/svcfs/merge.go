package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/svcfs/svcfs/sdk"
)

// maxMerged is the largest file that is merged, in bytes: it is held in memory up to four times.
const maxMerged = 64 << 20

// longestExtension bounds what a merge program is told of the name of a file, in bytes.
const longestExtension = 16

// gitMerge is what --merge git runs.
const gitMerge = `git merge-file -p -L mine -L base -L theirs "$MINE" "$BASE" "$THEIRS" > "$MERGED"`

// mergeConflict runs a command of the shell on the versions of a conflict, as files in memory, and returns what it
// wrote. It costs a retrieval of each version.
func (a *app) mergeConflict(ctx context.Context, g sdk.Group, one *conflict, account sdk.AccountID,
	command string) (merged string, err error) {
	if command == "git" {
		command = gitMerge
	}
	if one.noBase != "" {
		a.ui.notice("%s: BASE is empty", one.noBase)
	}
	lock, err := a.memoryFolder()
	if err != nil {
		return "", err
	}
	dir := lock.Name()
	defer lock.Close()
	defer os.RemoveAll(dir)
	ext := extensionOf(one.Name)
	mine, theirs := &one.copied, one.theirs
	if isCopy, err := one.keepsCopy(keepMine, account); err == nil && !isCopy {
		mine, theirs = theirs, mine
	}
	env := os.Environ() // the API key was taken out
	for name, e := range map[string]*sdk.Entry{"MINE": mine, "THEIRS": theirs, "BASE": one.base} {
		at := filepath.Join(dir, name+ext)
		if err := fetchInto(ctx, g, e, at); err != nil {
			return "", err
		}
		env = append(env, name+"="+at)
	}
	at := filepath.Join(dir, "MERGED"+ext)
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(env, "MERGED="+at), a.stdin, a.ui.err, a.ui.err
	cmd.ExtraFiles = []*os.File{lock} // the folder is in use while the program runs, also without this one
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if command == gitMerge {
			err = fmt.Errorf("git cannot merge them without a choice: %w", err)
		}
		return "", refuse(exitOther, "nothing was changed; merge with another program, or keep mine, theirs or both",
			fmt.Errorf("the program that merges: %w", err))
	}
	text, err := readMerged(at)
	if err != nil {
		return "", refuse(exitOther, "nothing was changed; the command writes the file $MERGED",
			fmt.Errorf("what the program merged: %w", err))
	}
	return string(text), nil
}

// fetchInto writes the content of a version to a file; nil is an empty one.
func fetchInto(ctx context.Context, g sdk.Group, e *sdk.Entry, at string) error {
	if e == nil {
		return os.WriteFile(at, nil, 0o600)
	}
	if e.Size > maxMerged {
		return refuse(exitOther, "settle it with --keep", fmt.Errorf("a version has %s: up to %s are merged",
			roughSize(e.Size), roughSize(maxMerged)))
	}
	file, err := g.OpenEntry(ctx, *e)
	if err != nil {
		return err
	}
	defer file.Close()
	content, err := readAtMost(file, maxMerged) // the size may be unknown
	if err != nil {
		return err
	}
	return os.WriteFile(at, content, 0o600)
}

// extensionOf returns the extension of a name, "" for one that a command of the shell could read as something else:
// others give files their names.
func extensionOf(name string) string {
	ext := path.Ext(path.Base(name))
	if len(ext) > longestExtension || strings.ContainsFunc(strings.TrimPrefix(ext, "."), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return ""
	}
	return ext
}

// readMerged reads what a command wrote, if that is a file.
func readMerged(at string) ([]byte, error) {
	if info, err := os.Stat(at); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, errors.New("it is no file"))
	}
	f, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, maxMerged)
}

// readAtMost reads up to limit bytes, of which there may not be more.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %s", roughSize(limit))
	}
	return text, err
}
