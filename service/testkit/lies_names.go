package testkit

import (
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// nameLies are about the root of names. The records are the true ones.
func nameLies() []Lie {
	return like(Lie{On: OnNames, Path: listPath, Want: sdk.ErrCorrupt, Threat: 76},
		livingLie("living name hidden", func(l *Log, living *chain.Replay) {
			living.Drop("draft.txt", l.uploaded("draft.txt", 1))
		}),
		livingLie("newest version hidden in the root of names", func(l *Log, living *chain.Replay) {
			living.Drop("payroll.txt", l.uploaded("payroll.txt", 2))
		}),
		livingLie("name of before shown", func(l *Log, living *chain.Replay) {
			file := l.uploaded("older.txt", 1)
			living.Drop("old.txt", file)
			living.Put("older.txt", file)
		}),
		livingLie("removed name shown", func(_ *Log, living *chain.Replay) {
			living.Put("gone.txt", chain.Living{Ref: "bafygone", Place: chain.Place{Number: 1}})
		}),
		livingLie("attributes changed in the root of names", func(l *Log, living *chain.Replay) {
			file := l.uploaded("draft.txt", 1)
			file.Attributes = `{"executable":true}`
			living.Put("draft.txt", file)
		}),
		livingLie("folder invented in the root of names", func(_ *Log, living *chain.Replay) {
			living.Make("folder", chain.Living{Ref: "folder", Place: chain.Place{Number: 1}})
		}),
		Lie{Name: "root of names of yesterday", Proven: "not signed for this request",
			tell: ofNames(func(_ *Log, _ *chain.Replay, _ *chain.Statement, nonce *string) { *nonce = "yesterday" })},
		Lie{Name: "root of names of other records", Proven: "signed for other records",
			tell: ofNames(func(_ *Log, _ *chain.Replay, s *chain.Statement, _ *string) { s.Number++ })},
	)
}

// livingLie signs the root of other living names.
func livingLie(name string, change func(*Log, *chain.Replay)) Lie {
	return Lie{Name: name, Proven: "another root of names",
		tell: ofNames(func(l *Log, living *chain.Replay, _ *chain.Statement, _ *string) { change(l, living) })}
}

func ofNames(change func(*Log, *chain.Replay, *chain.Statement, *string)) func(*World) {
	return func(w *World) {
		l := w.Log().Rewritten(func(*chain.Record) bool { return true })
		l.Names = func(living *chain.Replay, s *chain.Statement, nonce *string) { change(l, living, s, nonce) }
		w.show(l)
	}
}

// uploaded returns the nth file that was uploaded under a name.
func (l *Log) uploaded(name string, nth int) chain.Living {
	for i := range l.records {
		if r := &l.records[i]; r.Kind == chain.KindRecord && r.Detail == name {
			if nth--; nth == 0 {
				return chain.Living{Ref: r.Ref, Place: chain.PlaceOf(r), Attributes: r.Tag(chain.TagAttributes)}
			}
		}
	}
	panic("nothing was uploaded as " + name)
}
