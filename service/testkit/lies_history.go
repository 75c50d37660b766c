package testkit

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// addHistory makes a group of alice and bob, in which payroll.txt has two versions, and draft.txt and old.txt
// (renamed since) one.
func (w *World) addHistory(tb testing.TB, g sdk.Group) {
	tb.Helper()
	_, err := g.Add(tb.Context(), w.Bob.ID)
	w.must(err)
	for _, f := range [][2]string{{"payroll.txt", "version 1"}, {"draft.txt", "DRAFT: pay Mallory 999999"},
		{"older.txt", "old"}, {"payroll.txt", "version 2"}} {
		ref := w.put(tb, g, f[0], []byte(f[1]))
		if f[0] == "older.txt" {
			_, err = g.Rename(tb.Context(), ref, "old.txt")
			w.must(err)
		}
	}
}

// historyLies lie consistently: what can be signed is signed with the service's own key.
func historyLies() []Lie {
	return like(Lie{On: OnHistory, Path: listPath, Want: sdk.ErrCorrupt},
		// The rows are changed, and what was signed is not.
		Lie{Name: "names swapped in the list", Proven: "a name, a version", Threat: 5, Mutate: rows(swapNames)},
		Lie{Name: "newest version left out of the list", Proven: "the service signed", Threat: 6,
			Mutate: rows(dropNewest)},
		Lie{Name: "record in the middle left out", Proven: "one between them was left out", Threat: 6,
			Mutate: rows(dropMiddle)},
		Lie{Name: "uploader changed in the list", Proven: "uploader", Threat: 5,
			Mutate: rows(func(list []any) []any { return each(list, "user_id", "ceo.svc.testnet") })},
		Lie{Name: "time changed in the list", Proven: "a time", Threat: 5,
			Mutate: rows(func(list []any) []any { return each(list, "timestamp", "999999999000000000") })},
		Lie{Name: "size changed in the list", Proven: "was changed", Threat: 5,
			Mutate: rows(func(list []any) []any {
				return each(list, "tags", []any{"size", "1", "type", "text/plain"})
			})},
		Lie{Name: "attributes added in the list", Proven: "was changed", Threat: 5,
			Mutate: rows(func(list []any) []any {
				return each(list, "tags", []any{"attributes", `{"executable":true}`, "size", "9", "type", "text/plain"})
			})},
		Lie{Name: "file invented outside the ledger", Proven: "was changed", Threat: 5, Mutate: rows(inventRow)},
		Lie{Name: "numbers of the ledger swapped", Proven: "listed after", Threat: 5, Mutate: rows(swapNumbers)},
		// Everything is signed again, for another history.
		Lie{Name: "names swapped and signed", Proven: "seen before", Threat: 5, Unseen: true,
			tell: rewritten(func(r *chain.Record) bool {
				switch {
				case r.Kind == chain.KindRecord && r.Detail == "payroll.txt":
					r.Detail = "draft.txt"
				case r.Kind == chain.KindRecord && r.Detail == "draft.txt":
					r.Detail = "payroll.txt"
				}
				return true
			})},
		Lie{Name: "uploader and time changed and signed", Proven: "seen before", Threat: 5, Unseen: true,
			tell: rewritten(func(r *chain.Record) bool {
				if r.Kind == chain.KindRecord && r.Detail == "payroll.txt" {
					r.Account, r.TimeNS = "ceo.svc.testnet", r.TimeNS-int64(time.Hour)
				}
				return true
			})},
		Lie{Name: "newest version left out and signed", Proven: "newer ones are left out", Threat: 6, Unseen: true,
			tell: leaveOut("version 2")},
		Lie{Name: "first version left out and signed", Proven: "newer ones are left out", Threat: 6, Unseen: true,
			tell: leaveOut("version 1")},
		Lie{Name: "another newest version, signed", Proven: "seen before", Threat: 6, Unseen: true,
			tell: func(d *World) {
				leaveOut("version 2")(d)
				d.show(forge(d.Log()))
			}},
		Lie{Name: "fork that goes on", Proven: "seen before", Threat: 6, Unseen: true, tell: func(d *World) {
			leaveOut("version 1")(d)
			d.show(forge(forge(d.Log())))
		}},
		Lie{Name: "new version that nobody uploaded, signed", Proven: "nobody uploaded the file", Threat: 5,
			tell: func(d *World) { d.show(d.Log().Rewritten(keepAll).Invent(NotUploaded(d.Alice.ID, d.Group))) }},
		// Old answers, and fewer promises.
		Lie{Name: "list of yesterday repeated", Proven: "not signed for this request", Threat: 6, Mutate: repeated()},
		Lie{Name: "record that no checkpoint holds", Proven: "in no signed checkpoint", Threat: 6,
			tell: func(d *World) {
				l := forge(d.Log().Rewritten(keepAll))
				l.Lag, l.Freshness = 1, time.Minute
				d.show(l)
			}},
		Lie{Name: "checkpoints are not offered any more", Proven: "does not any more", Threat: 6, Unseen: true,
			Path: wire.PathCapabilities, Mutate: answers(http.NotFound)},
		Lie{Name: "another key signs", Proven: "another key than the pinned one", Threat: 6, Unseen: true,
			tell: func(d *World) {
				other := d.Log().empty()
				for _, r := range d.Log().records {
					other.append(r)
				}
				d.show(other)
			}},
	)
}

