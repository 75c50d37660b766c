package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/legacy"
)

// TestThreat39AnswerOfACommitIsLost cuts the connection to the database between a commit
// and its answer: the recorded file keeps its bytes.
func TestThreat39AnswerOfACommitIsLost(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // ran already
	}
	proxy, database := cutCommits(t, engines.NewPostgres(t))
	key, outside := oldKey(t)
	content := bytes.Repeat([]byte("elsewhere "), 1000)
	gateway := &gatewayFor{data: sealWith(t, outside, content)}
	server := httptest.NewServer(gateway)
	defer server.Close()
	r := runWith(t, service.Config{Database: database, Gateway: server.URL})
	alice := r.owner()
	t.Run("bytes from the gateway", func(t *testing.T) {
		ref := legacy.Sum(gateway.data, legacy.Default(0)).String()
		if _, err := r.svc.ImportReference(t.Context(), service.LegacyFile{Group: "g", Key: key}, ref,
			hash(content)); err != nil {
			t.Fatal(err)
		}
		proxy.armed.Store(true)
		if _, problem := alice.retrieve("g", ref); !strings.Contains(problem, "unavailable") || proxy.armed.Load() {
			t.Errorf("without the answer: %s", problem)
		}
		alice.reads(ref, string(content))
	})
	t.Run("import", func(t *testing.T) {
		proxy.armed.Store(true)
		l := service.LegacyFile{Group: "g", Name: "old"}
		if _, err := r.svc.ImportPlain(t.Context(), l, content, 1); err == nil || proxy.armed.Load() {
			t.Errorf("without the answer: %v", err)
		}
		again, err := r.svc.ImportPlain(t.Context(), l, content, 1)
		if err != nil || !again.Known {
			t.Fatalf("again: %+v, %v", again, err)
		}
		alice.reads(again.CID, string(content))
	})
	t.Run("finalize", func(t *testing.T) {
		req := alice.finalize("g", "new", content)
		proxy.armed.Store(true)
		if status, body := alice.tool(wire.OpFinalizeUpload, req); status != 503 || proxy.armed.Load() {
			t.Errorf("without the answer: %d %s", status, body)
		}
		done := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, req)
		alice.reads(done.CID, string(content))
	})
}

// TestImportIsInterruptedInItsCommit ends the context of an import while its commit is on the way: what is committed
// keeps its bytes.
func TestImportIsInterruptedInItsCommit(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // ran already
	}
	source, alice := runWithGroup(t)
	alice.upload("g", "f", bytes.Repeat([]byte("imported "), 10_000)) // too large for the database
	var stream bytes.Buffer
	ok(t, errOf(source.svc.Export(t.Context(), &stream, nil)))
	proxy, database := cutCommits(t, engines.NewPostgres(t))
	target := runWith(t, service.Config{DataDir: masterKeyOnly(t, source.dir), Database: database})
	ctx, interrupt := context.WithCancel(t.Context())
	proxy.instead = interrupt
	proxy.armed.Store(true)
	if _, err := target.svc.Import(ctx, bytes.NewReader(stream.Bytes())); err == nil || proxy.armed.Load() {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := target.svc.Import(t.Context(), &stream); err != nil && !errors.Is(err, archive.ErrImported) {
		t.Errorf("again: %v", err)
	}
	target.clean(1)
}

// cutter is a proxy before PostgreSQL. Armed, it lets the next commit pass and
// drops the connection before the answer.
type cutter struct {
	armed   atomic.Bool
	instead func() // nil = as above
	target  string
	all     sync.WaitGroup
}

func cutCommits(t *testing.T, database string) (*cutter, string) {
	t.Helper()
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{target: address.Host}
	c.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.all.Go(func() { c.pass(conn) })
		}
	})
	t.Cleanup(func() { // after the service is closed
		_ = l.Close()
		c.all.Wait()
	})
	address.Host = l.Addr().String()
	return c, address.String()
}

func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	c.all.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || cut.Load() {
				_ = client.Close()
				_ = server.Close()
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	lock, writes := []byte(waitsForWriters), false
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if name := preparedLock.FindSubmatch(buf[:n]); name != nil {
			lock = bytes.Clone(name[1])
		}
		writes = writes || bytes.Contains(buf[:n], lock)
		if isCommit(buf[:n]) {
			if writes && c.armed.Swap(false) {
				if c.instead != nil {
					c.instead()
				} else {
					cut.Store(true)
				}
			}
			writes = false
		}
		if _, err := io.Copy(server, bytes.NewReader(buf[:n])); err != nil {
			return
		}
	}
}

// waitsForWriters is in what each write begins with, and no transaction of the sequencer. preparedLock finds the name
// under which pgx has it prepared on a connection.
const waitsForWriters = "CASE WHEN alone"

var preparedLock = regexp.MustCompile(`(stmtcache_[0-9a-f]+)\x00[^\x00]*` + waitsForWriters)

// isCommit looks for the name under which pgx has the commit of a write prepared, but for the preparation, which has
// its text. Readers commit without a name.
func isCommit(sent []byte) bool {
	sum := sha256.Sum256([]byte("COMMIT"))
	return bytes.Contains(sent, fmt.Appendf(nil, "stmtcache_%x", sum[:24])) && !bytes.Contains(sent, []byte("COMMIT\x00"))
}
