package blocks_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/blocks"
)

func TestPutPartsSendsEachBlockOnce(t *testing.T) {
	list := format.Extents{{First: 0, Count: 5}, {First: 9, Count: 4}}
	var mu sync.Mutex
	var sent []int64
	err := blocks.PutParts(t.Context(), list, 3, 2, func(_ context.Context, part format.Extents) error {
		mu.Lock()
		defer mu.Unlock()
		if part.Blocks() > 3 {
			t.Errorf("a part of %d blocks", part.Blocks())
		}
		sent = append(sent, slices.Collect(part.All())...)
		return nil
	})
	if slices.Sort(sent); err != nil || !slices.Equal(sent, slices.Collect(list.All())) {
		t.Errorf("%v were sent, error %v", sent, err)
	}
}

func TestPutPartsEndsWithTheFirstError(t *testing.T) {
	first, n := errors.New("first"), 0
	err := blocks.PutParts(t.Context(), format.Extents{{First: 0, Count: 100}}, 1, 1,
		func(context.Context, format.Extents) error { n++; return first })
	if !errors.Is(err, first) || n > 2 {
		t.Errorf("error %v after %d parts", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = blocks.PutParts(ctx, format.Extents{{First: 0, Count: 1}}, 1, 1,
		func(ctx context.Context, _ format.Extents) error { return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a call that was interrupted", err)
	}
}
