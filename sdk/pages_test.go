package sdk_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A member who gives files the longest names a service takes does not make the
// group's list or ledger too long for the others.
func TestLongestNamesAreListed(t *testing.T) {
	const files = 6000
	name, hash := strings.Repeat("\x01", 4096), strings.Repeat("ab", 32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case wire.PathCapabilities:
			fmt.Fprintf(w, `{"features":[%q,%q]}`, wire.CapPaging, wire.CapCheckpoints)
		case wire.PathSessionToken:
			fmt.Fprint(w, `{"token":"session-token","account_id":"a.svc.testnet","expires_in":"24h"}`)
		default:
			var req wire.TransactionsRequest
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				t.Error(err)
			}
			stamp := "1"
			var rows []wire.TransactionRow
			for seq := req.AfterSeq + 1; seq <= files && len(rows) < req.Limit; seq++ {
				rows = append(rows, wire.TransactionRow{Seq: seq, ChangedSeq: seq, IPFSHash: fmt.Sprint(seq), FileHash: hash, Filename: &name,
					Timestamp: &stamp, Detail: name, PrevHash: hash, Hash: hash})
				if req.Kinds == "" {
					rows[len(rows)-1].Detail = ""
				} else {
					rows[len(rows)-1].Filename = nil
				}
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"result": rows}) // the client may have had enough
		}
	}))
	defer server.Close()
	c, err := sdk.New("a.svc.testnet", sdk.Config{URL: server.URL, APIKey: sdk.NewSecret("svc_sk_test")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if list, err := c.Entries(t.Context(), "g", 0); err != nil || len(list) != files {
		t.Errorf("%d files, %v", len(list), err)
	}
	if list, err := c.LedgerRows(t.Context(), "g"); err != nil || len(list) != files {
		t.Errorf("%d records, %v", len(list), err)
	}
}
