package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/enginetest"
)

// marker is in the content of every file that a test uploads.
const marker = "a word that must not leave the browser"

// recorded keeps the bodies of what the page sends.
type recorded struct {
	mu     sync.Mutex
	bodies []string
	breaks atomic.Int32 // PUTs whose connection breaks in the middle
}

// listen keeps what comes from now on.
func (s *site) listen() *recorded {
	rec := &recorded{}
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/account/api/") && r.Method != http.MethodGet {
			raw, _ := io.ReadAll(r.Body)
			rec.mu.Lock()
			rec.bodies = append(rec.bodies, r.URL.RequestURI()+" "+string(raw))
			rec.mu.Unlock()
			if r.Method == http.MethodPut && rec.breaks.Add(-1) >= 0 {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
		}
		next.ServeHTTP(w, r)
	}
	return rec
}

// holdsNone fails when content left the browser, and returns how many requests carried content.
func (rec *recorded) holdsNone(t *testing.T) (puts int) {
	t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, body := range rec.bodies {
		if strings.Contains(body, marker) {
			t.Errorf("plaintext was sent: %.80s", body)
		}
		if strings.HasPrefix(body, "/account/api/uploads/") {
			puts++
		}
	}
	return puts
}

// choose has the browser choose files, as JavaScript: [name, content] each; with drop they are dropped.
func (b *tab) choose(drop bool, files string) {
	b.t.Helper()
	b.await(isDrawn + " && " + button("Upload files"))
	b.js(`(() => {
		const data = new DataTransfer();
		for (const [name, ...content] of ` + files + `) data.items.add(new File(content, name, { type: "text/plain", lastModified: 1700000000000 }));
		const section = document.querySelector('[aria-label="Files"]');
		if (` + fmt.Sprint(drop) + `) {
			for (const kind of ["dragenter", "dragover", "drop"]) section.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
			return;
		}
		const input = section.querySelector("input[type=file]");
		input.files = data.files;
		input.dispatchEvent(new Event("change"));
	})()`)
}

// plain reads a file of format version 1 as another client does.
func (u *user) plain(group, ref string) (string, format.Metadata) {
	u.t.Helper()
	var answer wire.PrepareRetrieveResult
	u.must(wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: ref}, &answer)
	key, err1 := format.ParseKey(answer.Key)
	meta, err2 := format.ParseMetadata(answer.Format)
	var sealed []byte
	err3 := json.Unmarshal([]byte(`"`+answer.EncryptedB64+`"`), &sealed)
	if err1 != nil || err2 != nil || err3 != nil {
		u.t.Fatal(err1, err2, err3)
	}
	content, err := format.OpenBlob(key, sealed)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(content), meta
}

