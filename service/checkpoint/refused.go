package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// maxRefused bounds the records that an audit names.
const maxRefused = 1000

// refused finds the records of groups that change nothing for the vault: nobody asked for them, or their account may
// not make them. The tables of the service have them all the same.
type refused struct {
	key     Key
	members map[string]*chain.Members // by the chain of the group
	rows    []chain.Row               // which let somebody in, and the vault is not asked about yet
	found   []chain.Record
}

// add looks at the next record of a walk.
func (f *refused) add(ctx context.Context, r chain.Row) error {
	if !strings.HasPrefix(r.Chain, chain.OfGroup("")) {
		return nil
	}
	m, ok := f.members[r.Chain]
	if !ok {
		m = &chain.Members{}
		f.members[r.Chain] = m
	}
	if m.Apply(&r.Record) != nil {
		f.finds(r.Record)
		return nil
	}
	if r.LetsIn() {
		f.rows = append(f.rows, r)
	}
	if len(f.rows) < pieceRows {
		return nil
	}
	return f.end(ctx)
}

func (f *refused) finds(r chain.Record) {
	if len(f.found) < maxRefused {
		f.found = append(f.found, r)
	}
}

// end asks the vault about the rest, and brings what was found into order.
func (f *refused) end(ctx context.Context) error {
	for len(f.rows) > 0 {
		piece, _, err := pieceOf(f.rows)
		if err != nil {
			return err
		}
		a, err := f.key.Unvouched(ctx, vaultwire.LettingIn{Records: piece})
		if err != nil {
			return fmt.Errorf("ask the vault who was let in: %w", err)
		}
		for _, i := range a.Places {
			if i < 0 || i >= len(piece) {
				return fmt.Errorf("ask the vault who was let in: it names record %d of %d", i, len(piece))
			}
			f.finds(piece[i])
		}
		f.rows = f.rows[len(piece):]
	}
	f.rows = nil
	slices.SortFunc(f.found, func(a, b chain.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return nil
}
