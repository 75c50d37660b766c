package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

const (
	// maxInlineFile bounds a file that arrives as base64 inside JSON, in
	// plaintext bytes; larger ones use the raw transfer.
	maxInlineFile = 64 << 20
	// maxInline bounds the files inside JSON that are in memory at a time, and
	// maxInlineOwn those of one account; a file waits inlineWait for its turn.
	maxInline    = 8
	maxInlineOwn = maxInline / 2
	inlineWait   = 2 * time.Second
)

// places are what files inside JSON take while they are in memory. However slowly
// an account sends and reads, it leaves some to the others.
type places struct {
	all chan struct{}

	mu  sync.Mutex
	own map[string]*share
}

// share is what one account has of the places.
type share struct {
	taken chan struct{}
	users int // requests that have or want one
}

func newPlaces() *places {
	return &places{all: make(chan struct{}, maxInline), own: make(map[string]*share)}
}

// take waits for a place until ctx ends.
func (p *places) take(ctx context.Context, account string) (release func(), ok bool) {
	own := p.enter(account)
	if !put(ctx, own.taken) {
		p.leave(account)
		return nil, false
	}
	giveBack := func() {
		<-own.taken
		p.leave(account)
	}
	if !put(ctx, p.all) {
		giveBack()
		return nil, false
	}
	return func() {
		<-p.all
		giveBack()
	}, true
}

func put(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *places) enter(account string) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own[account] == nil {
		p.own[account] = &share{taken: make(chan struct{}, maxInlineOwn)}
	}
	p.own[account].users++
	return p.own[account]
}

func (p *places) leave(account string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own[account].users--; p.own[account].users == 0 {
		delete(p.own, account)
	}
}

// reserveInline reserves the memory of a file that is to be sent inside JSON,
// before anything is charged. One that is too large for that is refused.
func (s *server) reserveInline(r *http.Request, account string, req wire.PrepareRetrieveRequest, limit int64) (release func(), err error) {
	size, err := s.Files.BlobSize(r.Context(), account, req)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fault.New(wire.CodeTooLarge, "file too large to be sent inside JSON: at most %d bytes; ask with \"transfer\":\"raw\"", limit-format.Overhead)
	}
	return s.takeInline(r, account, size)
}

// takeInline reserves the memory of a file inside JSON, or refuses when too many
// are under way already. A small one, or none, needs no place; -1 is a size that
// is not known.
func (s *server) takeInline(r *http.Request, account string, size int64) (release func(), err error) {
	if size >= 0 && size <= maxRequestBytes {
		return func() {}, nil
	}
	wait, cancel := context.WithTimeout(r.Context(), inlineWait)
	defer cancel()
	release, ok := s.inline.take(wait, account)
	switch {
	case ok:
		return release, nil
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	default:
		return nil, &fault.Error{Code: wire.CodeUnavailable, Text: "too many large files are under way inside JSON: try again in a moment, or use the raw transfer",
			RetryAfter: 5 * time.Second}
	}
}
