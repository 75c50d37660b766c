package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
)

const (
	sweepInterval = time.Minute
	countInterval = 5 * time.Minute
	// sweepBlobsInterval is how often all blobs are looked at: a listing of a bucket costs a request per 1000 of them.
	sweepBlobsInterval = time.Hour

	drainTimeout  = 30 * time.Second
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	maxStreams    = 32 // HTTP/2: requests under way on one connection
)

// Serve answers on l until ctx ends and [Config.DrainDelay] is over, then finishes the requests under way.
// Meanwhile it sweeps once a minute. It speaks TLS when a certificate is configured.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	if err := s.rememberAddress(ctx); err != nil {
		if ctx.Err() != nil { // stopped before the start
			err = nil
		}
		return errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: s.leaving(s.handler), ReadHeaderTimeout: min(headerTimeout, s.cfg.ClientTimeout),
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug), ConnState: s.connections.Changed,
		ConnContext: s.connections.Context,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: s.cfg.ClientTimeout}}
	serve := server.Serve
	if s.certificate != nil {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.get}
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	ctx, stop := s.drained(ctx)
	defer stop()
	var all errgroup.Group
	all.Go(func() error {
		every(ctx, sweepInterval, s.sweep)
		return nil
	})
	all.Go(func() error {
		every(ctx, sweepBlobsInterval, s.sweepBlobs)
		return nil
	})
	all.Go(func() error {
		every(ctx, countInterval, s.countFiles)
		return nil
	})
	all.Go(func() error {
		s.log.Run(ctx)
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		s.watch.Close() // waiting calls would hold up the drain
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err := server.Shutdown(drain); err != nil {
			return errors.Join(fmt.Errorf("requests were cut off after %s: %w", drainTimeout, err), server.Close())
		}
		return nil
	})
	err := serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	stop()
	return errors.Join(err, all.Wait())
}

// drained is a context that ends when ctx has ended and the delay is over in which load balancers notice.
func (s *Service) drained(ctx context.Context) (serving context.Context, stop context.CancelFunc) {
	serving, stop = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		s.ending.Store(true)
		time.AfterFunc(s.cfg.DrainDelay, stop)
	})
	return serving, stop
}

// leaving has a service that is about to end give up each connection behind its next answer. A connection that a
// proxy keeps would else be closed while the proxy sends the next request on it.
func (s *Service) leaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ending.Load() {
			w.Header().Set("Connection", "close") // with HTTP/2 the same
		}
		h.ServeHTTP(w, r)
	})
}

// Reload reads the certificate again.
func (s *Service) Reload() {
	if s.certificate != nil {
		s.certificate.forget()
	}
}

// ServeMetrics answers /metrics on l until ctx ends.
func (s *Service) ServeMetrics(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.MetricsHandler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: time.Minute,
		IdleTimeout:  idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(),
			slog.LevelDebug)}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// every calls do at once, and then at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepBlobs removes blobs that no file uses. A sweep of many takes long, and costs requests to a bucket.
func (s *Service) sweepBlobs(ctx context.Context) {
	if err := s.files.SweepBlobs(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("sweep of blobs", "cause", err.Error())
		s.metrics.Sweep(err)
	}
}

// sweep removes leftovers and expired files.
func (s *Service) sweep(ctx context.Context) {
	id := ledger.NewRequestID("sweep-")
	log := s.cfg.Logger.With("request", id)
	ctx = ledger.WithRequestID(ctx, id)
	if err := s.keys.Refresh(ctx, s.store); err != nil && ctx.Err() == nil {
		log.Error("keys of the service", "cause", err.Error())
	}
	s.signIns.Flush(ctx)
	err := errors.Join(s.holdBack(ctx), s.files.Sweep(ctx))
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		log.Error("sweep", "cause", err.Error())
	}
	n, expired := s.files.RemoveExpired(ctx)
	if n > 0 {
		log.Info("expired files deleted", "count", n)
	}
	if errors.Is(expired, files.ErrRetentionBusy) || ctx.Err() != nil {
		expired = nil
	}
	if expired != nil {
		log.Error("retention", "cause", expired.Error())
	}
	s.metrics.Sweep(errors.Join(err, expired))
}
