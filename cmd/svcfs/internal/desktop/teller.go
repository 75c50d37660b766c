// Package desktop tells the user of a desktop what happened in mounts, by notifications over
// the session bus. It decides how often something is told, and makes other people's names
// harmless; what is told is the caller's.
package desktop

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk/names"
)

// Kind is what sort of thing happened. At most one message of a kind is told in [Pause].
type Kind string

// The kinds.
const (
	NotUploaded Kind = "not uploaded" // a save is not recorded, and does not just wait its turn
	Conflict    Kind = "conflict"     // two saved the same name
	Revoked     Kind = "revoked"      // a group is gone from the account
	Budget      Kind = "budget"       // most of the budget is spent
	Died        Kind = "died"         // a mount ended without being unmounted

	Answer Kind = "answer" // to a question of the user; a [Teller] tells none
)

// kinds are those that a [Teller] tells, in the order in which they are told.
func kinds() []Kind { return []Kind{Died, NotUploaded, Conflict, Revoked, Budget} }

// title is the first line of a message about n things. No name of others stands in it.
func (k Kind) title(n int) string {
	one, many := "", ""
	switch k {
	case NotUploaded:
		one, many = "A save is not uploaded", "%d saves are not uploaded"
	case Conflict:
		one, many = "Somebody else saved the same file", "Others saved %d of the same files"
	case Revoked:
		one, many = "You are no longer a member of a group", "You are no longer a member of %d groups"
	case Budget:
		one, many = "Most of the budget is spent", "Most of %d budgets is spent"
	case Died:
		one, many = "A mount died", "%d mounts died"
	}
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}

// The bounds of what is told.
const (
	// Pause is the least time between two messages of a kind.
	Pause = time.Minute
	// shownThings is how many things a message names.
	shownThings = 3
	// maxPath bounds a path, and maxStep a sentence, in characters.
	maxPath, maxStep = 90, 240
	// maxKnown bounds the things of a kind that are remembered. What comes when there are so
	// many is not told before some end.
	maxKnown = 10000
)

// Thing is something to tell.
type Thing struct {
	Kind Kind
	Key  string // what tells it from others of its kind while it lasts
	Path string // of what it happened to: others may have named it
	Note string // what follows the path; "" = nothing
	Step string // the next step for the user
}

// Message is one notification.
type Message struct {
	Kind  Kind   `json:"kind"`
	Title string `json:"title"`
	Body  string `json:"body"` // lines of plain text
}

// Teller decides what is told when: each thing once until it ends, at most one message of a
// kind in [Pause]. What comes meanwhile is told in one message. It is not safe for concurrent use.
type Teller struct {
	Tell func(context.Context, Message) error // error = not told: it is tried again after Pause
	Now  func() time.Time

	known map[Kind]map[string]bool // what lasts, by key
	later map[Kind][]Thing         // to be told
	next  map[Kind]time.Time       // not before that
}

// Look takes all things that last now, and tells what is new of them.
func (t *Teller) Look(ctx context.Context, all []Thing) {
	if t.known == nil {
		t.known, t.later, t.next = make(map[Kind]map[string]bool), make(map[Kind][]Thing), make(map[Kind]time.Time)
	}
	for _, k := range kinds() {
		lasts := make(map[string]bool)
		for _, thing := range all {
			if thing.Kind != k || lasts[thing.Key] || len(lasts) == maxKnown {
				continue
			}
			lasts[thing.Key] = true
			if !t.known[k][thing.Key] {
				t.later[k] = append(t.later[k], thing)
			}
		}
		t.known[k] = lasts
		// What ended before it could be told needs no telling.
		t.later[k] = slices.DeleteFunc(t.later[k], func(thing Thing) bool { return !lasts[thing.Key] })
		if len(t.later[k]) == 0 || t.Now().Before(t.next[k]) {
			continue
		}
		t.next[k] = t.Now().Add(Pause)
		if t.Tell(ctx, messageOf(k, t.later[k])) == nil {
			t.later[k] = nil
		}
	}
}

// messageOf makes one message of things of a kind.
func messageOf(k Kind, things []Thing) Message {
	var lines []string
	for _, thing := range things[:min(len(things), shownThings)] {
		line := Quote(thing.Path)
		if thing.Note != "" {
			line += ": " + Sentence(thing.Note)
		}
		lines = append(lines, line)
	}
	if more := len(things) - shownThings; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if step := things[0].Step; step != "" {
		lines = append(lines, Sentence(step))
	}
	return Message{Kind: k, Title: k.title(len(things)), Body: strings.Join(lines, "\n")}
}

// Quote shows a path that others may have named: without characters that act, in quotes that
// it cannot end, and of bounded length. The end of a long one stays, because a path ends with the
// name of its file.
func Quote(path string) string {
	runes := []rune(strings.NewReplacer("“", `"`, "”", `"`).Replace(harmless(path)))
	if n := len(runes); n > maxPath {
		runes = append([]rune("…"), runes[n-maxPath+1:]...)
	}
	return "“" + string(runes) + "”"
}

// Sentence makes a line of text, that of others too, fit for a message, and bounds its length.
func Sentence(s string) string { return cut(harmless(s), maxStep) }

func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// harmless takes away what acts on a screen, and breaks by a word joiner, which shows nothing,
// what a desktop would make a link of: an address, and a name with a dot in it, such as WWW.x or foo.xx/.
func harmless(s string) string {
	dots := regexp.MustCompile(`(?i)(www\d*)\.|(\b|[-.])\.(\pL)`)
	s = dots.ReplaceAllString(names.Escape(s, ""), "${1}${2}\u2060.${3}")
	return strings.ReplaceAll(s, "://", ":\u2060//")
}

// Markup is text for a server that reads markup in the body of a message.
func Markup(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
