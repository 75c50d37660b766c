package service_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/sickfs"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// TestThreat39SickDisk: a file that the service's disk does not give is charged once, whatever the size of the file;
// the reader is told, /health and the log tell, and once the disk gives the file the next retrieval is free.
func TestThreat39SickDisk(t *testing.T) {
	t.Parallel()
	for name, blocks := range map[string]int64{"in one piece": 0, "in blocks": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := sickfs.New(t)
			r := runWith(t, service.Config{Database: newDatabase(t), Blobs: filepath.Join(disk.Dir(), "blobs"),
				MaxFileBytes: 64 << 20, SmallBytes: -1})
			alice := r.owner()
			content, ref := noise(300_000), ""
			if blocks > 0 {
				content = contentOf("a", blocks)
				ref = alice.savesAll("f", content).CID
			} else {
				ref = alice.upload("g", "f", content).CID
			}
			get := func(begin string) (paid bool, status int, got []byte) {
				t.Helper()
				before := alice.balance()
				status, body := alice.tool(wire.OpPrepareRetrieve,
					object{"group_id": "g", "ipfs_hash": ref, "transfer": wire.TransferRaw, "formats": []int{1, 2}})
				paid = alice.balance() != before
				if status != http.StatusOK {
					return paid, status, []byte(body)
				}
				var out struct{ Result wire.PrepareRetrieveResult }
				ok(t, json.Unmarshal([]byte(body), &out))
				status, got = alice.takes(out.Result.DataURL, begin)
				return paid, status, got
			}
			disk.Sicken(100_000)
			paid, status, got := get("")
			if !paid || status != http.StatusPartialContent || len(got) >= len(content) {
				t.Fatalf("from a sick disk: paid %v, %d, %d bytes", paid, status, len(got))
			}
			for range 2 {
				paid, status, got = get("bytes=100000-")
				if paid || status != http.StatusInternalServerError ||
					!strings.Contains(string(got), wire.CodeBlobCorrupt) {
					t.Errorf("again: paid %v, %d %.200s", paid, status, got)
				}
			}
			if status, body := alice.takes(wire.PathHealth, ""); status != http.StatusOK ||
				!strings.Contains(string(body), "1 reads failed") {
				t.Errorf("health: %d %s", status, body)
			}
			disk.Sicken(0)
			if paid, status, got = get(""); paid || status != http.StatusPartialContent || len(got) < len(content) {
				t.Errorf("from a disk that is well again: paid %v, %d, %d bytes", paid, status, len(got))
			}
			if blocks == 0 {
				if paid, _, _ = get(""); !paid {
					t.Error("nothing is paid for another retrieval")
				}
			}
		})
	}
}

// Threat 39: a file that is deleted while it is read is no file that the disk does not give.
func TestThreat39DeletedWhileItIsRead(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 64 << 20, SmallBytes: -1})
	alice := r.owner()
	file := alice.savesAll("f", contentOf("a", 400)) // more than a connection holds
	out := alice.opens(file.CID).answer
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, alice.url+out.DataURL, nil)
	ok(t, err)
	req.Header = alice.header()
	resp, err := http.DefaultClient.Do(req)
	ok(t, err)
	defer resp.Body.Close()
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": file.CID})
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil {
		t.Fatalf("all %d bytes were under way", n)
	}
	if status, body := alice.takes(wire.PathHealth, ""); status != http.StatusOK ||
		!strings.Contains(string(body), `"files":"ok"`) {
		t.Errorf("health: %d %s", status, body)
	}
}

// takes asks for bytes, of which the answer may break off.
func (u *user) takes(target, ranges string) (status int, got []byte) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, u.url+target, nil)
	ok(u.t, err)
	req.Header = u.header()
	req.Header.Set("Range", cmp.Or(ranges, "bytes=0-"))
	resp, err := http.DefaultClient.Do(req)
	ok(u.t, err)
	defer resp.Body.Close()
	got, _ = io.ReadAll(resp.Body)
	return resp.StatusCode, got
}
