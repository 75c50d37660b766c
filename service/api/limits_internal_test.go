package api

import (
	"context"
	"net/http"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/throttle"
)

// The request of a tool does not wait for what the call of the agent took for it, and for every byte beyond, as any
// other.
func TestMemoryTakenAhead(t *testing.T) {
	s := &server{memory: newMemory(64 << 20)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is waited for
	r, err := http.NewRequestWithContext(context.WithValue(ctx, traceKey{}, &trace{account: "a", ahead: toolMemory}),
		http.MethodPost, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []*throttle.Bytes{s.memory.accounts.all, s.memory.accounts.long} {
		if _, ok := of.Wait(t.Context(), "b", 1<<40, 0); !ok {
			t.Fatal("not all is there")
		}
	}
	if err := s.holdMemory(r, bodyCopies*maxRequestBytes); err != nil {
		t.Errorf("the request: %v", err)
	}
	if err := s.holdLong(r, valueMemory); err != nil {
		t.Errorf("the list: %v", err)
	}
	if err := s.holdMemory(r, 1); err == nil || fault.Of(err).Code != wire.CodeUnavailable {
		t.Errorf("a byte beyond: %v", err)
	}
}
