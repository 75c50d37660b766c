package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A member who gives files the longest names a service takes does not make the
// group's list too long for the others.
func TestLongestNamesAreListed(t *testing.T) {
	t.Parallel()
	const files = 1000
	s, c := world(t, testkit.Ours)
	var names []string
	for i := range files { // each takes six times as many bytes in JSON: together more than an answer may have
		names = append(names, fmt.Sprint(i, strings.Repeat("\x01", 4090)))
	}
	s.AddRecords(testkit.Account{ID: c.Account()}, "g", names)
	if list, err := c.Group("g").Entries(t.Context()); err != nil || len(list) != files {
		t.Errorf("%d files, %v", len(list), err)
	}
}

// So do records, which come page by page.
func TestLongestDetailsAreListed(t *testing.T) {
	t.Parallel()
	const records = 700 // together more than an answer of a client of small files may have
	hash, stamp := strings.Repeat("ab", 32), "1"
	row, err := json.Marshal(wire.TransactionRow{Seq: 987654321, ChangedSeq: 987654321, IPFSHash: "987654321", FileHash: hash,
		Timestamp: &stamp, PrevHash: hash, Hash: hash, Detail: strings.Repeat("\x01", 4096)})
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(t)
	server.lie(wire.PathCapabilities, answer(200, wire.Capabilities{Dialect: wire.Ours}))
	server.tool(wire.OpGetGroupTransactions, func(w http.ResponseWriter, r *http.Request) {
		var req wire.TransactionsRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		var rows [][]byte
		for seq := req.AfterSeq + 1; seq <= records && len(rows) < req.Limit; seq++ {
			rows = append(rows, bytes.ReplaceAll(row, []byte("987654321"), []byte(fmt.Sprint(seq))))
		}
		fmt.Fprintf(w, `{"result":[%s]}`, bytes.Join(rows, []byte(","))) // the client may have had enough
	})
	c, err := sdk.New(account, sdk.Config{URL: server.url, APIKey: sdk.NewSecret(apiKey), MaxFileBytes: 1 << 20, Timeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if list, err := c.Group("g").Records(t.Context()); err != nil || len(list) != records {
		t.Errorf("%d records, %v", len(list), err)
	}
}

// Groups come page by page from a service of ours; a list that does not go on
// ends with an error.
func TestGroupsInPages(t *testing.T) {
	t.Parallel()
	const groups = 2*wire.MaxPageNames + 5
	endless, offered, pages, many := false, wire.Ours, 0, strings.Repeat(`,"gggggggg"`, 200_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case wire.PathCapabilities:
			fmt.Fprintf(w, `{"dialect":%d}`, offered)
		case wire.PathSessionToken:
			fmt.Fprint(w, `{"token":"session-token","account_id":"a.svc.testnet","expires_in":"24h"}`)
		default:
			var req wire.NamesRequest
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				t.Error(err)
			}
			if (req.Limit > 0) != (offered == wire.Ours) {
				t.Errorf("limit %d with dialect %d", req.Limit, offered)
			}
			if endless { // pages that seem to go on
				pages++
				fmt.Fprintf(w, `{"result":["g"%s,"%d"],"more":true}`, many, pages)
				return
			}
			var names []string
			for i := range groups {
				if name := fmt.Sprintf("g%05d", i); name > req.After && (req.Limit == 0 || len(names) <= req.Limit) {
					names = append(names, name)
				}
			}
			more := req.Limit > 0 && len(names) > req.Limit
			if more {
				names = names[:req.Limit]
			}
			raw, err := json.Marshal(map[string]any{"result": names, "more": more})
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(raw) // the client may have had enough
		}
	}))
	defer server.Close()
	list := func() ([]sdk.Group, error) {
		c, err := sdk.New("a.svc.testnet", sdk.Config{URL: server.URL, APIKey: sdk.NewSecret("svc_sk_test")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.OwnedGroups(t.Context())
	}
	for _, offered = range []wire.Dialect{wire.Ours, wire.Hosted} {
		if got, err := list(); err != nil || len(got) != groups || got[groups-1].ID != sdk.GroupID(fmt.Sprintf("g%05d", groups-1)) {
			t.Errorf("with dialect %d: %d groups, %v", offered, len(got), err)
		}
	}
	offered, endless = wire.Ours, true
	if _, err := list(); sdk.KindOf(err) != sdk.ErrCorrupt || pages < 2 {
		t.Errorf("an endless list: %v after %d pages", err, pages)
	}
}
