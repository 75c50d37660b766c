package sdk_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 8: pages of records that have no end are given up while they fit into
// memory, whatever is large in them.
func TestThreat8PagesWithoutEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 3000)
	for _, tc := range []struct {
		name, field string
		list        func(c *sdk.Client) error
	}{
		{"details of records", "detail", func(c *sdk.Client) error { _, err := c.Group("g").Records(t.Context()); return err }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := world(t, testkit.Ours, func(cfg *sdk.Config) { cfg.ListMemory, cfg.Timeout = 32<<20, 5*time.Minute })
			hash := strings.Repeat("ab", 32)
			s.Answer(wire.PathTools+wire.OpGetGroupTransactions, func(w http.ResponseWriter, r *http.Request) {
				var asked wire.TransactionsRequest
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				var page bytes.Buffer
				for i := range asked.Limit {
					seq := asked.AfterSeq + int64(i) + 1
					fmt.Fprintf(&page, `,{"ipfs_hash":"r","file_hash":"%s","prev_hash":"%s","hash":"%s","timestamp":"1","seq":%d,"changed_seq":%d,"%s":"%s"}`,
						hash, hash, hash, seq, seq, tc.field, long)
				}
				page.Bytes()[0] = '['
				_, _ = fmt.Fprintf(w, `{"result":%s]}`, page.Bytes())
			})
			if err := tc.list(c); !errors.Is(err, sdk.ErrTooLarge) || errorCode(err) != wire.CodeListMemory || c.ListMemory() != 0 {
				t.Errorf("%v", err)
			}
			if asked := s.Hits(wire.PathTools + wire.OpGetGroupTransactions); asked > 100 {
				t.Errorf("%d requests were made", asked)
			}
		})
	}
}

// Threat 8: where the ledger tells a file's size, no room is made for content that
// such a file cannot have, sealed or inflated.
func TestThreat8MoreThanTheRecordedSize(t *testing.T) {
	t.Parallel()
	content := []byte("ten bytes!")
	entry := sdk.Entry{Group: "g", Ref: "ref", Hash: sdk.ComputeHash(content), Size: int64(len(content))}
	good := store(t, content)
	deflated, err := format.Deflate(content)
	if err != nil {
		t.Fatal(err)
	}
	packed := store(t, deflated)
	meta := func(size int64) format.Metadata {
		m := format.NewMetadata(size, "", "")
		m.Compression = format.CompressionDeflate
		return m
	}
	answered := func(change func(m map[string]any)) http.HandlerFunc {
		m := good.answer()
		change(m)
		return result(m)
	}
	s, c := world(t, testkit.Hosted)
	for _, tc := range []struct {
		name string
		lie  http.HandlerFunc
		want error
	}{
		{"compressed, and a little longer", answered(func(m map[string]any) {
			m["encrypted_b64"], m["format"] = base64.StdEncoding.EncodeToString(packed.blob), meta(10)
		}), nil},
		{"inline data", answered(func(m map[string]any) {
			m["encrypted_b64"] = base64.StdEncoding.EncodeToString(make([]byte, 100_000))
		}), sdk.ErrCorrupt},
		{"announced data", answered(func(m map[string]any) {
			m["encrypted_b64"], m["data_url"], m["data_size"], m["format"] = nil, "/data", 100_000, meta(10)
		}), sdk.ErrCorrupt},
		{"original size", answered(func(m map[string]any) {
			m["encrypted_b64"], m["format"] = base64.StdEncoding.EncodeToString(packed.blob), meta(10_000)
		}), sdk.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Answer(wire.PathTools+wire.OpPrepareRetrieve, tc.lie)
			b := buffer(t, 0)
			_, err = c.Group(entry.Group).Retrieve(t.Context(), entry, b)
			if !errors.Is(err, tc.want) || err == nil && b.Len() != entry.Size {
				t.Errorf("%d bytes, %v", b.Len(), err)
			}
			if b.Footprint() > 64<<10 {
				t.Errorf("the buffer has %d bytes", b.Footprint())
			}
			if s.Hits("/data") > 0 {
				t.Error("the data was asked for")
			}
		})
	}
}
