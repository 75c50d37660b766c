package tree

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// appends opens a file as >> does.
func (m *mounted) appends(p string) *Handle {
	m.t.Helper()
	return m.open(p, OpenFlags{Write: true, Append: true})
}

// adds writes at the end of the file, as far as the kernel knows it.
func (m *mounted) adds(h *Handle, text string) {
	m.t.Helper()
	h.f.mu.Lock()
	end := h.f.length()
	h.f.mu.Unlock()
	m.write(h, text, end)
}

// merging is a world whose group wants appends to be made on what others saved.
func merging() *world {
	w := team()
	w.Merges = true
	return w
}

// recorded is what the newest version of a name has.
func recorded(w *world, g sdk.GroupID, name string) []byte {
	rows := w.Named(g, name)
	return w.Content(rows[len(rows)-1].Ref)
}

// overtaken is a remote at which others save before each upload.
type overtaken struct {
	remote
	others func()
}

func (o overtaken) Upload(ctx context.Context, g sdk.GroupID, name string, b *mem.Buffer,
	opts sdk.PutOptions) (sdk.Receipt, error) {
	o.others()
	return o.remote.Upload(ctx, g, name, b, opts)
}

// W11.5: an append that others overtook is made on their version, and the program goes on.
func TestW11AppendIsMadeOnTheNewerVersion(t *testing.T) {
	for learns, late := range map[string]bool{"known": false, "not known": true} {
		t.Run("the other save is "+learns, func(t *testing.T) {
			w := merging()
			w.Put("team", alice, "log", []byte("base\n"))
			m := mount(t, w, bob, ours, still)
			h := m.appends("/team/log")
			w.Put("team", alice, "log", []byte("base\ntheirs\n"))
			if !late {
				m.refresh()
			}
			m.adds(h, "mine\n")
			ok(t, h.Flush(t.Context()))
			m.wantContent("/team/log", "base\ntheirs\nmine\n")
			w.Put("team", alice, "log", []byte("base\ntheirs\nmine\ntheirs 2\n"))
			m.adds(h, "mine 2\n")
			m.adds(h, "mine 3\n")
			ok(t, h.Flush(t.Context()))
			_, err := h.f.Open(t.Context(), OpenFlags{Read: true})
			wantClass(t, err, ClassStale) // the kernel looks the name up again
			h.Release()
			want := "base\ntheirs\nmine\ntheirs 2\nmine 2\nmine 3\n"
			m.wantContent("/team/log", want)
			m.refresh()
			m.wantContent("/team/log", want)
			if got := string(recorded(w, "team", "log")); got != want {
				t.Errorf("recorded is %q", got)
			}
			if list := m.names("/team"); !slices.Equal(list, []string{"log"}) {
				t.Errorf("the group lists %q", list)
			}
			if text := string(m.errors.Show()); text != "" {
				t.Errorf("errors holds %q", text)
			}
		})
	}
}

// W11.5: two mounts that make a file by appending to it make one.
func TestW11AppendToAFileThatBothMake(t *testing.T) {
	w := merging()
	m := mount(t, w, bob, ours, still)
	_, h, err := m.dir("/team").Create(t.Context(), "log", false, OpenFlags{Write: true, Append: true})
	ok(t, err)
	for n := range 3 {
		if n < 2 {
			w.Put("team", alice, "log", append(slices.Clone(contentOf(w, "log")), "theirs\n"...))
		}
		m.adds(h, fmt.Sprintf("mine %d\n", n))
		ok(t, h.Flush(t.Context()))
	}
	h.Release()
	want := "theirs\nmine 0\ntheirs\nmine 1\nmine 2\n"
	if got := string(contentOf(w, "log")); got != want {
		t.Errorf("recorded is %q", got)
	}
	m.wantContent("/team/log", want)
}

// contentOf is [recorded] in group team, nothing where there is no version.
func contentOf(w *world, name string) []byte {
	if len(w.Named("team", name)) == 0 {
		return nil
	}
	return recorded(w, "team", name)
}

