package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// pseudoTerminal is a terminal of the kernel's; what is written to it is kept.
type pseudoTerminal struct {
	t             *testing.T
	master, slave *os.File

	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{} // closed when everything was read
}

func openTerminal(t *testing.T, columns uint16) *pseudoTerminal {
	t.Helper()
	proctest.Need(t, "terminal")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pseudoTerminal{t: t, master: master, done: make(chan struct{})}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		p.slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.resize(columns)
	go func() {
		defer close(p.done)
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			p.mu.Lock()
			p.text.Write(part[:n])
			p.mu.Unlock()
			if err != nil { // EIO once nobody has it open any more
				return
			}
		}
	}()
	return p
}

func (p *pseudoTerminal) resize(columns uint16) {
	ok(p.t, unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
}

func (p *pseudoTerminal) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// until waits for a line that matches and returns it; meanwhile it does step
// again and again, a little slower than lines are drawn.
func (p *pseudoTerminal) until(pattern string, step func()) string {
	p.t.Helper()
	for deadline := time.Now().Add(proctest.Hang); time.Now().Before(deadline); time.Sleep(barEvery * 5 / 4) {
		step()
		for line := range strings.SplitSeq(p.shown(), eraseLine) {
			if regexp.MustCompile(pattern).MatchString(line) {
				return line
			}
		}
	}
	p.t.Fatalf("no %q on the terminal: %q", pattern, p.shown())
	return ""
}

// eraseLine is what the program sends before it draws another line.
const eraseLine = "\r\x1b[K"

// slowly lets the bodies of a path through in parts, each when it is asked for.
type slowly struct {
	next chan struct{}
	once *sync.Once
}

const slowParts = 64

// part lets one part through, if somebody waits for it.
func (s slowly) part() {
	select {
	case s.next <- struct{}{}:
	default:
	}
}

// rest lets everything else through.
func (s slowly) rest() { s.once.Do(func() { close(s.next) }) }

func (s slowly) copy(to io.Writer, from []byte) {
	for part := range slowParts {
		<-s.next
		_, _ = to.Write(from[len(from)*part/slowParts : len(from)*(part+1)/slowParts])
		if f, ok := to.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// answers slows the answers down.
func (s slowly) answers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, r)
		w.Header().Set("Content-Length", strconv.Itoa(whole.Body.Len()))
		w.WriteHeader(whole.Code)
		s.copy(w, whole.Body.Bytes())
	})
}

// requests slows the requests down.
func (s slowly) requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var whole bytes.Buffer
		step := max(r.ContentLength/slowParts, 1)
		for {
			<-s.next
			if n, _ := io.CopyN(&whole, r.Body, step); n < step {
				break
			}
		}
		r.Body = io.NopCloser(&whole)
		next.ServeHTTP(w, r)
	})
}

// barWorld is a service with a group, a file in it and one to be sent.
type barWorld struct {
	server *testkit.Server
	env    []string
	ref    sdk.Ref
	dir    string
}