func TestThreat59UploadOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *service.Config) { cfg.MaxFileBytes = 64 << 20 })
	sent := s.listen()
	alice := s.user("alice", "10")
	alice.register("team")
	alice.upload("team", "notes/old/x.txt", []byte("x"), nil, "")
	b := alice.browse()
	b.js("location.hash = '#/groups/team/notes'")
	b.choose(false, `[["plan 1.txt", "`+marker+`"], ["empty.txt"], ["old", "x"], ["a\u0001", "x"], ["`+strings.Repeat(
		"n", 256)+`", "x"]]`)
	b.sees("Upload 2 files, 38 B?")
	b.sees("old: a folder has this name")
	b.sees("its name is longer than 255 bytes")
	b.sees("its name has a control character")
	b.sees("It costs 2 uploads: 0.078 tokens. You have 9.321 tokens.")
	if puts := sent.holdsNone(t); puts != 0 {
		t.Errorf("%d requests carried content before the user agreed", puts)
	}
	b.fits("uploads")
	b.press(kb.Enter)
	b.sees("Saved, for 0.039 tokens")
	b.await(`document.querySelectorAll("#uploads li").length === 2 && !document.querySelector("#uploads progress")`)
	b.await(`document.querySelectorAll('tr:not(.folder) .file-name').length === 2`) // the view follows
	for _, row := range alice.files("team") {
		switch *row.Filename {
		case "notes/plan 1.txt":
			content, meta := alice.plain("team", row.IPFSHash)
			if content != marker || meta.ContentType != "text/plain" ||
				row.FileHash != fmt.Sprintf("%x", sumOf([]byte(marker))) || row.Attributes == nil ||
				*row.Attributes != `{"mtime":"1700000000000000000"}` {
				t.Errorf("%q, %+v, %+v", content, meta, row)
			}
		case "notes/empty.txt":
			if content, _ := alice.plain("team", row.IPFSHash); content != "" {
				t.Errorf("the empty file holds %q", content)
			}
		case "notes/old/x.txt":
		default:
			t.Errorf("%q was recorded", *row.Filename)
		}
	}

	t.Run("a newer version, dropped", func(t *testing.T) {
		b.choose(true, `[["plan 1.txt", "`+marker+`", " again"]]`)
		b.sees("What you upload becomes their newest version")
		b.click("Upload for 0.039 tokens")
		b.await(`document.querySelectorAll("#uploads li").length === 3 && !document.querySelector("#uploads progress")`)
		b.click("plan 1.txt")
		b.await("document.querySelectorAll('.versions tbody tr').length === 2")
	})
	t.Run("a large file, over connections that break", func(t *testing.T) {
		b.expect("ERR_EMPTY_RESPONSE")
		b.expect("ERR_CONNECTION_RESET")
		sent.breaks.Store(1)
		b.js("location.hash = '#/groups/team'")
		b.choose(false, `[["large.bin", "`+marker+`".repeat(240000)]]`) // 9,120,000 bytes: two parts
		b.sees("Upload 1 file, 9.1 MB?")
		b.js(
			`window.seen = []; new MutationObserver(() => seen.push(document.querySelector("#uploads progress")?.value ?? 0)).observe(document.getElementById("uploads"), { subtree: true, childList: true })`)
		b.click("Upload for 0.039 tokens")
		b.await(
			`document.querySelectorAll("#uploads li").length === 4 && document.querySelector("#uploads li:last-child").textContent.includes("Saved")`)
		if sent.breaks.Load() >= 0 {
			t.Error("no connection broke")
		}
		if !eval[bool](b, "seen.some((n) => n > 0 && n < 9120000)") {
			t.Errorf("no progress was shown: %v", eval[[]float64](b, "seen"))
		}
		b.click("large.bin")
		b.click("Verify large.bin")
		b.sees("Nothing is kept.")
		b.click("Verify for 0.013 tokens")
		b.sees("byte-identical")
		want := strings.Repeat(marker, 240000)
		for _, row := range alice.files("team") {
			if *row.Filename == "large.bin" && (row.FileHash != fmt.Sprintf("%x", sumOf([]byte(want))) ||
				row.Content == nil || *row.OriginalSize != int64(len(want))) {
				t.Errorf("%+v", row)
			}
		}
	})
	t.Run("a large file that is refused", func(t *testing.T) {
		b.js("location.hash = '#/groups/team'")
		b.expect("status of 409")
		b.expect("status of 404")
		large := func(name string) {
			t.Helper()
			b.choose(false, `[["`+name+`", new Uint8Array(4 * 1024 * 1024 + 1)]]`)
			b.await(button("Upload for 0.039 tokens"))
		}
		large("both.bin")
		alice.upload("team", "both.bin", []byte("another"), nil, "")
		b.click("Upload for 0.039 tokens")
		b.sees("Somebody saved this name meanwhile.")
		large("old.bin")
		var said string
		alice.must(wire.OpSetGroupSettings, object{"group_id": "team", "format": 1}, &said)
		b.click("Upload for 0.039 tokens")
		b.sees("This group keeps files in one piece")
	})
	if puts := sent.holdsNone(t); puts != 3+2+1+1+2+1 {
		t.Errorf("%d requests carried content", puts)
	}
	// Another implementation opens every block and compares the whole.
	if n, err := s.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 6 {
		t.Errorf("%d files are whole: %v", n, err)
	}
}

