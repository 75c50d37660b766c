package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/cmd/svcfs/internal/desktop"
)

// The bounds of an answer that a notification shows.
const (
	answerLimit   = 20 * time.Second // for the mount to answer
	shownVersions = 8                // the newest
	shownMembers  = 12
	maxReference  = 4096 // of a reference, in bytes
)

// answerFunc answers a question about a path in a mount. It asks the mount alone.
type answerFunc func(ctx context.Context, path string) (desktop.Message, error)

// offerNotify gives a command the flag --notify: then it answers about a path in a mount, asks
// neither for an account nor for a service, and shows the answer as a notification. The menus of
// file managers run it.
func (a *app) offerNotify(cmd *cobra.Command, answer answerFunc) *cobra.Command {
	var notify bool
	cmd.Flags().BoolVar(&notify, "notify", false,
		"answer about PATH in a mount, or its file:// address, as a notification of the desktop; for menus of file "+
			"managers")
	cli.Rare(cmd.Flags(), "notify")
	checkArgs, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if notify {
			return exactly(1, "one PATH with --notify")(cmd, args)
		}
		return checkArgs(cmd, args)
	}
	tell := a.simple(func(ctx context.Context, args []string) error { return a.tell(ctx, args[0], answer) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if notify {
			return tell(cmd, args)
		}
		return run(cmd, args)
	}
	return cmd
}

// tell shows the answer about a path as a notification where there is a desktop, and prints it.
func (a *app) tell(ctx context.Context, place string, answer answerFunc) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	path, err := localPath(place)
	if err != nil {
		return err
	}
	m, err := answerInTime(ctx, path, answer)
	m.Kind = desktop.Answer
	if err != nil {
		m.Title = "svcfs cannot tell"
		m.Body = desktop.Sentence(err.Error()) + "\n" + desktop.Sentence(cli.HintText(a.hints.of(err)))
	}
	a.showMessage(m)
	switch {
	case err != nil:
		return err
	case a.asJSON:
		return a.printJSON(m)
	}
	a.ui.printf("%s\n%s\n", m.Title, m.Body)
	return nil
}

// answerInTime gives up an answer when ctx ends: a mount may not answer at all.
func answerInTime(ctx context.Context, path string, answer answerFunc) (desktop.Message, error) {
	type result struct {
		desktop.Message
		err error
	}
	done := make(chan result, 1)
	go func() {
		m, err := answer(ctx, path)
		done <- result{m, err}
	}()
	select {
	case got := <-done:
		return got.Message, got.err
	case <-ctx.Done():
		err := fmt.Errorf("the mount of %s does not answer", path)
		return desktop.Message{}, refuse(exitUnreachable, "see: svcfs status", err)
	}
}

// showMessage shows a message where there is a desktop.
func (a *app) showMessage(m desktop.Message) {
	ctx := context.Background() // also when the answer took all of its time
	bus, err := desktop.Connect(ctx, a.busAddress())
	if err != nil {
		return
	}
	defer bus.Close()
	if err := bus.Tell(ctx, m); err != nil {
		a.ui.notice("%v", err)
	}
}

// localPath is the path that a file manager names, as a path or as an address.
func localPath(place string) (string, error) {
	if !strings.HasPrefix(place, "file://") {
		return filepath.Abs(place)
	}
	u, err := url.Parse(place)
	if err != nil || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
		return "", usage("name a file of this machine", "this is no file of this machine: "+place)
	}
	return u.Path, nil
}

func answerWhy(ctx context.Context, path string) (m desktop.Message, err error) {
	dir, _, found, err := reasonsAt(ctx, path)
	if err != nil {
		return m, err
	}
	if len(found) == 0 {
		return desktop.Message{Title: "Nothing failed here", Body: desktop.Quote(path)}, nil
	}
	r, lines := found[0], []string{desktop.Quote(dir + found[0].Path)}
	doc := docOf(dir, r)
	for _, text := range []string{doc.Error, stagedWords(r), waitsWords(r.Waits), doc.Hint} {
		if text != "" {
			lines = append(lines, desktop.Sentence(text))
		}
	}
	if more := len(found) - 1; more > 0 {
		lines = append(lines, plural(more, "more path"))
	}
	lines = append(lines, desktop.Sentence("All of it: svcfs why "+shellWord(path)))
	return desktop.Message{Title: "What failed here", Body: strings.Join(lines, "\n")}, nil
}