func newBarWorld(t *testing.T, size int) *barWorld {
	t.Helper()
	s, alice, c := newHosted(t, testkit.Hosted)
	if _, err := c.Group("team").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	receipt, err := c.Group("team").Put(t.Context(), "f", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	w := &barWorld{server: s, ref: receipt.Ref, dir: t.TempDir()}
	ok(t, os.WriteFile(filepath.Join(w.dir, "a-file-with-a-name-that-is-rather-long-for-a-terminal.bin"), content,
		0o600))
	w.env = clientEnv(t, s, alice)
	return w
}

// clientEnv is the environment of svcfs for an account, with a home that is empty: another
// service may have been at this address before.
func clientEnv(t *testing.T, s *testkit.Server, account testkit.Account, more ...string) []string {
	t.Helper()
	return append(append(os.Environ(), envURL+"="+s.URL, envAccount+"="+string(account.ID),
		envKey+"="+account.Key.Reveal(), "HOME="+t.TempDir(), "XDG_STATE_HOME="), more...)
}

// On a terminal put and get show how far they are, in its width as it is now, and
// take the line away at the end.
func TestProgressOnATerminal(t *testing.T) {
	w := newBarWorld(t, 16<<20) // more than sockets hold
	for _, tc := range []struct {
		verb, path string
		slow       func(slowly) func(http.Handler) http.Handler
		args       []string
	}{
		{"fetching", wire.OpPrepareRetrieve, func(s slowly) func(http.Handler) http.Handler { return s.answers },
			[]string{"get", "team", string(w.ref), "-o", "out"}},
		{"uploading", wire.OpFinalizeUpload, func(s slowly) func(http.Handler) http.Handler { return s.requests },
			[]string{"put", "team", "a-file-with-a-name-that-is-rather-long-for-a-terminal.bin"}},
	} {
		t.Run(strings.Join(tc.args[:2], " "), func(t *testing.T) {
			slow := slowly{make(chan struct{}), new(sync.Once)}
			defer slow.rest()
			w.server.Disturb(wire.PathTools+tc.path, tc.slow(slow))
			const narrow, wide = 60, 130
			screen := openTerminal(t, narrow)
			var out bytes.Buffer
			cmd := w.command(t, &out, screen.slave, tc.args...)
			ok(t, cmd.Start())
			_ = screen.slave.Close()
			screen.until("^"+tc.verb+" ", func() {})
			screen.until(`[1-9]\S* MiB`, slow.part)
			for line := range strings.SplitSeq(screen.shown(), eraseLine) {
				if n := utf8.RuneCountInString(line); n >= narrow {
					t.Errorf("%d of %d columns: %q", n, narrow, line)
				}
			}
			screen.resize(wide)
			screen.until(fmt.Sprintf(`^.{%d,}$`, narrow), slow.part)
			slow.rest()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, screen.shown())
			}
			<-screen.done
			shown := screen.shown()
			if !strings.HasSuffix(shown, eraseLine) || strings.Contains(shown, "\n") {
				t.Errorf("the line stays: %q", shown)
			}
			if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), tc.verb) {
				t.Errorf("standard output: %q", out.String())
			}
		})
	}
}

func (w *barWorld) command(t *testing.T, out, errs io.Writer, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "svcfs", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, w.env, out, errs
	return cmd
}

// The width is asked for at every line: a terminal that was made wider shows
// more of the name.
func TestProgressFollowsTheWidth(t *testing.T) {
	screen := openTerminal(t, 50)
	a := &app{ui: newTerminal(io.Discard, screen.slave)}
	if !a.ui.live {
		t.Fatal("not seen as a terminal")
	}
	b := a.newBar("uploading", 1, 100)
	clock := time.Unix(0, 0)
	b.now = func() time.Time { return clock }
	b.marks = [2]moment{{at: clock}, {at: clock}}
	f := b.start("a-file-with-a-name-that-is-rather-long-for-a-terminal.bin", 100)
	for _, columns := range []uint16{50, 150, 30} {
		screen.resize(columns)
		clock = clock.Add(500 * time.Millisecond)
		f.report(int64(columns), 200)
		line := screen.until(fmt.Sprintf(`%d B of 100 B`, columns/2), func() {})
		if n := utf8.RuneCountInString(line); n >= int(columns) {
			t.Errorf("%d of %d columns: %q", n, columns, line)
		}
		if columns == 150 && !strings.Contains(line, "terminal.bin") {
			t.Errorf("%q", line)
		}
	}
	_ = screen.slave.Close()
}

// Without a terminal, and with --json, there is no progress at all.
func TestNoProgressWithoutATerminal(t *testing.T) {
	w := newBarWorld(t, 1<<20)
	for _, args := range [][]string{{"get", "team", string(w.ref), "-o", "out"},
		{"put", "team", "out", "--name", "again"}} {
		var out, errs bytes.Buffer
		if err := w.command(t, &out, &errs, args...).Run(); err != nil || errs.Len() > 0 {
			t.Errorf("%v: %v, %q", args, err, errs.String())
		}
		screen := openTerminal(t, 80)
		cmd := w.command(t, &out, screen.slave, append(args, "--json")...)
		ok(t, cmd.Start())
		_ = screen.slave.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		<-screen.done
		if screen.shown() != "" {
			t.Errorf("%v --json shows %q", args, screen.shown())
		}
	}
}

