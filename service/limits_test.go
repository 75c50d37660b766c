package service_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
)

// limited is the service of r once more, with few requests per second.
func (r *running) limited(perSecond int) *running {
	r.t.Helper()
	return r.againWith(service.Config{RequestRate: perSecond})
}

// Threat 31: one account's flood is refused, and another's requests are not.
func TestThreat31RequestsPerAccount(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	few := r.limited(1)
	for _, u := range []*user{alice, bob} {
		u.running = few
	}
	raw, err := json.Marshal(object{"group_id": "g"})
	if err != nil {
		t.Fatal(err)
	}
	var answers []int
	var last *http.Response
	for len(answers) < 30 && (last == nil || last.StatusCode != http.StatusTooManyRequests) {
		req, err := http.NewRequest(http.MethodPost, few.url+"/tools/get_group_members", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = alice.header()
		if last, err = http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		}
		last.Body.Close()
		answers = append(answers, last.StatusCode)
	}
	if len(answers) < 3 || answers[0] != 200 || answers[1] != 200 || last.StatusCode != http.StatusTooManyRequests ||
		last.Header.Get("Retry-After") != "1" {
		t.Errorf("answers %v, Retry-After %q", answers, last.Header.Get("Retry-After"))
	}
	if status, body := bob.tool(wire.OpGetOwnedGroups, object{}); status != http.StatusOK {
		t.Errorf("another account: %d %s", status, body)
	}
	if status, _ := few.post("/rpc", nil, object{}); status != http.StatusOK {
		t.Errorf("without an account: %d", status)
	}
	alice.running = r.limited(-1)
	for range 50 {
		must[[]string](alice, wire.OpGetOwnedGroups, object{})
	}
}

