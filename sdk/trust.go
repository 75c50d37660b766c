package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/trust"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Trust returns whether the service proves what it lists, and how much of its history was
// verified so far. Free; no authentication. Errors: those of [Client.Capabilities].
func (c *Client) Trust(ctx context.Context) (trust.State, error) {
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return trust.State{}, err
	}
	key, _ := c.memory.Log()
	return trust.State{Proves: caps.Dialect.IsOurs(), Key: key, Size: c.memory.Size(), Witness: c.cfg.Witness}, nil
}

// CheckTrust is [Client.Trust] after a comparison: the service must show the pinned key
// now, and a checkpoint that continues the history seen before. Without a pinned key
// CheckTrust compares nothing, and pins no key. Free; no authentication. Errors:
// [ErrCorrupt] when the service signs with another key, or shows a history that does not
// continue the one seen before, and those of [Client.Capabilities].
func (c *Client) CheckTrust(ctx context.Context) (trust.State, error) {
	t, err := c.Trust(ctx)
	if err != nil || !t.Proves || t.Key == "" && c.cfg.LogKey == "" {
		return t, err
	}
	_, err = retryWithNewKey(ctx, c, func() (struct{}, error) { return struct{}{}, c.log.compare(ctx) })
	if err != nil {
		return t, c.wrap("compare the signed history", "", "", err)
	}
	return c.Trust(ctx)
}

// signedLog is the log of the service, of which this machine remembers the key and the newest checkpoint.
type signedLog struct {
	c *Client

	mu     sync.Mutex
	opened *openedLog // nil until open made one
}

func (l *signedLog) compare(ctx context.Context) error {
	log, before, err := l.open(ctx)
	if err != nil {
		return err
	}
	raw, err := l.fetch(ctx, "checkpoint")
	if err != nil {
		return err
	}
	now, err := log.Open(string(raw))
	switch {
	case err != nil:
	case before.N == 0 || now.N <= before.N: // no proof is needed
		err = now.Continues(before, nil)
	default: // no patience: every record seen is in a checkpoint already
		now, err = proof.Checker{Fetch: l.fetch, Log: log}.Check(ctx, before, nil)
	}
	if err != nil {
		return l.refusal(ctx, log, err)
	}
	l.c.memory.Checkpoint(now.Note, now.N)
	return nil
}

// AcceptRollback forgets the history that was seen of the service, for example after the
// honest restore of a backup. It does so for every client with the same StateDir from now
// on. The key of the log stays: see [trust.Remove]. Local, free. Errors: [ErrOther]
// when the file could not be written.
func (c *Client) AcceptRollback() error {
	c.memory.Forget()
	c.chains.forget()
	if err := c.memory.Save(); err != nil {
		return c.wrap("accept rollback", "", "", err)
	}
	return nil
}

// Order returns the number of the group in the order in which this account and StateDir
// first asked for the Order of each group, from 1. Local, free, no errors.
func (g Group) Order() int64 { return g.c.memory.Order(string(g.ID)) }

// demandsProofs reports whether the service must prove what it lists, because it offered
// proofs before, or because the settings require a log key or a witness.
func (l *signedLog) demandsProofs() bool {
	return l.c.cfg.LogKey != "" || l.c.cfg.Witness != "" || l.c.memory.IsHeld()
}

// checkDialect refuses a service that does not speak our dialect and must, because without it the
// service could claim anything. It remembers that the service speaks it.
func (l *signedLog) checkDialect(d wire.Dialect) error {
	switch {
	case d.IsOurs():
		l.c.memory.Hold()
		return nil
	case l.c.cfg.LogKey != "" || l.c.cfg.Witness != "":
		return l.distrust(errors.New("the service does not prove what it lists, although a log key or a witness is " +
			"required"))
	case l.c.memory.IsHeld():
		return l.distrust(errors.New("the service proved what it lists before, and does not any more"))
	}
	return nil
}

// open returns the log of the service, and the newest checkpoint that this client or
// another client of the account verified. The key of the log is the required one, else the
// pinned one, else the one that the service shows now.
func (l *signedLog) open(ctx context.Context) (log *proof.Log, newest proof.Checkpoint, err error) {
	if err := l.c.memory.Problem(); errors.Is(err, trust.ErrContradiction) {
		return nil, newest, l.distrust(err)
	}
	key, err := l.key(ctx)
	if err != nil {
		return nil, newest, err
	}
	_, seen := l.c.memory.Log()
	earlier := l.c.memory.Earlier()
	l.mu.Lock()
	known := l.opened
	l.mu.Unlock()
	if known != nil && known.log.Key() == key && known.seen == seen && slices.Equal(known.earlier, earlier) {
		return known.log, known.newest, nil
	}
	if log, err = proof.NewLog(key, l.c.cfg.witness(), earlier...); err != nil {
		return nil, newest, err
	}
	if seen != "" {
		if newest, err = log.Reopen(seen); err != nil {
			return nil, newest, l.distrust(fmt.Errorf("the checkpoint seen before: %w", err))
		}
	}
	l.mu.Lock()
	l.opened = &openedLog{log, newest, seen, earlier}
	l.mu.Unlock()
	return log, newest, nil
}