// A mount of a service that does not answer says on a terminal what it waits for,
// and takes the line away before it says that this was in vain.
func TestMountSaysWhatItWaitsFor(t *testing.T) {
	proctest.Need(t, "mount")
	w := newBarWorld(t, 16)
	for _, args := range [][]string{{"mount"}, {"mount", "--background"}} {
		asked, answer := make(chan struct{}, 100), make(chan struct{})
		w.server.Answer(wire.PathTools+wire.OpAuthStatus, func(w http.ResponseWriter, _ *http.Request) {
			asked <- struct{}{}
			<-answer
			w.WriteHeader(http.StatusForbidden)
		})
		screen := openTerminal(t, 100)
		cmd := w.command(t, io.Discard, screen.slave, append(args, t.TempDir())...)
		ok(t, cmd.Start())
		_ = screen.slave.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-asked:
		case err := <-ended:
			t.Fatalf("svcfs %v ended before it asked: %v, %s", args, err, screen.shown())
		}
		screen.until("^waiting for "+regexp.QuoteMeta(w.server.URL)+"$", func() {})
		close(answer)
		if <-ended == nil {
			t.Errorf("svcfs %v mounted", args)
		}
		<-screen.done
		if shown := screen.shown(); !strings.Contains(shown, w.server.URL+eraseLine+"svcfs: ") {
			t.Errorf("svcfs %v: %q", args, shown)
		}
	}
}

// O12: what sync and umount wait for shows on a terminal, on one line that is taken away. Without a terminal nothing of
// it shows, and nothing beside JSON.
func TestO12WaitingShowsOnATerminal(t *testing.T) {
	proctest.Need(t, "mount")
	s, alice, c := newHosted(t, testkit.Ours)
	if _, err := c.Group("team").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice)}
	dir := filepath.Join(w.dir, "m")
	ok(t, os.Mkdir(dir, 0o700))
	defer proctest.UnmountBelow(w.dir)
	shows := map[string]string{"sync": "^waiting for 1 save to be recorded, .* left",
		"umount": "^sending 1 save of the outbox before the mount ends, .* left"}
	for _, tc := range []struct {
		verb           string
		terminal, json bool
	}{{"sync", true, false}, {"sync", true, true}, {"umount", true, false}, {"umount", false, false},
		{"umount", true, true}} {
		name := fmt.Sprintf("%+v", tc)
		if len(proctest.MountsBelow(w.dir)) == 0 {
			if out, err := w.command(t, nil, nil, "mount", "--background", "--outbox",
				dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		asked, answer := make(chan struct{}, 100), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(answer) })
		defer goOn() // also when the test ends early
		for _, path := range []string{wire.PathSealed + "*", wire.PathTools + wire.OpFinalizeUploads} {
			s.Disturb(path, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked <- struct{}{}
					<-answer
					next.ServeHTTP(w, r)
				})
			})
		}
		ok(t, os.WriteFile(filepath.Join(dir, "team", name), []byte("12345"), 0o600))
		select {
		case <-asked:
		case <-time.After(proctest.Hang):
			t.Fatalf("%s: nothing is sent", name)
		}
		args := []string{tc.verb, dir}
		if tc.json {
			args = append(args, "--json")
		}
		var out, errs bytes.Buffer
		screen := openTerminal(t, 200)
		cmd := w.command(t, &out, &errs, args...)
		if tc.terminal {
			cmd.Stderr = screen.slave
		}
		ok(t, cmd.Start())
		_ = screen.slave.Close()
		switch {
		case tc.terminal && !tc.json:
			screen.until(shows[tc.verb], func() {})
		case tc.verb == "umount":
			proctest.Eventually(t, "it is unmounted", func() bool { return len(proctest.MountsBelow(w.dir)) == 0 })
		}
		if tc.json || !tc.terminal {
			time.Sleep(4 * barEvery) // it could show something
		}
		goOn()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v, %s", name, err, screen.shown())
		}
		<-screen.done
		shown := screen.shown() + errs.String()
		if lines := strings.Split(shown, eraseLine); tc.terminal && !tc.json && lines[len(lines)-1] != "" ||
			(tc.json || !tc.terminal) && strings.Contains(shown, eraseLine) {
			t.Errorf("%s shows %q", name, shown)
		}
		if text := out.String(); strings.Contains(text, "\x1b") || tc.json && !json.Valid(out.Bytes()) || !tc.json &&
			text != "" {
			t.Errorf("%s: standard output: %q", name, text)
		}
	}
}
