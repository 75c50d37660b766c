package web_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// picture is a PNG.
func picture(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 320, 200))
	for y := range 200 {
		for x := range 320 {
			m.Set(x, y, color.RGBA{uint8(x / 2), 120, uint8(120 + y/2), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A picture and a text are shown once they are verified, in a frame in which nothing runs; what is not what its
// uploader saved is not shown.
func TestThreat36PreviewRunsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var strange atomic.Int32
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/account/pwned" {
			strange.Add(1)
		}
		next.ServeHTTP(w, r)
	}
	alice := s.user("alice", "10")
	alice.register("team")
	const script = `<script>parent.pwned = 1</script><img src="/account/pwned" onerror="parent.pwned = 1">`
	svg := `<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" onload="parent.pwned = 1"><script>parent.pwned = 1; fetch("/account/pwned")</script>
		<image href="` + s.url + `/account/pwned" width="9" height="9"/><rect width="90" height="60" fill="teal"/></svg>`
	alice.upload("team", "photo.png", picture(t), nil, "")
	alice.upload("team", "logo.svg", []byte(svg), nil, "")
	alice.upload("team", "page.html", []byte(script), nil, "")
	alice.upload("team", "<img src=x onerror=pwned=1>.md", []byte("# Plan"), nil, "")
	alice.upload("team", "long.log", []byte(strings.Repeat("a line\n", 80_000)), nil, "")
	alice.upload("team", "strange.txt", []byte{0, 1, 2}, nil, "")
	alice.upload("team", "broken.png", []byte("no picture"), nil, "")
	alice.upload("team", "film.mkv", []byte("x"), nil, "")
	alice.upload("team", "lie.txt", []byte("hello"), nil, strings.Repeat("0", 64))
	s.flip(alice.upload("team", "damaged.png", random(70_000), nil, "").CID)
	b := alice.browse()
	show := func(name string) {
		t.Helper()
		b.js("location.hash = '#/file/team/" + strings.NewReplacer("<", "%3C", ">", "%3E", " ", "%20").Replace(name) +
			"'")
		b.await("document.querySelector('h1').textContent === '" + name + "' && " + isDrawn)
	}
	preview := func(name, becomes string) {
		t.Helper()
		show(name)
		b.click("Preview for 0.013 tokens")
		b.await(becomes)
	}
	const inside = `document.querySelector("iframe.preview[sandbox=allow-same-origin]")?.contentDocument`
	preview("photo.png", inside+"?.querySelector('img').naturalWidth === 320")
	if title := eval[string](b, `document.querySelector("iframe").title`); title != "Preview of photo.png" {
		t.Error(title)
	}
	if eval[string](b, "document.activeElement.tagName") != "IFRAME" {
		t.Error("the keyboard is not where the picture is")
	}
	b.fits("picture")
	b.js("location.hash = '#/groups/team'")
	show("photo.png")
	b.await(inside + "?.querySelector('img').naturalWidth === 320") // it is paid
	preview("logo.svg", inside+"?.querySelector('img').naturalWidth === 90")
	preview("page.html", inside+"?.querySelector('pre').textContent.startsWith('<script>')")
	preview("<img src=x onerror=pwned=1>.md", inside+"?.querySelector('pre').textContent === '# Plan'")
	preview("long.log", inside+"?.querySelector('pre').textContent.length === 500000")
	b.sees("This is its beginning.")
	preview("broken.png", inside+"?.querySelector('img')")
	preview("strange.txt", `document.body.innerText.includes("There is no preview")`)
	if eval[bool](b, `document.querySelector("iframe") !== null`) {
		t.Error("bytes are shown as text")
	}
	for _, name := range []string{"lie.txt", "damaged.png"} {
		preview(name, `document.querySelector("main .badge.bad")`)
		if eval[bool](b, `document.querySelector("iframe") !== null`) {
			t.Errorf("%s is shown", name)
		}
	}
	show("film.mkv")
	if eval[bool](b, `Boolean(`+button("Preview for 0.013 tokens")+`)`) {
		t.Error("a film has a preview")
	}
	if n := strange.Load(); n > 0 || eval[bool](b, "window.pwned !== undefined") {
		t.Errorf("something ran, or was fetched %d times", n)
	}
}
