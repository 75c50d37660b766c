package testkit

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Liar is a service that lies consistently: all that it says fits together, and
// what can be signed is signed with its own key.
type Liar struct {
	Name string
	// Proven is a part of the error message: what the client proved false.
	Proven string
	// Fresh tells that a client which remembers nothing finds it out too. The other
	// lies are histories of which nothing was seen before: a witness finds those
	// ([sdk.Config].Witness).
	Fresh bool
	// Threat is the row of SECURITY.md that the lie belongs to.
	Threat int

	tell func(*Deceit)
}

// Deceit is a service that was honest until [Deceit.Lie].
type Deceit struct {
	*Server
	Alice, Bob Account
	Group      sdk.GroupID
	liar       Liar
	honest     *Log
}

// NewDeceit starts an honest service of ours with a group of alice and bob, in
// which payroll.txt has two versions, and draft.txt and old.txt (renamed since)
// one.
func NewDeceit(tb testing.TB, liar Liar) *Deceit {
	tb.Helper()
	d := &Deceit{Server: Start(tb, Ours), Group: "board", liar: liar}
	d.Alice, d.Bob = d.Account("alice", "100"), d.Account("bob", "100")
	alice := d.Client(tb, d.Alice)
	must := func(what string, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("%s: %v", what, err)
		}
	}
	ctx := tb.Context()
	_, err := alice.Group(d.Group).Register(ctx)
	must("register", err)
	_, err = alice.Group(d.Group).Add(ctx, d.Bob.ID)
	must("add", err)
	for _, f := range [][2]string{{"payroll.txt", "version 1"}, {"draft.txt", "DRAFT: pay Mallory 999999"}, {"older.txt", "old"}, {"payroll.txt", "version 2"}} {
		r, err := alice.Group(d.Group).Put(ctx, f[0], bytes.NewReader([]byte(f[1])))
		must("upload", err)
		if f[0] == "older.txt" {
			must("rename", alice.Group(d.Group).Rename(ctx, r.Ref, "old.txt"))
		}
	}
	return d
}

// Lie begins the lie.
func (d *Deceit) Lie() {
	d.honest = d.Log()
	d.liar.tell(d)
}

// Repent ends it.
func (d *Deceit) Repent() {
	d.Disturb(wire.PathTools+wire.OpGetGroupTransactions, nil)
	d.Disturb(wire.PathCapabilities, nil)
	d.Show(d.honest)
}

// Liars returns every consistent lie.
func Liars() []Liar {
	return []Liar{
		// The rows are changed, and what was signed is not.
		{"names swapped in the list", "a name, a version", true, 5, rows(swapNames)},
		{"newest version left out of the list", "the service signed", true, 6, rows(dropNewest)},
		{"record in the middle left out", "one between them was left out", true, 6, rows(dropMiddle)},
		{"uploader changed in the list", "uploader", true, 5, rows(func(list []any) []any { return each(list, "user_id", "ceo.svc.testnet") })},
		{"time changed in the list", "a time", true, 5, rows(func(list []any) []any { return each(list, "timestamp", "999999999000000000") })},
		{"size changed in the list", "was changed", true, 5, rows(func(list []any) []any { return each(list, "tags", []any{"size", "1", "type", "text/plain"}) })},
		{"attributes added in the list", "was changed", true, 5, rows(func(list []any) []any {
			return each(list, "tags", []any{"attributes", `{"executable":true}`, "size", "9", "type", "text/plain"})
		})},
		{"file invented outside the ledger", "recorded before", true, 5, rows(inventRow)},
		{"numbers of the ledger swapped", "listed after", true, 5, rows(swapNumbers)},
		// Everything is signed again, for another history.
		{"names swapped and signed", "seen before", false, 5, rewritten(func(r *chain.Record) bool {
			switch {
			case r.Kind == chain.KindRecord && r.Detail == "payroll.txt":
				r.Detail = "draft.txt"
			case r.Kind == chain.KindRecord && r.Detail == "draft.txt":
				r.Detail = "payroll.txt"
			}
			return true
		})},
		{"uploader and time changed and signed", "seen before", false, 5, rewritten(func(r *chain.Record) bool {
			if r.Kind == chain.KindRecord && r.Detail == "payroll.txt" {
				r.Account, r.TimeNS = "ceo.svc.testnet", r.TimeNS-int64(time.Hour)
			}
			return true
		})},
		{"newest version left out and signed", "newer ones are left out", false, 6, rewritten(leaveOut("version 2"))},
		{"first version left out and signed", "newer ones are left out", false, 6, rewritten(leaveOut("version 1"))},
		{"another newest version, signed", "seen before", false, 6, func(d *Deceit) {
			d.Show(d.Log().Rewritten(leaveOut("version 2")).Invent(forged()))
		}},
		{"fork that goes on", "seen before", false, 6, func(d *Deceit) {
			d.Show(d.Log().Rewritten(leaveOut("version 1")).Invent(forged()).Invent(forged()))
		}},
		// Old answers, and fewer promises.
		{"list of yesterday repeated", "not signed for this request", true, 6, repeated},
		{"record that no checkpoint holds", "in no signed checkpoint", true, 6, func(d *Deceit) {
			l := d.Log().Rewritten(func(*chain.Record) bool { return true }).Invent(forged())
			l.Lag, l.Freshness = 1, time.Minute
			d.Show(l)
		}},
		{"checkpoints are not offered any more", "does not any more", false, 6, func(d *Deceit) {
			d.Disturb(wire.PathCapabilities, func(http.Handler) http.Handler { return http.NotFoundHandler() })
		}},
		{"another key signs", "another key than the pinned one", false, 6, func(d *Deceit) {
			other := d.Log().empty()
			for _, r := range d.Log().records {
				other.append(r)
			}
			d.Show(other)
		}},
	}
}

