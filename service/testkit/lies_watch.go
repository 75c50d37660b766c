package testkit

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// afterFirst lets a watch begin honestly, tells a lie n times, then the truth.
func afterFirst(n int32, tell Mutation) Mutation {
	var asked atomic.Int32
	return func(h *World, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at := asked.Add(1); at == 1 || at > n+1 {
				next.ServeHTTP(w, r)
				return
			}
			tell(h, next).ServeHTTP(w, r)
		})
	}
}

// invented answers events made up from the sequence that the request continues.
func invented(tell func(h *World, after int64) wire.WatchResult) Mutation {
	return func(h *World, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var req wire.WatchRequest
			raw, err := io.ReadAll(r.Body)
			if err != nil || json.Unmarshal(raw, &req) != nil || req.AfterSeq == nil {
				http.Error(w, "<html>", http.StatusBadRequest)
				return
			}
			writeJSON(w, http.StatusOK, map[string]any{"result": tell(h, *req.AfterSeq)})
		})
	}
}

// happening is an invented event of a group.
func happening(seq int64, g sdk.GroupID) wire.Event {
	return wire.Event{Seq: seq, Kind: chain.KindRecord, GroupID: string(g), Ref: "bafy-invented",
		Account: "mallory." + ContractID, Time: "1700000000000000000"}
}

const always = 1 << 30

// watchModes lie about what happened.
func watchLies() []Lie {
	events := func(seq int64, at ...int64) Mutation {
		return invented(func(h *World, after int64) wire.WatchResult {
			out := wire.WatchResult{Seq: after + seq}
			for _, n := range at {
				out.Events = append(out.Events, happening(after+n, h.Group))
			}
			return out
		})
	}
	// begun lets the watch begin before each lie.
	begun := func(n int32, what told) told {
		for name, m := range what {
			what[name] = afterFirst(n, m)
		}
		return what
	}
	watch := func(threat int, want sdk.Kind) Lie {
		return Lie{On: OnWatch, Threat: threat, Path: wire.PathTools + wire.OpWatch, Want: want}
	}
	survived := func(threat int) Lie {
		l := watch(threat, sdk.ErrOther)
		l.Survives = true
		return l
	}
	return slices.Concat(
		lies(watch(7, sdk.ErrCorrupt), begun(always, told{
			"watch: out of order": events(3, 2, 1), "watch: twice": events(2, 1, 1), "watch: told before": events(1, 0),
			"watch: negative":            events(1, -1000),
			"watch: beyond its sequence": events(1, 1, 2), "watch: stands still": events(0, 1),
			"watch: goes back with events": events(-1, 1),
			"watch: null":                  said(200, `{"result":null}`), "watch: a list": said(200, `{"result":[1]}`),
			"watch: nothing":             said(200, ""),
			"watch: events a number":     said(200, `{"result":{"events":7,"seq":1}}`),
			"watch: events of numbers":   said(200, `{"result":{"events":[7],"seq":1}}`),
			"watch: sequence a string":   said(200, `{"result":{"events":[],"seq":"1"}}`),
			"watch: sequence a fraction": said(200, `{"result":{"events":[],"seq":1.5}}`),
			"watch: group a number":      said(200, `{"result":{"events":[{"seq":1,"group_id":7}],"seq":1}}`),
		})),
		lies(watch(8, sdk.ErrCorrupt), begun(always, told{
			"watch: sequence 2^70":      said(200, `{"result":{"events":[],"seq":1180591620717411303424}}`),
			"watch: deep":               said(200, `{"result":`+strings.Repeat("[", 100_000)),
			"watch: endless":            endless(`{"result":{"events":[`, strings.Repeat(`{},`, 1<<14), 0),
			"watch: huge, empty events": many(`{"result":{"seq":1,"events":[`, `{},`, 2_000_000, `{}]}}`),
		})),
		lies(survived(4), begun(1, told{"watch: echo": echo})),
		lies(survived(7), begun(1, told{
			"watch: HTML": said(200, page), "watch: HTML 500": said(500, page),
			"watch: 401 once":           said(401, `{"error":"Auth failed: invalid session token"}`),
			"watch: sequence goes back": said(200, `{"result":{"events":[],"seq":-5}}`),
			"watch: nothing happened":   said(200, `{"result":{"events":[],"seq":0}}`),
		})),
		lies(survived(10), begun(1, told{"watch: redirect": redirect(307)})),
		lies(survived(12), begun(1, told{"watch: cut": cut, "watch: 503 once": said(503, page),
			"watch: 429 once": said(429, `{"error":"too many requests"}`)})),
		lies(survived(7), told{"watch: other groups' events": foreign()}),
		lies(survived(7), begun(always, told{"watch: events without pause": unceasing()})),
		lies(survived(12), begun(always, told{"watch: no answer": endless(`{"result":`, " ", 20*time.Millisecond)})),
		lies(watch(7, sdk.ErrUnsupported), begun(always,
			told{"watch: not offered": said(404, `{"error":"operation not found","code":"UNSUPPORTED"}`)})),
		lies(watch(7, sdk.ErrNotAuthorized),
			begun(always, told{"watch: not authorized": said(403, `{"error":"User not authorized"}`)})),
		lies(watch(7, sdk.ErrNotAuthorized), told{"watch: refused": said(403, `{"error":"User not authorized"}`)}),
		lies(watch(7, sdk.ErrCorrupt),
			told{"watch: begins with nonsense": said(200, `{"result":{"events":{},"seq":1}}`)}))
}

// foreign adds what happened in groups that are none of the client's, with names
// that are none, to an honest answer.
func foreign() Mutation {
	return changed(func(_ *World, m map[string]any) {
		honest, _ := m["events"].([]any)
		if len(honest) == 0 {
			return
		}
		first, _ := honest[0].(map[string]any)
		seq, err := strconv.ParseInt(fmt.Sprint(first["seq"]), 10, 64)
		if err != nil {
			panic(err)
		}
		var invented []any
		for i, g := range []sdk.GroupID{"", "..", "../../etc/passwd", "exe.\u202efdp", "\x1b[2J",
			sdk.GroupID(strings.Repeat("x", 1<<20))} {
			e := happening(seq, g)
			e.Kind, e.Time = []string{"", "no such kind", "record_transaction"}[i%3], "tomorrow"
			invented = append(invented, e)
			seq++
		}
		for _, e := range honest {
			e.(map[string]any)["seq"] = seq
			invented = append(invented, e)
			seq++
		}
		m["events"], m["seq"] = invented, seq
	})
}

// unceasing tells at once of more events, whenever it is asked.
func unceasing() Mutation {
	return invented(func(h *World, after int64) wire.WatchResult {
		out := wire.WatchResult{Seq: after + 500}
		for i := range int64(500) {
			out.Events = append(out.Events, happening(after+i+1, h.Group))
		}
		return out
	})
}
