package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalWatch turns the signals that end a mount into what its loop waits for.
type signalWatch struct {
	raw       chan os.Signal
	quit      chan struct{}
	interrupt chan struct{} // a first SIGINT, or a later one after arm
	terminate chan struct{} // closed by SIGTERM
	verbosity chan struct{} // SIGUSR1: another log level
	refresh   chan struct{} // a SIGHUP: look for what is new; it never ends a mount
	first     context.Context

	mu      sync.Mutex
	count   int // interrupts seen
	armed   bool
	next    context.Context // cancelled by an interrupt after the first
	cancel  context.CancelFunc
	ended   sync.Once
	stopped sync.WaitGroup
}

// watchSignals begins to catch SIGINT, SIGTERM, SIGHUP and SIGUSR1. A SIGHUP,
// which also a closed terminal sends, must not take a mount away from the programs in it.
func watchSignals() *signalWatch {
	w := &signalWatch{raw: make(chan os.Signal, 8), quit: make(chan struct{}), interrupt: make(chan struct{}, 8),
		terminate: make(chan struct{}),
		verbosity: make(chan struct{}, 1), refresh: make(chan struct{}, 1)}
	first, cancelFirst := context.WithCancel(context.Background())
	w.first = first
	w.next, w.cancel = context.WithCancel(context.Background())
	signal.Notify(w.raw, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	w.stopped.Add(1)
	go func() {
		defer w.stopped.Done()
		defer cancelFirst()
		for {
			select {
			case s := <-w.raw:
				switch s {
				case syscall.SIGUSR1:
					offer(w.verbosity)
				case syscall.SIGHUP:
					offer(w.refresh)
				default:
					cancelFirst()
					w.take(s)
				}
			case <-w.quit:
				return
			}
		}
	}()
	return w
}

// offer sends unless something is waiting to be taken already.
func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func (w *signalWatch) take(s os.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s != os.Interrupt {
		w.ended.Do(func() { close(w.terminate) })
		w.cancel()
		return
	}
	w.count++
	if w.count > 1 {
		w.cancel() // a drain under way gives up
	}
	if w.count == 1 || w.armed {
		w.armed = false
		w.interrupt <- struct{}{}
	}
}

// nextInterrupt is cancelled when the user interrupts again.
func (w *signalWatch) nextInterrupt() context.Context { return w.next }

// again reports whether the user interrupted more than once, or the process was
// told to end.
func (w *signalWatch) again() bool { return w.next.Err() != nil }

// arm makes the next interrupt count as an answer.
func (w *signalWatch) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
}

func (w *signalWatch) stop() {
	signal.Stop(w.raw)
	close(w.quit)
	w.stopped.Wait()
	w.cancel()
}
