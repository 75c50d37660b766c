package service_test

import (
	"bytes"
	"math"
	"strconv"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
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
	database := engines.NewPostgres(t)
	sequencing := runWith(t, service.Config{Database: database}) // the places come from a process that is not counted
	sequencing.user("bob", "10")
	line := pgtest.NewLine(t, database)
	r := runWith(t, service.Config{Database: line.URL, DataDir: sequencing.dir})
	alice := r.owner()
	content := []byte("content of a small file")
	vault := alice.vaultKey()
	var ref string
	for _, c := range []struct {
		what string
		most int64
		do   func(name string) (counted func())
	}{
		{"a sealed save", 2, func(name string) func() {
			item := alice.sealsFor(vault, "g", name, content)
			return func() { ref = alice.mustPut(item).CID }
		}},
		{"a sealed save of a blob", 4, func(name string) func() {
			item := alice.sealsFor(vault, "g", name, bytes.Repeat([]byte("x"), 20<<10))
			return func() { alice.mustPut(item) }
		}},
		{"finalizing an upload", 4, func(name string) func() {
			request := alice.finalize("g", name, content)
			return func() { must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, request) }
		}},
		{"a retrieval", 3, func(string) func() { return func() { alice.reads(ref, string(content)) } }},
	} {
		least := int64(math.MaxInt64)
		for i := 0; i < 40 && least > c.most; i++ { // the first prepares statements
			counted := c.do(c.what + strconv.Itoa(i))
			before := int64(-1)
			proctest.Eventually(t, "the sequencer has placed the record before", func() bool {
				last := before
				before = line.Trips()
				return before == last
			})
			counted()
			least = min(least, line.Trips()-before)
		}
		t.Logf("%s: %d", c.what, least)
		if least > c.most {
			t.Errorf("%s waits for PostgreSQL %d times, at most %d are wanted", c.what, least, c.most)
		}
	}
}
