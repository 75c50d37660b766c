package save

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

const blockBytes = 4

// world is a service, a group of it, and the names of the group.
type world struct {
	answers  []error  // to what is to be recorded, in turn; then nil
	tried    []string // as "NAME after BASE"
	unsure   []sdk.Digest
	begun    int
	overBase []bool
	sentMu   sync.Mutex // several parts are sent at a time
	sent     []int64    // blocks
	open     int        // uploads
	failPart error
	aside    error // of Aside
	overhead bool  // the version below can be taken over
}

func (w *world) Account() sdk.AccountID { return "alice" }

func (w *world) record(name string, o sdk.PutOptions) (sdk.Receipt, error) {
	try := name
	if o.Base != nil {
		try += " after " + string(*o.Base)
	}
	if o.Upon != nil {
		try += " upon " + string(*o.Upon)
	}
	w.tried = append(w.tried, try)
	if len(w.answers) > 0 {
		err := w.answers[0]
		w.answers = w.answers[1:]
		if err != nil {
			return sdk.Receipt{}, err
		}
	}
	return sdk.Receipt{Entry: sdk.Entry{Ref: "new", Name: name, Seq: 9, Number: 9}}, nil
}

func (w *world) Upload(_ context.Context, _ sdk.GroupID, name string, _ *mem.Buffer,
	o sdk.PutOptions) (sdk.Receipt, error) {
	return w.record(name, o)
}

func (w *world) Base() sdk.Ref                   { return "old" }
func (w *world) Attributes() sdk.Attributes      { return sdk.Attributes{Executable: true} }
func (w *world) NoAnswer(_ string, h sdk.Digest) { w.unsure = append(w.unsure, h) }
func (w *world) Aside(_ context.Context, n int) (string, sdk.Ref, error) {
	return fmt.Sprintf("mine%d", n), "theirs", w.aside
}

func (w *world) TakesOver(*sdk.Entry, string) bool    { return w.overhead }
func (w *world) Newest(e *sdk.Entry) *sdk.Entry       { return e }
func (w *world) save(name string) Save                { return Save{Names: w, Group: "g", Name: name} }
func (w *world) blocks(s *Saver, text string) *Sender { return s.NewSender(w, stageOf(text)) }

func (w *world) BeginBlocks(_ context.Context, base content.Blocks, _ int64) (Upload, error) {
	w.begun++
	w.open++
	w.overBase = append(w.overBase, base != nil)
	return &upload{w: w, over: base != nil}, nil
}

// upload is one of a world.
type upload struct {
	w    *world
	over bool
}

func (u *upload) TakesOver() bool        { return u.over }
func (u *upload) PartBlocks() int64      { return 2 }
func (u *upload) Opened() content.Blocks { return nil }
func (u *upload) Abandon()               { u.w.open-- }

func (u *upload) PutPart(_ context.Context, part format.Extents, read func(int64, []byte) (int, error)) error {
	if u.w.failPart != nil {
		return u.w.failPart
	}
	for i := range part.All() {
		if _, err := read(i, make([]byte, blockBytes)); err != nil {
			return err
		}
		u.w.sentMu.Lock()
		u.w.sent = append(u.w.sent, i)
		u.w.sentMu.Unlock()
	}
	return nil
}

func (u *upload) Finish(_ context.Context, name string, _ int64, _ sdk.Digest,
	o ...sdk.PutOptions) (sdk.Receipt, error) {
	return u.w.record(name, o[0])
}

func refusals(codes ...string) (list []error) {
	for _, code := range codes {
		list = append(list, &sdk.Error{Op: "upload", Kind: sdk.ErrConflict, Code: code, Err: errors.New(code)})
	}
	return list
}

var errLost = &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable, Unsure: true, Err: errors.New("connection reset")}

func saver(w *world, box Outbox) *Saver {
	away := func(err error) bool { return errors.Is(err, errLost) }
	return New(Options{Remote: w, Outbox: box, Budget: &policy.Budget{Now: time.Now}, Pool: mem.NewPool(), Ours: true,
		Guard: func(work func() error) error { return work() }, IsAway: away, GoesOn: away})
}

func stageOf(text string) *content.Stage {
	s := content.NewStore(content.Options{CacheBytes: 1 << 20, Reopen: -1,
		Staging: staging.Options{Pool: mem.NewPool(), Bytes: 1 << 20, WholeBytes: blockBytes, BlockBytes: blockBytes, PartBlocks: 2}})
	st, err := s.NewStage(false, false)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(text); i += blockBytes { // as programs write: block after block
		if err := st.WriteAt([]byte(text[i:min(i+blockBytes, len(text))]), int64(i)); err != nil {
			panic(err)
		}
	}
	return st
}

