// Package metrics counts requests, calls and sweeps in the form that Prometheus reads.
package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
)

// Metrics are the counters of one service.
type Metrics struct {
	Uploads   prometheus.Counter // answered with success, repeats included
	Retrieves prometheus.Counter
	InFlight  prometheus.Gauge

	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	bytesIn   *prometheus.CounterVec
	bytesOut  *prometheus.CounterVec
	parts     *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	sweeps    *prometheus.CounterVec
	lastSweep prometheus.Gauge
}

// New returns counters at zero, registered nowhere else.
func New(version string) *Metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "svcd", Name: name, Help: help}
	}
	operation := []string{"operation"}
	m := &Metrics{registry: prometheus.NewRegistry(),
		Uploads:   prometheus.NewCounter(counter("uploads_total", "Uploads finished, repeated answers included.")),
		Retrieves: prometheus.NewCounter(counter("retrieves_total", "File keys handed out.")),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "svcd", Name: "requests_in_flight",
			Help: "Requests being answered."}),
		requests: prometheus.NewCounterVec(counter("requests_total",
			"Requests answered, by operation and HTTP status."), []string{"operation", "status"}),
		bytesIn:  prometheus.NewCounterVec(counter("request_bytes_total", "Bytes of request bodies read."), operation),
		bytesOut: prometheus.NewCounterVec(counter("response_bytes_total", "Bytes of answers sent."), operation),
		failures: prometheus.NewCounterVec(counter("part_failures_total",
			"Failed calls of the database and the blob store."), []string{"part", "call"}),
		sweeps: prometheus.NewCounterVec(counter("sweeps_total", "Sweeps of leftovers, by result."),
			[]string{"result"}),
		lastSweep: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "svcd", Name: "last_sweep_timestamp_seconds",
			Help: "When the last sweep succeeded."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "svcd",
			Name: "request_duration_seconds", Help: "Time to answer, by operation.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 11)}, operation),
		parts: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "svcd", Name: "part_duration_seconds",
			Help: "Time of calls of the database and the blob store.", Buckets: prometheus.ExponentialBuckets(0.0005,
				2.5, 11)}, []string{"part", "call"}),
	}
	for part, calls := range map[string][]string{"database": {"read", "write"}, "blobs": {"put", "open", "delete"}} {
		for _, call := range calls {
			m.failures.WithLabelValues(part, call) // shown before the first failure
		}
	}
	for _, result := range []string{"ok", "failed"} {
		m.sweeps.WithLabelValues(result)
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "svcd", Name: "build_info", Help: "Always 1."},
		[]string{"version", "go"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(m.Uploads, m.Retrieves, m.InFlight, m.requests, m.bytesIn, m.bytesOut, m.failures,
		m.sweeps, m.lastSweep, m.duration, m.parts, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers /metrics.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

// Request counts an answered request. Operations must be few.
func (m *Metrics) Request(operation string, status int, took time.Duration, in, out int64) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
	m.bytesIn.WithLabelValues(operation).Add(float64(in))
	m.bytesOut.WithLabelValues(operation).Add(float64(out))
}

// Part counts a call of the database or the blob store. A refusal, or a caller that
// left, is no failure of the part.
func (m *Metrics) Part(part, call string, took time.Duration, err error) {
	m.parts.WithLabelValues(part, call).Observe(took.Seconds())
	var refused *fault.Error
	if err == nil || errors.As(err, &refused) || errors.Is(err, context.Canceled) ||
		errors.Is(err, blob.ErrTooLarge) || errors.Is(err, io.ErrUnexpectedEOF) {
		return
	}
	m.failures.WithLabelValues(part, call).Inc()
}

// Sweep counts a sweep.
func (m *Metrics) Sweep(err error) {
	if err != nil {
		m.sweeps.WithLabelValues("failed").Inc()
		return
	}
	m.sweeps.WithLabelValues("ok").Inc()
	m.lastSweep.SetToCurrentTime()
}

// Stored is what is stored of living files.
type Stored struct{ Files, Bytes int64 }

// State are figures that are read when they are asked for. Those below 0 are unknown, and left out.
type State struct {
	LedgerSeq   int64
	OpenUploads int64
	Accounts    int64
	Stored      Stored     // as it was counted last
	FreeBytes   int64      // on the disk of the data directory
	Opens       wire.Opens // in the newest checkpoint of this process
}

// Watch adds the figures that read gives.
func (m *Metrics) Watch(read func() State) {
	c := &stateCollector{read: read}
	add := func(name, help string, of func(State) int64) {
		c.figures = append(c.figures, figure{prometheus.NewDesc("svcd_"+name, help, nil, nil), of})
	}
	add("ledger_seq", "Sequence of the newest ledger record.", func(s State) int64 { return s.LedgerSeq })
	add("open_uploads", "Uploads begun and not finished.", func(s State) int64 { return s.OpenUploads })
	add("accounts", "Accounts.", func(s State) int64 { return s.Accounts })
	add("files", "Files that can be retrieved.", func(s State) int64 { return s.Stored.Files })
	add("file_bytes", "Ciphertext of files that can be retrieved.", func(s State) int64 { return s.Stored.Bytes })
	add("data_free_bytes", "Free space on the disk of the data directory.", func(s State) int64 { return s.FreeBytes })
	add("vault_keys", "Keys of files that the vault gave out.", func(s State) int64 { return s.Opens.Keys })
	add("vault_keys_in_clear", "Keys of files that the vault gave out in the clear.",
		func(s State) int64 { return s.Opens.Clear })
	add("vault_keys_unrecorded", "Keys of files that the vault gave out without a record in the ledger.",
		func(s State) int64 { return s.Opens.Unrecorded })
	m.registry.MustRegister(c)
}

type stateCollector struct {
	read    func() State
	figures []figure
}

type figure struct {
	desc *prometheus.Desc
	of   func(State) int64
}

// Describe lists the figures.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		ch <- f.desc
	}
}

// Collect reads them.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	for _, f := range c.figures {
		if n := f.of(s); n >= 0 {
			ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, float64(n))
		}
	}
}

// WatchParts adds whether each part of the service is up, as /health tells it.
func (m *Metrics) WatchParts(read func() map[string]bool) {
	m.registry.MustRegister(&partsCollector{read: read,
		desc: prometheus.NewDesc("svcd_part_up", "1 while /health has nothing to say about the part.",
			[]string{"part"}, nil)})
}

type partsCollector struct {
	read func() map[string]bool
	desc *prometheus.Desc
}

// Describe lists the figure.
func (c *partsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect looks at the parts.
func (c *partsCollector) Collect(ch chan<- prometheus.Metric) {
	for part, up := range c.read() {
		value := 0.0
		if up {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, part)
	}
}