// W11.5: others may overtake it again, a bounded number of times; then it is a conflict.
func TestW11AppendThatIsOvertakenAgain(t *testing.T) {
	for times, aside := range map[int]bool{3: false, mostAppends + 1: true} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			w := merging()
			w.Put("team", alice, "log", []byte("base\n"))
			left := times
			m := mount(t, w, bob, ours, still, func(c *Config) {
				c.Remote = overtaken{c.Remote.(remote), func() {
					if left--; left >= 0 {
						w.Put("team", alice, "log", append(slices.Clone(contentOf(w, "log")), "theirs\n"...))
					}
				}}
			})
			h := m.appends("/team/log")
			m.adds(h, "mine\n")
			ok(t, h.Flush(t.Context()))
			h.Release()
			name := outbox.ConflictName("log", bob, time.Unix(1_700_000_000, 0), 0)
			if list := m.names("/team"); slices.Contains(list, name) != aside {
				t.Errorf("the group lists %q", list)
			}
			want := "base\n" + strings.Repeat("theirs\n", times)
			if aside {
				m.wantContent("/team/"+name, "base\nmine\n")
			} else {
				want += "mine\n"
			}
			m.wantContent("/team/log", want)
		})
	}
}

// W11.5: whatever is no append, or is not to be merged, is a conflict as ever.
func TestW11WhatIsNoAppendIsAConflict(t *testing.T) {
	add := func(m *mounted) *Handle {
		h := m.appends("/team/log")
		m.adds(h, "mine\n")
		return h
	}
	for name, save := range map[string]func(w *world, m *mounted) *Handle{
		"switched off": func(w *world, m *mounted) *Handle {
			w.Merges = false
			return add(m)
		},
		"written in place too": func(_ *world, m *mounted) *Handle {
			h := m.open("/team/log", OpenFlags{Read: true, Write: true})
			m.write(h, "B", 0)
			return add(m)
		},
		"written in place through a mapping": func(_ *world, m *mounted) *Handle {
			h := add(m)
			m.write(h, "B", 0)
			return h
		},
		"written at the end without O_APPEND": func(_ *world, m *mounted) *Handle {
			h := m.open("/team/log", OpenFlags{Read: true, Write: true})
			m.adds(h, "mine\n")
			return h
		},
		"cut off first": func(_ *world, m *mounted) *Handle {
			h := m.appends("/team/log")
			ok(m.t, h.f.Truncate(m.t.Context(), 2, h))
			m.adds(h, "mine\n")
			return h
		},
		"emptied first": func(_ *world, m *mounted) *Handle {
			h := m.open("/team/log", OpenFlags{Write: true, Append: true, Truncate: true})
			m.adds(h, "mine\n")
			return h
		},
		"made longer after": func(_ *world, m *mounted) *Handle {
			h := add(m)
			ok(m.t, h.f.Truncate(m.t.Context(), 100, h))
			return h
		},
		"a program now": func(_ *world, m *mounted) *Handle {
			h := add(m)
			h.f.setMode(0o755)
			return h
		},
		"with a time of its own": func(_ *world, m *mounted) *Handle {
			h := add(m)
			h.f.setTimes(time.Unix(5, 0))
			return h
		},
		"beside a database": func(w *world, m *mounted) *Handle {
			w.Put("team", alice, "log-wal", []byte("frames"))
			m.refresh()
			return add(m)
		},
		"with another name": func(_ *world, m *mounted) *Handle {
			_, h, err := m.dir("/team").Create(m.t.Context(), "log.new", true, OpenFlags{Write: true, Append: true})
			ok(m.t, err)
			m.adds(h, "mine\n")
			h.f.maker = 7
			m.t.Cleanup(h.Release)
			m.opened.note(openedBy{7, "team", "log"}, m.file("/team/log").entry.Load().Seq)
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := merging()
			w.Put("team", alice, "log", []byte("base\n"))
			m := mount(t, w, bob, ours, still)
			h := save(w, m)
			w.Put("team", alice, "log", []byte("base\ntheirs\n"))
			if name == "with another name" {
				ok(t, m.rename("log.new", "log"))
			}
			ok(t, h.Flush(t.Context()))
			m.refresh()
			m.wantContent("/team/log", "base\ntheirs\n")
			if text := string(m.errors.Show()); strings.Count(text, "\tconflict\t") != 1 {
				t.Errorf("errors holds %q", text)
			}
		})
	}
}

