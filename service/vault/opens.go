package vault

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// maxWaiting bounds the keys that are given out before their records are in the log, and maxCame the records in the
	// log that are known, for those that come before their key is asked for: some 10 and 20 MiB of memory. A busy
	// service records so many in half a minute.
	maxWaiting = 1 << 16
	maxCame    = 1 << 16
	// settling is how long after a vault began to follow the log a key may be asked for whose record was in the log
	// before.
	settling = 30 * time.Second
)

// opens counts the keys of files that were given out: each for a record, which is crossed off when it comes into the
// log. Who took over the service can leave none away unnoticed. It is safe for concurrent use.
type opens struct {
	mu     sync.Mutex
	since  time.Time // when it begins to count; zero = the log is not followed yet
	keys   int64
	clear  int64                              // of them, in the clear
	lost   int64                              // of them, for which there was no room in waits
	waits  map[*waiting]bool                  // keys
	lacked map[vaultwire.Placed][]*waiting    // by the record that the log lacks
	came   *lru.Cache[vaultwire.Placed, bool] // in the log; true = a key was given out for it
}

// waiting is a key, or something else, that was given out for records that are not in the log yet.
type waiting struct {
	at    time.Time
	lacks int // records
}

func newOpens() (*opens, error) {
	came, err := lru.New[vaultwire.Placed, bool](maxCame)
	return &opens{waits: map[*waiting]bool{}, lacked: map[vaultwire.Placed][]*waiting{}, came: came}, err
}

// begins has it count soon: the log is followed from now on.
func (o *opens) begins(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = now.Add(settling)
}

// kinds of what is given out for a record.
const (
	notCounted = iota // it opens no file
	keySealed
	keyInClear
)

// use has something be given out for a record: once. beside is another record that has to come into the log, nil for
// none. Errors: [vaultwire.ErrNoClaim].
func (o *opens) use(made *chain.Record, now time.Time, kind int, beside *vaultwire.Placed) error {
	r := vaultwire.Placed{Chain: chain.Key(made.Chain), Place: chain.PlaceOf(made)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || now.Before(o.since) {
		return nil
	}
	used, came := o.came.Peek(r)
	if o.lacked[r] != nil || used {
		return fmt.Errorf("record %d of the chain %q again: %w", r.Number, made.Chain, vaultwire.ErrNoClaim)
	}
	if kind != notCounted {
		o.keys++
	}
	if kind == keyInClear {
		o.clear++
	}
	var lacks []vaultwire.Placed
	if came {
		o.came.Add(r, true)
	} else {
		lacks = append(lacks, r)
	}
	if beside != nil && !o.came.Contains(*beside) {
		lacks = append(lacks, *beside)
	}
	switch {
	case len(lacks) == 0:
	case len(o.waits) < maxWaiting:
		w := &waiting{now, len(lacks)}
		o.waits[w] = true
		for _, r := range lacks {
			o.lacked[r] = append(o.lacked[r], w)
		}
	default:
		o.lost++
	}
	return nil
}

// comes crosses a record off that came into the log.
func (o *opens) comes(r vaultwire.Placed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.lacked[r] {
		if w.lacks--; w.lacks == 0 {
			delete(o.waits, w)
		}
	}
	o.came.Add(r, o.lacked[r] != nil)
	delete(o.lacked, r)
}

// counted is what a checkpoint says.
func (o *opens) counted(now time.Time) wire.Opens {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := wire.Opens{Since: o.since.Unix(), Keys: o.keys, Clear: o.clear, Unrecorded: o.lost}
	for w := range o.waits {
		if now.Sub(w.at) >= wire.RecordedWithin {
			c.Unrecorded++
		}
	}
	return c
}

// OpenFile implements [vaultwire.Vault].
func (v *Vault) OpenFile(_ context.Context, q vaultwire.OpenFile) (a vaultwire.OpenedFile, err error) {
	if q.Binding.Ref == "" {
		return a, fmt.Errorf("open a list key as that of a file: %w", vaultwire.ErrNotOpened)
	}
	if err := q.Check(); err != nil {
		return a, err
	}
	session, err := v.sessionOf(q.Token)
	if err != nil {
		return a, err
	}
	if session.Account != q.Claim.Account {
		return a, fmt.Errorf("a session of another account: %w", vaultwire.ErrNoClaim)
	}
	u, err := v.unwrap(q.WrappedKey)
	if err != nil {
		return a, err
	}
	kind := keySealed
	if session.sealed == nil {
		kind = keyInClear
	}
	var beside *vaultwire.Placed
	if err = session.mayHave(u); err == nil {
		beside, err = v.groups.check(q.Binding.Group, session)
	}
	if err == nil {
		err = v.opens.use(&q.Claim, v.now(), kind, beside)
	}
	if err != nil {
		clear(u.key)
		return a, err
	}
	if session.sealed == nil {
		a.Key = u.key
		return a, nil
	}
	defer clear(u.key)
	key, err := format.NewKey(u.key)
	if err != nil {
		return a, err
	}
	defer key.Wipe()
	a.Sealed = session.sealed.Seal(q.Binding.Group, q.Binding.Ref, key)
	return a, nil
}