// awaitUploads waits until n rows of uploads say a text.
func (b *tab) awaitUploads(n int, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`Array.from(document.querySelectorAll("#uploads li"))
		.filter((li) => li.textContent.includes(%q)).length === %d`, text, n))
}

// heldRead has the next file that is read wait until the test says goOn.
const heldRead = `Blob.prototype.slice = () => ({ arrayBuffer: () => new Promise((resolve) => {
	window.goOn = () => resolve(new ArrayBuffer(1));
}) })`

func TestThreat59RefusedUploads(t *testing.T) {
	t.Parallel()
	s := serve(t)
	sent := s.listen()
	alice, bob := s.user("alice", "10"), s.user("bob", "0.1")
	alice.register("team")
	alice.add("team", bob.id)
	b := bob.browse()
	upload := func(files string) {
		t.Helper()
		b.choose(false, files)
		b.click("Upload for 0.039 tokens")
	}
	b.js("location.hash = '#/groups/team'")
	b.sees("No files yet")
	b.choose(false, `[["large.bin", new Uint8Array(4 * 1024 * 1024 + 1)]]`)
	b.sees("large.bin: too large: at most 4.2 MB")
	b.click("Understood")
	b.choose(false, `[["1", "x"], ["2", "x"], ["3", "x"]]`)
	b.sees("It costs 3 uploads: 0.117 tokens. You have 0.1 tokens.")
	b.sees("Nothing was sent.")
	b.click("Understood")
	b.choose(false, `[["no.txt", "x"]]`)
	b.click("Cancel")
	b.await(`document.getElementById("uploads").hidden`)

	// Somebody saves the name after the user was asked.
	b.expect("status of 409")
	b.choose(false, `[["both.txt", "`+marker+`"]]`)
	b.await(button("Upload for 0.039 tokens"))
	alice.upload("team", "both.txt", []byte("hers"), nil, "")
	b.click("Upload for 0.039 tokens")
	b.sees("Somebody saved this name meanwhile.")
	if rows := alice.files("team"); len(rows) != 1 {
		t.Errorf("%d versions after a conflict", len(rows))
	}
	if got := s.get(bob.signedIn(), "session")["balance"]; got != "0.1" {
		t.Errorf("a conflict left %v tokens", got)
	}
	b.click("Try both.txt again")
	b.sees("Saved, for 0.039 tokens")
	b.click("Dismiss both.txt")
	b.await(`document.getElementById("uploads").hidden`)

	// A file that went away, and one that is cancelled.
	b.js(`window.realSlice = Blob.prototype.slice; Blob.prototype.slice = () => { throw new Error("gone"); }`)
	upload(`[["gone.txt", "x"]]`)
	b.sees("The browser cannot read it")
	b.click("Dismiss gone.txt")
	b.js(heldRead)
	upload(`[["slow.txt", "x"]]`)
	b.await("window.goOn")
	upload(`[["waits.txt", "x"]]`)
	b.click("Cancel waits.txt")
	b.click("Cancel slow.txt")
	b.js(`goOn(); Blob.prototype.slice = realSlice`)
	b.await(
		`Array.from(document.querySelectorAll("#uploads li")).filter((li) => li.textContent.includes("Cancelled. Nothing was saved or charged.")).length === 2`)
	b.click("Dismiss waits.txt")
	b.click("Dismiss slow.txt")

	// The money is spent, the right is taken, the session ends, each after the user was asked.
	b.expect("status of 402")
	b.expect("status of 403")
	b.expect("status of 401")
	bob.upload("team", "other.txt", []byte("x"), nil, "")
	b.choose(false, `[["late.txt", "x"]]`)
	b.sees("Not enough tokens")
	b.click("Understood")
	bob.sql("UPDATE accounts SET balance = '39000000000000000000000' WHERE id = '" + bob.id + "'")
	b.choose(false, `[["late.txt", "x"]]`)
	b.await(button("Upload for 0.039 tokens"))
	bob.upload("team", "other.txt", []byte("x"), nil, "")
	b.click("Upload for 0.039 tokens")
	b.sees("Insufficient balance")
	b.sees("svcd account fund NAME TOKENS")
	bob.sql("UPDATE accounts SET balance = '39000000000000000000000' WHERE id = '" + bob.id + "'")
	b.choose(false, `[["right.txt", "x"]]`)
	b.await(button("Upload for 0.039 tokens"))
	var said string
	alice.must(wire.OpAddGroupMember, wire.AddMemberRequest{GroupID: "team", MemberID: bob.id, Role: wire.RoleReader},
		&said)
	b.click("Upload for 0.039 tokens")
	b.sees("Ask the group's owner to make you a writer.")
	b.js("location.hash = '#/groups'; location.hash = '#/groups/team'")
	b.sees("The owner can make you a writer")
	b.await(`!document.querySelector("main input[type=file]")`)
	b.click("Sign out")
	b.sees("Ask the operator of this service for a sign-in link")
	b.await(
		`document.getElementById("uploads").hidden && !document.getElementById("uploads").textContent.includes("right.txt")`)
	sent.holdsNone(t)
	for _, row := range alice.files("team") {
		if name := *row.Filename; name != "both.txt" && name != "other.txt" {
			t.Errorf("%q was recorded", name)
		}
	}
}

