package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// mountOutbox is the outbox of a mount, and who serves the commands about it.
type mountOutbox struct {
	*outbox.Outbox
	control *control
	tree    outboxTree    // nil until settled is closed, and for ever where the mount failed
	settled chan struct{} // closed when tree is final
}

// outboxTree is what is told of each step of an item: a [tree.Tree].
type outboxTree interface {
	Told(i outbox.Item, r sdk.Receipt)
	AddWaiting()
}

// The values of --outbox-fsync.
const (
	fsyncLocal  = "local"
	fsyncRecord = "record"
)

// openOutbox opens the outbox of a mount, nil without --outbox.
func (a *app) openOutbox(p mountPlan, s settings, c *sdk.Client, caps wire.Capabilities) (*mountOutbox, error) {
	f := p.flags
	if !f.outbox || p.readOnly {
		return nil, nil
	}
	if !caps.TakesSealed() {
		return nil, refuse(exitUsage, "leave --outbox out; at a service of your own, look at svcd doctor",
			errors.New("this service takes no sealed uploads, which an outbox needs"))
	}
	dir, err := a.outboxDir(s)
	if err != nil {
		return nil, err
	}
	address, err := s.address()
	if err != nil {
		return nil, err
	}
	m := &mountOutbox{settled: make(chan struct{})}
	keys := outbox.Keys{Group: outboxGroupKey(s), Names: a.namesKey(address, s.account, true)}
	m.Outbox, err = outbox.New(dir, outbox.Config{Remote: outbox.NewService(c), Keys: keys,
		Bytes: int64(f.outboxSize),
		Price: func() (sdk.Amount, bool) { return c.Price("upload") },
		Balance: func(ctx context.Context) (sdk.Amount, error) {
			return c.Balance(ctx, c.Account())
		},
		Told: m.told})
	if errors.Is(err, outbox.ErrTaken) {
		return nil, refuse(exitOther, "mount without --outbox, or unmount that one; svcfs status lists the mounts",
			fmt.Errorf("%w: one mount of %s at this service can have it", err, s.account))
	}
	if err != nil {
		return nil, err
	}
	if err := outbox.Mark(dir, outbox.Place{Service: address, Account: s.account}); err != nil {
		a.ui.notice("%v", err)
	}
	if m.control, err = serveOutbox(dir, m.Outbox); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// told tells the tree of a step. The outbox sends from its start on, before there is a tree:
// such a step waits, because nobody else would say that a save became a conflict.
func (m *mountOutbox) told(i outbox.Item, r sdk.Receipt) {
	<-m.settled
	if m.tree != nil {
		m.tree.Told(i, r)
	}
}

// attach shows what waits since an earlier mount in a tree, and tells it of all steps.
func (m *mountOutbox) attach(t outboxTree) {
	if m == nil {
		return
	}
	t.AddWaiting()
	m.tree = t
	close(m.settled)
}

func (m *mountOutbox) end() error {
	if m == nil {
		return nil
	}
	if m.tree == nil { // the mount failed
		close(m.settled)
	}
	m.control.close()
	return m.Close()
}

// outboxDir is the folder of the outbox of an account at a service.
func (a *app) outboxDir(s settings) (string, error) {
	address, err := s.address()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(address + "\x00" + string(s.account)))
	dir := a.userDir("XDG_STATE_HOME", ".local/state", "outbox/"+hex.EncodeToString(sum[:16]))
	if dir == "" {
		return "", refuse(exitUsage, "set HOME or XDG_STATE_HOME", errors.New("there is no folder for the outbox"))
	}
	return dir, nil
}

// outboxGroupKey is the key of the hash that stands for the group of an item on the disk.
func outboxGroupKey(s settings) []byte {
	mac := hmac.New(sha256.New, []byte(s.config.APIKey.Reveal()))
	mac.Write([]byte("svc-outbox-group-1\x00" + string(s.account)))
	return mac.Sum(nil)
}

