package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// One clock decides the age of everything: a retention window, the delay of destruction,
// a join window and an upload id end by it.
func TestOneClockDecides(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var later atomic.Int64 // ns
	now := func() time.Time { return began.Add(time.Duration(later.Load())) }
	r := runWith(t, service.Config{Database: newDatabase(t), Now: now, DestructionDelay: time.Hour})
	alice, bob, carol := r.user("alice", "10"), r.user("bob", "10"), r.user("carol", "10")
	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "g", "expires_at": fmt.Sprint(began.Add(2 * time.Hour).UnixNano())})
	must[string](bob, wire.OpJoinGroup, object{"group_id": "g"})
	alice.upload("g", "f", []byte("x"))
	alice.retention("g", 2)
	later.Add(int64(time.Hour))
	if n, err := r.svc.RemoveExpired(t.Context()); err != nil || n != 0 {
		t.Fatalf("removed %d young files, %v", n, err)
	}
	unfinished := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload,
		object{"group_id": "g", "filename": "late"})
	later.Add(int64(3 * time.Hour))
	if status, body := carol.tool(wire.OpJoinGroup, object{"group_id": "g"}); status == http.StatusOK ||
		!strings.Contains(body, "Join window closed") {
		t.Errorf("joined a window that had ended: %d %s", status, body)
	}
	if status, body := alice.put(unfinished, strings.NewReader("x")); status != http.StatusNotFound {
		t.Errorf("an upload id that had ended was good: %d %s", status, body)
	}
	if n, err := r.svc.RemoveExpired(t.Context()); err != nil || n != 0 {
		t.Errorf("removed %d files of hours, %v", n, err)
	}
	later.Add(int64(48 * time.Hour))
	if n, err := r.svc.RemoveExpired(t.Context()); err != nil || n != 1 {
		t.Errorf("removed %d old files, %v", n, err)
	}
}
