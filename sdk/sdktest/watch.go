package sdktest

import (
	"slices"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// event is one that its group's members of that moment may see, while they are.
type event struct {
	wire.Event
	members []string
}

// note records an event as the next of the ledger. The caller holds the lock.
func (s *state) note(kind, group, ref, account string) {
	s.seq++
	s.events = append(s.events, event{wire.Event{Seq: s.seq, Kind: kind, GroupID: group, Ref: ref, Account: account,
		Time: strconv.FormatInt(time.Now().UnixNano(), 10)}, slices.Clone(s.groups[group].members)})
	close(s.news)
	s.news = make(chan struct{})
}

func (s *state) watch(c call) (any, error) {
	var req wire.WatchRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	timeout := time.After(time.Duration(min(req.TimeoutMS, wire.MaxWatchMillis)) * time.Millisecond)
	for {
		s.mu.Lock()
		out, news := wire.WatchResult{Events: []wire.Event{}, Seq: s.seq}, s.news
		if req.AfterSeq != nil {
			out.Events = s.eventsFor(c.account, *req.AfterSeq)
		}
		s.mu.Unlock()
		if req.AfterSeq == nil || len(out.Events) > 0 {
			return out, nil
		}
		select {
		case <-news:
		case <-timeout:
			return out, nil
		case <-c.r.Context().Done():
			return out, nil
		}
	}
}

func (s *state) eventsFor(account string, after int64) []wire.Event {
	list := []wire.Event{}
	for _, e := range s.events {
		if e.Seq <= after || !slices.Contains(e.members, account) {
			continue
		}
		if slices.Contains(s.groups[e.GroupID].members, account) || e.Kind == chain.KindRevoke && e.Account == account {
			list = append(list, e.Event)
		}
	}
	return list
}