func wholeOf(t *testing.T, text string) *mem.Buffer {
	t.Helper()
	b, err := mem.NewPool().Get(int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Bytes(), text)
	return b
}

func (w *world) want(t *testing.T, what string, tried ...string) {
	t.Helper()
	if !slices.Equal(w.tried, tried) {
		t.Errorf("%s: tried %q, want %q", what, w.tried, tried)
	}
}

// A save of any size that others overtook gets a name of its own, and one that the service cannot compare is recorded
// all the same.
func TestW11SaveThatOthersOvertook(t *testing.T) {
	for _, tc := range []struct {
		name     string
		answers  []error
		tried    []string
		as       string
		compared bool
	}{
		{"nobody saved it", nil, []string{"a after old"}, "a", true},
		{"others did", refusals(wire.CodeHead), []string{"a after old", "mine0 after theirs upon old"}, "mine0", true},
		{"and that name, too", refusals(wire.CodeHead, wire.CodeHead),
			[]string{"a after old", "mine0 after theirs upon old", "mine1 after theirs upon old"}, "mine1", true},
		{"the service compares nothing", nil, []string{"a"}, "a", false},
	} {
		for _, how := range []string{"whole", "large", "blocks"} {
			w := &world{answers: slices.Clone(tc.answers)}
			s := saver(w, nil)
			s.opt.Ours = tc.compared
			var m Made
			var err error
			switch how {
			case "whole":
				m, err = s.Whole(t.Context(), w.save("a"), wholeOf(t, "text"))
			case "large":
				m, err = s.Whole(t.Context(), w.save("a"), wholeOf(t, strings.Repeat("x", wire.WholeFileBytes+1)))
			default:
				m, err = s.Blocks(t.Context(), w.save("a"), w.blocks(s, "text in blocks"))
			}
			if err != nil || m.As != tc.as || m.Compared != tc.compared || m.Attributes == nil || Waits(&m.Entry) {
				t.Errorf("%s, %s: %+v, %v", tc.name, how, m, err)
			}
			w.want(t, tc.name, tc.tried...)
			if len(w.unsure) > 0 {
				t.Errorf("%s, %s: no answer came", tc.name, how)
			}
		}
	}
}

// An append that may meet those of others goes past the outbox, and what is made on their version is recorded upon that
// or not at all.
func TestW11AppendsThatMeet(t *testing.T) {
	merged := errors.New("it was made on the version of others")
	for name, tc := range map[string]struct {
		save    Save
		answers []error
		aside   error
		tried   []string
		err     error
		waits   bool
	}{
		"the names end it":     {Save{}, refusals(wire.CodeHead), merged, []string{"a after old"}, merged, false},
		"its base is old":      {Save{Old: true}, nil, nil, []string{"mine0 after theirs upon old"}, nil, false},
		"past the outbox":      {Save{Now: true}, nil, nil, []string{"a after old"}, nil, false},
		"the service was away": {Save{Now: true}, []error{errLost}, nil, []string{"a after old"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{answers: tc.answers, aside: tc.aside}
			var b Outbox
			if tc.save.Now {
				b = &box{item: one(outbox.Waiting)}
			}
			tc.save.Names, tc.save.Group, tc.save.Name = w, "g", "a"
			m, err := saver(w, b).Whole(t.Context(), tc.save, wholeOf(t, "text"))
			if !errors.Is(err, tc.err) || Waits(&m.Entry) != tc.waits {
				t.Errorf("%+v, %v", m, err)
			}
			w.want(t, name, tc.tried...)
		})
	}
	s, w := saver(&world{}, nil), &world{}
	s.opt.Ours = false
	_, err := s.Whole(t.Context(), Save{Names: w, Name: "a", Compared: true}, wholeOf(t, "text"))
	if !errors.Is(err, ErrNotCompared) {
		t.Error(err)
	}
}

