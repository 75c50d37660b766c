package web_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// axeSum is the SHA-256 of axe.min.js of axe-core 4.14.1 from the registry of npm (MPL-2.0), whose package has the
// integrity sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// axe is the source of axe-core, which looks for barriers in a page.
func axe(t *testing.T) string {
	t.Helper()
	packed, err := os.ReadFile("testdata/axe-core/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil || fmt.Sprintf("%x", sumOf(raw)) != axeSum {
		t.Fatalf("axe-core is not the one that is pinned: %x, %v", sumOf(raw), err)
	}
	return string(raw)
}

// barriers runs axe-core, in light and dark, on a desktop and a phone, and fails for each finding.
func (b *tab) barriers(what string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
			Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}}
		if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
			b.t.Fatal(err)
		}
		for _, width := range []int64{1280, 390} {
			b.do(chromedp.EmulateViewport(width, 900))
			found := eval[[]string](b, `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
				.then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`)
			for _, f := range found {
				b.t.Errorf("%s, %s, %d wide: %s", what, scheme, width, strings.ReplaceAll(f, "\n", " "))
			}
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900))
}

// Nothing on the page keeps somebody out who does not see or hear it well, as far as axe-core finds it.
func TestNoBarriers(t *testing.T) {
	t.Parallel()
	source := axe(t)
	alice := gallery(t)
	b := open(t, alice.url+"/account/")
	b.sees("svcd account link NAME")
	b.js(source)
	b.barriers("signed out")
	b.open("about:blank")
	b.open(alice.link())
	b.click("Sign in")
	b.await("document.getElementById('account')")
	b.js(source)
	show := func(view string) {
		t.Helper()
		b.js("location.hash = '#/none'; location.hash = '" + view + "'")
		b.await("document.querySelector('h1') && " + isDrawn)
	}
	for _, view := range []string{"#/account", "#/groups", "#/groups/design", "#/groups/design/interviews",
		"#/groups/finance%202026", "#/members/design", "#/trash/design",
		"#/groups/autumn%20hackathon", "#/file/design/plan.pdf", "#/ledger"} {
		show(view)
		b.barriers(view)
	}
	for view, steps := range map[string][]string{
		"#/account":               {"Rotate this key"},
		"#/groups":                {"Create group"},
		"#/groups/design":         {"New folder"},
		"#/members/design":        {"Make an invite"},
		"#/file/design/notes.md":  {"Preview for 0.013 tokens"},
		"#/file/design/plan.pdf":  {"Verify plan.pdf"},
		"#/groups/finance%202026": {"Upload files"},
	} {
		show(view)
		for _, step := range steps {
			b.click(step)
		}
		b.await(`document.querySelector("dialog[open], iframe, input[type=file]")`)
		b.barriers(view + " " + strings.Join(steps, ", "))
		b.js(`document.querySelector("dialog[open]")?.close()`)
	}
	show("#/groups/design")
	b.js(`document.querySelector("[aria-label='Select plan.pdf']").click()`)
	b.choose(false, `[["plan b.txt", "x"]]`)
	b.click("Upload for 0.039 tokens")
	b.sees("Saved, for 0.039 tokens")
	b.barriers("an upload")
}
