package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// Load is many clients that ask about random keys, each waiting for its answers.
type Load struct {
	Connections int
	Depth       int // requests sent together on a connection; above 1 only by a peer that Pipelines
	Keys        int
	Limit       int64
	Window      time.Duration
	For         time.Duration // how long it is measured, after a warm-up
}

// Report is what a load came to.
type Report struct {
	Decisions int
	Allowed   int // -1: the load generator does not tell
	Errors    int // requests that got no decision
	Seconds   float64
	P50, P99  time.Duration // latency; of several processes the mean of theirs

	Store  time.Duration // CPU time of Redis; 0 if the peer has none
	Server time.Duration // of the peer's server; 0 if it is a library
	Client time.Duration // of the clients: redis-benchmark, or the program that calls the library
}

// Pipelines reports whether a client of the peer can send several requests together.
func (p *Peer) Pipelines() bool { return p.kind.dialect != nil }

// Load runs a load: redis-benchmark for a peer that speaks RESP, else its adapter.
func (p *Peer) Load(ctx context.Context, l Load) (Report, error) {
	if l.Depth < 1 || l.Depth > 1 && !p.Pipelines() {
		return Report{}, fmt.Errorf("%s cannot send %d requests together", p.Name, l.Depth)
	}
	var c clients = &adapters{}
	if p.kind.dialect != nil {
		c = &benchmark{}
	}
	r, err := p.measure(ctx, l, c)
	c.close()
	if err != nil {
		return r, fmt.Errorf("%s: %w", p.Name, err)
	}
	return r, nil
}

// clients are what makes a load.
type clients interface {
	open(ctx context.Context, p *Peer, l Load) error
	run(how time.Duration) (Report, error)
	cpu() (time.Duration, error)
	close()
}

func (p *Peer) measure(ctx context.Context, l Load, c clients) (r Report, err error) {
	if err := c.open(ctx, p, l); err != nil {
		return r, err
	}
	warm := l.For / 3
	if p.kind.dialect == nil {
		warm = 2 * l.For // a Java machine compiles what it runs, while it runs
	}
	if _, err := c.run(warm); err != nil {
		return r, err
	}
	before, err := p.used(c)
	if err != nil {
		return r, err
	}
	if r, err = c.run(l.For); err != nil {
		return r, err
	}
	after, err := p.used(c)
	r.Store, r.Server, r.Client = after[0]-before[0], after[1]-before[1], after[2]-before[2]
	return r, err
}

// used is the CPU time that the store, the server and the clients have used.
func (p *Peer) used(c clients) (used [3]time.Duration, err error) {
	var wrong [3]error
	if !p.kind.alone {
		used[0], wrong[0] = storeCPU(p.redis)
	}
	if p.server != nil {
		used[1], wrong[1] = p.server.cpu()
	}
	used[2], wrong[2] = c.cpu()
	return used, errors.Join(wrong[:]...)
}

// Store returns a number that the Redis at address reports in a section of INFO.
func Store(address, section, field string) (float64, error) {
	info, err := traffic.Ask(address, "INFO", section)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s of %s has no %s", section, address, field)
}

func storeCPU(address string) (time.Duration, error) {
	user, err1 := Store(address, "cpu", "used_cpu_user")
	system, err2 := Store(address, "cpu", "used_cpu_sys")
	return time.Duration((user + system) * float64(time.Second)), errors.Join(err1, err2)
}

// adapters are copies of an adapter that share the connections. Called with the word
// load, the connections, keys, limit and window in ms, an adapter reads lines of seconds,
// runs that long, and answers each line by one of JSON.
type adapters struct {
	running []*process
	lines   []*bufio.Scanner
}

