package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/wire"
)

// readAnswer asks a question. An empty line means before.
func readAnswer(ctx context.Context, from io.Reader, to io.Writer, question, before string) (string, error) {
	question = escapeText(question)
	if before != "" {
		question += " [" + escapeText(before) + "]"
	}
	answer, err := cli.Ask(ctx, from, to, question+": ")
	return cmp.Or(answer, before), err
}

// withMode changes how a terminal takes what is typed, until restore is called.
func withMode(terminal *os.File, change func(*unix.Termios)) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("ask the terminal: %w", err)
	}
	changed := *before
	change(&changed)
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &changed); err != nil {
		return nil, fmt.Errorf("hide what is typed: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// showsTyping has a terminal give each key at once and show none: [typing] shows them.
func showsTyping(mode *unix.Termios) {
	mode.Lflag = mode.Lflag&^(unix.ECHO|unix.ICANON) | unix.ISIG
	mode.Iflag |= unix.ICRNL
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
}

// typing reads the lines that are typed, and shows them; of a secret only what it is.
// The keys that take back the last character and the whole line work; of a secret both take back the whole.
// Other keys, such as arrows, do nothing.
type typing struct {
	from   io.Reader
	to     io.Writer
	line   []byte
	shown  int    // columns of line
	escape byte   // of the key that sends more than one byte, and has not sent all: how it began; 0 = none
	ready  []byte // whole lines that were not read yet
}

// beginOfKey is what every API key begins with.
const beginOfKey = "svc_sk_"

// hasSecret reports whether a line holds an invite or an API key.
func (t *typing) hasSecret() bool {
	line := strings.TrimLeft(string(t.line), " ")
	return wire.IsInvite(line) || strings.HasPrefix(line, beginOfKey)
}

// noKey refuses an API key as an answer that would be shown, or sent as it is.
func noKey(answers ...string) error {
	if !slices.ContainsFunc(answers, func(answer string) bool { return strings.HasPrefix(answer, beginOfKey) }) {
		return nil
	}
	return usage("the key is asked for after the account, and is api_key in JSON", "an API key is no answer to this")
}

// Keys of a terminal.
const (
	keyEnd       = 0x04 // Ctrl-D
	keyBackspace = 0x08
	keyKill      = 0x15 // Ctrl-U
	keyEscape    = 0x1b // also the first byte of arrows and other keys
	keyDelete    = 0x7f
)

// Read is [io.Reader]. Ctrl-D on an empty line ends the input.
func (t *typing) Read(p []byte) (int, error) {
	for one := make([]byte, 1); len(t.ready) == 0; {
		n, err := t.from.Read(one)
		if n == 0 && err != nil || n > 0 && one[0] == keyEnd && len(t.line) == 0 {
			return 0, cmp.Or(err, io.EOF)
		}
		if n > 0 {
			t.take(one[0])
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

func (t *typing) take(key byte) {
	if t.inEscape(key) {
		return
	}
	isSecret := t.hasSecret()
	switch {
	case key == '\n':
		fmt.Fprintln(t.to)
		t.ready, t.line, t.shown = append(t.line, '\n'), nil, 0
	case key == keyKill || (key == keyDelete || key == keyBackspace) && isSecret:
		fmt.Fprint(t.to, strings.Repeat("\b \b", t.shown))
		t.line, t.shown = nil, 0
	case key == keyDelete || key == keyBackspace:
		if _, size := utf8.DecodeLastRune(t.line); size > 0 {
			fmt.Fprint(t.to, "\b \b")
			t.line, t.shown = t.line[:len(t.line)-size], t.shown-1
		}
	case key < ' ' || len(t.line) == cli.MaxAnswers:
	default:
		t.line = append(t.line, key)
		if isSecret {
			return
		}
		_, _ = t.to.Write([]byte{key})
		if utf8.RuneStart(key) {
			t.shown++
		}
		if t.hasSecret() {
			fmt.Fprint(t.to, "…")
			t.shown++
		}
	}
}

// inEscape reports whether a byte is of a key that sends more than one: ESC and a byte, ESC O and a byte, or ESC [
// and bytes up to a letter or ~. A control character ends it.
func (t *typing) inEscape(key byte) bool {
	switch {
	case key == keyEscape, t.escape == keyEscape && (key == '[' || key == 'O'):
		t.escape = key
		return true
	case t.escape == 0 || key < ' ':
		t.escape = 0
		return false
	case t.escape != '[' || key >= '@' && key != '[':
		t.escape = 0
	}
	return true
}

// givenConfig is --config as this command line has it, with a space behind it, for a command that a message names.
func (a *app) givenConfig() string {
	if a.flags.config == "" {
		return ""
	}
	return "--config " + shellWord(a.flags.config) + " "
}

// named is the service as the first question names it; "" = the settings name none, or each address.
func (s settings) named() string { return cmp.Or(s.config.URL, s.config.Network) }

// services are the one that the settings had, and the one that they shall have; "" = none is named.
func (q *setupSteps) services(s settings) (was, now string) {
	was = cmp.Or(q.old[envURL], q.old[envAuthURL], q.old[envNetwork])
	now = cmp.Or(s.config.URL, s.config.AuthURL, s.config.Network)
	return strings.TrimRight(was, "/"), strings.TrimRight(now, "/")
}

// unpin takes out of s what the file of the settings says about the log of another service.
func (q *setupSteps) unpin(s *settings) error {
	q.unpinned = nil
	if was, now := q.services(*s); was == "" || was == now {
		return nil
	}
	sources, err := q.a.settingSources()
	if err != nil {
		return err
	}
	nearer := sources[:len(sources)-1] // the file is the last
	s.config.LogKey, _ = nearer.Find(envLogKey)
	s.config.Witness, _ = nearer.Find(envWitness)
	s.config.WitnessAge, err = witnessAge(nearer)
	for _, name := range []string{envLogKey, envWitness, envWitnessAge} {
		if q.old[name] != "" {
			q.unpinned = append(q.unpinned, name)
		}
	}
	return err
}

// mayReplace refuses to put an account in the place of another one, of which the settings tell.
func (q *setupSteps) mayReplace(s settings) error {
	account := q.old[envAccount]
	at, now := q.services(s)
	if account == "" || account == string(s.account) && at == now {
		return nil
	}
	was := fmt.Sprintf("%s at %s", escapeName(account), cmp.Or(escapeName(at), "an unknown service"))
	if q.replace {
		q.replaced = was
		return nil
	}
	return refuse(exitUsage, "to have both, give this one a file of its own, here and to each command: --config FILE; "+
		"to change over: svcfs setup --replace",
		errors.New(q.a.configPath()+" has "+was+" already"))
}
