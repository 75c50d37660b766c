package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// The ledger is filtered on the page, and on a phone a page of it is no longer than a few screens.
func TestLedgerIsFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "100"), s.user("bob", "100")
	alice.register("team")
	alice.register("another <b>")
	alice.add("team", bob.id)
	for range 40 {
		bob.upload("team", "notes.txt", []byte("x"), nil, "")
	}
	alice.upload("another <b>", "x", []byte("x"), nil, "")
	b := alice.browse()
	b.js("location.hash = '#/ledger'")
	rows := func(n string) {
		t.Helper()
		b.await("document.querySelectorAll('.records tbody tr').length === " + n +
			" && !document.querySelector('button:disabled')")
	}
	rows("30")
	b.do(chromedp.EmulateViewport(390, 900))
	if tall := eval[float64](b, "document.querySelector('.records').getBoundingClientRect().height"); tall > 3000 {
		t.Errorf("30 records are %.0f tall on a phone", tall)
	}
	b.fits("ledger")
	b.click("Show older records")
	rows("46")
	b.await("document.activeElement.tagName === 'TH'")
	set := func(id, value string) {
		t.Helper()
		b.js("(() => { const e = document.getElementById('f-" + id + "'); e.value = '" + value +
			"'; e.dispatchEvent(new Event('change', { bubbles: true })); })()")
	}
	set("group", "another <b>")
	rows("2")
	set("what", "Files saved")
	rows("1")
	set("group", "team")
	rows("30")
	b.js("document.getElementById('f-mine').click()")
	b.sees("There is no such record.")
	rows("0")
	b.js("location.hash = '#/account'")
	b.sees("Balance")
	b.js("location.hash = '#/ledger'") // it stays as it was set
	b.sees("There is no such record.")
	b.js("document.getElementById('f-mine').click()")
	set("what", "Members")
	rows("1")
	b.sees("Member added")
	set("what", "")
	set("group", "")
	rows("30")
	b.await(`document.querySelector("[title='bob.svc.testnet']").textContent === "bob"`)
}
