package store

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/service/faultpoint"
)

// Sequenced reports whether records get their places in the whole ledger after they were committed, by a sequencer.
// Otherwise they have them from the beginning.
func (s *Store) Sequenced() bool { return (&Tx{engine: s.engine}).Sequenced() }

// Beside runs f in a writing transaction that takes no turn among the writers. It is for rows that no other write
// touches, such as places and leases.
func (s *Store) Beside(ctx context.Context, f func(*Tx) error) (err error) {
	defer s.observed("beside", &err)()
	return s.bounded(ctx, func(ctx context.Context) error {
		tx, err := s.engine.beginBeside(ctx, s.write, s.timeout)
		if err != nil {
			return mark(s.engine, fmt.Errorf("begin writing: %w", err))
		}
		defer tx.rollback()
		if err := f(&Tx{statements: tx, engine: s.engine, ctx: ctx}); err != nil {
			return mark(s.engine, err)
		}
		faultpoint.Hit("beside.before_commit")
		return mark(s.engine, tx.commit(ctx))
	})
}

// Sequenced is [Store.Sequenced].
func (t *Tx) Sequenced() bool { return t.engine.name() == (postgresEngine{}).name() }