// namesKey returns the key under which names of what waits are kept, from the keyring, made if
// there is none. nil = there is no keyring: then names come back with the keys of the files.
func (a *app) namesKey(address string, account sdk.AccountID, make bool) *format.Key {
	place := address + " outbox"
	text, err := a.keyring.Get(place, account)
	if err == nil {
		key, err := format.ParseKey(text.Reveal())
		if err == nil {
			return key
		}
		a.ui.notice("the key of the outbox in the %s is damaged: names of what waits are not shown until the service "+
			"is asked", a.keyring.Name())
		return nil
	}
	if !make || !errors.Is(err, apikey.ErrNone) {
		return nil
	}
	key, err := format.RandomKey()
	if err != nil || a.keyring.Set(place, account, sdk.NewSecret(key.Base64())) != nil {
		return nil
	}
	return key
}

// drainOutbox sends what waits, for at most --drain, and returns what stays.
func (m *liveMount) drainOutbox(ctx context.Context) []outbox.Item {
	if m.outbox == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.plan.flags.drain)
	defer cancel()
	if n := len(m.outbox.Items()); n > 0 {
		m.app.ui.progress("sending %s of the outbox before unmounting", plural(n, "save"))
		defer m.app.ui.progress("")
	}
	m.outbox.Flush()
	return m.outbox.Drain(ctx)
}

// asPending shows items as what was not uploaded.
func asPending(items []outbox.Item) (list []report.Pending) {
	for _, i := range items {
		list = append(list, report.Pending{Path: itemPath(i), Size: i.Size, Since: i.Time.UTC(), Error: i.Reason,
			Outbox: i.ID})
	}
	return list
}

func itemPath(i outbox.Item) string {
	if i.Group == "" {
		return "-"
	}
	return "/" + string(i.Group) + "/" + i.Name
}

// tellKept says what stays in the outbox, and how to go on.
func (a *app) tellKept(kept []report.Pending) {
	if len(kept) == 0 {
		return
	}
	a.ui.notice("%s in the outbox of this machine; the next mount with --outbox sends what can be sent, 'svcfs "+
		"outbox list' shows it:", staysWords(len(kept)))
	for _, p := range kept {
		a.ui.notice("  %s  %s  %s", escapeName(p.Path), p.What(), escapeText(p.Error))
	}
}

// tellWaiting adds to the error of a mount that did not start what waits in its outbox, and what shows it.
func (a *app) tellWaiting(ctx context.Context, err error, p mountPlan) error {
	if !p.flags.outbox || p.readOnly || errors.Is(err, outbox.ErrTaken) {
		return err
	}
	dir, _, placeErr := a.outboxPlace()
	if placeErr != nil {
		return err
	}
	items, listErr := outbox.List(ctx, dir, outbox.Keys{}, nil)
	if listErr != nil || len(items) == 0 {
		return err
	}
	hint := a.hints.of(err)
	if hint != "" {
		hint = strings.TrimSuffix(hint, ".") + ". "
	}
	return refuse(exitCodeOf(err), hint+
		"What waits is shown by 'svcfs outbox list', and is sent once this mount starts",
		fmt.Errorf("%w; %s safely in the outbox of this machine", err, waitWords(len(items))))
}

func waitWords(n int) string {
	if n == 1 {
		return "1 save waits"
	}
	return fmt.Sprintf("%d saves wait", n)
}

// leftWords tells how much of an outbox is left to be sent, and why it waits.
func leftWords(bytes int64, reason string) string {
	words := ", " + roughSize(bytes) + " left"
	if reason != "" {
		words += ": " + reason
	}
	return words
}

func staysWords(n int) string {
	if n == 1 {
		return "1 save stays"
	}
	return fmt.Sprintf("%d saves stay", n)
}

// outboxWords tells how it stands with the outbox.
func outboxWords(s *outbox.Status) string {
	if s.Items == 0 {
		return "empty"
	}
	words := []string{fmt.Sprintf("%s, %d of %d bytes", plural(s.Items, "save"), s.Bytes, s.Limit)}
	if s.Parked > 0 {
		words = append(words, fmt.Sprintf("%d parked (svcfs outbox list)", s.Parked))
	}
	if s.Oldest != nil {
		words = append(words, "the oldest of "+s.Oldest.UTC().Format(time.RFC3339))
	}
	if s.Rate > 0 {
		words = append(words, fmt.Sprintf("%d bytes a second", s.Rate))
	}
	if s.Next != nil {
		words = append(words, "next try "+s.Next.UTC().Format(time.RFC3339))
	}
	if s.Reason != "" {
		words = append(words, s.Reason)
	}
	return strings.Join(words, ", ")
}
