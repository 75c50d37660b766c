package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// pages are the documents whose console blocks are run, each from its beginning in
// a shell and a home of its own.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		ok(t, err)
		found = append(found, more...)
	}
	return found
}

// The marks before a console block that is run. The second one is for the first block
// of a page: it begins with a service, the accounts alice and bob, and a group team.
const (
	markTest    = "<!-- test -->"
	markService = "<!-- test with a service -->"
)

// prelude is what a reader has done where markService stands.
var prelude = []pageStep{
	{"svcd serve --data ~/service --listen 127.0.0.1:8000 2> ~/service.log &", []string{"listening on …"}},
	{"svcd account create alice --data ~/service --balance 100 --api-key-file ~/alice.key", []string{"…"}},
	{"svcd account create bob --data ~/service --balance 100 --api-key-file ~/bob.key", []string{"…"}},
	{"export SVC_URL=http://127.0.0.1:8000 SVC_ACCOUNT_ID=alice.svc.testnet SVC_API_KEY_FILE=~/alice.key", nil},
	{"svcfs group create team", []string{"Group 'team' registered successfully"}},
}

// pageStep is one command with the output shown for it. In the output, … in a
// line stands for any text, and a line that is only … for any lines.
type pageStep struct {
	command string
	output  []string
}

// demoListing is a line of the demo's own output that looks like a command.
const demoListing = "$ ls -l …"

// pageSteps reads the console sessions of a page that are marked.
func pageSteps(t *testing.T, page string) (steps []pageStep) {
	t.Helper()
	text, err := os.ReadFile(page)
	ok(t, err)
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		switch {
		case lines[i] == markService && steps == nil:
			steps = slices.Clone(prelude)
		case lines[i] != markTest:
			continue
		}
		if i++; lines[i] != "```console" {
			t.Fatalf("%s line %d: a console block must follow the mark", page, i+1)
		}
		for i++; lines[i] != "```"; i++ {
			command, ok := strings.CutPrefix(lines[i], "$ ")
			if ok && lines[i] != demoListing {
				steps = append(steps, pageStep{command: command})
				continue
			}
			last := &steps[len(steps)-1]
			last.output = append(last.output, lines[i])
		}
	}
	return steps
}

// TestDocuments runs the console blocks of each page as a reader would, and compares
// what they print.
func TestDocuments(t *testing.T) {
	proctest.Need(t, "mount")
	bin := programs.Dir(t, "svcfs", "svcd")
	run := 0
	for _, page := range pages(t) {
		steps := pageSteps(t, page)
		if len(steps) == 0 {
			continue
		}
		if page == "../docs/tutorial.md" { // it works any number of times
			steps = slices.Concat(steps, steps)
		}
		run++
		t.Run(strings.TrimPrefix(page, "../"), func(t *testing.T) {
			home := t.TempDir()
			shell := startShell(t, home, bin)
			t.Cleanup(func() { proctest.UnmountBelow(home) })
			port := proctest.FreePort(t)
			for _, step := range steps {
				got := shell.run(t, strings.ReplaceAll(step.command, "8000", port))
				got = strings.ReplaceAll(got, port, "8000")
				if !regexp.MustCompile(outputPattern(step.output)).MatchString(got) {
					t.Fatalf("%s: $ %s\nprinted:\n%s\nthe page shows:\n%s", page, step.command, got,
						strings.Join(step.output, "\n"))
				}
			}
			if left := proctest.MountsBelow(home); len(left) > 0 {
				t.Errorf("the page leaves mounts behind: %v", left)
			}
		})
	}
	if run < 9 {
		t.Errorf("%d pages have marked blocks, want at least 9", run)
	}
}

// outputPattern makes the shown output an expression: … is any text, runs of
// blanks are any run of blanks.
func outputPattern(lines []string) string {
	var b strings.Builder
	b.WriteString(`\A`)
	for _, line := range lines {
		if line == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(line, "…")
		for i, part := range parts {
			words := regexp.MustCompile(` +`).Split(part, -1)
			for j, word := range words {
				words[j] = regexp.QuoteMeta(word)
			}
			parts[i] = strings.Join(words, ` +`)
		}
		b.WriteString(strings.Join(parts, `.*`) + `\n`)
	}
	b.WriteString(`\z`)
	return b.String()
}

func TestOutputPattern(t *testing.T) {
	for _, tc := range []struct {
		name, shown, printed string
		want                 bool
	}{
		{"equal", "a\nb", "a\nb\n", true},
		{"nothing", "", "", true},
		{"something where nothing is shown", "", "a\n", false},
		{"part of a line", "spent … tokens", "spent 0.039 tokens\n", true},
		{"lines", "a\n…\nz", "a\nb\nc\nz\n", true},
		{"no lines", "a\n…\nz", "a\nz\n", true},
		{"another line", "a\nz", "a\nb\nz\n", false},
		{"blanks", "14 alice", "14     alice\n", true},
		{"dots are dots", "a.b", "axb\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var lines []string
			if tc.shown != "" {
				lines = strings.Split(tc.shown, "\n")
			}
			if got := regexp.MustCompile(outputPattern(lines)).MatchString(tc.printed); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// pageShell is a bash that runs one command after the other.
type pageShell struct {
	in  *os.File
	log string // its standard output and error
	at  int64  // how much of it is read
	n   int
}

func startShell(t *testing.T, home, bin string) *pageShell {
	t.Helper()
	logPath := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8",
		"TMPDIR=" + t.TempDir(),
		"GORACE=atexit_sleep_ms=0"} // programs with the race detector else sleep for a second at their end
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, log, log
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_, _ = write.WriteString("\nkill $(jobs -p) 2>/dev/null; wait; exit\n")
		_ = write.Close()
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(proctest.Hang):
			cancel()
			<-ended
		}
		cancel()
	})
	return &pageShell{in: write, log: logPath}
}

// run runs one command and returns what it printed. One that ends in & is given
// time until its first line of output.
func (s *pageShell) run(t *testing.T, command string) string {
	t.Helper()
	s.n++
	mark := fmt.Sprintf("--- command %d is done", s.n)
	if strings.HasSuffix(command, "&") {
		fmt.Fprintf(s.in, "%s\n", command)
		got := s.until(t, command, "\n")
		return got
	}
	fmt.Fprintf(s.in, "%s\necho '%s'\n", command, mark)
	return strings.TrimSuffix(s.until(t, command, mark+"\n"), mark+"\n")
}

// until waits for text to appear in the log and returns what is new up to it.
func (s *pageShell) until(t *testing.T, command, text string) string {
	t.Helper()
	for deadline := time.Now().Add(proctest.Hang); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all, err := os.ReadFile(s.log)
		if err != nil {
			t.Fatal(err)
		}
		if before, _, ok := strings.Cut(string(all[s.at:]), text); ok {
			got := before + text
			s.at += int64(len(got))
			return got
		}
	}
	all, _ := os.ReadFile(s.log)
	t.Fatalf("$ %s\ndid not end within 2 minutes; it printed:\n%s", command, all[s.at:])
	return ""
}
