package web_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/enginetest"
)

var update = flag.Bool("update", false, "write testdata/*.png anew")

// pictures are of the README; maxPicture keeps it light.
var pictures = []struct {
	name, view, shows, scheme string
	width, height             int64
}{
	{"account-light", "#/account", "API key", "light", 1180, 800},
	{"group-light", "#/groups/design", "Verified and saved", "light", 1180, 900},
	{"groups-dark", "#/groups", "Open to join", "dark", 1180, 900},
	{"ledger-dark", "#/ledger", "Records", "dark", 1180, 900},
	{"group-phone", "#/groups/design", "plan.pdf", "light", 390, 900},
}

const maxPicture = 200 << 10

func TestScreenshots(t *testing.T) {
	t.Parallel()
	if *update {
		takePictures(t)
	}
	for _, p := range pictures {
		info, err := os.Stat(pictureFile(p.name))
		if err != nil {
			t.Fatalf("%v: run go test ./service/web -run Screenshots -update", err)
		}
		if info.Size() > maxPicture || info.Size() < 1<<10 {
			t.Errorf("%s has %d bytes", info.Name(), info.Size())
		}
	}
}

func pictureFile(name string) string { return filepath.Join("testdata", name+".png") }

func takePictures(t *testing.T) {
	alice := gallery(t)
	b := alice.browse()
	for _, p := range pictures {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
			Value: p.scheme}}}
		if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.EmulateViewport(p.width, p.height))
		b.open("about:blank")
		b.open(alice.url + "/account/" + p.view)
		if p.shows == "Verified and saved" {
			b.downloads()
			b.click("Download plan.pdf")
		}
		b.sees(p.shows)
		b.js("scrollTo(0, 0)")
		raw, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pictureFile(p.name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// gallery is a service with something to show.
func gallery(t *testing.T) *user {
	s := serve(t)
	alice, bob := s.user("alice", "100"), s.user("bob", "100")
	alice.register("design")
	alice.register("finance 2026")
	for _, member := range []string{"bob", "carol"} {
		alice.add("design", member)
	}
	bob.register("field-notes")
	bob.add("field-notes", alice.id)
	var text string
	bob.must(wire.OpCreateHackathonGroup, wire.OpenJoinRequest{GroupID: "autumn hackathon",
		ExpiresAt: strconv.FormatInt(time.Now().Add(72*time.Hour).UnixNano(), 10)}, &text)
	alice.upload("design", "brand/poster.png", picture(t), nil, "")
	alice.upload("design", "notes.md",
		[]byte("# Kick-off\n\n- who decides about the name\n- first sketch on Thursday\n"), nil, "")
	for i, name := range []string{"interviews/2026-11-03.md", "interviews/2026-11-10.md", "prototype.fig", "plan.pdf"} {
		u := []*user{alice, bob}[i%2]
		u.upload("design", name, random([]int{4_210, 5_377, 812_000, 240_113}[i]), nil, "")
	}
	deleted := alice.upload("design", "draft.pdf", random(90_000), nil, "")
	alice.must(wire.OpDeleteFile, wire.FileRequest{GroupID: "design", IPFSHash: deleted.CID}, &text)
	for day := range 24 { // costs of the days before, of a ledger that is not audited
		if day%7 < 5 && !enginetest.OnPostgres(t) { // the rows are written as SQLite writes them
			alice.spend(day+1, (day*day)%5+1)
		}
	}
	return alice
}

// spend plants rows of an earlier day in the ledger, for the chart alone.
func (u *user) spend(daysAgo, times int) {
	for i := range times {
		u.sql(`INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash)
			SELECT -?, ?, 'record_transaction', max(time_ns) - ?, ?, 'design', '', '', '', '39000000000000000000000', '', zeroblob(32), zeroblob(32) FROM ledger`,
			daysAgo*100+i, fmt.Sprintf("planted-%d-%d", daysAgo, i), int64(daysAgo)*86400e9, u.id)
	}
}