// Threat 31: a field that is too large, too deep or cannot be recorded is refused.
func TestThreat31SizeOfRequests(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	file := alice.upload("g", "f", []byte("x"))
	deep := []byte(`{"group_id":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`)
	named := func(format string) wire.FinalizeUploadRequest {
		req := alice.finalize("g", "", []byte("x"))
		req.Format = json.RawMessage(format)
		return req
	}
	for _, tc := range []struct {
		name, op string
		request  any
		want     int
	}{
		{"body", wire.OpRegisterGroup, bytes.Repeat([]byte("x"), 2<<20), 413},
		{"body of a watch", wire.OpWatch, bytes.Repeat([]byte("x"), 2<<20), 413},
		{"depth", wire.OpRegisterGroup, deep, 400},
		{"depth of a deletion", wire.OpDeleteFile, deep, 400},
		{"group id", wire.OpRegisterGroup, object{"group_id": strings.Repeat("g", 129)}, 400},
		{"longest group id", wire.OpRegisterGroup, object{"group_id": strings.Repeat("g", 128)}, 200},
		{"NUL in a group id", wire.OpRegisterGroup, object{"group_id": "a\x00b"}, 400},
		{"file name", wire.OpPrepareUpload, object{"group_id": "g", "filename": strings.Repeat("n", 4097)}, 400},
		{"longest file name", wire.OpPrepareUpload, object{"group_id": "g", "filename": strings.Repeat("n", 4096)},
			200},
		{"NUL in a file name", wire.OpPrepareUpload, object{"group_id": "g", "filename": "a\x00b"}, 400},
		{"NUL in a format's name", wire.OpFinalizeUpload, named(`{"version":1,"filename":"a\u0000b"}`), 400},
		{"long name in a format", wire.OpFinalizeUpload,
			named(`{"version":1,"filename":"` + strings.Repeat("n", 4097) + `"}`), 400},
		{"NUL in a content type", wire.OpFinalizeUpload, named(`{"version":1,"content_type":"a\u0000b"}`), 400},
		{"long content type", wire.OpFinalizeUpload,
			named(`{"version":1,"content_type":"` + strings.Repeat("t", 256) + `"}`), 400},
		{"longest content type", wire.OpFinalizeUpload,
			named(`{"version":1,"content_type":"` + strings.Repeat("t", 255) + `"}`), 200},
		{"long claim id", wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": file.CID, "claim_id": strings.Repeat("c", 10_000)}, 400},
		{"longest claim id", wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": file.CID, "claim_id": strings.Repeat("c", 128)}, 200},
		{"NUL in a claim id", wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": file.CID, "claim_id": "a\x00b"}, 400},
	} {
		if status, body := alice.tool(tc.op, tc.request); status != tc.want {
			t.Errorf("%s: %d, want %d: %.300s", tc.name, status, tc.want, body)
		}
	}
}

// Threat 31: the memory of made-up accounts is bounded.
func TestThreat31MadeUpAccountsTakeLittleMemory(t *testing.T) {
	r := run(t)
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := inUse(), uint64(1<<20)
	for i := range 90 {
		status, _ := r.post(wire.PathSessionToken, http.Header{wire.HeaderAPIKey: {fmt.Sprintf("svc_sk_%043d", i)}},
			wire.SessionTokenRequest{AccountID: fmt.Sprint(i) + strings.Repeat("x", 3<<10)})
		if status != http.StatusBadRequest {
			t.Fatalf("%d", status)
		}
	}
	if now := inUse(); now > before+most {
		t.Errorf("%d bytes are kept of 90 accounts that do not exist", now-before)
	}
}

// Threat 31: a view without an account answers a bounded number of files.
func TestThreat31ViewsAreBounded(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.user("alice", "10")
	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "open", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	db := r.openDatabase()
	fill(t, db, "open", alice.id, wire.MaxPageRows)
	var rows []wire.TransactionRow
	if err := json.Unmarshal([]byte(r.view("get_transactions_for_group", object{"group_id": "open"})),
		&rows); err != nil || len(rows) != wire.MaxPageRows || rows[0].Seq > rows[1].Seq {
		t.Errorf("the largest answer: %d rows, %v", len(rows), err)
	}
	fill(t, db, "open", alice.id, 1)
	if got := r.view("get_transactions_for_group", object{"group_id": "open"}); !strings.Contains(got,
		"get_group_transactions") {
		t.Errorf("one more: %.200s", got)
	}
	alice.retention("open", 0)
	var expired []string
	if err := json.Unmarshal([]byte(r.view("get_expired_transactions", object{"group_id": "open"})),
		&expired); err != nil || len(expired) != wire.MaxPageRows {
		t.Errorf("expired: %d, %v", len(expired), err)
	}
	if rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "open"}); len(rows) != wire.MaxPageRows+1 {
		t.Errorf("the operation: %d rows", len(rows))
	}
}

// A file in one piece has a limit of its own, which older clients are told as the only one.
func TestLimitOfWholeFiles(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 3 << 20, MaxWholeBytes: 1 << 20})
	alice := r.owner()
	var caps wire.Capabilities
	if _, body := r.get(wire.PathCapabilities); json.Unmarshal([]byte(body), &caps) != nil ||
		caps.MaxFileBytes != 1<<20 || caps.MaxBlocksBytes != 3<<20 {
		t.Errorf("%d and %d bytes are told", caps.MaxFileBytes, caps.MaxBlocksBytes)
	}
	for _, tc := range []struct {
		name    string
		request object
		refusal string
	}{
		{"whole", object{"size": 1 << 20}, ""},
		{"whole, too large", object{"size": 2 << 20},
			"at most 1048576 bytes are accepted in one piece, and 3145728 in blocks"},
	} {
		tc.request["group_id"] = "g"
		status, body := alice.tool(wire.OpPrepareUpload, tc.request)
		if want := tc.refusal != ""; (status != http.StatusOK) != want || !strings.Contains(body, tc.refusal) {
			t.Errorf("%s: %d %s", tc.name, status, body)
		}
	}
	up := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	if status, body := alice.put(up, bytes.NewReader(make([]byte, 2<<20))); status != http.StatusRequestEntityTooLarge {
		t.Errorf("sent in one piece: %d %s", status, body)
	}
}

