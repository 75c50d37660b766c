package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/blob/s3test"
)

func TestParseLocation(t *testing.T) {
	for _, tc := range []struct {
		text, bucket, prefix, endpoint, region string
		pathStyle                              bool
	}{
		{"s3://files", "files", "", "https://s3.amazonaws.com", "us-east-1", false},
		{"s3://files/", "files", "", "https://s3.amazonaws.com", "us-east-1", false},
		{"s3://files/a/b/?region=eu-west-1", "files", "a/b", "https://s3.amazonaws.com", "eu-west-1", false},
		{"s3://files/p?endpoint=http://127.0.0.1:9000&path-style=true", "files", "p", "http://127.0.0.1:9000",
			"us-east-1", true},
		{"s3://my.files?endpoint=https%3A%2F%2Fs3.example.org%2F", "my.files", "", "https://s3.example.org/",
			"us-east-1", false},
	} {
		l, err := blob.ParseLocation(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		got := fmt.Sprint(l.Bucket, " ", l.Prefix, " ", l.Endpoint, " ", l.Region, " ", l.PathStyle)
		if want := fmt.Sprint(tc.bucket, " ", tc.prefix, " ", tc.endpoint, " ", tc.region, " ",
			tc.pathStyle); got != want {
			t.Errorf("%s: %s, want %s", tc.text, got, want)
		}
	}
	for _, tc := range []struct{ text, word string }{
		{"s3://", "bucket"}, {"s3://x", "bucket"}, {"s3:///prefix", "bucket"}, {"s3://UPPER", "bucket"},
		{"s3://a_b_c", "bucket"},
		{"s3://files/../other", "prefix"}, {"s3://files/a//b", "prefix"}, {"s3://files/./b", "prefix"},
		{"s3://hunter:secret@files", "AWS_ACCESS_KEY_ID"}, {"s3://files?acl=public", "acl"},
		{"s3://files?path-style=perhaps", "path-style"},
		{"s3://files?endpoint=127.0.0.1:9000", "endpoint"}, {"s3://files?endpoint=ftp://host", "endpoint"},
		{"s3://files?endpoint=http://host/path", "endpoint"}, {"s3://files?endpoint=http://u:secret@host", "endpoint"},
		{"s3://files?endpoint=http://", "endpoint"}, {"s3://files#x", "address"}, {"s3://files?%zz", "after ?"},
		{"http://files", "address"},
	} {
		_, err := blob.ParseLocation(tc.text)
		if err == nil || !strings.Contains(err.Error(), tc.word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want something about %s", tc.text, err, tc.word)
		}
	}
	if _, err := blob.Open(t.Context(), "gs://files", ""); err == nil ||
		!strings.Contains(err.Error(), "want a directory or s3://") {
		t.Errorf("another scheme: %v", err)
	}
}

// A wrong configuration is refused at the start, with the next step.
func TestOpenS3Refusals(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket := server.NewBucket(t)
	bare := s3test.StartWithoutMetadata(t)
	refused := func(name, location string, words ...string) {
		t.Helper()
		s, err := blob.Open(t.Context(), location, "")
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", name)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v: does not say %q", name, err, word)
			}
		}
		for _, secret := range s3test.Secrets() {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error holds a secret", name)
			}
		}
	}
	refused("a missing bucket", server.Location("nobody-made-this"), "does not exist",
		"aws --endpoint-url "+server.Endpoint()+" s3 mb s3://nobody-made-this")
	refused("a server that ignores conditions", bare.Location(bare.NewBucket(t)), "ignores If-None-Match", "--nometa")
	refused("a closed port", "s3://files?endpoint=http://127.0.0.1:1&path-style=true", "unavailable")

	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
	refused("a wrong secret", server.Location(bucket), "AWS_SECRET_ACCESS_KEY")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("HOME", t.TempDir())
	refused("no credentials", server.Location(bucket), "AWS_SHARED_CREDENTIALS_FILE")
	t.Run("credentials in a file are taken", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "credentials")
		entries := map[string]string{}
		for _, entry := range s3test.Env() {
			name, value, _ := strings.Cut(entry, "=")
			entries[name] = value
		}
		text := "[default]\naws_access_key_id = " + entries["AWS_ACCESS_KEY_ID"] + "\naws_secret_access_key = " +
			entries["AWS_SECRET_ACCESS_KEY"] + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
		s, err := blob.Open(t.Context(), server.Location(bucket), "")
		if err != nil {
			t.Fatalf("credentials in a file: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left := files(t, server.Dir(bucket)); left != 0 {
			t.Errorf("the probe left %d objects", left)
		}
	})
}

