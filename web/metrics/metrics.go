// Package metrics exports the counters of other packages to Prometheus. It reads them at each scrape and counts nothing
// itself.
//
// The number of series does not grow with clients, keys or tenants: the values of labels are names of commands,
// policies, nodes, results and reasons. The only exception, the busiest keys, is bounded (keys.go).
//
// Reading order: metrics.go (this file), decisions.go, nodes.go, keys.go.
package metrics

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// Config has the sources of the metrics. Only Engine and Observer are required.
type Config struct {
	Engine   engine.Engine
	Observer *observe.Observer  // counts the engine's decisions
	Forward  *forward.Forwarder // nil: no commands are forwarded

	// Stats returns what INFO and metrics show of the engine and the server; nil: nothing.
	Stats func() []engine.Stat

	NoKeys bool // export no client's key

	Version string // version of rlproxy
	Build   string // module version or commit, and the Go version, of the build
}

// Metrics has the metrics of a process.
type Metrics struct {
	own  *prometheus.Registry // all metrics except those with keys
	keys *prometheus.Registry // metrics with keys
}

// New returns the metrics of a process.
func New(c Config) *Metrics {
	m := &Metrics{own: prometheus.NewRegistry(), keys: prometheus.NewRegistry()}
	m.own.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector(c.collect),
	)
	if !c.NoKeys {
		m.keys.MustRegister(collector(c.collectKeys))
	}
	return m
}

// maxScrapes is the most requests for which metrics are collected at the same time.
const maxScrapes = 4

// Handler returns the handler of scrapes. keys reports whether the sender of a request may see the keys of all clients.
func (m *Metrics) Handler(keys func(*http.Request) bool, log *slog.Logger) http.Handler {
	options := promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError, // an invalid metric must not hide the others
		MaxRequestsInFlight: maxScrapes,
	}
	all, own := promhttp.HandlerFor(prometheus.Gatherers{m.own, m.keys}, options), promhttp.HandlerFor(m.own, options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer{ResponseWriter: w, status: http.StatusOK}
		if keys(r) {
			all.ServeHTTP(&a, r)
		} else {
			own.ServeHTTP(&a, r)
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // the client may be gone
	})
}

// answer keeps the answer to a scrape until it is complete, so that clients that do not read theirs do not
// count as requests in progress, which would keep others from theirs.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements io.Writer.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// collector is a function that sends metrics. It describes none in advance, because those of the
// engine are known only when they are collected.
type collector func(chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

// collect sends all metrics except those with keys.
func (c *Config) collect(to chan<- prometheus.Metric) {
	buildInfo.send(to, 1, c.Version, c.Build)
	c.collectDecisions(to)
	if c.Stats != nil {
		c.collectStats(to)
	}
	c.collectNodes(to)
	c.collectForward(to)
}

var buildInfo = gauge("build_info", "Always 1. The labels have the version and the build of rlproxy.", "version",
	"build")

// collectStats sends the statistics that INFO also shows.
func (c *Config) collectStats(to chan<- prometheus.Metric) {
	for _, s := range c.Stats() {
		if s.Metric == "" {
			continue
		}
		kind := gauge
		if strings.HasSuffix(s.Metric, "_total") {
			kind = counter
		}
		switch {
		case s.Reason != "":
			kind(s.Metric, s.Help, "reason").send(to, float64(s.Value), s.Reason)
		case s.Result != "":
			kind(s.Metric, s.Help, "result").send(to, float64(s.Value), s.Result)
		default:
			kind(s.Metric, s.Help).send(to, float64(s.Value))
		}
	}
}

// metric is a gauge or a counter with labels.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("rlproxy_"+name, help, labels, nil)
}

func gauge(name, help string, labels ...string) metric {
	return metric{describe(name, help, labels), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{describe(name, help, labels), prometheus.CounterValue}
}

func (m metric) send(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(m.Desc, m.kind, value, labels...)
}

// distribution is a histogram with labels.
type distribution struct{ *prometheus.Desc }

func distributionOf(name, help string, labels ...string) distribution {
	return distribution{describe(name, help, labels)}
}

// Bounds of histograms of durations: powers of two of microseconds, from 8 µs to a quarter of a second.
const (
	firstBound = 8 * time.Microsecond
	bounds     = 16
)

func (d distribution) sendDurations(to chan<- prometheus.Metric, s *histogram.Snapshot, labels ...string) {
	buckets := make(map[float64]uint64, bounds)
	for i := range bounds {
		bound := firstBound << i
		buckets[bound.Seconds()] = uint64(s.AtMost(bound))
	}
	to <- prometheus.MustNewConstHistogram(d.Desc, uint64(s.Count), s.Sum.Seconds(), buckets, labels...)
}

func (d distribution) sendSizes(to chan<- prometheus.Metric, s *engine.Sizes, labels ...string) {
	last := len(s.AtMost) - 1
	buckets := make(map[float64]uint64, last)
	for i, n := range s.AtMost[:last] {
		buckets[float64(int(1)<<i)] = uint64(n)
	}
	to <- prometheus.MustNewConstHistogram(d.Desc, uint64(s.AtMost[last]), float64(s.Sum), buckets, labels...)
}