// Threat 31: unpaid uploads of an account are bounded in all processes together, and the
// bound is free again when uploads are finished or end.
func TestThreat31BytesOfOpenUploads(t *testing.T) {
	t.Parallel()
	const file = 256 << 10
	cfg := service.Config{Database: newDatabase(t), SmallBytes: -1, MaxFileBytes: file, MaxOpenBytes: 3 * file}
	r := runWith(t, cfg)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	elsewhere := alice.at(r.againWith(cfg))
	begin := func() wire.PrepareUploadResult {
		return must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	}
	var ups []wire.PrepareUploadResult
	for _, at := range []*user{alice, elsewhere, alice} {
		up := begin()
		if status, body := at.put(up, bytes.NewReader(make([]byte, file))); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, body)
		}
		ups = append(ups, up)
	}
	last := begin()
	small := func() io.Reader { return bytes.NewReader(make([]byte, 100)) }
	unknown := func() io.Reader { return io.MultiReader(small()) } // sent in pieces
	t.Run("one too many is refused by every process, the same once more is not", func(t *testing.T) {
		for _, at := range []*user{alice, elsewhere} {
			for _, content := range []io.Reader{small(), unknown()} {
				if status, body := at.put(last, content); status != http.StatusTooManyRequests ||
					!strings.Contains(body, "finish them, or wait") {
					t.Errorf("one too many: %d %s", status, body)
				}
			}
			if status, body := at.put(ups[0], bytes.NewReader(make([]byte, file))); status != http.StatusNoContent {
				t.Errorf("once more instead: %d %s", status, body)
			}
		}
	})
	t.Run("others have room of their own, and what is finished gives its room back", func(t *testing.T) {
		bob.uploadRaw("g", "f", make([]byte, file/2))
		must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
			object{"upload_id": ups[0].UploadID, "file_hash": hash(nil)})
		if status, body := elsewhere.put(last, small()); status != http.StatusNoContent {
			t.Errorf("after one was finished: %d %s", status, body)
		}
		if status, body := elsewhere.put(begin(),
			bytes.NewReader(make([]byte, file))); status != http.StatusTooManyRequests {
			t.Errorf("there is no room for so much: %d %s", status, body)
		}
	})
	t.Run("what expired is removed and counts no more", func(t *testing.T) {
		if _, err := r.openDatabase().Exec("UPDATE uploads SET expires_ns = 1 WHERE result IS NULL"); err != nil {
			t.Fatal(err)
		}
		blobs := filepath.Join(r.dir, "blobs")
		before := countFiles(t, blobs)
		serve(t, func(c *service.Config) { c.DataDir, c.Database = r.dir, r.database }) // sweeps
		proctest.Eventually(t, "the bytes of what expired are gone",
			func() bool { return countFiles(t, blobs) == before-3 })
		if status, body := alice.put(begin(), bytes.NewReader(make([]byte, file))); status != http.StatusNoContent {
			t.Errorf("after the others ended: %d %s", status, body)
		}
	})
}

