package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/testkit"
)

// largest is the largest file of a client that is lied to, in bytes.
const largest = 8 << 20

// Whatever the one lie is: the right kind of error, nothing in the buffer, no secret in the message, no
// request elsewhere, an end in time; and the next honest answer works.
func TestThreats4To13EveryLie(t *testing.T) {
	t.Parallel()
	meetLies(t, testkit.OnRetrieve, testkit.OnUpload, testkit.OnList, testkit.OnToken, testkit.OnWatch)
}

// Threats 5 and 6 by a service that lies consistently: a client that runs, and one that begins and remembers
// what an earlier one saw, get an error that says what was proven false, and not one entry. When the service
// tells the truth again, so does the client.
func TestThreat5Threat6ConsistentLiars(t *testing.T) { meetLies(t, testkit.OnHistory) }

// Threat 50: whatever a service lies about a file of format version 2, or its uploader recorded, no wrong byte
// is given out, the error says what was proven false and who did it, and the next honest answer is read.
func TestThreat50LiesAboutBlocks(t *testing.T) { meetLies(t, testkit.OnBlocks) }

// Threat 13: what confirms an upload or another change is its own record with the log's receipt, or the call fails;
// in a batch each upload has its own. Repeated, each is recorded and paid once.
func TestThreat13FalseReceipts(t *testing.T) {
	t.Parallel()
	meetLies(t, testkit.OnReceipt, testkit.OnBatch, testkit.OnFolder, testkit.OnChange)
}

// Threat 51: no key is sealed to a key of the vault that the pinned key of the log did not sign, that ended, or that
// is older than one seen before. Nothing is sent.
func TestThreat51KeysOfTheVault(t *testing.T) {
	t.Parallel()
	meetLies(t, testkit.OnVault)
}

// Threat 76: a root of names that is not the one that the records of the group give is found by who reads them all.
func TestThreat76LiesAboutNames(t *testing.T) {
	t.Parallel()
	meetLies(t, testkit.OnNames)
}

// Threat 76: an answer for one name, or for one folder, that the signed root of names does not prove is refused.
func TestThreat76LiesAboutParts(t *testing.T) {
	t.Parallel()
	meetLies(t, testkit.OnPart)
}

// The name of a lie is that of its test.
func TestLiesHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, lie := range testkit.Lies() {
		if seen[lie.Name] {
			t.Errorf("two lies are called %q", lie.Name)
		}
		seen[lie.Name] = true
	}
}

// change makes each change of a file of two versions.
func (v *victim) change(ctx context.Context) error {
	v.n++
	g, name := v.c.Group(v.w.Group), fmt.Sprint(v.lie.Name, v.n)
	var r sdk.Receipt
	for range 2 {
		var err error
		if r, err = g.Put(ctx, name, strings.NewReader(name)); err != nil {
			v.t.Fatal(err)
		}
	}
	if _, err := g.Remove(ctx, name); err != nil {
		return err
	}
	if _, err := g.Restore(ctx, name); err != nil {
		return err
	}
	if _, err := g.SetAttributes(ctx, r.Ref, sdk.Attributes{Executable: true}); err != nil {
		return err
	}
	if _, err := g.Rename(ctx, r.Ref, name+" renamed"); err != nil {
		return err
	}
	_, err := g.Delete(ctx, r.Ref)
	return err
}

// meetLies has a client meet every lie about some subjects, but for those of [TestThreat8MemoryStaysBounded].
// One service tells some of a subject, one after the other: the history that each is about gets longer with each.
func meetLies(t *testing.T, subjects ...testkit.Subject) {
	for _, on := range subjects {
		for _, large := range []bool{false, true} {
			of := func(l testkit.Lie) bool { return l.On != on || l.Large != large || l.Threat == 8 }
			list := slices.DeleteFunc(testkit.Lies(), of)
			for some := range slices.Chunk(list, 10) {
				t.Run(fmt.Sprint(on, map[bool]string{true: " of a large file"}[large]), func(t *testing.T) {
					t.Parallel()
					w := testkit.NewWorld(t, on, large)
					for _, lie := range some {
						t.Run(fmt.Sprintf("Threat%d %s", lie.Threat, lie.Name),
							func(t *testing.T) { meetLie(t, w, lie) })
					}
				})
			}
		}
	}
}

// meetLie has a client meet a lie, and then the truth.
func meetLie(t *testing.T, w *testkit.World, lie testkit.Lie) {
	t.Helper()
	v := &victim{t: t, w: w, lie: lie}
	asked := w.AskedElsewhere()
	v.begin()
	w.Tell(lie)
	v.meet()
	w.Repent()
	v.recover()
	if n := w.AskedElsewhere() - asked; n != 0 {
		t.Errorf("%d requests went to another host", n)
	}
}