func rewritten(change func(*chain.Record) bool) func(*World) {
	return func(d *World) { d.show(d.Log().Rewritten(change)) }
}

// leaveOut drops the record of an upload by its content.
func leaveOut(content string) func(*World) {
	hash := sdk.ComputeHash([]byte(content))
	return func(d *World) {
		l := d.Log()
		d.show(l.Rewritten(func(r *chain.Record) bool { return l.Opening(r).Hash != chain.Hash(hash) }))
	}
}

func keepAll(*chain.Record) bool { return true }

// NotUploaded is the record of a rename to payroll.txt, of a file that no record before is about. No hash covers which
// upload the service says it is about, and so whether it is the newest version.
func NotUploaded(by sdk.AccountID, g sdk.GroupID) chain.Record {
	return chain.Record{Kind: chain.KindRename, Account: string(by), Group: string(g), Ref: "bafynobody",
		FileHash: sdk.ComputeHash(nil).String(), Detail: "payroll.txt", Tags: []chain.Tag{
			{Name: chain.TagName, Value: "x"}, {Name: chain.TagType, Value: "text/plain"},
			{Name: chain.TagUpload, Value: "2"}, {Name: chain.TagUploaded, Value: "1"},
			{Name: chain.TagUploader, Value: string(by)}}}
}

// forge adds the record of a file that no account uploaded.
func forge(l *Log) *Log {
	o := OpeningFor("FORGED")
	return l.Know(o).Invent(chain.Record{Kind: chain.KindRecord, Account: "alice." + ContractID, Group: "board",
		Ref:      "bafyforged" + time.Now().String(),
		FileHash: o.Commitment(), Detail: "payroll.txt"})
}

// rows changes the list of an honest answer and nothing beside it.
func rows(change func([]any) []any) Mutation {
	return proven(func(_ *World, answer map[string]any) { answer["result"] = change(answer["result"].([]any)) })
}

// proven changes answers that prove what they list.
func proven(change func(w *World, answer map[string]any)) Mutation {
	return changed(func(w *World, answer map[string]any) {
		if answer["proof"] != nil {
			change(w, answer)
		}
	})
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
		o := OpeningFor("FORGED")
		m["opening"], m["ipfs_hash"] = o.String(), "bafyforged"
	}
	return list
}

// repeated answers with a head that was signed for an earlier request.
func repeated() Mutation {
	return proven(func(w *World, answer map[string]any) {
		l, name := w.Log(), chain.OfGroup(string(w.Group))
		head := answer["proof"].(map[string]any)["head"].(map[string]any)
		s := l.statement(name, l.heads[name])
		head["signature"] = l.sign(s, s.HeadText("a nonce of yesterday")).Signature
	})
}