// Threat 31: uploads at the same time do not pass the bound together.
func TestThreat31BytesOfOpenUploadsAtOnce(t *testing.T) {
	t.Parallel()
	const file = 64 << 10
	cfg := service.Config{Database: newDatabase(t), MaxFileBytes: file, MaxOpenBytes: 3 * file}
	r := runWith(t, cfg)
	alice := r.owner()
	places := []*user{alice, alice.at(r.againWith(cfg)), alice.at(r.againWith(cfg))}
	var all sync.WaitGroup
	var taken atomic.Int64
	for i := range 24 {
		up := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
		all.Go(func() {
			switch status, body := places[i%len(places)].put(up, bytes.NewReader(make([]byte, file))); status {
			case http.StatusNoContent:
				taken.Add(1)
			case http.StatusTooManyRequests:
			default:
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 3 {
		t.Errorf("%d were taken, want 3", n)
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 3 {
		t.Errorf("%d blobs are kept", n)
	}
}

// Threat 31: arriving bytes count, at the largest size while their length is unknown.
func TestThreat31BytesOnTheirWay(t *testing.T) {
	t.Parallel()
	const file = 64 << 10
	r := runWith(t, service.Config{Database: newDatabase(t), SmallBytes: -1, MaxFileBytes: file,
		MaxOpenBytes: 3 * file})
	alice := r.owner()
	var ups []wire.PrepareUploadResult
	for range 3 {
		ups = append(ups, must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"}))
	}
	if status, body := alice.put(ups[0], bytes.NewReader(make([]byte, file))); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	slow, send := io.Pipe()
	answer := make(chan int, 1)
	go func() {
		status, _ := alice.put(ups[1], slow)
		answer <- status
	}()
	if _, err := send.Write(make([]byte, 16<<10)); err != nil { // more than the client keeps
		t.Fatal(err)
	}
	proctest.Eventually(t, "the slow one arrives",
		func() bool { return countFiles(t, filepath.Join(r.dir, "blobs")) == 2 })
	if status, body := alice.put(ups[2], bytes.NewReader(make([]byte, file))); status != http.StatusTooManyRequests {
		t.Errorf("meanwhile: %d %s", status, body)
	}
	_ = send.Close()
	if status := <-answer; status != http.StatusNoContent {
		t.Errorf("the slow one: %d", status)
	}
	if status, body := alice.put(ups[2], bytes.NewReader(make([]byte, file))); status != http.StatusNoContent {
		t.Errorf("afterwards: %d %s", status, body)
	}
}

// put sends ciphertext ahead of its finalize.
func (u *user) put(up wire.PrepareUploadResult, content io.Reader) (int, string) {
	req, err := http.NewRequest(http.MethodPut, u.url+up.UploadURL, content)
	if err != nil {
		u.t.Error(err)
		return 0, ""
	}
	req.Header = u.header()
	status, body := u.do(req)
	return status, string(body)
}

// Threat 31: free changes are bounded by the day, in all processes together; paid files
// can be read and deleted nevertheless.
func TestThreat31FreeChanges(t *testing.T) {
	t.Parallel()
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour) // not before now
	var later atomic.Int64                                                // ns
	cfg := service.Config{Database: newDatabase(t), FreeChanges: 4,
		Now: func() time.Time { return noon.Add(time.Duration(later.Load())) }}
	r := runWith(t, cfg)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	elsewhere := alice.at(r.againWith(cfg))
	ref, his := alice.upload("g", "f", []byte("x")).CID, bob.upload("g", "f", []byte("x")).CID
	rename := func(u *user, ref, name string) (int, string) {
		return u.tool(wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": name})
	}
	for day := range 2 {
		for i, u := range []*user{alice, elsewhere, alice, elsewhere} {
			if i == 2 {
				u.retention("g", 7)
			} else if status, body := rename(u, ref, fmt.Sprint(i)); status != http.StatusOK {
				t.Fatalf("day %d, change %d: %d %s", day, i, status, body)
			}
		}
		for _, u := range []*user{alice, elsewhere} {
			if status, body := rename(u, ref, "once more"); status != http.StatusTooManyRequests ||
				!strings.Contains(body, "midnight UTC") {
				t.Errorf("day %d, one too many: %d %s", day, status, body)
			}
			if status, body := u.tool(wire.OpSetGroupRetention,
				object{"group_id": "g", "retention_days": nil}); status != http.StatusTooManyRequests {
				t.Errorf("day %d, another one too many: %d %s", day, status, body)
			}
		}
		if status, body := rename(bob, his, "another account"); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		paid := alice.upload("g", "paid", []byte("x")).CID
		must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": paid})
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": paid})
		later.Add(int64(13 * time.Hour))
	}
}

// Threat 31: who used up the free changes of an account, to remove its files, does not
// keep the account from bringing them back while that can be done.
func TestThreat31FilesComeBackBeyondTheFreeChanges(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 3})
	alice := r.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.upload("g", "doc", []byte("one"))
	alice.upload("g", "doc", []byte("two"))
	alice.upload("g", "other", []byte("three"))
	alice.removes("doc", alice.lastSeq())
	alice.removes("other", alice.lastSeq())
	if status, body := alice.tool(wire.OpSetGroupTrash,
		object{"group_id": "g", "days": 1}); status != http.StatusTooManyRequests {
		t.Errorf("the free changes are not used up: %d %s", status, body)
	}
	if n := alice.restores("doc", alice.lastSeq()).Files + alice.restores("other", alice.lastSeq()).Files; n != 3 {
		t.Errorf("brought back %d", n)
	}
	if status, body := alice.tool(wire.OpRemoveFile,
		object{"group_id": "g", "filename": "doc", "seq": alice.lastSeq()}); status != http.StatusTooManyRequests {
		t.Errorf("removed again: %d %s", status, body)
	}
	r.audits()
}

// Threat 31: a change that has a price is bounded by it alone, and an operator may
// leave the rest unbounded.
func TestThreat31PricedChanges(t *testing.T) {
	t.Parallel()
	fees := ledger.DefaultFees()
	price, err := wire.ParseTokens("0.001")
	if err != nil {
		t.Fatal(err)
	}
	fees[chain.KindRename] = price
	for name, cfg := range map[string]service.Config{"priced": {FreeChanges: 1, Fees: fees},
		"unbounded": {FreeChanges: -1}} {
		t.Run(name, func(t *testing.T) {
			cfg.Database = newDatabase(t)
			alice := runWith(t, cfg).user("alice", "10")
			must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
			ref := alice.upload("g", "f", []byte("x")).CID
			for i := range 5 {
				must[string](alice, wire.OpRenameFile,
					object{"group_id": "g", "ipfs_hash": ref, "filename": fmt.Sprint(i)})
			}
		})
	}
}

// metric is the value of a metric, with its labels; 0 when there is none yet.
func (r *running) metric(name string) int {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.svc.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, n, _ := strings.Cut(w.Body.String(), "\n"+name+" ")
	n, _, _ = strings.Cut(n, "\n")
	value, _ := strconv.Atoi(n)
	return value
}

const inFlight = "svcd_requests_in_flight"

// Threat 31: accounts that send many large files inside JSON and stall, or do not
// take those they asked for, leave room to others, however many they are.
func TestThreat31StalledFilesInsideJSON(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.Memory, c.ClientTimeout = service.MinMemory, time.Hour })
	other := s.user("other", "10")
	must[string](other, wire.OpRegisterGroup, object{"group_id": "g"})
	large := make([]byte, 6<<20)
	file := other.uploadRaw("g", "f", large)
	for i, name := range []string{"stalls1", "stalls2"} {
		slow := s.user(name, "10")
		other.adds(slow)
		for range 64 + 6 { // more than an account may have
			fmt.Fprintf(s.dial(), "POST /tools/finalize_upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
				"%s\r\nContent-Length: 5000000\r\n\r\n{", slow.token)
		}
		request := fmt.Sprintf(`{"group_id":"g","ipfs_hash":%q}`, file.CID)
		for range 8 {
			conn, err := (&net.Dialer{Control: smallBuffer}).Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			fmt.Fprintf(conn, "POST /tools/prepare_retrieve HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
				"%s\r\nContent-Length: %d\r\n\r\n%s", slow.token, len(request), request)
		}
		proctest.Eventually(t, "the stalled requests", func() bool {
			return s.metric(`svcd_requests_total{operation="finalize_upload",status="503"}`) == 6*(i+1) &&
				s.metric(inFlight) == 72*(i+1)
		})
	}
	ref := other.upload("g", "f", large).CID // fails the test unless it succeeds
	other.reads(ref, string(large))
	if n := s.metric(inFlight); n != 144 {
		t.Errorf("%d of 144 stand", n)
	}
	if n := countFiles(t, filepath.Join(s.dir, "blobs")); n != 2 {
		t.Errorf("%d files are below blobs, want those of the uploads", n)
	}
}

// Threat 31: accounts that send content and stall leave room to the small requests of others: what they
// read, list and save.
func TestThreat31StalledBodies(t *testing.T) {
	t.Parallel()
	for what, route := range map[string]string{"PUT /raw/upload/": "/raw/upload/{id}",
		"PUT /raw/sealed/": "/raw/sealed/{id}", "POST /tools/finalize_uploads": wire.OpFinalizeUploads} {
		t.Run(route, func(t *testing.T) {
			s := serve(t, func(c *service.Config) { c.Memory, c.ClientTimeout = service.MinMemory, time.Hour })
			other := s.user("other", "10")
			must[string](other, wire.OpRegisterGroup, object{"group_id": "g"})
			ref := other.upload("g", "f", []byte("x")).CID
			const accounts, each = 3, 40
			var stalls []*user
			var paths []string
			for i := range accounts {
				slow := s.user(fmt.Sprint("stalls", i), "10")
				other.adds(slow)
				stalls = append(stalls, slow)
				for range each {
					path := what
					switch route {
					case "/raw/upload/{id}":
						path += must[wire.PrepareUploadResult](slow, wire.OpPrepareUpload,
							object{"group_id": "g"}).UploadID
					case "/raw/sealed/{id}":
						path += fmt.Sprintf("%032x", i)
					}
					paths = append(paths, path)
				}
			}
			for i, path := range paths {
				fmt.Fprintf(s.dial(), "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: "+
					"300000\r\n\r\n\x00", path, stalls[i/each].token)
			}
			proctest.Eventually(t, "the stalled requests", func() bool {
				refused := s.metric(fmt.Sprintf(`svcd_requests_total{operation=%q,status="503"}`, route))
				return refused > 0 && refused+s.metric(inFlight) == accounts*each
			})
			other.reads(ref, "x")
			must[[]string](other, wire.OpGetOwnedGroups, object{})
			other.mustPut(other.seals("g", "saved", []byte("y")))
		})
	}
}

// Threat 31: accounts whose requests for lists, and calls of agents, stand still leave room to the small requests of
// others, also with little memory.
func TestThreat31StalledLists(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.Memory, c.ClientTimeout = service.MinMemory, time.Hour })
	other := s.user("other", "10")
	must[string](other, wire.OpRegisterGroup, object{"group_id": "g"})
	ref := other.upload("g", "f", []byte("x")).CID
	other.part(nil) // takes more than the share of an account
	const names, agents = "POST " + wire.PathTools + wire.OpGetNames, "POST " + wire.PathMCP
	stalls := []string{names, names, names, names, agents, agents, agents, agents}
	var slow *user
	for i, what := range stalls {
		if i%2 == 0 {
			slow = s.user(fmt.Sprint("stalls", i), "10")
		}
		fmt.Fprintf(s.dial(), "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{",
			what, slow.token)
	}
	proctest.Eventually(t, "the stalled requests", func() bool {
		refused := 0
		for _, operation := range []string{wire.OpGetNames, "unknown"} { // no operation, as calls of agents are
			refused += s.metric(fmt.Sprintf(`svcd_requests_total{operation=%q,status="503"}`, operation))
		}
		return refused > 0 && refused+s.metric(inFlight) == len(stalls)
	})
	other.reads(ref, "x")
	must[[]string](other, wire.OpGetOwnedGroups, object{})
	other.mustPut(other.seals("g", "saved", []byte("y")))
}