// openedLog is what open made of the keys and the checkpoint in the memory, so that it
// verifies the same signature once: every save asks for the log.
type openedLog struct {
	log     *proof.Log
	newest  proof.Checkpoint
	seen    string // the text of newest, "" for none
	earlier []string
}

func (l *signedLog) key(ctx context.Context) (string, error) {
	pinned, _ := l.c.memory.Log()
	switch {
	case l.c.cfg.LogKey != "" && slices.Contains(l.c.memory.Earlier(), l.c.cfg.LogKey):
		return pinned, nil // it replaced the required key, and both keys signed the change
	case l.c.cfg.LogKey != "" && pinned != "" && l.c.cfg.LogKey != pinned:
		return "", otherKey("the required log key is not the one that this machine saw before")
	case l.c.cfg.LogKey != "":
		l.c.memory.Pin(l.c.cfg.LogKey)
		return l.c.cfg.LogKey, nil
	case pinned != "":
		return pinned, nil
	}
	raw, err := l.fetch(ctx, "key")
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(string(raw), "\n")
	if err := proof.CheckKey(key); err != nil {
		return "", call.Malformed(err)
	}
	l.c.memory.Pin(key)
	return key, nil
}

// retryWithNewKey runs f. If f distrusts the service, and the service shows that a new key
// replaced the key of its log, it runs f again. So it does if a sign-in within f found that.
func retryWithNewKey[T any](ctx context.Context, c *Client, f func() (T, error)) (T, error) {
	before := len(c.memory.Earlier())
	out, err := f()
	if KindOf(err) != ErrCorrupt {
		return out, err
	}
	if len(c.memory.Earlier()) > before || c.log.followKey(ctx) {
		return f()
	}
	return out, err
}

// followKey pins the key that replaced the pinned one, if both keys signed the change.
// It reports whether it did.
func (l *signedLog) followKey(ctx context.Context) bool {
	pinned, _ := l.c.memory.Log()
	if pinned == "" {
		return false
	}
	raw, err := l.fetch(ctx, wire.TlogKeys)
	var said wire.LogKeys
	if err != nil || json.Unmarshal(raw, &said) != nil {
		return false
	}
	next := proof.Successors(pinned, said.Statements)
	l.c.memory.Succeed(next)
	return len(next) > 0
}

// distrust returns the error for a service that must not be believed.
func (l *signedLog) distrust(err error) error {
	return &Error{Op: "verify", Kind: ErrCorrupt, Code: wire.CodeHistory, Err: l.c.calls.Scrubbed(err)}
}

// saw remembers how far a group has come, for all programs of the account. A service that showed another record there
// must not be believed.
func (l *signedLog) saw(g GroupID, at chain.Place, proven int64) error {
	if err := l.c.memory.SawGroup(string(g), at, proven, time.Now()); err != nil {
		return l.distrust(err)
	}
	return nil
}

// refusal makes a refusal of package proof, and a contradiction to what was seen, an error of this package. Before a
// refusal comes that the service signs with another key: then nothing else that it shows fits either. Other errors stay
// as they are.
func (l *signedLog) refusal(ctx context.Context, log *proof.Log, err error) error {
	var stale *proof.Stale
	if errors.As(err, &stale) {
		return &Error{Op: "verify", Kind: ErrUnavailable, Code: wire.CodeWitness, Err: l.c.calls.Scrubbed(err)}
	}
	var unwitnessed *proof.Unwitnessed
	if errors.As(err, &unwitnessed) {
		return &Error{Op: "verify", Kind: ErrCorrupt, Code: wire.CodeNoWitness, Err: l.c.calls.Scrubbed(err)}
	}
	if errors.Is(err, trust.ErrContradiction) {
		return l.distrust(err)
	}
	var refused *proof.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	if other := l.keyChanged(ctx, log); other != nil {
		return other
	}
	return l.distrust(fmt.Errorf("what the service lists is not what it signed: %w", err))
}

// keyChanged returns an error if the service shows another key than the pinned one, for
// example a new service at an old address. Otherwise it returns nil.
func (l *signedLog) keyChanged(ctx context.Context, log *proof.Log) error {
	raw, err := l.fetch(ctx, "key")
	if key := strings.TrimSuffix(string(raw), "\n"); err != nil || key == log.Key() {
		return nil
	}
	return otherKey("the service signs with another key than the pinned one")
}

func otherKey(text string) error {
	return &Error{Op: "verify", Kind: ErrCorrupt, Code: wire.CodeLogKey, Err: errors.New(text)}
}

// maxTlogBytes bounds a checkpoint, a key or a tile, in bytes.
const maxTlogBytes = 64 << 10

// fetch reads "checkpoint", "key" or a tile of the ledger's transparency log. It is a
// [proof.Fetch]. The service must speak our dialect.
func (l *signedLog) fetch(ctx context.Context, path string) (raw []byte, err error) {
	if err := l.c.caps.needOurs(ctx, "sign checkpoints of its ledger"); err != nil {
		return nil, err
	}
	from := call.Call{URL: l.c.cfg.MCPURL + wire.PathTlog + path, Wait: l.c.cfg.Timeout}
	return l.c.blocks.fetchSmall(ctx, from, maxTlogBytes)
}
