package integration

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// W7, R1: a document that one account saves in LibreOffice opens in that of
// another, which saves it too: one upload for each save, one retrieval for who
// has not seen it.
func TestDocumentBothWays(t *testing.T) {
	need(t, "soffice", "libreoffice-writer-nogui")
	need(t, unoModule, "python3-uno")
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, w.mkdir("src")+"/letter.txt", []byte("Dear Bob\n"))
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"OUT=" + w.mkdir("out"), "TESTDATA=" + testdata}
	inFolder(t, w.dir, fmt.Sprintf(officeConvert, "odt src/letter.txt --outdir src")+"; cp src/letter.odt a/team/", env...)
	for _, step := range []struct {
		text         string
		writer, peer *mount
	}{{"from alice", a, b}, {"from bob", b, a}, {"from alice again", a, b}} {
		read(t, step.writer.path("team/letter.odt")) // the last step's version, before it is counted
		retrieves, uploads := step.writer.charges()
		got := inFolder(t, step.writer.path("team"), fmt.Sprintf(officeSave, "letter.odt '"+step.text+"'"), env...)
		if got != "locked writable\nunlocked\n" {
			t.Errorf("%s: office.py says %q", step.text, got)
		}
		if r, u := step.writer.charges(); r != retrieves || u != uploads+1 {
			t.Errorf("%s: %d retrievals and %d uploads for a save, want none and one", step.text, r-retrieves, u-uploads)
		}
		want := read(t, step.writer.path("team/letter.odt"))
		eventually(t, func() string {
			if !bytes.Equal(read(t, step.peer.path("team/letter.odt")), want) {
				return step.text + ": the other account does not see it"
			}
			return ""
		})
	}
	shown := inFolder(t, b.path("team"), "HOME=$OUT soffice -env:UserInstallation=file://$OUT/profile --headless --cat letter.odt 2>/dev/null", env...)
	for _, text := range []string{"Dear Bob", "from alice", "from bob", "from alice again"} {
		if !strings.Contains(shown, text) {
			t.Errorf("the document lacks %q: %q", text, shown)
		}
	}
	for _, m := range []*mount{a, b} {
		if text := m.control("pending") + m.control("errors"); text != "" {
			t.Errorf("left: %s", text)
		}
	}
}
