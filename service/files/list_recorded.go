package files

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// Changed answers a change of one file. It has no record if nothing changed.
type Changed struct {
	Text string // for people
	wire.Recorded
}

// The answer to a change has the first records of it, within these bounds: a group lists the rest.
const (
	mostAnswered      = 64
	mostAnsweredBytes = 64 << 10
)

// step is a record of a change, and the sequence of the upload that the record is about.
type step struct {
	chain.Row
	upload int64
}

// answerOf returns the first records that a change of files of a group made, as members list them, and the
// receipt of the last one that it returns. The records follow each other in the chain of the group.
func (f *Files) answerOf(ctx context.Context, tx *store.Tx, steps ...step) (out wire.Recorded, err error) {
	if len(steps) == 0 {
		return out, nil
	}
	var last chain.Row
	for size := 0; len(out.Records) < min(len(steps), mostAnswered) && size < mostAnsweredBytes; {
		s := &steps[len(out.Records)]
		row := recordRow(&s.Record)
		row.UploadSeq = s.upload
		opening, ok, err := f.opened(ctx, tx, s.Group, s.upload)
		if err != nil {
			return out, err
		}
		if ok {
			row.Opening, row.FileHash = opening.String(), ""
		}
		out.Records, last = append(out.Records, *row), s.Row
		size += recordBytes(row)
	}
	out.Receipt, err = f.log.Receipt(ctx, tx, last)
	return out, err
}