// What waits when the session ends is not lost: the same account tries it again, and it is gone for another one.
func TestUploadsWaitForTheNextSession(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	b := alice.browse()
	b.expect("status of 401")
	b.js("location.hash = '#/groups/team'")
	ends := func(files string) {
		t.Helper()
		b.choose(false, files)
		b.await(button("Upload for 0.078 tokens"))
		b.js("window.realSlice ??= Blob.prototype.slice; " + heldRead)
		b.click("Upload for 0.078 tokens")
		b.await("window.goOn")
		s.sql("UPDATE web_sessions SET expires_ns = 1")
		b.js("goOn(); Blob.prototype.slice = realSlice; delete window.goOn")
		b.sees("Ask the operator of this service for a sign-in link")
		b.awaitUploads(2, "Not saved: you were signed out")
	}
	signsIn := func(u *user) {
		t.Helper()
		b.js("location.hash = '#link=" + u.secret() + "'")
		b.sees("This link signs you in as " + u.id)
		b.click("Sign in")
		b.await("document.getElementById('account')?.textContent === '" + u.id + "'")
	}
	ends(`[["1.txt", "x"], ["2.txt", "x"]]`)
	b.click("Try 1.txt again")
	b.sees("Not signed in")
	signsIn(alice)
	b.click("Try 1.txt again")
	b.click("Try 2.txt again")
	b.awaitUploads(2, "Saved, for")
	if got := fmt.Sprint(alice.living("team")); got != "[1.txt 2.txt]" {
		t.Errorf("the group holds %s", got)
	}
	b.js("location.hash = '#/groups/team'")
	ends(`[["3.txt", "x"], ["4.txt", "x"]]`)
	signsIn(bob)
	b.sees("This tab showed " + alice.id)
	b.await(`document.getElementById("uploads").hidden`)
}

// A change whose answer is lost is not told as none: an upload is sent the same again, which saves and charges it once.
func TestLostAnswersOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var isLost, isHeld atomic.Bool
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/account/") || !isLost.Load() {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		if isHeld.Load() {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
	alice := s.user("alice", "10")
	alice.register("team")
	b := alice.browse()
	b.expect("ERR_EMPTY_RESPONSE")
	b.js("location.hash = '#/groups/team'; " + hurry)
	upload := func(name string) {
		t.Helper()
		isLost.Store(false)
		b.choose(false, `[["`+name+`", "x"]]`)
		b.await(button("Upload for 0.039 tokens"))
		isLost.Store(true)
		isHeld.Store(name == "2.txt")
		b.click("Upload for 0.039 tokens")
	}
	upload("1.txt")
	b.awaitUploads(1, "May have been saved")
	isLost.Store(false)
	b.click("Try 1.txt again")
	b.awaitUploads(1, "Saved, for 0.039 tokens")
	upload("2.txt")
	proctest.Eventually(t, "the second is saved", func() bool { return len(alice.files("team")) == 2 })
	isLost.Store(false)
	b.click("Cancel 2.txt")
	b.awaitUploads(1, "Cancelled. It may have been saved and charged")
	isHeld.Store(false)
	b.click("New folder")
	b.fill("folder", "papers")
	isLost.Store(true)
	b.press(kb.Enter)
	b.sees("If it was a change, it may have been made")
	isLost.Store(false)
	if got := fmt.Sprint(alice.living("team")); got != "[1.txt 2.txt]" {
		t.Errorf("the group holds %s", got)
	}
	if got := s.get(alice.signedIn(), "session")["balance"]; got != "9.282" { // 0.64, and twice 0.039
		t.Errorf("%v tokens are left", got)
	}
}

