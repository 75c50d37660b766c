package service_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// TestRoundTrips counts how often the service waits for PostgreSQL in one request: under the lock of writers each of
// these times bounds what all processes together can do.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // ran already
	}
	line := pgtest.NewLine(t, engines.NewPostgres(t))
	r := runWith(t, service.Config{Database: line.URL})
	alice := r.owner()
	content := []byte("content of a small file")
	vault := alice.vaultKey()
	var ref string
	for _, c := range []struct {
		what string
		most int64
		do   func(name string) (counted func())
	}{
		{"a sealed save", 100, func(name string) func() {
			item := alice.sealsFor(vault, "g", name, content)
			return func() { ref = alice.mustPut(item).CID }
		}},
		{"finalizing an upload", 100, func(name string) func() {
			request := alice.finalize("g", name, content)
			return func() { must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, request) }
		}},
		{"a retrieval", 100, func(string) func() { return func() { alice.reads(ref, string(content)) } }},
	} {
		var least int64
		for i := range 4 { // the first prepares statements
			counted := c.do(c.what + string(rune('0'+i)))
			before := line.Trips()
			counted()
			took := line.Trips() - before
			t.Logf("%s: %d", c.what, took)
			if i == 0 || took < least {
				least = took
			}
		}
		if least > c.most {
			t.Errorf("%s waits for PostgreSQL %d times, at most %d are wanted", c.what, least, c.most)
		}
	}
}