// resident returns the memory this process occupies, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// peakOf runs f and returns by how much the resident memory grew meanwhile,
// looked at every 50 ms.
func peakOf(t *testing.T, f func()) int64 {
	t.Helper()
	debug.FreeOSMemory()
	before, peak := resident(t), int64(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return max(peak, resident(t)-before)
		case <-tick.C:
			peak = max(peak, resident(t)-before)
		}
	}
}

// Threat 8: bombs and answers without end take at most three times the largest allowed file and 64 MiB, and
// end, as every lie does. It runs without the race detector, which keeps notes of memory.
func TestThreat8MemoryStaysBounded(t *testing.T) { // alone: it measures the memory of the process
	for _, lie := range testkit.Lies() {
		if lie.Threat != 8 {
			continue
		}
		t.Run(lie.Name, func(t *testing.T) {
			w := testkit.NewWorld(t, lie.On, lie.Large)
			grown := peakOf(t, func() { meetLie(t, w, lie) })
			if most := int64(3*largest + 64<<20); grown > most {
				t.Errorf("the memory grew by %d bytes, allowed are %d", grown, most)
			}
		})
	}
}

// victim is who is lied to.
type victim struct {
	t   *testing.T
	w   *testkit.World
	lie testkit.Lie

	c   *sdk.Client
	dir string // what c has seen, for clients after it
	new *sdk.Client
	n   int

	batch  []*sdk.Sealed // four, for one request
	before int           // records
}

// begin makes the clients. Those that are told another history have seen the true one, or nothing.
func (v *victim) begin() {
	v.t.Helper()
	switch v.lie.On {
	case testkit.OnHistory:
	case testkit.OnVault:
		v.dir = v.t.TempDir()
		before := v.client(v.dir)
		v.c = before
		if err := errors.Join(v.try(v.t.Context()), before.Close()); err != nil {
			v.t.Fatal(err)
		}
		v.c = v.client(v.dir)
		return
	default:
		v.c = v.client("")
		return
	}
	v.dir = v.t.TempDir()
	v.c, v.new = v.client(v.dir), v.client("")
	listed(v.t, v.c, v.w.Group, 4)
	before := v.client(v.dir)
	listed(v.t, before, v.w.Group, 4)
	if err := before.Close(); err != nil {
		v.t.Fatal(err)
	}
}

func (v *victim) client(dir string) *sdk.Client {
	v.t.Helper()
	who := v.w.Alice
	if v.lie.On == testkit.OnHistory {
		who = v.w.Bob
	}
	return v.w.Client(v.t, who, func(cfg *sdk.Config) {
		cfg.StateDir, cfg.Timeout = dir, 5*time.Minute
		if v.lie.On != testkit.OnBlocks { // whose files are larger
			cfg.MaxFileBytes = largest
		}
		if v.lie.On == testkit.OnPart {
			cfg.SmallGroup = -1
		}
		if v.lie.On == testkit.OnChain {
			cfg.ListMemory = 32 << 20
		}
		if v.lie.Want == sdk.ErrTimeout {
			cfg.Timeout = 100 * time.Millisecond
		}
	})
}

// meet tries what the lie is about, and judges how it ends.
func (v *victim) meet() {
	v.t.Helper()
	ctx := v.t.Context()
	switch v.lie.On {
	case testkit.OnHistory:
		if v.lie.Proven != "does not any more" { // capabilities are asked for once by a client
			v.deceived("a client that runs", v.c)
		}
		v.deceived("a client that remembers", v.client(v.dir))
		if !v.lie.Unseen {
			v.lie.Proven = "" // another thing is
			v.deceived("a client that remembers nothing", v.new)
		}
	case testkit.OnBlocks:
		v.blocks(ctx)
	case testkit.OnBatch:
		v.before = v.w.Records()
		for i := range 4 {
			up, err := v.c.Group(v.w.Group).Seal(ctx, fmt.Sprint("sealed ", i), fmt.Append(nil, v.lie.Name, i), nil)
			if err != nil {
				v.t.Fatal(err)
			}
			v.batch = append(v.batch, up)
		}
		v.send(v.lie.Unconfirmed)
	case testkit.OnVault:
		v.before = v.w.Records()
		for range 2 {
			v.check("a save", v.try(ctx))
		}
		if n := v.w.Records() - v.before; n != 0 {
			v.t.Errorf("%d uploads were recorded", n)
		}
	default:
		v.check("it", v.try(ctx))
	}
}

