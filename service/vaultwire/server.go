package vaultwire

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxConnections bounds the connections that are served at once; others wait.
const maxConnections = 256

const (
	// idleTime is how long a connection may wait for its next question.
	idleTime = 5 * time.Minute
	// acceptPause is between two tries to take a connection, where the machine has no room for one.
	acceptPause = 100 * time.Millisecond
)

// The questions of all connections together take at most questionMemory bytes: one that would take more waits. A
// question takes at most questionCost bytes for each of its frame, for what is decoded is larger than its JSON, or else
// what an answer takes.
const (
	questionMemory = 128 << 20
	questionCost   = 96
	answerMemory   = 2 * MaxFrameBytes
)

// operation is one operation on the side of the vault.
type operation func(ctx context.Context, v Vault, raw []byte) (answer any, err error)

func of[Q, A any](f func(Vault, context.Context, Q) (A, error)) operation {
	return func(ctx context.Context, v Vault, raw []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(raw, &q); err != nil {
			return nil, fmt.Errorf("%w: %w", errFrame, err)
		}
		defer wipe(q)
		return f(v, ctx, q)
	}
}

// operations has each operation by its name in a frame.
func operations() map[string]operation {
	return map[string]operation{"keep": of(Vault.Keep), "make": of(Vault.Make), "forget": of(Vault.Forget),
		"sign": of(Vault.Sign), "extend": of(Vault.Extend), "newest-tree": of(Vault.NewestTree),
		"follow": of(Vault.Follow), "vouch": of(Vault.Vouch), "unvouched": of(Vault.Unvouched),
		"seal-page": of(Vault.SealPage), "open-page": of(Vault.OpenPage),
		"make-key": of(Vault.MakeKey), "take-key": of(Vault.TakeKey), "seal-only": of(Vault.SealOnly),
		"issue-token": of(Vault.IssueToken), "open-token": of(Vault.OpenToken), "wrap": of(Vault.Wrap),
		"open-file": of(Vault.OpenFile), "open-list": of(Vault.OpenList), "check": of(Vault.Check),
		"rewrap": of(Vault.Rewrap), "open-sealed": of(Vault.OpenSealed),
		"open-journal": of(Vault.OpenJournal), "legacy": of(Vault.Legacy), "archive": of(Vault.Archive),
		"read-next": of(Vault.ReadNext), "wrap-for-next": of(Vault.WrapForNext), "use-next": of(Vault.UseNext)}
}

// protocol is the version of what service and vault say to each other. Both come from one release.
const protocol = 11

// hello is the first frame of each connection, from the vault.
type hello struct {
	Protocol int
	Instance string
}

// Serve answers connections until ctx ends, and closes l. A connection begins with the name of this instance of the
// vault, and carries one question at a time. What is no question ends its connection.
func Serve(ctx context.Context, l net.Listener, v Vault) error {
	table, instance := operations(), hello{protocol, rand.Text()}
	free, memory := make(chan struct{}, maxConnections), semaphore.NewWeighted(questionMemory)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
			<-free
			time.Sleep(acceptPause) // until others have ended
			continue
		default:
			return fmt.Errorf("accept: %w", err)
		}
		running.Go(func() {
			defer func() { <-free }()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			defer c.Close()
			if writeFrame(c, "", instance) == nil {
				serve(ctx, c, v, table, memory)
			}
		})
	}
}

// serve answers the questions of one connection.
func serve(ctx context.Context, c net.Conn, v Vault, table map[string]operation, memory *semaphore.Weighted) {
	for r := bufio.NewReader(c); ; {
		if err := serveOne(ctx, c, r, v, table, memory); err != nil {
			return
		}
	}
}

// serveOne waits for a question, and answers it.
func serveOne(ctx context.Context, c net.Conn, r io.Reader, v Vault, table map[string]operation,
	memory *semaphore.Weighted) error {
	held := int64(0)
	defer func() { memory.Release(held) }()
	_ = c.SetReadDeadline(time.Now().Add(idleTime))
	name, raw, err := readFrame(r, func(length int) error {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		takes := max(int64(length)*questionCost, answerMemory)
		if err := memory.Acquire(bounded, takes); err != nil {
			return err
		}
		held = takes
		return c.SetReadDeadline(time.Now().Add(patience)) // the rest comes at once
	})
	if err != nil {
		return err
	}
	answer, err := ask(ctx, v, table[name], raw)
	clear(raw)
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	if err == nil {
		err = writeFrame(c, "", answer)
		wipe(answer)
	} else if !errors.Is(err, errFrame) {
		kind, f := kindOf(err)
		err = writeFrame(c, kind, f)
	}
	return err
}

// ask runs an operation. A mistake in it ends its connection alone.
func ask(ctx context.Context, v Vault, f operation, raw []byte) (answer any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errFrame
			if _, ok := r.(runtime.Error); !ok {
				r = "" // it might be a secret
			}
			fmt.Fprintf(os.Stderr, "svcvault: a fault: %v\n%s", r, debug.Stack())
		}
	}()
	if f == nil {
		return nil, errFrame
	}
	return f(ctx, v, raw)
}
