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

	"github.com/svcfs/svcfs/cmd/svcfs/internal/desktop"
)

// The answers of svcfs show.
const (
	showWhy       = "why"
	showVersions  = "versions"
	showMembers   = "members"
	showReference = "reference"
)

// The bounds of svcfs show.
const (
	showLimit     = 20 * time.Second // for the mount to answer
	shownVersions = 8                // in a notification; the newest
	shownMembers  = 12               // in a notification
	maxReference  = 4096             // of a reference, in bytes
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show why|versions|members|reference PATH",
		Short: "Show on the desktop what is known of a path in a mount",
		Long: `Answer a question about PATH in a mount: in a notification of the desktop where there is
one, and on standard output. The menus of file managers run it. PATH may be a file:// address.
  why        what failed there last, and the next step; as svcfs why
  versions   the newest versions of a file; as svcfs history
  members    the members of the group
  reference  the reference of the newest version, which it also puts into the clipboard
The mount answers all of it for free.`,
		Example: "  svcfs show why ~/groups/team/report.pdf\n  svcfs show reference ~/groups/team/report.pdf",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactly(2, "a question and one PATH")(cmd, args); err != nil {
				return err
			}
			if a.answers()[args[0]] == nil {
				return usage("ask why, versions, members or reference", fmt.Sprintf("svcfs show knows nothing of %q", args[0]))
			}
			return nil
		},
		RunE: a.simple(func(ctx context.Context, args []string) error { return a.show(ctx, args[0], args[1]) }),
	}
}

// answers are the functions that answer about a path, by question.
func (a *app) answers() map[string]func(ctx context.Context, path string) (desktop.Message, error) {
	return map[string]func(context.Context, string) (desktop.Message, error){
		showWhy: a.answerWhy, showVersions: answerVersions, showMembers: answerMembers, showReference: a.answerReference,
	}
}

func (a *app) show(ctx context.Context, question, place string) error {
	ctx, cancel := context.WithTimeout(ctx, showLimit)
	defer cancel()
	path, err := localPath(place)
	if err != nil {
		return err
	}
	type answer struct {
		desktop.Message
		err error
	}
	done := make(chan answer, 1)
	go func() {
		m, err := a.answers()[question](ctx, path)
		done <- answer{m, err}
	}()
	var got answer
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = refuse(exitUnreachable, "see: svcfs status", fmt.Errorf("the mount of %s does not answer", path))
	}
	m := got.Message
	m.Kind = desktop.Answer
	if got.err != nil {
		m.Title, m.Body = "svcfs cannot tell", desktop.Sentence(got.err.Error())+"\n"+desktop.Sentence(hintText(a.hints.of(got.err)))
	}
	a.showMessage(m)
	switch {
	case got.err != nil:
		return got.err
	case a.asJSON:
		return a.printJSON(m)
	}
	a.ui.printf("%s\n%s\n", m.Title, m.Body)
	return nil
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

func (a *app) answerWhy(ctx context.Context, path string) (m desktop.Message, err error) {
	dir, inside, err := mountHolding(path)
	if err != nil {
		return m, err
	}
	text, err := readControl(ctx, dir, "reasons")
	if err != nil {
		return m, err
	}
	found := reasonsAbout(parseReasons(text), inside)
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
		lines = append(lines, desktop.Sentence(fmt.Sprintf("%d: %s, %s, %s", v.Version, timeText(timeOf(v.Time)), roughSize(v.Size), v.Uploader)))
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
		return m, refuse(exitNotFound, "ask again once the file is uploaded; a folder has no reference", fmt.Errorf("no version of %s is recorded", path))
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