// W11.5: an append whose answer was lost is not made twice, also when the program wrote more meanwhile.
func TestW11AppendWhoseAnswerWasLost(t *testing.T) {
	for what, more := range map[string]string{"the same": "", "more": "mine 2\n"} {
		t.Run(what, func(t *testing.T) {
			w := merging()
			w.Put("team", alice, "log", []byte("base\n"))
			m := mount(t, w, bob, ours, still)
			h := m.appends("/team/log")
			w.Put("team", alice, "log", []byte("base\ntheirs\n"))
			m.adds(h, "mine\n")
			w.Fail("uploaded", errAway)
			if err := h.Flush(t.Context()); err == nil {
				t.Fatal("the answer was not lost")
			}
			w.Fail("uploaded", nil)
			if more != "" {
				m.adds(h, more)
			}
			w.Put("team", alice, "log", []byte("base\ntheirs\nmine\ntheirs 2\n"))
			ok(t, h.Flush(t.Context()))
			h.Release()
			m.wantContent("/team/log", "base\ntheirs\nmine\ntheirs 2\n"+more)
			if list := m.names("/team"); len(list) != 1 {
				t.Errorf("the group lists %q", list)
			}
		})
	}
}

// W11.5: nor is one to a large file, whose hash nobody knows: it is a conflict if a save from here, since the version
// that it was made from, may have it.
func TestW11LargeAppendWhoseAnswerWasLost(t *testing.T) {
	for _, isRecorded := range []bool{true, false} {
		w, _, want := largeWorld(10*block + 100)
		w.Merges = true
		m := mount(t, w, "bob", ours, still)
		h := m.open("/g/film", OpenFlags{Read: true, Write: true, Append: true})
		ok(t, put(t, h, []byte("one"), len(want)))
		flush(t, h)
		want = append(want, "one"...)
		lost := map[bool]string{true: "uploaded", false: "upload"}[isRecorded]
		w.Fail(lost, errAway)
		ok(t, put(t, h, []byte("two"), len(want)))
		if err := h.Flush(t.Context()); err == nil {
			t.Fatal("the answer was not lost")
		}
		w.Fail(lost, nil)
		ok(t, put(t, h, []byte("three"), len(want)+3))
		w.Put("g", "alice", "film", append(recorded(w, "g", "film"), "theirs"...))
		flush(t, h)
		h.Release()
		if isRecorded {
			want = append(want, "twotheirs"...)
		} else {
			want = append(want, "theirstwothree"...)
		}
		if !bytes.Equal(recorded(w, "g", "film"), want) || len(m.names("/g")) == 1 == isRecorded {
			t.Errorf("recorded %v: the group lists %q, and its file ends with %q", isRecorded, m.names("/g"),
				recorded(w, "g", "film")[10*block+100:])
		}
	}
}

