package desktop

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// told collects messages, at a time that the test sets.
type told struct {
	now  time.Time
	list []Message
	err  error
}

func (d *told) teller() *Teller {
	return &Teller{Now: func() time.Time { return d.now }, Tell: func(_ context.Context, m Message) error {
		if d.err == nil {
			d.list = append(d.list, m)
		}
		return d.err
	}}
}

func save(name string) Thing {
	return Thing{Kind: NotUploaded, Key: name, Path: "/m/" + name, Step: "Do it."}
}

func TestTellerTellsOnceAndTogether(t *testing.T) {
	d := &told{now: time.Unix(1e9, 0)}
	teller := d.teller()
	steps := []struct {
		after  time.Duration
		things []Thing
		want   string // of all new messages
	}{
		{0, nil, ""},
		{0, []Thing{save("a")}, "A save is not uploaded\n“/m/a”\nDo it."},
		{time.Second, []Thing{save("a"), save("b")}, ""},
		{time.Second, []Thing{save("a"), save("b"), {Kind: Died, Key: "m", Path: "/m", Note: "x"}},
			"A mount died\n“/m”: x"},
		// b ended before it was told
		{time.Second, []Thing{save("a"), save("c"), save("d"), save("e"), save("f"), save("c")}, ""},
		{Pause, []Thing{save("a"), save("c"), save("d"), save("e"), save("f")},
			"4 saves are not uploaded\n“/m/c”\n“/m/d”\n“/m/e”\nand 1 more\nDo it."},
		{Pause, []Thing{save("a"), save("c")}, ""},
		{Pause, []Thing{save("c")}, ""},
		{Pause, []Thing{save("a"), save("c")}, "A save is not uploaded\n“/m/a”\nDo it."}, // it had ended
	}
	for i, step := range steps {
		d.now, d.list = d.now.Add(step.after), nil
		teller.Look(t.Context(), step.things)
		var got []string
		for _, m := range d.list {
			got = append(got, m.Title+"\n"+m.Body)
		}
		if text := strings.Join(got, "\n"); text != step.want {
			t.Errorf("look %d told %q, want %q", i, text, step.want)
		}
	}
}

// What could not be shown is told a minute later, once.
func TestTellerTriesAgain(t *testing.T) {
	d := &told{now: time.Unix(1e9, 0), err: errors.New("no desktop")}
	teller := d.teller()
	teller.Look(t.Context(), []Thing{save("a")})
	d.err = nil
	teller.Look(t.Context(), []Thing{save("a")})
	if len(d.list) != 0 {
		t.Errorf("at once: %v", d.list)
	}
	for range 3 {
		d.now = d.now.Add(Pause)
		teller.Look(t.Context(), []Thing{save("a")})
	}
	if len(d.list) != 1 {
		t.Errorf("told %d times", len(d.list))
	}
}

// Threat 7: a name cannot end its quotes, begin a line, act on a screen, be a link or be endless.
func TestThreat7NamesInMessages(t *testing.T) {
	hostile := save("x”\nA mount died\x1b[2J\u202e www.example.org http://example.org <b>&" +
		strings.Repeat("long", 1000))
	hostile.Note, hostile.Step = strings.Repeat("n\n", 1000), strings.Repeat("s\u2028", 1000)
	d := &told{}
	d.teller().Look(t.Context(), []Thing{hostile})
	m := d.list[0]
	if m.Title != "A save is not uploaded" || strings.Count(m.Body, "\n") != 1 || strings.Count(m.Body, "”") != 1 ||
		strings.ContainsAny(m.Body, "\x1b\u202e\u2028") {
		t.Errorf("told %q", m)
	}
	if n := utf8.RuneCountInString(m.Body); n > maxPath+2*maxStep+10 {
		t.Errorf("%d characters", n)
	}
	link := Quote("/m/www.example.org http://example.org <b>&")
	if strings.Contains(link, "www.") || strings.Contains(link, "://") {
		t.Errorf("a link: %q", link)
	}
	// What the shell of GNOME makes a link of.
	links := regexp.MustCompile("(?i)(?:^|[\\s`(\\[{'\"<«“‘])" +
		"(?:(?:http|https|ftp)://|www\\d{0,3}[.]|[a-z0-9.\\-]+[.][a-z]{2,4}/)")
	for _, name := range []string{"WwW.example", "www3.é", "example.org/x", "a.b.Co/", "a-.xx/", "a..xx/", "www.1",
		"HTTP://x"} {
		if got := Quote(name); links.MatchString(got) || !links.MatchString(name) ||
			strings.ReplaceAll(got, "\u2060", "") != "“"+name+"”" {
			t.Errorf("a link: %q", got)
		}
	}
	if got := Sentence("0.039 tokens. Or 1.5."); got != "0.039 tokens. Or 1.5." {
		t.Errorf("no link: %q", got)
	}
	if got := Markup(Quote("/<b>&amp;")); got != "“/&lt;b&gt;&amp;amp;”" {
		t.Errorf("markup %q", got)
	}
}

// A flood of things costs bounded memory and one message.
func TestTellerIsBounded(t *testing.T) {
	d := &told{}
	var flood []Thing
	for i := range 3 * maxKnown {
		flood = append(flood, save(fmt.Sprint(i)))
	}
	teller := d.teller()
	teller.Look(t.Context(), flood)
	teller.Look(t.Context(), flood)
	if len(d.list) != 1 || d.list[0].Title != fmt.Sprintf("%d saves are not uploaded", maxKnown) ||
		len(teller.known[NotUploaded]) != maxKnown {
		t.Errorf("%d messages, %d known", len(d.list), len(teller.known[NotUploaded]))
	}
}

// Only sockets of this machine are a session bus: another address could start a program.
func TestAddressesOfTheBus(t *testing.T) {
	for _, address := range []string{"", "autolaunch:", "unixexec:path=/bin/true", "tcp:host=127.0.0.1,port=1",
		"unix:path=/none;tcp:host=x", "unix:path=/none"} {
		if _, err := Connect(t.Context(), address); !errors.Is(err, ErrNoBus) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