func rewritten(change func(*chain.Record) bool) func(*Deceit) {
	return func(d *Deceit) { d.Show(d.Log().Rewritten(change)) }
}

// leaveOut drops the record of an upload by its content.
func leaveOut(content string) func(*chain.Record) bool {
	hash := sdk.ComputeHash([]byte(content)).String()
	return func(r *chain.Record) bool { return r.FileHash != hash }
}

// forged returns the record of a file that no account uploaded.
func forged() chain.Record {
	return chain.Record{Kind: chain.KindRecord, Account: "alice." + ContractID, Group: "board", Ref: "bafyforged" + time.Now().String(), FileHash: sdk.ComputeHash([]byte("FORGED")).String(),
		Detail: "payroll.txt", Tags: []chain.Tag{{Name: chain.TagSize, Value: "6"}}}
}

// rows changes the list of an honest answer and nothing beside it.
func rows(change func([]any) []any) func(*Deceit) {
	return func(d *Deceit) {
		d.Disturb(wire.PathTools+wire.OpGetGroupTransactions, func(next http.Handler) http.Handler {
			return altered(next, func(answer map[string]any) { answer["result"] = change(answer["result"].([]any)) })
		})
	}
}

func uploads(list []any) (found []map[string]any) {
	for _, row := range list {
		if m := row.(map[string]any); m["kind"] == chain.KindRecord {
			found = append(found, m)
		}
	}
	return found
}

func swapNames(list []any) []any {
	u := uploads(list)
	if len(u) > 1 {
		u[0]["detail"], u[1]["detail"] = u[1]["detail"], u[0]["detail"]
	} else if len(u) == 1 { // an incremental list
		u[0]["detail"] = "draft.txt"
	}
	return list
}

func swapNumbers(list []any) []any {
	if n := len(list); n > 1 {
		a, b := list[n-1].(map[string]any), list[n-2].(map[string]any)
		a["seq"], b["seq"] = b["seq"], a["seq"]
	} else if n == 1 {
		list[0].(map[string]any)["seq"] = 1
	}
	return list
}

func dropNewest(list []any) []any { return list[:max(len(list)-1, 0)] }

func dropMiddle(list []any) []any {
	if len(list) < 3 {
		return dropNewest(list)
	}
	return slices.Delete(list, 1, 2)
}

func each(list []any, field string, value any) []any {
	for _, m := range uploads(list) {
		m[field] = value
	}
	return list
}

func inventRow(list []any) []any {
	for _, m := range uploads(list) {
		m["file_hash"], m["ipfs_hash"] = sdk.ComputeHash([]byte("FORGED")).String(), "bafyforged"
	}
	return list
}

// repeated answers with a head that was signed for an earlier request.
func repeated(d *Deceit) {
	d.Disturb(wire.PathTools+wire.OpGetGroupTransactions, func(next http.Handler) http.Handler {
		return altered(next, func(answer map[string]any) {
			head := answer["proof"].(map[string]any)["head"].(map[string]any)
			s := d.honest.statement(chain.OfGroup(string(d.Group)), d.honest.heads[chain.OfGroup(string(d.Group))])
			head["signature"] = d.honest.sign(s, s.HeadText("a nonce of yesterday")).Signature
		})
	})
}

// parsed reads a JSON object, numbers as they are written.
func parsed(raw []byte) (answer map[string]any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return answer, d.Decode(&answer) == nil
}

// altered lets next answer and changes the JSON.
func altered(next http.Handler, change func(map[string]any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		honest := httptest.NewRecorder()
		next.ServeHTTP(honest, r)
		answer, ok := parsed(honest.Body.Bytes())
		if honest.Code != http.StatusOK || !ok || !strings.Contains(honest.Body.String(), `"proof"`) {
			forward(w, honest)
			return
		}
		change(answer)
		writeJSON(w, http.StatusOK, answer)
	})
}
