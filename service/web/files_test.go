package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// names are those of the table of files, as they stand.
func (b *tab) names() string {
	b.t.Helper()
	return eval[string](b, `Array.from(document.querySelectorAll(".files tbody th"), (n) => n.querySelector("a, span").textContent).join(", ")`)
}

// Folders and files are in one table, which sorts and filters by the keyboard alone.
func TestFilesAreSortedAndFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	for i, name := range []string{"File 10.txt", "file 2.txt", "Zoo/x", "art/y"} {
		[]*user{alice, bob}[i%2].upload("team", name, random(2000-100*i), object{"version": 1, "attributes": object{"mtime": fmt.Sprint(int64(i+1) * 86_400e9)}}, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	b.await(button("Size"))
	if got := b.names(); got != "art, Zoo, file 2.txt, File 10.txt" {
		t.Errorf("at first: %s", got)
	}
	sort := func(by, want string) {
		t.Helper()
		b.tabTo(by)
		b.press(kb.Enter)
		if got := b.names(); got != want {
			t.Errorf("by %s: %s", by, got)
		}
		if focused := b.focused(); focused != by {
			t.Errorf("then the focus is on %q", focused)
		}
	}
	sort("Size", "art, Zoo, file 2.txt, File 10.txt")
	b.press(kb.Enter)
	if got := b.names(); got != "art, Zoo, File 10.txt, file 2.txt" {
		t.Errorf("the largest first: %s", got)
	}
	if got := eval[string](b, `Array.from(document.querySelectorAll("[aria-sort]"), (e) => e.textContent + " " + e.getAttribute("aria-sort")).join()`); got != "Size descending" {
		t.Error(got)
	}
	sort("Changed", "art, Zoo, File 10.txt, file 2.txt")
	sort("Saved by", "art, Zoo, file 2.txt, File 10.txt")
	b.await(`document.querySelector("[title='bob.svc.testnet']").textContent === "bob"`)
	b.js("document.getElementById('f-filter').focus()")
	b.press("E", " ", "1")
	b.sees("1 of 4 names shown")
	if got := b.names(); got != "File 10.txt" {
		t.Errorf("filtered: %s", got)
	}
	b.fits("filter")
	b.press(kb.Enter) // sends nothing
	b.js("window.dispatchEvent(new Event('uploaded'))")
	b.js("location.hash = '#/groups/team/art'")
	b.await("document.querySelector('h1').textContent === 'art'")
	if got := b.names(); got != "y" {
		t.Errorf("the filter of another folder: %s", got)
	}
}

// What has not come yet is fetched when it is looked for.
func TestFilterLooksThroughAll(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "100")
	alice.register("team")
	for i := range 230 {
		alice.upload("team", fmt.Sprintf("file %03d", i), []byte(strings.Repeat("x", i)), nil, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	b.sees("100 names of more")
	b.click("Show more")
	b.sees("200 names of more")
	b.await(`document.activeElement.textContent === "file 100"`)
	b.click("Size")
	b.click("Size")
	b.await(`document.querySelector(".files tbody a").textContent === "file 229"`)
	b.open("about:blank")
	b.open(s.url + "/account/#/groups/team")
	b.fill("filter", "229")
	b.sees("1 of 230 names shown")
	b.fill("filter", "none of them")
	b.sees("0 of 230 names shown")
}
