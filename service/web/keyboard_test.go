package web_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/svcfs/svcfs/integration/proctest"
)

func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "10")
	b := open(t, alice.link())
	b.sees("This link signs you in")
	b.tabTo("Skip to content")
	if hidden := eval[bool](b, "document.activeElement.getBoundingClientRect().bottom <= 0"); hidden {
		t.Error("the skip link is not visible when it has the focus")
	}
	b.press(kb.Enter)
	b.tabTo("Sign in")
	if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("the focus is not visible")
	}
	b.press(kb.Enter)
	b.await("document.getElementById('account')")
	t.Run("a dangerous dialog", func(t *testing.T) {
		b.tabTo("Rotate this key")
		b.press(kb.Enter)
		b.await(button("Yes, rotate key"))
		if got := b.focused(); got != "Cancel" {
			t.Errorf("a dangerous dialog begins at %q", got)
		}
		for range 4 { // the focus stays in the dialog, or in the browser's own controls
			b.press(kb.Tab)
			if eval[bool](b, `document.activeElement !== document.body && !document.activeElement.closest("dialog")`) {
				t.Errorf("Tab left the dialog to %q", b.focused())
			}
		}
		b.press(kb.Escape)
		b.await("!document.querySelector('dialog')")
		if got := b.focused(); got != "Rotate this key" {
			t.Errorf("after Escape the focus is on %q", got)
		}
		b.press(kb.Enter)
		b.await(button("Yes, rotate key"))
		b.tabTo("Yes, rotate key")
		b.press(kb.Enter)
		b.await("document.getElementById('api-key')")
		b.await(`document.getElementById("status").textContent.includes("Save it now")`)
		alice.key = eval[string](b, "document.getElementById('api-key').textContent")
	})
	t.Run("a group, and the way out", func(t *testing.T) {
		b.js("document.activeElement.blur()")
		b.tabTo("Groups")
		b.press(kb.Enter)
		b.sees("You own no group yet")
		if got := b.focused(); got != "Groups" || eval[string](b, "document.activeElement.tagName") != "H1" {
			t.Errorf("a new view begins at %q", got)
		}
		b.tabTo("Create group")
		b.press(kb.Enter)
		b.await("document.activeElement.id === 'f-name'")
		b.press("team", kb.Enter)
		b.sees("No files yet")
		alice.upload("team", "notes.txt", []byte("hello"), nil, "")
		b.tabTo("Members and settings")
		b.press(kb.Enter)
		b.sees("Members (1)")
		b.tabTo("Files")
		b.press(kb.Enter)
		b.await(button("notes.txt"))
		downloads := b.downloads()
		b.tabTo("Download notes.txt")
		b.press(kb.Enter)
		proctest.Eventually(t, "notes.txt is downloaded", func() bool {
			_, err := os.Stat(filepath.Join(downloads, "notes.txt"))
			return err == nil
		})
		if got := b.focused(); got != "Download notes.txt" {
			t.Errorf("after a download the focus is on %q", got)
		}
		b.js("document.getElementById('main').focus()")
		b.tabTo("notes.txt")
		b.press(kb.Enter)
		b.await(`document.querySelector("iframe.preview")`) // it is paid
		b.tabTo("Remove")
		b.press(kb.Enter)
		b.await(button("Yes, remove, free"))
		b.tabTo("Yes, remove, free")
		b.press(kb.Enter)
		b.sees("No files yet")
		b.tabTo("Trash")
		b.press(kb.Enter)
		b.tabTo("Bring back notes.txt")
		b.press(kb.Enter)
		b.sees("The trash is empty")
		b.tabTo("Sign out")
		b.press(kb.Enter)
		b.sees("Ask the operator of this service for a sign-in link")
	})
}