// What may be recorded is remembered: what is no error of package sdk says nothing of it.
func TestSaveWithoutAnAnswerIsRemembered(t *testing.T) {
	refused, unsure := refusals("REFUSED")[0], &sdk.Error{Kind: sdk.ErrConflict, Code: "REFUSED", Unsure: true}
	for _, answer := range []error{errLost, unsure, errors.New("a mistake"), refused} {
		w := &world{answers: []error{answer, answer}}
		s := saver(w, nil)
		_, err := s.Whole(t.Context(), w.save("a"), wholeOf(t, "text"))
		_, err2 := s.Blocks(t.Context(), w.save("a"), w.blocks(s, "text in blocks"))
		if !errors.Is(err, answer) || !errors.Is(err2, answer) {
			t.Errorf("%v, %v", err, err2)
		}
		want := []sdk.Digest{sdk.ComputeHash([]byte("text")), sdk.ComputeHash([]byte("text in blocks"))}
		if answer == refused {
			want = nil
		}
		if !slices.Equal(w.unsure, want) {
			t.Errorf("after %v remembered %v", answer, w.unsure)
		}
	}
}

// full is an outbox that takes nothing, after which err comes of what waits.
type full struct {
	Outbox
	err error
}

func (f full) Put(context.Context, outbox.Save) (outbox.Item, error) {
	return outbox.Item{}, outbox.ErrFull
}
func (f full) Before(context.Context, sdk.GroupID) error { return f.err }

// While the outbox is full, a save is recorded after what waits, in one piece or in blocks.
func TestO11SaveWithAFullOutbox(t *testing.T) {
	for _, tc := range []struct {
		name      string
		before    error
		answers   []error
		temporary bool
		want      string // the error
	}{
		{"recorded", nil, nil, false, ""},
		{"what waits is stuck", outbox.ErrAway, nil, false, "the outbox is full, and the service is away"},
		{"the service is away", nil, []error{errLost}, false, "the outbox is full, and the service is away"},
		{"refused", nil, refusals("REFUSED"), false, "REFUSED"},
		{"a temporary file", nil, nil, true, "the outbox is full"},
	} {
		for _, how := range []string{"whole", "blocks"} {
			w := &world{answers: slices.Clone(tc.answers)}
			s := saver(w, full{err: tc.before})
			what := w.save("a")
			what.Temporary = tc.temporary
			var err error
			if how == "whole" {
				_, err = s.Whole(t.Context(), what, wholeOf(t, "text"))
			} else {
				_, err = s.Blocks(t.Context(), what, w.blocks(s, "text in blocks"))
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("%s, %s: %v", tc.name, how, err)
			}
		}
	}
}

func TestO12TooLargeForTheOutbox(t *testing.T) {
	w := &world{}
	s := saver(w, full{})
	large := wholeOf(t, strings.Repeat("x", wire.WholeFileBytes+1))
	what := w.save("a")
	what.Temporary = true
	if _, err := s.Whole(t.Context(), what, large); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a temporary file: %v", err)
	}
	w.want(t, "a temporary file")
	if m, err := s.Whole(t.Context(), w.save("a"), large); err != nil || !m.Compared {
		t.Errorf("any other is recorded: %v", err)
	}
	w.want(t, "any other is recorded", "a after old")
}

// A save in blocks that fails goes on with what was sent, or begins anew.
func TestW18AttemptsOfASaveInBlocks(t *testing.T) {
	const text = "five blocks of four" // bytes
	for _, tc := range []struct {
		name    string
		answers []error
		err     bool // of the first save
		begun   int  // uploads in all, of two saves
		sent    int  // blocks
	}{
		{"blocks are missing", refusals(wire.CodeMissing), false, 2, 10},
		{"nothing can be taken over", refusals(wire.CodeBase), false, 2, 10},
		{"missing again and again", refusals(wire.CodeMissing, wire.CodeMissing), true, 3, 15},
		{"refused", refusals("REFUSED"), true, 2, 10},
		{"the service was away", []error{errLost}, true, 1, 5},
		{"it may be recorded", []error{&sdk.Error{Kind: sdk.ErrCorrupt, Unsure: true}}, true, 1, 5},
		{"that is asked again and refused", append([]error{&sdk.Error{Kind: sdk.ErrCorrupt, Unsure: true}},
			refusals("REFUSED")...), true, 2, 10},
	} {
		w := &world{answers: tc.answers}
		s := saver(w, nil)
		b := w.blocks(s, text)
		_, err := s.Blocks(t.Context(), w.save("a"), b)
		if (err != nil) != tc.err {
			t.Errorf("%s: %v", tc.name, err)
		}
		for n := len(tc.answers); err != nil && n > 0; n-- {
			_, err = s.Blocks(t.Context(), w.save("a"), b)
		}
		if err != nil {
			t.Errorf("%s: once more: %v", tc.name, err)
		}
		if w.begun != tc.begun || len(w.sent) != tc.sent {
			t.Errorf("%s: %d uploads and %d blocks, want %d and %d", tc.name, w.begun, len(w.sent), tc.begun, tc.sent)
		}
		b.Cancel()
		b.Close()
		if w.open != 0 {
			t.Errorf("%s: %d uploads are open", tc.name, w.open)
		}
	}
}

