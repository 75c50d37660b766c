package tree

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// R2: an upload that is not what its record says is fetched and paid for once, and
// refused from memory until it is asked for again, or a newer version is there.
func TestR2WrongContentIsPaidOnce(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("content"))
	fee, err := wire.ParseTokens("0.013")
	if err != nil {
		t.Fatal(err)
	}
	m := mount(t, w, bob, func(c *Config) { c.Price = func(string) (sdk.Amount, bool) { return fee, true } })
	w.Fail("retrieve", &sdk.Error{Op: "retrieve", Kind: sdk.ErrCorrupt, Err: fmt.Errorf("%w: another hash", sdk.ErrWrongContent)})
	for range 10 {
		_, err := m.read("/team/f")
		wantClass(t, err, ClassCorrupt)
	}
	if n := w.Begun("retrieve"); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	if s := m.Status().Spent; s != "0.013" {
		t.Errorf("spent %s: what came was charged", s)
	}
	if text := string(m.errors.Show()); !strings.Contains(text, "svcfs refresh") {
		t.Errorf("the next step is missing: %s", text)
	}
	if price, ok := m.node("/team/f").(*File).openPrice(); !ok || !price.IsZero() {
		t.Errorf("opening is said to cost %s", price.Tokens())
	}
	m.refresh()
	_, err = m.read("/team/f")
	wantClass(t, err, ClassCorrupt)
	if n := w.Begun("retrieve"); n != 2 {
		t.Errorf("fetched %d times after a refresh", n)
	}
	w.Fail("retrieve", nil)
	w.Put("team", alice, "f", []byte("newer"))
	if err := m.look.Refresh(t.Context()); err != nil { // as the mount does on its own
		t.Fatal(err)
	}
	m.wantContent("/team/f", "newer")
}

// Threat 8: files that do not fit beside what is open wait, before they are paid for,
// and not for ever.
func TestThreat8LargeFilesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		w := team()
		for i := range 3 {
			w.Put("team", alice, fmt.Sprint(i), make([]byte, size))
		}
		w.Put("team", alice, "small", []byte("content"))
		m := mount(t, w, bob, func(c *Config) { c.CacheBytes = size / 2 })
		first := m.open("/team/0", OpenFlags{Read: true})
		_, err := m.read("/team/1") // the time of the bubble passes at once
		wantClass(t, err, ClassNoMemory)
		if text := string(m.errors.Show()); !strings.Contains(text, "--cache-size") {
			t.Errorf("the next step is missing: %s", text)
		}
		m.wantContent("/team/small", "content")
		m.wantCharges(2, 0)
		waiting := make(chan error, 1)
		go func() {
			_, err := m.read("/team/2")
			waiting <- err
		}()
		synctest.Wait()
		m.wantCharges(2, 0)
		first.Release()
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		m.wantCharges(3, 0)
	})
}
