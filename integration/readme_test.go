package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// readmeBlock is a console session of README.md, marked with <!-- test -->.
type readmeBlock struct {
	line  int // of its first command
	steps []readmeStep
}

// readmeStep is one command with the output shown for it. In the output, … in a
// line stands for any text, and a line that is only … for any lines.
type readmeStep struct {
	command string
	output  []string
}

// demoListing is a line of the demo's own output that looks like a command.
const demoListing = "$ ls -l …"

func readmeBlocks(t *testing.T) []readmeBlock {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []readmeBlock
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] != "<!-- test -->" {
			continue
		}
		if i++; lines[i] != "```console" {
			t.Fatalf("README.md line %d: a console block must follow the mark", i+1)
		}
		block := readmeBlock{line: i + 2}
		for i++; lines[i] != "```"; i++ {
			command, ok := strings.CutPrefix(lines[i], "$ ")
			if ok && lines[i] != demoListing {
				block.steps = append(block.steps, readmeStep{command: command})
				continue
			}
			last := &block.steps[len(block.steps)-1]
			last.output = append(last.output, lines[i])
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// TestReadme runs the console blocks of README.md in one shell, as a reader
// would, with a home of its own, and compares what they print.
func TestReadme(t *testing.T) {
	blocks := readmeBlocks(t)
	if len(blocks) < 3 {
		t.Fatalf("README.md has %d marked blocks, want at least 3", len(blocks))
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no /dev/fuse")
	}
	home := t.TempDir()
	bin := programs.Dir(t, "svcfs", "svcd")
	shell := startShell(t, home, bin)
	t.Cleanup(func() { proctest.UnmountBelow(home) })
	port := proctest.FreePort(t)
	for _, block := range blocks {
		for _, step := range block.steps {
			got := shell.run(t, strings.ReplaceAll(step.command, "8000", port))
			got = strings.ReplaceAll(got, port, "8000")
			pattern := outputPattern(step.output)
			if !regexp.MustCompile(pattern).MatchString(got) {
				t.Fatalf("README.md, block at line %d: $ %s\nprinted:\n%s\nREADME shows:\n%s", block.line, step.command, got, strings.Join(step.output, "\n"))
			}
		}
	}
	if left := proctest.MountsBelow(home); len(left) > 0 {
		t.Errorf("the tour leaves mounts behind: %v", left)
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

// readmeShell is a bash that runs one command after the other.
type readmeShell struct {
	in  *os.File
	log string // its standard output and error
	at  int64  // how much of it is read
	n   int
}

func startShell(t *testing.T, home, bin string) *readmeShell {
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
	cmd.Env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TMPDIR=" + t.TempDir()}
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
		case <-time.After(20 * time.Second):
			cancel()
			<-ended
		}
		cancel()
	})
	return &readmeShell{in: write, log: logPath}
}

// run runs one command and returns what it printed. One that ends in & is given
// time until its first line of output.
func (s *readmeShell) run(t *testing.T, command string) string {
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
func (s *readmeShell) until(t *testing.T, command, text string) string {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
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
