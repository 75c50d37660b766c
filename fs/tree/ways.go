package tree

import "github.com/svcfs/svcfs/sdk"

// way is how a change of a file gets into the ledger.
type way uint8

const (
	wayNothing way = iota
	wayLater
	wayWhole
	wayBlocks
	wayChanges
	wayAttributes
)

// ways are all of them. With an outbox the same is kept on this disk first, and sent from there.
var ways = [...]struct{ name, when, sends string }{
	wayNothing:    {"nothing new", "the name holds the same bytes already (W3)", "the time of the write"},
	wayLater:      {"later", "an empty file or a link is closed (W5, N6)", "nothing yet"},
	wayWhole:      {"whole", "the file is small, or its group takes no blocks (W2)", "the file"},
	wayBlocks:     {"blocks", "the file is large (W17)", "all blocks, the first ones while it is written (W18)"},
	wayChanges:    {"changes", "a recorded large file of this account was changed (W17)", "the changed blocks"},
	wayAttributes: {"attributes", "the content is as recorded (W16)", "the attributes"},
}

func (w way) String() string { return ways[w].name }

// way chooses the way of staged content, and returns the record that holds it
// already, nil unless the way is wayNothing.
func (w *saving) way(when commitWhen) (way, *sdk.Entry) {
	f, s := w.f, w.s
	large := s.Whole() == nil && w.g.cuts() && s.Len() > f.t.cfg.WholeBytes
	if s.Whole() == nil && !large {
		return wayWhole, nil // whether it is new is known when the blocks are joined
	}
	holding := w.holding
	if large {
		holding = w.holdingBlocks
	}
	switch row := holding(); {
	case row != nil:
		return wayNothing, row
	case f.mayWait(s) && when == commitOnClose:
		return wayLater, nil
	case !large:
		return wayWhole, nil
	case s.Under() == nil:
		return wayBlocks, nil
	}
	if from, _ := s.Under().Latest(); w.g.TakesOver(from, w.raw) {
		return wayChanges, nil
	}
	return wayBlocks, nil
}
