package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
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
	s, c := world(t, testkit.Ours, func(cfg *sdk.Config) { cfg.MaxFileBytes, cfg.Timeout = 1<<20, 5*time.Minute })
	s.Answer(wire.PathTools+wire.OpGetGroupTransactions, func(w http.ResponseWriter, r *http.Request) {
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
	if list, err := c.Group("g").Records(t.Context()); err != nil || len(list) != records {
		t.Errorf("%d records, %v", len(list), err)
	}
}

// Groups come page by page from a service of ours; a list that does not go on
// ends with an error.
func TestGroupsInPages(t *testing.T) {
	t.Parallel()
	const groups = 2*wire.MaxPageNames + 5
	endless, pages, many := false, 0, strings.Repeat(`,"gggggggg"`, 200_000)
	for _, d := range []testkit.Dialect{testkit.Ours, testkit.Hosted} {
		s, c := world(t, d)
		s.Answer(wire.PathTools+wire.OpGetOwnedGroups, func(w http.ResponseWriter, r *http.Request) {
			var req wire.NamesRequest
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				t.Error(err)
			}
			if (req.Limit > 0) != (d == testkit.Ours) {
				t.Errorf("limit %d, %s", req.Limit, d)
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
			answer(200, map[string]any{"result": names, "more": more})(w, r)
		})
		if got, err := c.OwnedGroups(t.Context()); err != nil || len(got) != groups || got[groups-1].ID != sdk.GroupID(fmt.Sprintf("g%05d", groups-1)) {
			t.Errorf("%s: %d groups, %v", d, len(got), err)
		}
		if d != testkit.Ours {
			continue
		}
		endless = true
		if _, err := c.OwnedGroups(t.Context()); sdk.KindOf(err) != sdk.ErrCorrupt || pages < 2 {
			t.Errorf("an endless list: %v after %d pages", err, pages)
		}
		endless = false
	}
}