// Transfers outlast breaks of minutes, and refusals of a proxy; after a longer one an upload goes on where it was.
func TestLongBreaksOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *service.Config) { cfg.MaxFileBytes = 64 << 20 })
	var parts, breaks, cuts, refusals atomic.Int32
	refuse := func(w http.ResponseWriter, n int32) {
		http.Error(w, "<p>no backend</p>", []int{http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusTooManyRequests, http.StatusGatewayTimeout, http.StatusRequestTimeout}[n%5])
	}
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		isContent := strings.HasPrefix(r.URL.Path, "/account/api"+wire.PathBlocks) ||
			strings.HasPrefix(r.URL.Path, "/account/api"+wire.PathReadBlob)
		switch {
		case r.FormValue("blocks") == "0-31":
			parts.Add(1)
		case r.FormValue("blocks") == "32-34":
			if n := breaks.Add(-1); n >= 0 {
				refuse(w, n)
				return
			}
		case isContent && cuts.Add(-1) >= 0:
			w = &cutWriter{w, 150_000}
		case isContent:
			if n := refusals.Add(-1); n >= 0 {
				refuse(w, n)
				return
			}
		}
		next.ServeHTTP(w, r)
	}
	alice := s.user("alice", "10")
	alice.register("team")
	b := alice.browse()
	b.expect("the server responded with a status of")
	b.expect("ERR_CONTENT_LENGTH_MISMATCH")
	b.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	b.js("location.hash = '#/groups/team'")
	b.choose(false, `[["large.bin", "`+marker+`".repeat(240000)]]`) // two parts
	b.await(button("Upload for 0.039 tokens"))
	b.js(hurry)
	breaks.Store(100)
	b.click("Upload for 0.039 tokens")
	b.awaitUploads(1, "Not saved")
	breaks.Store(2)
	b.js(`window.setTimeout = () => 0; setInterval(() => window.dispatchEvent(new Event("online")), 20)`)
	b.click("Try large.bin again")
	b.awaitUploads(1, "Saved, for 0.039 tokens")
	if parts.Load() != 1 || breaks.Load() >= 0 {
		t.Errorf("its first part was sent %d times", parts.Load())
	}
	whole := random(300_000)
	alice.upload("team", "whole.bin", whole, object{"version": 1}, "")
	for _, name := range []string{"large.bin", "whole.bin"} {
		b.js("location.hash = '#/file/team/" + name + "'")
		b.click("Verify " + name)
		cuts.Store(1)
		refusals.Store(9)
		b.click("Verify for 0.013 tokens")
		b.await(`document.querySelector(".versions tbody tr .result")?.textContent === "byte-identical"`)
		if refusals.Load() >= 0 {
			t.Errorf("%s met no refusal", name)
		}
	}
}

