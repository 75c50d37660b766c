package sdk_test

import (
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A chain of several pages is one request a page, and every record is there, proven.
func TestChainsInPages(t *testing.T) {
	const files = wire.MaxPageRows + 7
	s, c := world(t, sdktest.Proving)
	a := sdktest.Account{ID: c.Account()}
	for i := range files {
		s.AddBlocks(a, "g", fmt.Sprint("file ", i), []byte{1}, format.MinBlockBytes)
	}
	before := s.Hits(wire.PathTools + wire.OpGetGroupTransactions)
	list, err := c.Group("g").Entries(t.Context())
	if err != nil || len(list) != files {
		t.Fatalf("%d files, %v", len(list), err)
	}
	for i, e := range list {
		if e.Name != fmt.Sprint("file ", i) || i > 0 && e.Number != list[i-1].Number+1 {
			t.Fatalf("entry %d is %s, number %d", i, e.Name, e.Number)
		}
	}
	if n := s.Hits(wire.PathTools+wire.OpGetGroupTransactions) - before; n != 2 {
		t.Errorf("%d requests for two pages", n)
	}
}
