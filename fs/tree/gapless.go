package tree

import (
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// gapless knows up to which record of a group this mount knows all of them. The answer to a
// save tells the number of its record. If it follows what is known, then nobody else changed
// the group meanwhile, and a look would bring nothing. By Tree.mu.
type gapless struct {
	upTo   int64               // every record up to this number is known; 0 = not known
	beyond map[int64]time.Time // records of this mount after a gap, and when their saves began
	at     time.Time           // nothing was missing at this moment
}

// listed notes what a look brought.
func (k *gapless) listed(entries []sdk.Entry) {
	for i := range entries {
		k.upTo = max(k.upTo, entries[i].Number)
	}
	for n := range k.beyond {
		if n <= k.upTo {
			delete(k.beyond, n)
		}
	}
	k.close()
}

// saved notes a record of this mount that was made after began.
func (k *gapless) saved(number int64, began time.Time) {
	if k.upTo == 0 || number <= k.upTo {
		return
	}
	if k.beyond == nil {
		k.beyond = make(map[int64]time.Time)
	}
	k.beyond[number] = began
	k.close()
}

func (k *gapless) close() {
	for {
		began, ok := k.beyond[k.upTo+1]
		if !ok {
			return
		}
		k.upTo++
		delete(k.beyond, k.upTo)
		if began.After(k.at) {
			k.at = began
		}
	}
}

// noteSaved notes the number of a record that this mount made, and when the save began.
func (t *Tree) noteSaved(g *group, number int64, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.known.saved(number, began)
}