// What the page sends has the checks of every other client.
func TestThreat59UploadsOnBothEngines(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		alice, bob, carol := s.user("alice", "10"), s.user("bob", "10"), s.user("carol", "10")
		alice.register("team")
		alice.add("team", bob.id)
		var said string
		alice.must(wire.OpAddGroupMember,
			wire.AddMemberRequest{GroupID: "team", MemberID: carol.id, Role: wire.RoleReader}, &said)
		a, reader, stranger, nobody := alice.signedIn(), carol.signedIn(), s.user("dave", "10").signedIn(), client(t)
		key, err := format.RandomKey()
		if err != nil {
			t.Fatal(err)
		}
		blob, err := format.SealBlob(key, []byte("hello"))
		if err != nil {
			t.Fatal(err)
		}
		id := strings.Repeat("0a", wire.UploadIDBytes)
		// frame is the upload of a/b, as the page sends it.
		frame := func(change func(head object)) *http.Request {
			t.Helper()
			head := object{"id": id, "key": key.Base64(), "group_id": "team",
				"file_hash": fmt.Sprintf("%x", sumOf([]byte("hello"))), "format": format.NewMetadata(5, "", "a/b"),
				"versioned": true, "base": "none"}
			change(head)
			return s.frame(head, blob)
		}
		field := func(name string, value any) func(object) { return func(head object) { head[name] = value } }
		for name, c := range map[string]*http.Client{"403 reader": reader, "403 stranger": stranger,
			"401 nobody": nobody} {
			part := s.page(http.MethodPut, "uploads/"+id+"/"+id+"?group_id=team&blocks=0", strings.Repeat("other", 10))
			part.Header.Set("Content-Type", "application/octet-stream")
			for what, req := range map[string]*http.Request{"names": s.page(http.MethodGet, "names?group=team&name=x",
				nil), "part": part, "record": frame(func(object) {})} {
				status, body := do(t, c, req)
				if c == reader && what == "names" {
					continue
				}
				if !strings.HasPrefix(name, fmt.Sprint(status)) {
					t.Errorf("%s: %s: %d %s", name, what, status, body)
				}
			}
		}
		head := func(name string) any {
			return list(s.get(a, "names?group=team&name="+name)["names"])[0]
		}
		if got := fmt.Sprint(head("a%2Fb"), head("a")); got != "map[head:none is_folder:false] map[head:none "+
			"is_folder:false]" {
			t.Errorf("names before: %s", got)
		}
		for name, bad := range map[string]func(object){"no base": field("base", ""),
			"another base": field("base", "bafyother"), "no key": field("key", ""), "half a key": field("key", "AAAA"),
			"no id": field("id", "x"), "other bytes": field("blob_hash", strings.Repeat("0", 64)),
			"a number": field("key", 7)} {
			if status, body := do(t, a, frame(bad)); status < 400 || status > 409 {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		for _, query := range []string{"names?group=team&name=", "names?group=team&name=%00",
			"names?group=team" + strings.Repeat("&name=x", 21), "names?group=none&name=x"} {
			if status, body := do(t, a, s.page(http.MethodGet, query, nil)); status != http.StatusBadRequest &&
				status != http.StatusNotFound {
				t.Errorf("%.40s: %d %s", query, status, body)
			}
		}
		if rows := alice.files("team"); len(rows) != 0 {
			t.Errorf("%d files", len(rows))
		}
		var refs []string
		for range 2 { // a repetition is answered, and is not charged again
			status, body := do(t, a, frame(func(object) {}))
			if status != http.StatusOK {
				t.Fatal(status, body)
			}
			refs = append(refs, decode(t, body)["result"].(map[string]any)["location"].(string))
		}
		// 0.64, twice 0.013 and 0.039
		if balance := s.get(a, "session")["balance"]; refs[0] != refs[1] || balance != "9.295" {
			t.Errorf("%v, %v tokens", refs, balance)
		}
		if got := fmt.Sprint(head("a%2Fb"), head("a")); got != "map[head:"+refs[0]+" is_folder:false] map[head:none "+
			"is_folder:true]" {
			t.Errorf("names after: %s", got)
		}
		id = strings.Repeat("0c", wire.UploadIDBytes)
		if status, body := do(t, a, frame(func(object) {})); status != http.StatusConflict ||
			!strings.Contains(body, wire.CodeHead) {
			t.Errorf("a version that follows nothing: %d %s", status, body)
		}
		if status, body := do(t, a, frame(field("base", refs[0]))); status != http.StatusOK {
			t.Errorf("the next version: %d %s", status, body)
		}
	})
}
