package checkpoint

import (
	"context"
	"time"
)

func (l *Log) committed() {
	select {
	case l.news <- struct{}{}:
	default: // it is noted already
	}
}

// Run follows the ledger until ctx ends.
func (l *Log) Run(ctx context.Context) {
	reported := ""
	for {
		err := l.Update(ctx)
		renewed := err
		if err == nil {
			renewed = l.Cosign(ctx)
		}
		if renewed != nil && ctx.Err() == nil && renewed.Error() != reported {
			reported = renewed.Error()
			switch {
			case l.Problem() != nil:
				l.logger.Error("ledger checkpoints have stopped: run svcd audit", "cause", reported)
			case err != nil:
				l.logger.Error("the ledger's newest records cannot be signed", "cause", reported)
			default:
				l.logger.Warn("the newest checkpoint is not signed again: members who require a witness will see no "+
					"lists", "cause", reported)
			}
		} else if renewed == nil {
			reported = ""
		}
		if !l.rest(ctx) {
			return
		}
	}
}

// rest is the time between two looks at the ledger; false = ctx ended.
func (l *Log) rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(l.busy):
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.news:
	case <-time.After(l.interval - l.busy):
	}
	return true
}
