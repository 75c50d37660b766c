package main

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// defaultJobs is how many files are transferred at a time.
const defaultJobs = 4

// inOrder runs work for 0 to n-1, jobs at a time, and hands the results to took
// in that order. After the first failure nothing new is begun; what is under way
// ends, and what came before the failure is still handed over. Returns the first
// failure in that order.
func inOrder[T any](ctx context.Context, jobs, n int, work func(ctx context.Context, i int) (T, error),
	took func(T) error) error {
	type result struct {
		value T
		err   error
		ran   bool
	}
	results := make([]chan result, n)
	for i := range results {
		results[i] = make(chan result, 1)
	}
	begin, stop := context.WithCancel(ctx)
	defer stop()
	var workers errgroup.Group
	workers.SetLimit(jobs + 1) // and who begins them
	workers.Go(func() error {
		for i, done := range results {
			workers.Go(func() error {
				var r result
				if begin.Err() == nil {
					r.ran = true
					if r.value, r.err = work(ctx, i); r.err != nil {
						stop()
					}
				}
				done <- r
				return nil
			})
		}
		return nil
	})
	defer func() { _ = workers.Wait() }() // their errors are in the results
	var first error
	for _, done := range results {
		switch r := <-done; {
		case !r.ran:
		case r.err != nil && first == nil:
			first = r.err
		case r.err == nil:
			if err := took(r.value); err != nil && first == nil {
				first = err
				stop()
			}
		}
	}
	if first == nil {
		first = ctx.Err()
	}
	return first
}
