package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
)

// The names that are kept take no more memory than they may: those that were not asked for longest go, and what alone
// takes too much does not stay.
func TestThreat31KeptNamesAreBounded(t *testing.T) {
	names := func(files int) *ledger.Names {
		n := &ledger.Names{}
		for i := range files {
			n.AddFile(fmt.Sprint("file", i),
				chain.Living{Ref: fmt.Sprint("ref", i), Place: chain.Place{Number: int64(i + 1)}}, false)
		}
		return n
	}
	k := newNamesKept(names(100).Footprint())
	for i := range 9 {
		k.keep(fmt.Sprint(i), names(30))
		if i > 0 {
			k.keep("0", k.take("0"))
		}
	}
	k.keep("large", names(101))
	if want := []string{"7", "8", "0"}; !slices.Equal(k.used, want) || len(k.groups) != len(want) || k.bytes > k.most {
		t.Errorf("%q are kept, of %d bytes, want %q", k.used, k.bytes, want)
	}
	for _, group := range slices.Clone(k.used) {
		k.take(group)
	}
	if k.bytes != 0 || k.take("0") != nil {
		t.Errorf("%d bytes of nothing", k.bytes)
	}
	end, err := k.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.begin(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait: %v", err)
	}
	end()
}

// Names that took too much are not read for the next question, until the chain of their group is a part longer.
func TestThreat31NamesThatAreTooLargeAreReadOnce(t *testing.T) {
	k := newNamesKept(1)
	large := &ledger.Names{}
	large.AddFile("file", chain.Living{Ref: "ref"}, false)
	large.Number = 160
	k.keep("g", large)
	for number, known := range map[int64]bool{160: true, 169: true, 170: false} {
		func() {
			defer func() {
				if asked := recover() != nil; asked == known { // there is no transaction to ask
					t.Errorf("at record %d the names are read: %v", number, asked)
				}
			}()
			root, err := k.root(t.Context(), nil, Question{Group: "g"}, chain.Place{Number: number})
			if root != nil || err != nil {
				t.Errorf("a root %v, %v", root, err)
			}
		}()
	}
	for i := range 2 * maxTooLarge {
		k.refuse(fmt.Sprint(i), 1)
	}
	if n := len(k.tooLarge); n > maxTooLarge {
		t.Errorf("%d groups are known", n)
	}
}
