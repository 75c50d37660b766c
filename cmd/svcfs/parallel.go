package main

import (
	"context"
	"sync"
)

// defaultJobs is how many files are transferred at a time.
const defaultJobs = 4

// inOrder runs work for 0 to n-1, jobs at a time, and hands the results to took
// in that order. After the first failure nothing new is begun; what is under way
// ends, and what came before the failure is still handed over. Returns the first
// failure in that order.
func inOrder[T any](ctx context.Context, jobs, n int, work func(ctx context.Context, i int) (T, error), took func(T) error) error {
	type result struct {
		value T
		err   error
		ran   bool
	}
	results := make([]result, n)
	ready := make([]chan struct{}, n)
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	begin, stop := context.WithCancel(ctx)
	defer stop()
	var next int
	var mu sync.Mutex
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n
	}
	var workers sync.WaitGroup
	for range min(jobs, n) {
		workers.Go(func() {
			for i, more := take(); more; i, more = take() {
				r := &results[i]
				if begin.Err() == nil {
					r.ran = true
					if r.value, r.err = work(ctx, i); r.err != nil {
						stop()
					}
				}
				close(ready[i])
			}
		})
	}
	defer workers.Wait()
	var first error
	for i := range results {
		<-ready[i]
		switch r := &results[i]; {
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
