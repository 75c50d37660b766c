package service_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob/s3test"
)

// onS3 is a service whose ciphertext is in a bucket, and the log it writes.
func onS3(t *testing.T) (*running, *s3test.Server, string, *lockedBuffer) {
	t.Helper()
	server := s3test.Start(t)
	bucket := server.NewBucket(t)
	log := &lockedBuffer{}
	r := runWith(t, service.Config{Database: newDatabase(t), Blobs: server.Location(bucket + "/files"),
		MaxFileBytes: 20 << 20, SmallBytes: -1,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	return r, server, server.Dir(bucket), log
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// All that the service does with ciphertext, over a bucket.
func TestServiceOnS3(t *testing.T) {
	t.Parallel()
	r, _, dir, log := onS3(t)
	alice := r.owner()
	small, large := []byte("small"), bytes.Repeat([]byte("large "), 2_000_000)
	inline := alice.upload("g", "small", small)
	raw := alice.uploadRaw("g", "large", large)
	for ref, want := range map[string][]byte{inline.CID: small, raw.CID: large} {
		alice.reads(ref, string(want))
	}
	answer := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": raw.CID, "transfer": "raw"})
	_, whole := alice.fetch(answer.DataURL, "")
	for _, ranges := range []string{"bytes=0-0", "bytes=5-9", "bytes=9000000-9000099", "bytes=-10"} {
		status, body := alice.fetch(answer.DataURL, ranges)
		if status != http.StatusPartialContent || len(body) == 0 || !bytes.Contains(whole, body) {
			t.Errorf("%s: %d, %d bytes", ranges, status, len(body))
		}
	}
	for _, readData := range []bool{false, true} {
		if n, err := r.svc.Verify(t.Context(), readData,
			func(ref string, err error) { t.Error(ref, err) }); err != nil || n != 2 {
			t.Errorf("verify: %d, %v", n, err)
		}
	}
	where, err := r.svc.BlobPath(t.Context(), raw.CID)
	if err != nil || !strings.HasPrefix(where, "s3://") {
		t.Fatalf("it lies at %q, %v", where, err)
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(where, "s3://"), "/")
	flip(t, filepath.Join(dir, key), 1000)
	var bad []string
	if _, err := r.svc.Verify(t.Context(), true, func(ref string, _ error) { bad = append(bad, ref) }); err != nil ||
		len(bad) != 1 || bad[0] != raw.CID {
		t.Errorf("a changed object: %v, %v", bad, err)
	}
	ok(t, os.Truncate(filepath.Join(dir, key), 1000))
	if _, problem := alice.retrieve("g", raw.CID); !strings.Contains(problem, wire.CodeBlobCorrupt) {
		t.Errorf("a shortened object: %s", problem)
	}
	for _, secret := range s3test.Secrets() {
		if strings.Contains(log.String(), secret) {
			t.Error("the log holds a credential")
		}
	}
}

func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// uploadRaw uploads with the ciphertext beside the JSON.
func (u *user) uploadRaw(group, name string, content []byte) wire.FinalizeUploadResult {
	u.t.Helper()
	p := must[wire.PrepareUploadResult](u, wire.OpPrepareUpload, object{"group_id": group, "filename": name})
	sealed, err := base64.StdEncoding.DecodeString(seal(u.t, p.Key, content))
	if err != nil {
		u.t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPut, u.url+p.UploadURL, bytes.NewReader(sealed))
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header = u.header()
	if status, body := u.do(req); status != http.StatusNoContent {
		u.t.Fatalf("put: %d %s", status, body)
	}
	return must[wire.FinalizeUploadResult](u, wire.OpFinalizeUpload,
		object{"upload_id": p.UploadID, "file_hash": hash(content)})
}

// fetch reads from the address a raw retrieval answered.
func (u *user) fetch(target, ranges string) (int, []byte) {
	u.t.Helper()
	req, err := http.NewRequest(http.MethodGet, u.url+target, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header = u.header()
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	return u.do(req)
}

// Row 39: the bucket goes away under load. Answers are 503 with Retry-After, /health
// names the part, failed requests are not charged, and the service recovers within 10 s
// of the bucket's return.
func TestThreat39BucketGoneUnderLoad(t *testing.T) {
	t.Parallel()
	r, server, _, _ := onS3(t)
	alice := r.owner()
	ref := alice.upload("g", "f", []byte("kept")).CID

	var uploaded, retrieved, refused atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				request := alice.finalize("g", "more", []byte("more"))
				if alice.okOr503(wire.OpFinalizeUpload, request) {
					uploaded.Add(1)
				} else {
					refused.Add(1)
				}
				if alice.okOr503(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref}) {
					retrieved.Add(1)
				}
			}
		})
	}
	proctest.Eventually(t, "uploads succeed", func() bool { return uploaded.Load() > 5 })
	server.Kill()
	proctest.Eventually(t, "the outage is told", func() bool { return refused.Load() > 5 })
	proctest.Eventually(t, "health names the part", func() bool { // an answer is repeated for a second
		status, body := r.health()
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"blobs":"down"`)
	})
	if rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g"}); len(rows) == 0 {
		t.Error("listing needs no bucket, but failed")
	}
	server.Restart(t)
	before := uploaded.Load()
	proctest.Eventually(t, "uploads succeed again", func() bool { return uploaded.Load() > before+5 })
	close(stop)
	load.Wait()
	proctest.Eventually(t, "health recovers", func() bool { status, _ := r.health(); return status == http.StatusOK })
	rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": "g"})
	if int64(len(rows)) != uploaded.Load()+1 {
		t.Errorf("%d rows for %d uploads", len(rows), uploaded.Load()+1)
	}
	// 1000 - 0.64 - 0.039 per upload - 0.013 per retrieval, in thousandths
	left := 1_000_000 - 640 - 39*int64(len(rows)) - 13*retrieved.Load()
	want := strings.TrimRight(fmt.Sprintf("%d.%03d", left/1000, left%1000), "0")
	if got := alice.balance(); got != strings.TrimRight(want, ".") {
		t.Errorf("balance %s, want %s", got, want)
	}
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != len(rows) {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// okOr503 calls an operation that may fail only because the store is away.
func (u *user) okOr503(op string, request any) bool {
	u.t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		u.t.Error(err)
		return false
	}
	req, err := http.NewRequest(http.MethodPost, u.url+"/tools/"+op, bytes.NewReader(raw))
	if err != nil {
		u.t.Error(err)
		return false
	}
	req.Header = u.header()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Error(err)
		return false
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusOK {
		return true
	}
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != http.StatusServiceUnavailable || err != nil || after < 1 ||
		!strings.Contains(string(body), wire.CodeUnavailable) {
		u.t.Errorf("%s: %d, Retry-After %q: %s", op, resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
	return false
}

func (r *running) health() (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+wire.PathHealth, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	status, body := r.do(req)
	return status, string(body)
}

// Threat 30: a reference is looked up, never followed: one that is an address
// causes no connection.
func TestThreat30ReferencesAreNotFollowed(t *testing.T) {
	t.Parallel()
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	_, alice := runWithGroup(t)
	at := trap.Addr().String()
	for _, ref := range []string{"http://" + at + "/", "https://" + at + "/x", "//" + at + "/", at, "s3://" + at + "/x",
		"ipfs://" + at, "ftp://" + at,
		"bafy.http://" + at + "/x", "Qm://" + at, at + "/fastfs." + at + "/x",
		"http://user:pass@" + at + "/latest/meta-data", "file:///etc/passwd"} {
		for _, op := range []string{wire.OpPrepareRetrieve, "delete_file", "rename_file"} {
			if status, body := alice.tool(op, object{"group_id": "g", "ipfs_hash": ref, "filename": ref,
				"transfer": "raw"}); status != http.StatusNotFound {
				t.Errorf("%s of %q: %d %s", op, ref, status, body)
			}
		}
		if status, _ := alice.tool(wire.OpPrepareUpload, object{"group_id": "g", "filename": ref}); status >= 500 {
			t.Errorf("a name %q: %d", ref, status)
		}
	}
	if err := trap.Close(); err != nil {
		t.Error(err)
	}
	<-done
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
