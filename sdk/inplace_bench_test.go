package sdk_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// keeping takes uploads as a service of one's own does: raw, into a file that is
// synced.
func keeping(b *testing.B, s *server) {
	const put = "/blob"
	path := filepath.Join(b.TempDir(), "blob")
	n := 0
	s.lie(wire.PathCapabilities, answer(200, wire.Capabilities{Dialect: wire.Ours}))
	s.tool(wire.OpPrepareUpload, func(w http.ResponseWriter, _ *http.Request) {
		n++
		key := make([]byte, format.KeyBytes)
		copy(key, fmt.Sprintf("a key for file %d", n))
		answer(200, map[string]any{"result": wire.PrepareUploadResult{UploadID: fmt.Sprint(n), Key: base64.StdEncoding.EncodeToString(key), UploadURL: put}})(w, nil)
	})
	s.lie(put, func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Create(path)
		if err == nil {
			_, err = io.Copy(f, r.Body)
		}
		if err != nil || f.Sync() != nil || f.Close() != nil {
			b.Error("the file is not kept: ", err)
		}
		_, _ = w.Write([]byte("{}"))
	})
	s.tool(wire.OpFinalizeUpload, func(w http.ResponseWriter, r *http.Request) {
		var req wire.FinalizeUploadRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			b.Error(err)
		}
		answer(200, map[string]any{"result": wire.FinalizeUploadResult{CID: "ref-" + req.UploadID, TransID: "tx", FileHash: req.FileHash}})(w, nil)
	})
}

// BenchmarkWrite is a mount that a file of 256 MiB is written through: appended in
// pieces of 128 KiB, and uploaded. peak-MiB is the most memory that the process had.
func BenchmarkWrite(b *testing.B) {
	s := newServer(b)
	keeping(b, s)
	c, err := sdk.New(account, sdk.Config{URL: s.url, APIKey: sdk.NewSecret(apiKey)})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	pool := mem.NewPool()
	defer pool.Close()
	piece := make([]byte, 128<<10)
	const size = 256 << 20
	b.SetBytes(size)
	for i := 0; b.Loop(); i++ {
		buf, err := pool.Get(0)
		if err != nil {
			b.Fatal(err)
		}
		piece[0] = byte(i)
		for at := int64(0); at < size; at += int64(len(piece)) {
			if _, err := buf.WriteAt(piece, at); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := c.Group("g").Upload(b.Context(), fmt.Sprint("file-", i), buf); unproven(err) != nil {
			b.Fatal(err)
		}
		buf.Release()
	}
	b.ReportMetric(peak(b), "peak-MiB")
}

// peak returns the most memory that this process had, in MiB.
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	kib, err := strconv.ParseFloat(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
