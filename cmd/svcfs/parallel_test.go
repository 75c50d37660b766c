package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

func TestInOrder(t *testing.T) {
	failure := errors.New("the fifth")
	for name, tc := range map[string]struct {
		jobs, n int
		fails   int // index, or -1
		want    []int
	}{
		"nothing":       {4, 0, -1, nil},
		"one at a time": {1, 5, -1, []int{0, 1, 2, 3, 4}},
		"more jobs":     {9, 5, -1, []int{0, 1, 2, 3, 4}},
		"fails alone":   {1, 9, 4, []int{0, 1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			var running, most atomic.Int64
			err := inOrder(t.Context(), tc.jobs, tc.n, func(_ context.Context, i int) (int, error) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				if i == tc.fails {
					return 0, failure
				}
				return i, nil
			}, func(i int) error { got = append(got, i); return nil })
			if !slices.Equal(got, tc.want) || (err != nil) != (tc.fails >= 0) || err != nil &&
				!errors.Is(err, failure) {
				t.Errorf("%v, %v", got, err)
			}
			if int(most.Load()) > tc.jobs {
				t.Errorf("%d ran at a time", most.Load())
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := 0
		err := inOrder(ctx, 1, 100, func(_ context.Context, i int) (int, error) {
			if i == 2 {
				cancel()
			}
			return i, nil
		}, func(int) error { done++; return nil })
		if !errors.Is(err, context.Canceled) || done != 3 {
			t.Errorf("%d done, %v", done, err)
		}
	})
	t.Run("output that cannot be written", func(t *testing.T) {
		if err := inOrder(t.Context(), 2, 50, func(_ context.Context, i int) (int, error) { return i, nil },
			func(int) error { return failure }); !errors.Is(err, failure) {
			t.Error(err)
		}
	})
}