// lyingServer is an S3 server in memory that lies in one way, or fails.
type lyingServer struct {
	mu       sync.Mutex
	objects  map[string][]byte
	sums     map[string]string // metadata
	lie      string
	requests int
}

func newLyingServer(lie string) *lyingServer {
	return &lyingServer{objects: map[string][]byte{}, sums: map[string]string{}, lie: lie}
}

func (l *lyingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, taken := l.objects[r.URL.Path]
	if l.requests++; l.lie == "fails every other request" && l.requests%2 == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	switch r.Method {
	case http.MethodPut:
		if taken && r.Header.Get("If-None-Match") == "*" && l.lie != "ignores conditions" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		l.objects[r.URL.Path], _ = io.ReadAll(r.Body)
		l.sums[r.URL.Path] = r.Header.Get("X-Amz-Meta-Sha256")
		if l.lie == "loses the answers to puts" {
			panic(http.ErrAbortHandler)
		}
	case http.MethodDelete:
		delete(l.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet, http.MethodHead:
		if !taken && strings.Count(r.URL.Path, "/") > 2 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("X-Amz-Meta-Sha256", l.sums[r.URL.Path])
		if l.lie == "redirects" && r.Method == http.MethodGet {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		if l.lie == "changes bytes" && taken {
			data = append([]byte("x"), data[1:]...)
		}
		if l.lie == "ignores ranges" {
			r.Header.Del("Range")
		}
		w.Header().Set("ETag", `"x"`)
		http.ServeContent(w, r, "", time.Now(), bytes.NewReader(data))
	}
}

func TestOpenS3FindsLies(t *testing.T) {
	s3test.SetEnv(t)
	for lie, word := range map[string]string{"": "", "fails every other request": "",
		"ignores conditions": "ignores If-None-Match", "changes bytes": "other bytes", "ignores ranges": "answers",
		"redirects": "unavailable"} {
		server := httptest.NewServer(newLyingServer(lie))
		s, err := blob.Open(t.Context(), "s3://files?endpoint="+server.URL+"&path-style=true", "")
		switch {
		case word == "" && err != nil:
			t.Errorf("an honest server that %s: %v", lie, err)
		case word != "" && (err == nil || !strings.Contains(err.Error(), word)):
			t.Errorf("a server that %s: %v, want %q", lie, err, word)
		}
		if err == nil {
			err = s.Close()
			if err != nil {
				t.Error(err)
			}
		}
		server.Close()
	}
}

// A put whose answer is lost is repeated, refused because the name is taken, and
// recognised as done: the caller sees no failure.
func TestLostAnswers(t *testing.T) {
	s3test.SetEnv(t)
	fake := newLyingServer("")
	server := httptest.NewServer(fake)
	defer server.Close()
	s := backend{location: "s3://files?endpoint=" + server.URL + "&path-style=true"}.open(t)
	for _, lie := range []string{"loses the answers to puts", "fails every other request"} {
		fake.mu.Lock()
		fake.lie = lie
		fake.mu.Unlock()
		info := put(t, s, content(5000))
		if got, err := get(s, info.ID); err != nil || !bytes.Equal(got, content(5000)) {
			t.Errorf("a server that %s: %d bytes, %v", lie, len(got), err)
		}
	}
}

// The same for a blob of several parts, on a real server.
func TestLostAnswerOfALargePut(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	target, err := url.Parse(server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodPost && r.Request.URL.Query().Has("uploadId") && lost == 0 {
				lost++
				return errors.New("the answer is lost")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	defer proxy.Close()
	s := backend{location: "s3://" + server.NewBucket(t) + "?endpoint=" + proxy.URL + "&path-style=true"}.open(t)
	data := content(11 << 20)
	info := put(t, s, data)
	if got, err := get(s, info.ID); err != nil || !bytes.Equal(got, data) || lost != 1 {
		t.Errorf("%d bytes, %v; %d answers were lost", len(got), err, lost)
	}
}

// Row 39 of the reliability table, for the store: an outage is reported as one, under
// load too, and ends when the server is back.
func TestThreat39BucketGone(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket := server.NewBucket(t)
	s := backend{server.Location(bucket), server.Dir(bucket)}.open(t)
	data := content(100_000)
	kept := put(t, s, data)

	stop := make(chan struct{})
	var load sync.WaitGroup
	var mu sync.Mutex
	var acknowledged []blob.Info
	outages := 0
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				info, err := s.Put(t.Context(), bytes.NewReader(data), 1<<20)
				mu.Lock()
				switch {
				case err == nil:
					acknowledged = append(acknowledged, info)
				case errors.Is(err, blob.ErrUnavailable):
					outages++
				default:
					t.Errorf("put: %v", err)
				}
				mu.Unlock()
				if got, err := get(s, kept.ID); err == nil && !bytes.Equal(got, data) || err != nil &&
					!errors.Is(err, blob.ErrUnavailable) {
					t.Errorf("get: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	count := func(list func() int) func() int {
		return func() int {
			mu.Lock()
			defer mu.Unlock()
			return list()
		}
	}
	puts, failures := count(func() int { return len(acknowledged) }), count(func() int { return outages })
	proctest.Eventually(t, "puts succeed", func() bool { return puts() > 10 })
	server.Kill()
	proctest.Eventually(t, "the outage is told", func() bool { return failures() > 4 })
	t.Run("everything else is refused as unavailable", func(t *testing.T) {
		if err := s.Check(t.Context()); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("check during the outage: %v", err)
		}
		if err := s.Delete(t.Context(), kept.ID); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("delete during the outage: %v", err)
		}
		if err := s.Sweep(t.Context(), 0, func(string, int64) error { return nil }); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("sweep during the outage: %v", err)
		}
	})
	server.Restart(t)
	before := puts()
	proctest.Eventually(t, "puts succeed again", func() bool { return puts() > before+10 })
	close(stop)
	load.Wait()
	for _, info := range acknowledged {
		if got, err := get(s, info.ID); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("an acknowledged blob: %d bytes, %v", len(got), err)
		}
	}
}

// A server that stands still is an outage too, within the caller's time.
func TestThreat39BucketStandsStill(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket := server.NewBucket(t)
	s := backend{server.Location(bucket), server.Dir(bucket)}.open(t)
	id := put(t, s, content(10)).ID
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := s.Open(ctx, id); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("open: %v", err)
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(s, id); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// A reader goes on where a broken transfer ended.
func TestReadSurvivesRestart(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket := server.NewBucket(t)
	s := backend{server.Location(bucket), server.Dir(bucket)}.open(t)
	data := content(30 << 20)
	r, _, err := s.Open(t.Context(), put(t, s, data).ID)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	head := make([]byte, 1<<20)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Restart(t)
	rest, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(append(head, rest...), data) {
		t.Errorf("%d bytes, %v", len(head)+len(rest), err)
	}
}

// A missing bucket is an outage, not a missing file: no caller may conclude that the
// file is gone.
func TestMissingBucketIsAnOutage(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket := server.NewBucket(t)
	s := backend{server.Location(bucket), server.Dir(bucket)}.open(t)
	id := put(t, s, content(10)).ID
	if err := os.Rename(server.Dir(bucket), server.Dir("elsewhere")); err != nil {
		t.Fatal(err)
	}
	if _, err := get(s, id); !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open: %v", err)
	}
	if _, err := s.Put(t.Context(), bytes.NewReader(nil), 1); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, blob.ErrUnavailable) || !strings.Contains(err.Error(), "s3 mb") {
		t.Errorf("check: %v", err)
	}
}

