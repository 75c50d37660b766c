package testkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/service/testkit"
)

// Whatever the one lie is: the right kind of error, nothing in the buffer, no
// secret in the message, no request elsewhere, an end in time; and the next
// honest answer works.
func TestThreats4To13EveryLie(t *testing.T) {
	seen := map[string]bool{}
	for _, mode := range testkit.Modes() {
		if seen[mode.Name] {
			t.Errorf("two lies are called %q", mode.Name)
		}
		seen[mode.Name] = true
		t.Run(fmt.Sprintf("Threat%d %s", mode.Threat, mode.Name), func(t *testing.T) {
			t.Parallel()
			h := testkit.NewHostile(t, mode)
			v := newVictim(t, h, 8<<20, 5*time.Minute)
			c := v.c
			v.check(v.try(t.Context()))
			h.Behave()
			if mode.Surface == testkit.OnToken {
				if err := c.RefreshToken(t.Context()); err != nil {
					t.Errorf("a new token: %v", err)
				}
			}
			if err := v.try(t.Context()); err != nil {
				t.Errorf("the next honest answer: %v", err)
			}
			if n := h.AskedElsewhere(); n != 0 {
				t.Errorf("%d requests went to another host", n)
			}
		})
	}
}

type victim struct {
	t *testing.T
	h *testkit.Hostile
	c *sdk.Client
	n int
}

func newVictim(t *testing.T, h *testkit.Hostile, maxFileBytes int64, patience time.Duration) *victim {
	t.Helper()
	return &victim{t: t, h: h, c: h.Client(t, h.Alice, func(cfg *sdk.Config) {
		cfg.MaxFileBytes, cfg.Timeout = maxFileBytes, patience
		if h.Mode.Want == sdk.ErrTimeout {
			cfg.Timeout = 100 * time.Millisecond
		}
	})}
}

// try does what the lie is about.
func (v *victim) try(ctx context.Context) error {
	v.t.Helper()
	switch v.h.Mode.Surface {
	case testkit.OnUpload:
		for range 2 { // the second meets a key that was handed out before
			if err := v.upload(ctx); err != nil {
				return err
			}
		}
		return nil
	case testkit.OnList:
		entries, err := v.c.Group(v.h.Group).Entries(ctx)
		for _, e := range entries {
			if e.Ref == "" || e.Size < sdk.SizeUnknown || err != nil {
				v.t.Errorf("entry %+v with %v", e, err)
			}
		}
		return err
	}
	if v.h.Mode.Surface == testkit.OnWatch {
		return v.watch(ctx)
	}
	b, err := mem.NewPool().Get(0)
	if err != nil {
		v.t.Fatal(err)
	}
	defer b.Release()
	_, err = v.c.Group(v.h.Entry.Group).Retrieve(ctx, v.h.Entry, b)
	if err != nil && b.Len() != 0 {
		v.t.Errorf("%d bytes are in the buffer", b.Len())
	}
	if err == nil && !bytes.Equal(b.Bytes(), v.h.Content) {
		v.t.Error("other content than the file's")
	}
	return err
}

func (v *victim) upload(ctx context.Context) error {
	v.n++
	content := append(bytes.Clone(v.h.Content), byte(v.n))
	b, err := mem.NewPool().Get(int64(len(content)))
	if err != nil {
		v.t.Fatal(err)
	}
	defer b.Release()
	copy(b.Bytes(), content)
	_, err = v.c.Group(v.h.Group).Upload(ctx, fmt.Sprint("upload ", v.n), b)
	if !bytes.Equal(b.Bytes(), content) {
		v.t.Error("the plaintext was not restored")
	}
	return err
}

// watch waits until it is told of an upload, has had more than enough, or heard
// nothing for a while; or the watch ends for a reason.
func (v *victim) watch(ctx context.Context) error {
	silent := strings.Contains(v.h.Mode.Name, "no answer")
	patience := 5 * time.Minute
	if silent {
		patience = time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, err := v.c.Watch(ctx, 0)
	if err != nil {
		return err
	}
	v.n++
	r, err := v.c.Group(v.h.Group).Put(ctx, fmt.Sprint("watched ", v.n), bytes.NewReader([]byte("x")))
	if err != nil {
		return err
	}
	last, told := sdk.Seq(0), 0
	for e, err := range events {
		switch {
		case ctx.Err() != nil:
			if !silent {
				v.t.Error("nothing is told")
			}
			return nil
		case err != nil:
			return err
		case e.Ref == r.Ref:
			return nil
		}
		if told++; e.Seq <= last && !strings.Contains(v.h.Mode.Name, "goes back") {
			v.t.Errorf("event %d is told after %d", e.Seq, last)
		}
		if last = e.Seq; told == 2000 {
			return nil
		}
	}
	return errors.New("the watch ends without a reason")
}

// check judges what a lie ended in.
func (v *victim) check(err error) {
	v.t.Helper()
	if v.h.Mode.Survives {
		if err != nil {
			v.t.Errorf("a passing fault ends in %v", err)
		}
		return
	}
	if err == nil || sdk.KindOf(err) != v.h.Mode.Want {
		v.t.Errorf("kind %q, want %q: %v", sdk.KindOf(err), v.h.Mode.Want, err)
		return
	}
	text := fmt.Sprintf("%v %+v %#v ", err, err, err)
	for _, secret := range []string{"eyJ", v.h.Alice.Key.Reveal(), "the plaintext that", "\x1b", "\u202e", "<script>", "<html"} {
		if strings.Contains(text, secret) {
			v.t.Errorf("the error shows %q: %s", secret, text)
		}
	}
	if len(err.Error()) > 1000 {
		v.t.Errorf("the error has %d characters", len(err.Error()))
	}
}