// recover tries the same with a service that is honest again.
func (v *victim) recover() {
	v.t.Helper()
	switch v.lie.On {
	case testkit.OnHistory:
		listed(v.t, v.c, v.w.Group, 4)
		listed(v.t, v.client(v.dir), v.w.Group, 4)
		return
	case testkit.OnBlocks:
		if given, err := drain(v.t, v.c.Group(v.w.Group), v.w.Entry); err != nil || !bytes.Equal(given, v.w.Content) {
			v.t.Errorf("the next honest answer: %d bytes, %v", len(given), err)
		}
		return
	case testkit.OnBatch:
		v.send(0)
		if n := v.w.Records() - v.before; n != len(v.batch) {
			v.t.Errorf("%d records of %d uploads", n, len(v.batch))
		}
		return
	case testkit.OnVault:
		v.c = v.client(v.dir)
	case testkit.OnToken:
		if err := v.c.RefreshToken(v.t.Context()); err != nil {
			v.t.Errorf("a new token: %v", err)
		}
	}
	if err := v.try(v.t.Context()); err != nil {
		v.t.Errorf("the next honest answer: %v", err)
	}
}

// send sends the batch, of which some must fail.
func (v *victim) send(unconfirmed int) {
	v.t.Helper()
	failed := 0
	for i, sent := range v.c.SendSealed(v.t.Context(), v.batch...) {
		if sent.Err == nil && sent.Receipt.Hash == sdk.HashOf(v.batch[i]) {
			continue
		}
		failed++
		v.check(fmt.Sprint("upload ", i), sent.Err)
	}
	if failed != unconfirmed {
		v.t.Errorf("%d of %d are not confirmed, want %d", failed, len(v.batch), unconfirmed)
	}
}

// deceived lists and reads, and gets nothing.
func (v *victim) deceived(who string, c *sdk.Client) {
	v.t.Helper()
	g := c.Group(v.w.Group)
	entries, err := g.Entries(v.t.Context())
	v.check(who, err)
	if len(entries) > 0 {
		v.t.Errorf("%s lists %d entries", who, len(entries))
	}
	if b, _, err := sdktest.Read(v.t.Context(), g, "payroll.txt"); err == nil {
		v.t.Errorf("%s read %q", who, b)
	}
}

// blocks reads a file in its three ways. A lie beside blocks that are the right ones, such as bytes after them,
// need not end a read of a whole file.
func (v *victim) blocks(ctx context.Context) {
	v.t.Helper()
	g, content := v.c.Group(v.w.Group), v.w.Content
	askBlocks(v.t, g, v.w.Entry, func(list [][]byte, err error) {
		v.check("blocks", err)
		for _, got := range list {
			if len(got) > 0 {
				v.t.Errorf("%d bytes of a block were given out", len(got))
			}
		}
	})
	harmed := func(what string, given []byte, err error) {
		v.t.Helper()
		if err == nil && !v.lie.Uploader && bytes.Equal(given, content) {
			return
		}
		v.check(what, err)
		if !bytes.HasPrefix(content, given) || len(given) == len(content) {
			v.t.Errorf("%s gave out %d bytes", what, len(given))
		}
	}
	given, err := drain(v.t, g, v.w.Entry)
	harmed("a file", given, err)
	b := buffer(v.t, 0)
	_, err = g.Retrieve(ctx, v.w.Entry, b)
	harmed("a buffer", b.Bytes(), err)
	if err != nil && b.Len() > 0 {
		v.t.Errorf("%d bytes are in the buffer", b.Len())
	}
}

// try does what the lie is about.
func (v *victim) try(ctx context.Context) error {
	v.t.Helper()
	switch v.lie.On {
	case testkit.OnUpload:
		for range 2 { // the second meets a key that was handed out before
			if err := v.upload(ctx); err != nil {
				return err
			}
		}
		return nil
	case testkit.OnWatch:
		return v.watch(ctx)
	case testkit.OnReceipt, testkit.OnVault:
		v.n++
		_, err := v.c.Group(v.w.Group).Put(ctx, "new.txt", strings.NewReader(fmt.Sprint(v.lie.Name, v.n)))
		return err
	case testkit.OnFolder:
		v.n++
		g, folder := v.c.Group(v.w.Group), fmt.Sprint(v.lie.Name, v.n)
		r, err := g.Put(ctx, folder+"/x", strings.NewReader("x"))
		if err != nil {
			v.t.Fatal(err)
		}
		if _, err := g.RenameFolder(ctx, folder, folder+" renamed", r.Seq); err != nil {
			return err
		}
		if _, err := g.MakeFolder(ctx, folder); err != nil {
			return err
		}
		_, err = g.RemoveFolder(ctx, folder)
		return err
	case testkit.OnChange:
		return v.change(ctx)
	case testkit.OnNames:
		report, err := v.c.Group(v.w.Group).Verify(ctx)
		if err == nil && report.Names == "" {
			v.t.Error("no root of names was verified")
		}
		few := v.client("")
		sdk.SetShare(few, 3000)
		inShares, err2 := few.Group(v.w.Group).Verify(ctx)
		if fmt.Sprint(err) != fmt.Sprint(err2) || err == nil && (inShares.Files != report.Files ||
			inShares.Names != report.Names) {
			v.t.Errorf("in shares: %+v, %v", inShares, err2)
		}
		return err
	case testkit.OnPart:
		return v.part(ctx)
	case testkit.OnList, testkit.OnChain:
		entries, err := v.c.Group(v.w.Group).Entries(ctx)
		for _, e := range entries {
			if e.Ref == "" || e.Size < sdk.SizeUnknown || err != nil {
				v.t.Errorf("entry %+v with %v", e, err)
			}
		}
		return err
	}
	b := buffer(v.t, 0)
	_, err := v.c.Group(v.w.Entry.Group).Retrieve(ctx, v.w.Entry, b)
	if err != nil && b.Len() != 0 {
		v.t.Errorf("%d bytes are in the buffer", b.Len())
	}
	if err == nil && !bytes.Equal(b.Bytes(), v.w.Content) {
		v.t.Error("other content than the file's")
	}
	return err
}

