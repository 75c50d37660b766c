package tree

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

// Every step of the table is one that programs take; that they take no other is
// checked by move in every test with the race detector.
func TestStepsOfContent(t *testing.T) {
	failed := &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable, Err: errors.New("scripted")}
	type scene struct {
		m *mounted
		w *world
		f *File
		h *Handle
	}
	write := func(t *testing.T, s *scene, text string) {
		t.Helper()
		if _, err := s.h.WriteAt(t.Context(), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	create := func(t *testing.T, s *scene) { s.h = s.m.create("/team/new"); s.f = s.h.File() }
	uploaded := func(t *testing.T, s *scene) {
		s.h = s.m.open("/team/old", OpenFlags{Read: true, Write: true})
		s.f = s.h.File()
	}
	refused := func(t *testing.T, s *scene) { // a write that finds no room after the content was copied
		t.Helper()
		uploaded(t, s)
		_, err := s.h.WriteAt(t.Context(), make([]byte, 3000), 0)
		wantClass(t, err, ClassNoMemory)
	}
	empty := func(t *testing.T, s *scene) {
		t.Helper()
		create(t, s)
		ok(t, s.h.Flush(t.Context()))
	}
	fsync := func(t *testing.T, s *scene) { _ = s.h.Fsync(t.Context()) }
	unlink := func(t *testing.T, s *scene) {
		t.Helper()
		ok(t, s.m.dir("/team").Unlink(t.Context(), "new"))
		s.h.Release()
	}
	// send looks at the file while an upload waits, and lets the upload end.
	send := func(t *testing.T, s *scene) {
		t.Helper()
		goOn, done := s.w.Stall("upload"), make(chan struct{})
		go func() { fsync(t, s); close(done) }()
		proctest.Eventually(t, "it is being sent", func() bool { return s.f.now.Is(content.Sending) })
		goOn()
		<-done
	}
	appended := func(t *testing.T, s *scene) {
		t.Helper()
		s.w.Merges = true
		s.h = s.m.appends("/team/old")
		s.f = s.h.File()
		s.w.Put("team", alice, "old", []byte("content of others"))
		s.m.adds(s.h, "x")
	}
	taken := map[content.State]map[content.State]bool{}
	for _, tc := range []struct {
		from, to  content.State
		begin, do func(*testing.T, *scene)
	}{
		{content.Committed, content.Copied, uploaded, func(t *testing.T, s *scene) { s.h.Release(); refused(t, s) }},
		{content.Committed, content.Changed, uploaded, func(t *testing.T, s *scene) { _ = s.f.Truncate(t.Context(), 0, s.h) }},
		{content.Copied, content.Changed, refused, func(t *testing.T, s *scene) { write(t, s, "x") }},
		{content.Copied, content.Committed, refused, func(t *testing.T, s *scene) { s.h.Release() }},
		{content.Changed, content.Waiting, create, func(t *testing.T, s *scene) { _ = s.h.Flush(t.Context()) }},
		{content.Changed, content.Sending, create, send},
		{content.Sending, content.Committed, create, send},
		{content.Sending, content.Copied, appended, send},
		{content.Changed, content.Committed, create, unlink},
		{content.Waiting, content.Changed, empty, func(t *testing.T, s *scene) { write(t, s, "x") }},
		{content.Waiting, content.Sending, empty, send},
		{content.Waiting, content.Committed, empty, unlink},
		{content.Sending, content.Changed, func(t *testing.T, s *scene) { create(t, s); s.w.Fail("upload", failed) }, send},
	} {
		t.Run(tc.from.String()+" to "+tc.to.String(), func(t *testing.T) {
			w := team()
			w.Put("team", alice, "old", []byte("content"))
			s := &scene{w: w, m: mount(t, w, alice, func(c *Config) { c.StagingBytes, c.Ours = 2000, true })}
			tc.begin(t, s)
			if tc.from != content.Sending && !s.f.now.Is(tc.from) {
				t.Fatalf("begins in another state than %s", tc.from)
			}
			tc.do(t, s)
			if tc.to != content.Sending && !s.f.now.Is(tc.to) {
				t.Errorf("ends in another state than %s", tc.to)
			}
		})
		if taken[tc.from] == nil {
			taken[tc.from] = map[content.State]bool{}
		}
		taken[tc.from][tc.to] = true
	}
	for from := content.Committed; from <= content.Sending; from++ {
		for _, step := range from.Steps() {
			if !taken[from][step.To] {
				t.Errorf("nothing takes content from %s to %s: %s", from, step.To, step.When)
			}
		}
	}
}

// A step that the table lacks is reported as a mistake of the program.
func TestOtherStepsOfContentAreMistakes(t *testing.T) {
	var log bytes.Buffer
	m := mount(t, team(), alice, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	f := m.create("/team/f").File()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() {
		if ended := recover() != nil; ended != raceEnabled || !strings.Contains(log.String(), "changed cannot become copied") {
			t.Errorf("ended: %v, log: %s", ended, &log)
		}
	}()
	f.move(content.Copied)
}

// Removed files stay removed; versions and control files stay what they are.
func TestKindsOfFilesThatStay(t *testing.T) {
	for _, tc := range []struct {
		from, to fileKind
		mistake  bool
	}{
		{fileReal, fileScratch, false}, {fileReal, fileRemoved, false}, {fileScratch, fileReal, false}, {fileScratch, fileRemoved, false},
		{fileRemoved, fileRemoved, false}, {fileRemoved, fileReal, true}, {fileVersion, fileRemoved, true}, {fileControl, fileReal, true},
	} {
		t.Run(tc.from.String()+" to "+tc.to.String(), func(t *testing.T) {
			var log bytes.Buffer
			m := mount(t, team(), alice, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			f := &File{t: m.Tree}
			f.become(tc.from)
			defer func() {
				ended := recover() != nil
				if told := strings.Contains(log.String(), "cannot become "+tc.to.String()); told != tc.mistake || ended != (raceEnabled && tc.mistake) {
					t.Errorf("ended: %v, log: %s", ended, &log)
				}
			}()
			f.become(tc.to)
		})
	}
}

// W2: a program that is killed while it closes a file gives its handle up before the
// close has ended. No program gets an error, so the file is saved all the same.
func TestW2KilledInTheMiddleOfAClose(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	h := m.create("/team/f")
	m.write(h, "content", 0)
	goOn := w.Stall("upload")
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Flush(ctx) }()
	proctest.Eventually(t, "it is being sent", func() bool { return h.File().now.Is(content.Sending) })
	h.Release()
	kill()
	wantClass(t, <-ended, ClassInterrupted)
	goOn()
	proctest.Eventually(t, "it is saved", func() bool { return len(m.Pending()) == 0 })
	m.wantCharges(0, 1)
}