// Threat 31: networks that do not take the views they asked for leave room to the short views of others, also with
// little memory.
func TestThreat31StalledViews(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.Memory, c.ClientTimeout = service.MinMemory, time.Hour })
	alice := s.user("alice", "10")
	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "open", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	fill(t, s.openDatabase(), "open", alice.id, wire.MaxPageRows)
	view := fmt.Sprintf(`{"method":"query","params":{"request_type":"call_function","method_name":`+
		`"get_transactions_for_group_public","args_base64":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(`{"group_id":"open"}`)))
	const networks, each = 4, 4
	for i := range networks * each {
		from := net.Dialer{Control: smallBuffer, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%networks))}}
		conn, err := from.Dial("tcp", s.addr)
		ok(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(view), view)
	}
	proctest.Eventually(t, "the stalled views", func() bool {
		refused := s.metric(`svcd_requests_total{operation="/rpc",status="200"}`)
		return refused > 0 && refused+s.metric(inFlight) == networks*each
	})
	for range 3 {
		if got := s.view("estimate_fee", object{"action": "upload"}); strings.Trim(got, "0123456789") != "" {
			t.Errorf("a short view of another network: %s", got)
		}
	}
}

// An honest program can send several files at the same time inside JSON, as before.
func TestManyFilesInsideJSONAtOnce(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	var all sync.WaitGroup
	for i := range 24 {
		content := bytes.Repeat([]byte{byte(i)}, 50<<10<<(i%4))
		all.Go(func() {
			ref := alice.upload("g", "f", content).CID
			alice.reads(ref, string(content))
		})
	}
	all.Wait()
}

// Threat 31: a file inside JSON that is broken is refused, and leaves nothing.
func TestThreat31BrokenFileInsideJSON(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	for _, n := range []int{100, 400_000} {
		for _, broken := range []string{"!", "=", "a", "AA=A"} {
			req := alice.finalize("g", "f", make([]byte, n))
			req.EncryptedData += broken
			if status, body := alice.tool(wire.OpFinalizeUpload, req); status != 400 ||
				!strings.Contains(body, "not standard base64") {
				t.Errorf("%d bytes and %q: %d %s", n, broken, status, body)
			}
		}
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// Threat 31: deleting a file that is deleted cleans nothing, and is counted.
func TestThreat31DeletingWhatIsDeleted(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 5, SmallBytes: -1})
	alice := r.owner()
	file := object{"group_id": "g", "ipfs_hash": alice.upload("g", "f", []byte("x")).CID}
	told := must[string](alice, wire.OpDeleteFile, file)
	work := func() [2]int {
		return [2]int{r.metric(`svcd_part_duration_seconds_count{call="scrub",part="database"}`),
			r.metric(`svcd_part_duration_seconds_count{call="delete",part="blobs"}`)}
	}
	before := work()
	if before != [2]int{1, 1} {
		t.Errorf("a deletion: %v", before)
	}
	for range 5 {
		if again := must[string](alice, wire.OpDeleteFile, file); again != told {
			t.Errorf("again: %s", again)
		}
	}
	if status, body := alice.tool(wire.OpDeleteFile, file); status != http.StatusTooManyRequests ||
		!strings.Contains(body, "midnight UTC") {
		t.Errorf("one too many: %d %s", status, body)
	}
	if after := work(); after != before {
		t.Errorf("scrubs and blobs: %v, before %v", after, before)
	}
	must[string](alice, wire.OpDeleteFile,
		object{"group_id": "g", "ipfs_hash": alice.upload("g", "f", []byte("x")).CID})
}

// Threat 31: credentials are looked at before a body is read.
func TestThreat31CredentialsBeforeTheBody(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, tc := range []struct {
		request string
		status  int
		want    string
	}{
		{"POST /tools/prepare_upload", 401, "AUTH_REQUIRED"},
		{"POST /tools/finalize_upload", 401, "AUTH_REQUIRED"},
		{"POST /api/finalize-upload", 401, "AUTH_REQUIRED"},
		{"PUT /raw/upload/x", 401, "AUTH_REQUIRED"},
		{"POST /api/auth/session-token", 401, "AUTH_REQUIRED"},
	} {
		conn := s.dial()
		fmt.Fprint(conn, tc.request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n") // and nothing
		if status, body := reply(t, conn); status != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %s", tc.request, status, body)
		}
	}
	for path, limit := range map[string]int{wire.PathRPC: 16 << 10, wire.PathSessionToken: 4 << 10} {
		for _, header := range []string{fmt.Sprintf("Content-Length: %d", limit+1), "Transfer-Encoding: chunked"} {
			conn := s.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s: svc_sk_x\r\n%s\r\n\r\n", path, wire.HeaderAPIKey,
				header)
			if strings.HasPrefix(header, "Transfer") {
				fmt.Fprintf(conn, "%x\r\n%s\r\n", limit+1, strings.Repeat(" ", limit+1))
			}
			if status, body := reply(t, conn); status != 413 && !strings.Contains(body, "PARSE_ERROR") {
				t.Errorf("%s, %s: %d %s", path, header, status, body)
			}
		}
	}
}

// An upload id is good for as long as bytes of the upload come, on a line of any speed.
func TestUploadsMayTakeLongerThanTheirID(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	up := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	s.exec("UPDATE uploads SET expires_ns = ?", time.Now().Add(time.Minute).UnixNano())
	const size = 100_000
	conn := s.dial()
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\nx",
		up.UploadURL, alice.token, size)
	db := s.openDatabase()
	proctest.Eventually(t, "the id is good for longer", func() bool {
		var expires int64
		ok(t, db.QueryRow("SELECT expires_ns FROM uploads").Scan(&expires))
		return time.Until(time.Unix(0, expires)) > 4*time.Minute
	})
	fmt.Fprint(conn, strings.Repeat("x", size-1))
	if status, body := reply(t, conn); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
	must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
		object{"upload_id": up.UploadID, "file_hash": strings.Repeat("0", 64)})
}

// Threat 31: a client that takes a raw download is cut off when it stands still,
// and one that is not signed in also when it takes an answer slowly.
func TestThreat31AnswersThatStandStill(t *testing.T) {
	// On a busy machine the time can be over before the first piece is made: it is doubled until one comes.
	total, err := 0, error(nil)
	for timeout := 1500 * time.Millisecond; total == 0 && timeout < proctest.Hang; timeout *= 2 {
		total, err = answerThatStandsStill(t, timeout)
	}
	if err == nil || total == 0 {
		t.Errorf("%d bytes came, %v: want a part", total, err)
	}
}

// answerThatStandsStill sees a download that stands still end, and returns how much of a long answer came that was
// taken slowly, and how it ended; nil = it came whole.
func answerThatStandsStill(t *testing.T, timeout time.Duration) (total int, err error) {
	t.Helper()
	s := serve(t, func(c *service.Config) { c.ClientTimeout = timeout })
	alice := s.user("alice", "1000")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	up := alice.uploadRaw("g", "big", make([]byte, 12<<20)) // more than the kernel holds
	raw := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": up.CID, "transfer": "raw"})
	dial := func() net.Conn {
		conn, err := (&net.Dialer{Control: smallBuffer}).Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	fmt.Fprintf(dial(), "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", raw.DataURL, alice.token)
	proctest.Eventually(t, "the download", func() bool { return s.metric(inFlight) == 1 })
	proctest.Eventually(t, "the download that stands still is over", func() bool { return s.metric(inFlight) == 0 })

	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "open", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	fill(t, s.openDatabase(), "open", alice.id, wire.MaxPageRows)
	args, err := json.Marshal(object{"group_id": "open"})
	if err != nil {
		t.Fatal(err)
	}
	view, err := json.Marshal(object{"id": 1, "method": "query",
		"params": object{"request_type": "call_function", "method_name": "get_transactions_for_group_public",
			"args_base64": args}})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial()
	fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(view), view)
	var came []byte
	piece := make([]byte, 64<<10)
	for err == nil && len(came) < 64<<20 { // 64 KiB in 300 ms: five times the pace of a signed-in client
		time.Sleep(timeout / 5)
		var n int
		n, err = io.ReadFull(conn, piece)
		came = append(came, piece[:n]...)
	}
	if bytes.HasSuffix(came, []byte("\r\n0\r\n\r\n")) {
		return len(came), nil
	}
	return len(came), err
}

// Threat 31: pages and lists of the longest names are complete, though they are read
// in pieces.
func TestThreat31PagesOfLongNames(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	const files = 200
	fill(t, r.openDatabase(), "g", alice.id, files)
	r.exec("UPDATE files SET filename = ?", strings.Repeat("<", 4096))
	for limit, want := range map[int]int{0: files, 1: 1, 150: 150, files: files, wire.MaxPageRows: files} {
		rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
			wire.TransactionsRequest{GroupID: "g", Limit: limit})
		if len(rows) != want {
			t.Errorf("limit %d: %d rows, want %d", limit, len(rows), want)
		}
		for i := range len(rows) - 1 {
			if rows[i].Seq >= rows[i+1].Seq {
				t.Fatalf("limit %d: row %d is out of order", limit, i)
			}
		}
	}
	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "open", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	fill(t, r.openDatabase(), "open", alice.id, files)
	r.exec("UPDATE files SET filename = ?", strings.Repeat("<", 4096))
	if got := r.view("get_transactions_for_group_public", object{"group_id": "open"}); !strings.Contains(got,
		"get_group_transactions") {
		t.Errorf("a view of 5 MB: %.200s", got)
	}
}

// Threat 31: however many groups an account is in, they come in pages; without pages
// all of them come.
func TestThreat31PagesOfGroups(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "10")
	const groups = 2*wire.MaxPageNames + 5
	db := r.openDatabase()
	for from := 0; from < groups; from += 401 {
		var all, members []string
		for i := from; i < min(from+401, groups); i++ {
			all = append(all, fmt.Sprintf("('g%05d', '%s', %t, 1)", i, alice.id, false))
			members = append(members, fmt.Sprintf("('g%05d', '%s', 1)", i, alice.id))
		}
		for _, statement := range []string{"INSERT INTO groups (id, owner, joinable, key_version) VALUES " +
			strings.Join(all, ", "),
			"INSERT INTO members (group_id, account, since) VALUES " + strings.Join(members, ", ")} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, op := range []string{wire.OpGetOwnedGroups, wire.OpGetMemberGroups} {
		if all := must[[]string](alice, op, object{}); len(all) != groups ||
			all[groups-1] != fmt.Sprintf("g%05d", groups-1) {
			t.Errorf("%s without pages: %d", op, len(all))
		}
		after, pages := "", []int{}
		for more := true; more; {
			var page struct {
				Result []string
				Roles  []wire.Role
				More   bool
			}
			_, body := alice.tool(op, wire.NamesRequest{After: after, Limit: 100_000})
			if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Result) == 0 ||
				len(page.Roles) != len(page.Result) {
				t.Fatalf("%s: %v %.300s", op, err, body)
			}
			pages, more, after = append(pages, len(page.Result)), page.More, page.Result[len(page.Result)-1]
		}
		if fmt.Sprint(pages) != fmt.Sprintf("[%d %d 5]", wire.MaxPageNames, wire.MaxPageNames) {
			t.Errorf("%s: pages of %v", op, pages)
		}
	}
}

// Threat 31: many ranges at once would be as many requests to a bucket.
func TestThreat31OneRangeAtATime(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	up := alice.uploadRaw("g", "f", make([]byte, 2*wire.InlineBlobBytes))
	raw := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": up.CID, "transfer": "raw"})
	for ranges, want := range map[string]int{"bytes=0-9": 10, "bytes=0-9,20-29": int(raw.DataSize),
		"bytes=0-0" + strings.Repeat(",2-2", 5000): int(raw.DataSize)} {
		if status, body := alice.fetch(raw.DataURL, ranges); len(body) != want {
			t.Errorf("%.20s: %d, %d bytes, want %d", ranges, status, len(body), want)
		}
	}
}

// Threat 31: a list of any length is sent as it is read, and ends with the membership of
// its reader.
func TestThreat31LongListsAreSentInPieces(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, reader := r.user("owner", "10"), r.user("reader", "10")
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	owner.adds(reader)
	const files = 3 * wire.MaxPageRows // more bytes than the kernel holds
	fill(t, r.openDatabase(), "g", owner.id, files)
	slow := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{Control: smallBuffer}).DialContext}}
	list := func(client *http.Client) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/tools/get_group_transactions",
			strings.NewReader(`{"group_id":"g"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = reader.header()
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	resp := list(http.DefaultClient)
	var all struct{ Result []wire.TransactionRow }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || resp.ContentLength != -1 ||
		len(all.Result) != files {
		t.Fatalf("%d rows in %d bytes, %v", len(all.Result), resp.ContentLength, err)
	}
	for i := range files - 1 {
		if all.Result[i].Seq >= all.Result[i+1].Seq {
			t.Fatalf("row %d is not in upload order", i)
		}
	}
	resp = list(slow)
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": reader.id})
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("after the revocation all %d bytes came", n)
	}
}

// smallBuffer keeps the kernel from taking a long answer at once.
func smallBuffer(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
	return errors.Join(err, failed)
}
