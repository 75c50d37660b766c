package web_test

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/svcfs/svcfs/integration/proctest"
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func deflate(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// flip changes one bit of the stored ciphertext.
func (s *site) flip(ref string) {
	s.t.Helper()
	path, err := s.svc.BlobPath(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.Chmod(path, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestVerifyInTheBrowser(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "10")
	alice.register("team")
	text := []byte(strings.Repeat("Meet at nine. ", 20000))
	sum := func(b []byte) string { return fmt.Sprintf("%x", sumOf(b)) }
	packed := object{"version": 1, "compression": "deflate", "original_size": len(text)}
	with := func(key string, value any) object {
		out := object{}
		for k, v := range packed {
			out[k] = v
		}
		out[key] = value
		return out
	}
	large := random(300_000)
	files := []struct {
		name, verdict string
		content       []byte // of the good file
		stored        []byte
		format        any
		sum           string
		flip          bool
	}{
		{"small.txt", "byte-identical", []byte("hello"), []byte("hello"), nil, "", false},
		{"empty.txt", "byte-identical", []byte{}, []byte{}, nil, "", false},
		{"large.bin", "byte-identical", large, large, object{"version": 1}, "", false},
		{"packed.txt", "byte-identical", text, deflate(t, text), packed, sum(text), false},
		{"damaged-small.txt", "byte-mismatched", nil, random(20_000), nil, "", true}, // less lies in the database
		{"damaged-large.bin", "byte-mismatched", nil, large, nil, "", true},
		{"other-content.txt", "byte-mismatched", nil, []byte("hello"), nil, sum([]byte("world")), false},
		{"stripped.txt", "byte-mismatched", nil, deflate(t, text), nil, sum(text), false},
		{"bomb.txt", "byte-mismatched", nil, deflate(t, text), with("original_size", 10), sum(text), false},
		{"cut.txt", "byte-mismatched", nil, deflate(t, text)[:30], packed, sum(text), false},
		{"short.txt", "byte-mismatched", nil, deflate(t, text), with("original_size", len(text)+1), sum(text), false},
		{"trailing.txt", "byte-mismatched", nil, append(deflate(t, text), 0), packed, sum(text), false},
	}
	for _, f := range files {
		up := alice.upload("team", "notes/"+f.name, f.stored, f.format, f.sum)
		if f.flip {
			s.flip(up.CID)
		}
	}
	b := alice.browse()
	downloads := b.downloads()
	b.expect("status of 500") // the service itself finds small damaged ciphertext
	b.js("location.hash = '#/groups/team/notes'")
	for _, f := range files {
		got := b.download(f.name)
		if f.content == nil {
			if !strings.HasPrefix(got, f.verdict) || !strings.Contains(got, "Nothing of it was saved here.") {
				t.Errorf("%s: %s", f.name, got)
			}
			continue
		}
		if got != "Verified and saved" {
			t.Errorf("%s: %s", f.name, got)
		}
		proctest.Eventually(t, f.name+" is downloaded", func() bool {
			got, err := os.ReadFile(filepath.Join(downloads, f.name))
			return err == nil && bytes.Equal(got, f.content)
		})
	}
	there, err := os.ReadDir(downloads)
	if err != nil || len(there) != 4 {
		t.Errorf("%d files were saved, want those that are whole: %v", len(there), err)
	}
	b.click("small.txt")
	b.click("Verify small.txt")
	b.sees("It was paid a moment ago and costs nothing now.")
	if text := eval[string](b, `document.querySelector("dialog").innerText`); strings.Contains(text, "undefined") {
		t.Errorf("the dialog says %q", text)
	}
	b.click("Verify, free")
	b.sees("byte-identical")
	b.click("Verify small.txt") // a dialog ends with its page
	b.sees("Verify small.txt?")
	b.js("location.hash = '#/groups'")
	b.await(`document.querySelector("dialog") === null`)
}

// downloads has the browser save files in a folder of their own.
func (b *tab) downloads() string {
	b.t.Helper()
	dir := b.t.TempDir()
	_, err := chromedp.CallBrowser(b.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
		BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID})
	if err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// download clicks Download in the row of a file, and returns what the row then says.
func (b *tab) download(name string) string {
	b.t.Helper()
	b.await(button("Download " + name))
	b.js(fmt.Sprintf("window.download = %s; download.closest('tr').querySelector('.result').replaceChildren()",
		button("Download "+name)))
	b.click("Download " + name)
	b.await(`!download.disabled && download.closest("tr").querySelector(".result").textContent`)
	return eval[string](b, `download.closest("tr").querySelector(".result").innerText`)
}

// What the memory of a browser does not hold is written while it comes, or told how else to get it.
func TestDownloadOfWhatMemoryDoesNotHold(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != "/account/api/folder" {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		_, _ = io.WriteString(w, strings.ReplaceAll(answer.Body.String(), `"original_size":131073`,
			`"original_size":600000000`))
	}
	alice := s.user("alice", "10")
	alice.register("team")
	content := random(2*64<<10 + 1)
	alice.saveBlocks("team", "a film.mkv", content, nil, numbers(3), fmt.Sprintf("%x", sumOf(content)))
	for _, name := range []string{"whole.bin", "old\u202e/whole.bin"} {
		alice.upload("team", name, content, object{"version": 1, "original_size": len(content)}, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'; delete window.showSaveFilePicker; window.showSaveFilePicker = undefined")
	balance := func() string {
		t.Helper()
		return eval[string](b, "fetch('api/session').then((r) => r.json()).then((s) => s.balance)")
	}
	before := balance()
	if got := b.download("a film.mkv"); !strings.Contains(got,
		"nothing was charged. Use: svcfs get team 'a film.mkv'") {
		t.Error(got)
	}
	if after := balance(); after != before {
		t.Errorf("%s tokens, before %s", after, before)
	}
	b.js(stubPicker)
	if got := b.download("a film.mkv"); got != "Verified and saved" {
		t.Error(got)
	}
	b.await(`saved.name === "a film.mkv"`)
	if got := eval[string](b, savedSum); got != fmt.Sprintf("%x", sumOf(content)) {
		t.Errorf("another content was saved, of SHA-256 %s", got)
	}

	// In one piece it is refused before it is paid. The name of its folder is told as it is shown.
	before = balance()
	if got := b.download("whole.bin"); !strings.Contains(got, "too large for a browser; nothing was charged") {
		t.Error(got)
	}
	b.js(`document.querySelector("[aria-label='Select old%E2%80%AE']").click(); window.showDirectoryPicker = undefined`)
	b.click("Download")
	b.sees("This browser saves no folders; nothing was charged. Use: svcfs get team 'old%E2%80%AE'")
	b.js("window.showDirectoryPicker = () => navigator.storage.getDirectory()")
	b.click("Download")
	b.click("Download for 0.013 tokens")
	b.sees("That did not work. This file is too large for a browser; nothing was charged.")
	if after := balance(); after != before {
		t.Errorf("%s tokens, before %s", after, before)
	}
}