// part asks for one folder and for one name.
func (v *victim) part(ctx context.Context) error {
	v.t.Helper()
	g := v.c.Group(v.w.Group)
	children, err := g.Children(ctx, "docs")
	if err == nil && len(children) != 3 || err != nil && len(children) > 0 {
		v.t.Errorf("%d files with %v", len(children), err)
	}
	if err != nil {
		return err
	}
	child, err := g.Child(ctx, "draft.txt")
	if (child.File != nil) != (err == nil) {
		v.t.Errorf("file %+v with %v", child.File, err)
	}
	return err
}

func (v *victim) upload(ctx context.Context) error {
	v.n++
	content := fmt.Append(bytes.Clone(v.w.Content), v.n, v.lie.Name) // which the service has not
	b := buffer(v.t, int64(len(content)))
	copy(b.Bytes(), content)
	_, err := v.c.Group(v.w.Group).Upload(ctx, fmt.Sprint("upload ", v.n), b)
	if !bytes.Equal(b.Bytes(), content) {
		v.t.Error("the plaintext was not restored")
	}
	return err
}

// watch waits until it is told of an upload, has had more than enough, or heard
// nothing for a while; or the watch ends for a reason.
func (v *victim) watch(ctx context.Context) error {
	silent := strings.Contains(v.lie.Name, "no answer")
	patience := 5 * time.Minute
	if silent {
		patience = time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, err := v.c.Watch(ctx, 0)
	if err != nil {
		return err
	}
	v.n++
	r, err := v.c.Group(v.w.Group).Put(ctx, fmt.Sprint("watched ", v.n), bytes.NewReader([]byte("x")))
	if err != nil {
		return err
	}
	last, told := sdk.Seq(0), 0
	for e, err := range events {
		switch {
		case ctx.Err() != nil:
			if !silent {
				v.t.Error("nothing is told")
			}
			return nil
		case err != nil:
			return err
		case e.Ref == r.Ref:
			return nil
		}
		if told++; e.Seq <= last && !strings.Contains(v.lie.Name, "goes back") {
			v.t.Errorf("event %d is told after %d", e.Seq, last)
		}
		if last = e.Seq; told == 2000 {
			return nil
		}
	}
	return errors.New("the watch ends without a reason")
}

// check judges what a lie ended in.
func (v *victim) check(what string, err error) {
	v.t.Helper()
	if v.lie.Survives {
		if err != nil {
			v.t.Errorf("%s: a passing fault ends in %v", what, err)
		}
		return
	}
	if err == nil || sdk.KindOf(err) != v.lie.Want || v.lie.On == testkit.OnBlocks && errors.Is(err, sdk.ErrWrongContent) != v.lie.Uploader || !strings.Contains(err.Error(), v.lie.Proven) {
		v.t.Errorf("%s: kind %q, want %q and %q: %v", what, sdk.KindOf(err), v.lie.Want, v.lie.Proven, err)
		return
	}
	text := fmt.Sprintf("%v %+v %#v ", err, err, err)
	for _, secret := range []string{"eyJ", v.w.Alice.Key.Reveal(), "the plaintext that", "\x1b", "\u202e", "<script>", "<html"} {
		if strings.Contains(text, secret) {
			v.t.Errorf("the error shows %q: %s", secret, text)
		}
	}
	if len(err.Error()) > 1000 {
		v.t.Errorf("the error has %d characters", len(err.Error()))
	}
}
