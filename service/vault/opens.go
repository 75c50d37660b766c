package vault

import (
	"context"
	"crypto/sha256"
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
	mu      sync.Mutex
	since   time.Time // when it begins to count; zero = the log is not followed yet
	keys    int64
	clear   int64                    // of them, in the clear
	lost    int64                    // of them, for which there was no room in waiting
	waiting map[record]time.Time     // given out then, and not in the log yet
	came    *lru.Cache[record, bool] // in the log; true = a key was given out for it
}

// record is a record in its chain.
type record struct {
	chain chain.Hash // key of the chain
	at    chain.Place
}

func newOpens() (*opens, error) {
	came, err := lru.New[record, bool](maxCame)
	return &opens{waiting: map[record]time.Time{}, came: came}, err
}

// begins has it count soon: the log is followed from now on.
func (o *opens) begins(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = now.Add(settling)
}

// add counts a key that is given out for a record. Errors: [vaultwire.ErrNoClaim].
func (o *opens) add(claim *chain.Record, inClear bool, now time.Time) error {
	r := record{chain.Key(claim.Chain), chain.PlaceOf(claim)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || now.Before(o.since) {
		return nil
	}
	used, came := o.came.Peek(r)
	if _, waits := o.waiting[r]; waits || used {
		return fmt.Errorf("record %d of the chain %q again: %w", r.at.Number, claim.Chain, vaultwire.ErrNoClaim)
	}
	o.keys++
	if inClear {
		o.clear++
	}
	switch {
	case came:
		o.came.Add(r, true)
	case len(o.waiting) < maxWaiting:
		o.waiting[r] = now
	default:
		o.lost++
	}
	return nil
}

// comes crosses a record off that came into the log.
func (o *opens) comes(r record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, used := o.waiting[r]
	delete(o.waiting, r)
	o.came.Add(r, used)
}

// counted is what a checkpoint says.
func (o *opens) counted(now time.Time) wire.Opens {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := wire.Opens{Since: o.since.Unix(), Keys: o.keys, Clear: o.clear, Unrecorded: o.lost}
	for _, at := range o.waiting {
		if now.Sub(at) >= wire.RecordedWithin {
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
	channel, err := v.channelOf(q.Channel)
	if err != nil {
		return a, err
	}
	raw, _, err := v.unwrap(q.WrappedKey)
	if err == nil {
		err = v.opens.add(&q.Claim, channel == nil, v.now())
	}
	if err == nil && channel == nil {
		a.Key = raw
		return a, nil
	}
	defer clear(raw)
	if err != nil {
		return a, err
	}
	key, err := format.NewKey(raw)
	if err != nil {
		return a, err
	}
	defer key.Wipe()
	a.Sealed = channel.Seal(q.Binding.Group, q.Binding.Ref, key)
	return a, nil
}

// maxChannels bounds the channels that are kept: opening one takes longer than a key.
const maxChannels = 4096

// channelID names a channel.
type channelID struct {
	to           format.ChannelFor
	encapsulated [sha256.Size]byte
}

// channelOf opens the channel of a question; nil = it has none.
func (v *Vault) channelOf(q *vaultwire.Channel) (*format.Channel, error) {
	if q == nil {
		return nil, nil
	}
	secret, err := v.secretOf(q.For.Epoch)
	if err != nil {
		return nil, err
	}
	if len(q.ID) != sha256.Size {
		return nil, fmt.Errorf("a channel of an id of %d bytes: %w", len(q.ID), vaultwire.ErrSealed)
	}
	id := channelID{q.For, [sha256.Size]byte(q.ID)}
	if c, ok := v.channels.Get(id); ok {
		return c, nil
	}
	if q.Encapsulated == nil {
		return nil, vaultwire.ErrNoChannel
	}
	if sha256.Sum256(q.Encapsulated) != id.encapsulated {
		return nil, fmt.Errorf("a channel of another id: %w", vaultwire.ErrSealed)
	}
	c, err := secret.OpenChannel(q.For, q.Encapsulated)
	if err != nil {
		return nil, sealedError(err)
	}
	v.channels.Add(id, c)
	return c, nil
}