func answerVersions(_ context.Context, path string) (m desktop.Message, err error) {
	versions, err := versionsAt(path)
	if err != nil {
		return m, err
	}
	lines := []string{desktop.Quote(path)}
	for _, v := range versions[max(len(versions)-shownVersions, 0):] {
		lines = append(lines, desktop.Sentence(fmt.Sprintf("%d: %s, %s, %s", v.Version, timeText(timeOf(v.Time)),
			roughSize(v.Size), v.Uploader)))
	}
	lines = append(lines, desktop.Sentence("Bring one back: svcfs restore --version N "+shellWord(path)))
	return desktop.Message{Title: plural(len(versions), "version"), Body: strings.Join(lines, "\n")}, nil
}

func answerMembers(ctx context.Context, path string) (m desktop.Message, err error) {
	dir, inside, err := mountHolding(path)
	if err != nil {
		return m, err
	}
	group, _, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	if group == "" {
		return m, usage("ask about a group, or a file in one", path+" is in no group")
	}
	text, err := readControl(ctx, dir, filepath.Join("..", group, ".svcfs", "members"))
	if err != nil {
		return m, mountRefused(err, path)
	}
	members := strings.Fields(string(text))
	lines := []string{desktop.Quote(filepath.Join(dir, group))}
	for _, member := range members[:min(len(members), shownMembers)] {
		lines = append(lines, desktop.Sentence(member))
	}
	if more := len(members) - shownMembers; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return desktop.Message{Title: plural(len(members), "member"), Body: strings.Join(lines, "\n")}, nil
}

func (a *app) answerReference(ctx context.Context, path string) (m desktop.Message, err error) {
	if _, _, err := mountHolding(path); err != nil {
		return m, err
	}
	text := make([]byte, maxReference)
	n, err := unix.Lgetxattr(path, "user.svcfs.ref", text)
	if errors.Is(err, unix.ENODATA) {
		return m, refuse(exitNotFound, "ask again once the file is uploaded; a folder has no reference",
			fmt.Errorf("no version of %s is recorded", path))
	}
	if err != nil {
		return m, mountRefused(err, path)
	}
	ref := string(text[:n])
	m = desktop.Message{Title: "The reference", Body: desktop.Sentence(ref) + "\n" + desktop.Quote(path)}
	if a.copy(ctx, ref) {
		m.Title = "The reference is in the clipboard"
	}
	return m, nil
}

// copy puts a text into the clipboard of the desktop, by what is there to do it.
func (a *app) copy(ctx context.Context, text string) bool {
	if bus, err := desktop.Connect(ctx, a.busAddress()); err == nil {
		defer bus.Close()
		if bus.Copy(ctx, text) == nil {
			return true
		}
	}
	var ways [][]string
	if a.env.get("WAYLAND_DISPLAY") != "" {
		ways = append(ways, []string{"wl-copy"})
	}
	if a.env.get("DISPLAY") != "" {
		ways = append(ways, []string{"xclip", "-selection", "clipboard"}, []string{"xsel", "--clipboard", "--input"})
	}
	for _, way := range ways {
		cmd := exec.CommandContext(ctx, way[0], way[1:]...)
		cmd.Stdin, cmd.Dir = strings.NewReader(text), "/"
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return false
		}
		cmd.Stdout, cmd.Stderr = null, null // they leave a process behind, which would keep a pipe
		err = cmd.Run()
		_ = null.Close()
		if err == nil {
			return true
		}
	}
	return false
}
