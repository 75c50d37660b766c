package sdk_test

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

const watchPath = wire.PathTools + wire.OpWatch

// scripted answers the first requests as written; nil passes one on.
func scripted(answers ...func(http.ResponseWriter)) func(http.Handler) http.Handler {
	var seen atomic.Int32
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at := int(seen.Add(1)) - 1; at < len(answers) && answers[at] != nil {
				answers[at](w)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func say(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// next receives one event, or why the watch is over.
func next(t *testing.T, events iter.Seq2[sdk.Event, error]) (sdk.Event, error) {
	t.Helper()
	for e, err := range events {
		return e, err
	}
	t.Fatal("it ends without a reason")
	return sdk.Event{}, nil
}

func TestWatchWaitsFaultsOut(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	// The beginning passes. The faults come before any news: the group's own record is number 2, after that of the account.
	s.Disturb(watchPath, scripted(nil, say(503, `{"error":"not now"}`), func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		say(500, `<html>`), say(200, `{"result":{"events":[],"seq":2}}`)))
	events, err := c.Watch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		r, err := c.Group("g").Put(t.Context(), name, bytes.NewReader([]byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := next(t, events); err != nil || e.Ref != r.Ref || e.Kind != sdk.EventUploaded {
			t.Errorf("%s: told %+v, %v, uploaded %s", name, e, err, r.Ref)
		}
	}
	if n := s.Hits(watchPath); n < 6 {
		t.Errorf("%d requests: the faults were not met", n)
	}
}

// M5: from a request that failed until one is answered the service announces nothing. The first one after it is not
// held.
func TestM5WatchingEndsWithAFault(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	fails, goesOn := make(chan struct{}), make(chan struct{})
	asked := make(chan wire.WatchRequest, 3)
	s.Disturb(watchPath, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request wire.WatchRequest
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &request)
			r.Body = io.NopCloser(bytes.NewReader(body))
			asked <- request
			switch {
			case request.AfterSeq == nil: // the beginning
			case request.TimeoutMS > 0:
				<-fails
				panic(http.ErrAbortHandler)
			default:
				<-goesOn
			}
			next.ServeHTTP(w, r)
		})
	})
	events, err := c.Watch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = next(t, events)
	}()
	<-asked
	if held := <-asked; held.TimeoutMS == 0 || !c.Watching() {
		t.Errorf("asked for %+v; is told of changes: %v", held, c.Watching())
	}
	close(fails)
	if again := <-asked; again.TimeoutMS != 0 || c.Watching() {
		t.Errorf("after a fault asked for %+v; is told of changes: %v", again, c.Watching())
	}
	if _, err := c.Group("g").Put(t.Context(), "meanwhile", bytes.NewReader([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	close(goesOn)
	<-ended
	if !c.Watching() {
		t.Error("is not told of changes by a service that answers")
	}
}

func TestWatchEndsForGood(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last   func(http.ResponseWriter)
		reason sdk.Kind
	}{
		"not offered any more":  {say(404, `{"error":"operation not found","code":"UNSUPPORTED"}`), sdk.ErrUnsupported},
		"account unknown":       {say(404, `{"error":"account not found","code":"ACCOUNT_NOT_FOUND"}`), sdk.ErrNotFound},
		"nonsense":              {say(200, `{"result":[1]}`), sdk.ErrCorrupt},
		"events without end":    {say(200, `{"result":{"events":[{"seq":1,"kind":"record_transaction","group_id":"g","time":"1"}],"seq":1}}`), sdk.ErrCorrupt},
		"events of the past":    {say(200, `{"result":{"events":[{"seq":1,"kind":"record_transaction","group_id":"g","time":"1"}],"seq":-5}}`), sdk.ErrCorrupt},
		"more than it may send": {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, wire.MaxJSONBytes+1)) }, sdk.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := world(t, testkit.Ours)
			s.Disturb(watchPath, scripted(nil, tc.last))
			events, err := c.Watch(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := next(t, events); sdk.KindOf(err) != tc.reason {
				t.Errorf("told %+v, ends with %v", e, err)
			}
		})
	}
}

func TestWatchRefused(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Hosted)
	if _, err := c.Watch(t.Context(), 0); sdk.KindOf(err) != sdk.ErrUnsupported {
		t.Errorf("a service without it: %v", err)
	}
	s, c := world(t, testkit.Ours)
	s.Disturb(watchPath, scripted(say(404, `{"error":"account not found","code":"ACCOUNT_NOT_FOUND"}`)))
	if _, err := c.Watch(t.Context(), 0); sdk.KindOf(err) != sdk.ErrNotFound {
		t.Errorf("a refused beginning: %v", err)
	}
}
