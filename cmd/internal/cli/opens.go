package cli

import (
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// OpensText says what the vault of a service counted.
func OpensText(o wire.Opens) string {
	records := "each for a record of the ledger"
	if o.Unrecorded > 0 {
		records = fmt.Sprintf("%d of them without a record in the ledger", o.Unrecorded)
	}
	return fmt.Sprintf("counted from %s on: %d given out, %d in the clear, %s",
		time.Unix(o.Since, 0).UTC().Format(time.RFC3339), o.Keys, o.Clear, records)
}

// UnrecordedError is the error of keys that were given out without a record; nil = there are none.
func UnrecordedError(o wire.Opens) error {
	if o.Unrecorded == 0 {
		return nil
	}
	return fmt.Errorf("the vault of the service gave out %d keys of files more than a minute ago that the ledger has "+
		"no record of: somebody read these files, and nothing says who", o.Unrecorded)
}