func (a *adapters) open(ctx context.Context, p *Peer, l Load) error {
	n := max(1, p.kind.processes)
	for i := range n {
		connections := l.Connections*(i+1)/n - l.Connections*i/n
		argv := slices.Concat(p.kind.adapter, []string{"load", strconv.Itoa(connections), strconv.Itoa(l.Keys), text(l.Limit), text(l.Window.Milliseconds())})
		process, err := launch(ctx, argv, p.environment(), true)
		if err != nil {
			return err
		}
		a.running, a.lines = append(a.running, process), append(a.lines, bufio.NewScanner(process.out))
	}
	return nil
}

func (a *adapters) run(how time.Duration) (sum Report, err error) {
	for _, p := range a.running {
		if _, err := fmt.Fprintln(p.in, how.Seconds()); err != nil {
			return sum, errors.Join(err, errors.New(p.text.String()))
		}
	}
	for i, lines := range a.lines {
		if !lines.Scan() {
			return sum, fmt.Errorf("the adapter ended: %s", a.running[i].text.String())
		}
		var r struct {
			Decisions, Allowed, Errors int
			Seconds                    float64
			P50                        float64 `json:"p50_us"`
			P99                        float64 `json:"p99_us"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return sum, fmt.Errorf("the adapter wrote %q: %w", lines.Text(), err)
		}
		sum.Decisions += r.Decisions
		sum.Allowed += r.Allowed
		sum.Errors += r.Errors
		sum.Seconds = max(sum.Seconds, r.Seconds)
		sum.P50 += time.Duration(r.P50 * 1e3 / float64(len(a.lines)))
		sum.P99 += time.Duration(r.P99 * 1e3 / float64(len(a.lines)))
	}
	return sum, nil
}

func (a *adapters) cpu() (sum time.Duration, err error) {
	for _, p := range a.running {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func (a *adapters) close() {
	for _, p := range a.running {
		p.stop()
	}
}

// benchmark is redis-benchmark. It takes the number of requests, not how long, so
// the first run tries how many there are in a second.
type benchmark struct {
	ctx  context.Context
	args []string
	used time.Duration // CPU time of all runs
	rate float64       // requests a second in the last run; 0: none yet
}

// keyPlaceholder is what redis-benchmark puts a random number in place of.
const keyPlaceholder = "key:__rand_int__"

func (b *benchmark) open(ctx context.Context, p *Peer, l Load) error {
	words, err := p.kind.dialect.command(Request{keyPlaceholder, l.Limit, l.Window, 1})
	if err != nil {
		return err
	}
	host, port, _ := strings.Cut(p.address, ":")
	b.ctx = ctx
	b.args = slices.Concat([]string{"-h", host, "-p", port, "-c", strconv.Itoa(l.Connections), "-P", strconv.Itoa(l.Depth),
		"-r", strconv.Itoa(l.Keys)}, words)
	return nil
}

func (b *benchmark) run(how time.Duration) (r Report, err error) {
	if b.rate == 0 {
		if _, err := b.ask(5_000); err != nil {
			return r, err
		}
	}
	return b.ask(max(5_000, int(b.rate*how.Seconds())))
}

func (b *benchmark) ask(n int) (r Report, err error) {
	f, used, err := traffic.Benchmark(b.ctx, slices.Concat([]string{"-n", strconv.Itoa(n)}, b.args)...)
	b.used += used
	b.rate = f.Rate
	us := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	return Report{Decisions: n, Allowed: -1, Seconds: float64(n) / f.Rate, P50: us(f.P50), P99: us(f.P99)}, err
}

func (b *benchmark) cpu() (time.Duration, error) { return b.used, nil }

func (*benchmark) close() {}

// Memory is what the state takes, in bytes: what Redis says of itself
// without the buffers of its clients, or the resident
// memory of a server that keeps it.
func (p *Peer) Memory() (int64, error) {
	if p.kind.alone {
		return p.server.resident()
	}
	used, err1 := Store(p.redis, "memory", "used_memory")
	clients, err2 := Store(p.redis, "memory", "mem_clients_normal")
	return int64(used - clients), errors.Join(err1, err2)
}