// W11.5: of a large file the blocks at the end are sent, upon the version of others.
func TestW11AppendToALargeFile(t *testing.T) {
	w, _, data := largeWorld(10*block + 100)
	w.Merges = true
	m := mount(t, w, "bob", ours, still)
	h := m.open("/g/film", OpenFlags{Read: true, Write: true, Append: true})
	theirs := append(slices.Clone(data), noise(2*block)...)
	w.Put("g", "bob", "film", theirs)
	mine := bytes.Repeat([]byte("mine"), block)
	ok(t, put(t, h, mine, len(data)))
	flush(t, h)
	want := append(theirs, mine...)
	if !bytes.Equal(recorded(w, "g", "film"), want) {
		t.Error("something else is recorded")
	}
	r := m.open("/g/film", OpenFlags{Read: true})
	wantRead(t, r, want, 0, len(want))
	r.Release()
	ok(t, put(t, h, []byte("more"), len(data)+len(mine)))
	flush(t, h)
	h.Release()
	if want = append(want, "more"...); !bytes.Equal(recorded(w, "g", "film"), want) {
		t.Error("the second append is not recorded")
	}
	if list := m.names("/g"); len(list) != 1 {
		t.Errorf("the group lists %q", list)
	}
}

// W11.6: with an outbox an append goes to the service at once while that answers; else it waits, and may be a conflict.
func TestW11AppendWithAnOutbox(t *testing.T) {
	w := merging()
	w.Member("g", "alice", "bob")
	w.Put("g", "bob", "log", []byte("base\n"))
	b := mountBoxed(t, w, still)
	h := b.appends("/g/log")
	w.Put("g", "bob", "log", []byte("base\ntheirs\n"))
	b.adds(h, "mine\n")
	ok(t, h.Flush(t.Context()))
	if n := len(b.box.Items()); n != 0 {
		t.Errorf("%d saves wait", n)
	}
	b.wantContent("/g/log", "base\ntheirs\nmine\n")
	b.look.NoteReached(errAway)
	b.down()
	b.adds(h, "mine 2\n")
	ok(t, h.Flush(t.Context()))
	h.Release()
	if n := len(b.box.Items()); n != 1 {
		t.Errorf("%d saves wait", n)
	}
	w.Put("g", "bob", "log", []byte("base\ntheirs\nmine\ntheirs 2\n"))
	b.up()
	b.drained()
	b.refresh()
	b.wantContent("/g/log", "base\ntheirs\nmine\ntheirs 2\n")
	if list := b.names("/g"); len(list) != 2 {
		t.Errorf("the group lists %q", list)
	}
}

// W11.5: the service is asked once what becomes of appends, until an event says that it changed.
func TestW11MountLearnsWhatBecomesOfAppends(t *testing.T) {
	w := team()
	m := mount(t, w, bob, ours, still)
	is := func(want bool, asked int) {
		t.Helper()
		if got := m.mergesAppends(t.Context(), m.groups["team"]); got != want || w.Begun("appends") != asked {
			t.Errorf("merged: %v, asked %d times", got, w.Begun("appends"))
		}
	}
	is(false, 1)
	w.Merges = true
	is(false, 1)
	m.forgetSetting("team") // as the event does
	is(true, 2)
	is(true, 2)
}

// W6.5: a conflict of an SQLite file says that two mounts of one are not supported.
func TestW6ConflictOfADatabase(t *testing.T) {
	for name, c := range map[string]struct {
		beside, content string
		told            bool
	}{
		"by its header":    {"", "SQLite format 3\x00 and pages", true},
		"by what is there": {"f-journal", "pages", true},
		"none":             {"", "text", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f", []byte("base"))
			if c.beside != "" {
				w.Put("team", alice, c.beside, []byte("journal"))
			}
			m := mount(t, w, bob, ours, still)
			h := m.open("/team/f", OpenFlags{Read: true, Write: true})
			defer h.Release()
			w.Put("team", alice, "f", []byte("theirs"))
			m.write(h, c.content, 0)
			ok(t, h.Flush(t.Context()))
			const said = "two mounts of one SQLite file are not supported"
			if text := string(m.errors.Show()); strings.Contains(text, said) != c.told {
				t.Errorf("errors holds %q", text)
			}
			reasons := m.Reasons() // of svcfs why
			if len(reasons) != 1 || strings.Contains(reasons[0].Error, said) != c.told {
				t.Errorf("reasons are %+v", reasons)
			}
		})
	}
}
