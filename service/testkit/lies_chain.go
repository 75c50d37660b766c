package testkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// chainLies are lists of any group, of records that go on without an end.
func chainLies() []Lie {
	full := Lie{On: OnChain, Threat: 8, Path: listPath, Want: sdk.ErrTooLarge}
	return slices.Concat(
		like(Lie{On: OnChain, Threat: 8, Path: listPath, Want: sdk.ErrCorrupt},
			Lie{Name: "chain: endless, nothing is signed", Proven: "without a signature",
				Mutate: Invented{}.Mutation()}),
		like(full, Lie{Name: "chain: endless, each page is signed", Proven: "more memory than they may",
			Mutate: Invented{Signed: true}.Mutation()},
			Lie{Name: "chain: endless names of one file", Proven: "more memory than they may",
				Mutate: Invented{Signed: true, Renames: true}.Mutation()}))
}

// Invented is a chain that a service makes up while it is listed.
type Invented struct {
	Signed  bool               // the end of each page is signed
	Renames bool               // all records but the first give its file another name
	Records int                // how many there are, 0 = no end; then the list stops, without an end
	Stopped func(group string) // is called then; may be nil
}

// Mutation lists it for every group.
func (v Invented) Mutation() Mutation {
	return func(w *World, honest http.Handler) http.Handler {
		l := w.Log()
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			raw, again := body(r)
			var req wire.TransactionsRequest
			if json.Unmarshal(raw, &req) != nil || req.Kinds != wire.KindsChain {
				honest.ServeHTTP(rw, again)
				return
			}
			if v.list(l, req, rw) && v.Stopped != nil {
				v.Stopped(req.GroupID)
			}
			select {
			case <-r.Context().Done():
			case <-w.ended:
			}
		})
	}
}

// list writes the rows, and reports whether they were taken.
func (v Invented) list(l *Log, req wire.TransactionsRequest, rw http.ResponseWriter) bool {
	var at chain.Place
	name, now := chain.OfGroup(req.GroupID), time.Now().UnixNano()
	hash := sdk.ComputeHash(nil).String()
	out := json.NewEncoder(rw)
	before := `{"result":[`
	for n := 1; v.Records == 0 || n <= v.Records; n++ {
		r := chain.Record{Kind: chain.KindRecord, Tx: fmt.Sprintf("%064x", n), Account: "alice." + ContractID,
			Group: req.GroupID, Ref: fmt.Sprint("bafyinvented", n), FileHash: hash, Fee: "0",
			Detail: fmt.Sprintf("%s %d", strings.Repeat("name ", 20), n), Chain: name, Seq: int64(n), Number: int64(n),
			TimeNS: now, Prev: at.Hash}
		if v.Renames && n > 1 {
			r.Kind, r.Ref = chain.KindRename, "bafyinvented1"
			r.Tags = []chain.Tag{{Name: chain.TagUploader, Value: r.Account}}
		}
		at = chain.PlaceOf(&r)
		row := wire.RowOf(&r)
		if v.Signed && wire.IsPageEnd(r.Number) {
			s := l.statement(name, at)
			page := l.sign(s, s.PageText(req.Nonce))
			row.Page = &page
		}
		if _, err := rw.Write([]byte(before)); err != nil || out.Encode(row) != nil {
			return false
		}
		before = ","
	}
	return http.NewResponseController(rw).Flush() == nil
}