// An attempt without an answer is repeated as it was: its upload takes no other.
func TestW11AttemptWithoutAnAnswerIsRepeated(t *testing.T) {
	for _, again := range [][]error{nil, refusals(wire.CodeHead)} {
		w := &world{answers: append(append(refusals(wire.CodeHead), errLost), again...)}
		s := saver(w, nil)
		b := w.blocks(s, "text in blocks")
		if _, err := s.Blocks(t.Context(), w.save("a"), b); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		m, err := s.Blocks(t.Context(), w.save("a"), b)
		if err != nil || m.As != "mine0" || !m.Compared || w.begun != 1 {
			t.Errorf("%+v, %d uploads, %v", m, w.begun, err)
		}
		const aside = "mine0 after theirs upon old"
		want := []string{"a after old", aside, aside}
		if again != nil {
			want = append(want, aside)
		}
		w.want(t, "again", want...)
	}
}

// What was changed, or gets another name, after an attempt without an answer is another save.
func TestW18AnotherSaveAfterAnAttempt(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		w := &world{answers: []error{errLost}}
		s := saver(w, nil)
		stage := stageOf("text in blocks")
		b := s.NewSender(w, stage)
		if _, err := s.Blocks(t.Context(), w.save("a"), b); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		name := "b"
		if !renamed {
			name = "a"
			if err := stage.WriteAt([]byte("T"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.BeginSave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Blocks(t.Context(), w.save(name), b); err != nil || w.begun != 2 {
			t.Errorf("%d uploads, %v", w.begun, err)
		}
	}
}

const eightBlocks = "eight blocks of four bytes each."

// Parts that a program left go while it writes; none begins once the file is saved, until it is written again.
func TestW18PartsBesideTheProgram(t *testing.T) {
	w := &world{}
	s := saver(w, nil)
	b := w.blocks(s, eightBlocks)
	name := func() string { return "a" }
	if err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.SendRested(name)
	if <-b.idle; len(w.sent) != 0 {
		t.Errorf("a file that is saved sends %v beside the program", w.sent)
	}
	b.EndSave()
	b.SendRested(name)
	if <-b.idle; !slices.Equal(slices.Sorted(slices.Values(w.sent)), []int64{0, 1, 2, 3}) {
		t.Errorf("%v are sent beside the program", w.sent)
	}
	if _, err := s.Blocks(t.Context(), w.save("a"), b); err != nil || len(w.sent) != 8 || w.begun != 1 {
		t.Errorf("sent %v with %d uploads, %v", w.sent, w.begun, err)
	}
	whole, err := b.Join(t.Context())
	if err != nil || string(whole.Bytes()) != eightBlocks {
		t.Errorf("joined %q, %v", whole.Bytes(), err)
	}
}

// A part that fails beside the program ends those beside it alone: the save tries again.
func TestW18FailedPartBesideTheProgram(t *testing.T) {
	w := &world{failPart: errLost}
	s := saver(w, nil)
	b := w.blocks(s, eightBlocks)
	b.SendRested(func() string { return "a" })
	if <-b.idle; !b.stopped {
		t.Error("others go on beside the program")
	}
	w.failPart = nil
	if _, err := s.Blocks(t.Context(), w.save("a"), b); err != nil || len(w.sent) != 8 {
		t.Errorf("sent %v, %v", w.sent, err)
	}
}

// A save that is interrupted while a part is on its way leaves nothing that waits for that part, and others begin beside
// the program.
func TestW18InterruptedSaveWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		b := w.blocks(saver(w, nil), eightBlocks)
		goOn := make(chan struct{})
		b.SendRested(func() string { <-goOn; return "a" })
		synctest.Wait()
		ctx, interrupt := context.WithCancelCause(t.Context())
		interrupt(errLost)
		before := runtime.NumGoroutine()
		for range 100 {
			if err := b.Wait(ctx); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
		}
		if n := runtime.NumGoroutine(); n >= before+100 {
			t.Errorf("%d goroutines became %d", before, n)
		}
		b.EndSave()
		b.SendRested(func() string { return "a" })
		close(goOn)
		synctest.Wait()
		if err := b.Wait(t.Context()); err != nil || len(w.sent) != 4 {
			t.Errorf("sent %v, %v", w.sent, err)
		}
	})
}