// client is another S3 client, for requests that our own never sends.
func client(t *testing.T, server *s3test.Server) minio.Core {
	t.Helper()
	endpoint, err := url.Parse(server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	core, err := minio.NewCore(endpoint.Host,
		&minio.Options{Creds: credentials.NewEnvAWS(), Region: "us-east-1", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return *core
}

// The leftovers of a killed process in the bucket are removed once they are old: parts
// of an upload and probes. Foreign objects stay.
func TestSweepOfInterruptedUploads(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket := server.NewBucket(t)
	b, mark := backend{server.Location(bucket + "/files"), server.Dir(bucket)}, blob.NewMark()
	kept := put(t, b.openAs(t, mark), content(100))
	other := client(t, server)
	id := strings.Repeat("a", 32-len(mark)) + mark
	upload, err := other.NewMultipartUpload(t.Context(), bucket, "files/aa/"+id, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.PutObjectPart(t.Context(), bucket, "files/aa/"+id, upload, 1, bytes.NewReader(content(5<<20)),
		5<<20, minio.PutObjectPartOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"files/probe-" + id, "files/notes.txt", "elsewhere/aa/" + id} {
		if _, err := other.Client.PutObject(t.Context(), bucket, key, strings.NewReader("x"), 1,
			minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (objects, uploads int) {
		for entry := range other.ListObjectsIter(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
			if entry.Err != nil {
				t.Fatal(entry.Err)
			}
			objects++
		}
		for entry := range other.ListIncompleteUploads(t.Context(), bucket, "", true) {
			if entry.Err != nil {
				t.Fatal(entry.Err)
			}
			uploads++
		}
		return objects, uploads
	}
	sweep := func(mark string, age time.Duration) (visited []string) {
		err := b.openAs(t, mark).Sweep(t.Context(), age, func(id string, _ int64) error {
			visited = append(visited, id)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return visited
	}
	sweep(mark, time.Hour)
	if objects, uploads := count(); objects != 4 || uploads != 1 {
		t.Errorf("a sweep of old things left %d objects and %d uploads", objects, uploads)
	}
	proctest.Eventually(t, "the probe is removed, and not the upload of another service", func() bool {
		sweep(blob.NewMark(), 0)
		objects, uploads := count()
		return objects == 3 && uploads == 1
	})
	makeOld := func(parts bool) {
		hourAgo := time.Now().Add(-2 * time.Hour)
		if err := filepath.WalkDir(server.Dir(bucket), func(name string, entry os.DirEntry, err error) error {
			if err == nil && (parts || entry.IsDir()) {
				err = os.Chtimes(name, hourAgo, hourAgo)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for parts, want := range []int{1, 0} { // one that goes on for long has young parts
		makeOld(parts == 1)
		sweep(mark, time.Hour)
		if _, uploads := count(); uploads != want {
			t.Errorf("old parts %v: %d uploads are left", parts == 1, uploads)
		}
	}
	if visited := sweep(mark, 0); len(visited) != 1 || visited[0] != kept.ID {
		t.Errorf("visited %v, want %s once", visited, kept.ID)
	}
}

// A directory copied into a bucket file by file is the same store, and back.
func TestDirectoryAndBucketAreCopiesOfEachOther(t *testing.T) {
	server := s3test.Start(t)
	s3test.SetEnv(t)
	bucket, dir := server.NewBucket(t), filepath.Join(t.TempDir(), "blobs")
	first := backend{dir, dir}.open(t)
	want := map[string][]byte{}
	for _, n := range []int{28, 5000, 9 << 20} {
		want[put(t, first, content(n)).ID] = content(n)
	}
	other := client(t, server)
	for id := range want {
		if _, err := other.FPutObject(t.Context(), bucket, "p/"+id[:2]+"/"+id, first.Where(id),
			minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	second := backend{server.Location(bucket + "/p"), ""}.open(t)
	back := filepath.Join(t.TempDir(), "back")
	for id, data := range want {
		if got, err := get(second, id); err != nil || !bytes.Equal(got, data) {
			t.Errorf("in the bucket: %d bytes, %v", len(got), err)
		}
		if err := other.FGetObject(t.Context(), bucket, "p/"+id[:2]+"/"+id, filepath.Join(back, id[:2], id),
			minio.GetObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	third := backend{back, back}.open(t)
	for id, data := range want {
		if got, err := get(third, id); err != nil || !bytes.Equal(got, data) {
			t.Errorf("back in a directory: %d bytes, %v", len(got), err)
		}
	}
}
