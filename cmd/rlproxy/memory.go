package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
)

// Memory that the process needs in addition to maxmemory and maxmemory-clients, in bytes.
const (
	ownMemory   = 32 << 20 // stacks, buffers of connections to nodes, state of split keys
	plainMemory = 10 << 10 // a connection that is silent, or whose commands are short
	tlsMemory   = 30 << 10 // the same with TLS
	leastMemory = 16 << 20 // the least that maxmemory and maxmemory-clients are by default
)

// space is the memory that the process may use.
type space struct {
	limit  int64 // of the container, in bytes; 0: none
	shared int64 // what maxmemory and maxmemory-clients are derived from, in bytes
}

// available returns the memory that the process may use. It is determined once, so that
// a reload does not change what only a restart can apply.
var available = sync.OnceValue(func() space {
	return newSpace(bytesOf(memlimit.FromCgroup), bytesOf(memlimit.FromSystem), debug.SetMemoryLimit(-1))
})

// bytesOf returns what a provider reports, in bytes. Without a limit, or if it cannot be read, it returns 0.
func bytesOf(provider memlimit.Provider) int64 {
	limit, err := provider()
	if err != nil {
		return 0
	}
	return int64(min(limit, math.MaxInt64))
}

// newSpace divides memory: it takes all of a container's, and of a machine's
// a quarter, at most 4 GiB. A GOMEMLIMIT in the environment that is less than that replaces
// it; without one, goLimit is math.MaxInt64.
func newSpace(container, physical, goLimit int64) space {
	s := space{limit: container, shared: container}
	if container == 0 || physical > 0 && container >= physical {
		s.limit, s.shared = 0, 4<<30
		if physical > 0 {
			s.shared = min(physical/4, s.shared)
		}
	}
	s.shared = min(s.shared, goLimit)
	return s
}

// share returns the default of maxmemory and of maxmemory-clients.
func (s space) share() int64 { return max(s.shared/4, leastMemory) }

// goLimit returns the memory limit of Go's runtime: what the configuration allows, at
// most nine tenths of the container.
func (s space) goLimit(c *config.Config) int64 {
	client := float64(plainMemory)
	if c.TLSPort != 0 {
		client = tlsMemory
	}
	want := float64(c.MaxMemory) + float64(c.ClientMemory) + float64(c.MaxClients)*client + ownMemory
	if s.limit > 0 {
		want = min(want, float64(s.limit)/10*9)
	}
	if want >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(want)
}

// limitMemory sets the memory limit of Go's runtime, unless GOMEMLIMIT has. The collector
// then works more often instead of exceeding it.
func limitMemory(c *config.Config, s space, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(s.goLimit(c))
	}
	if s.limit > 0 && c.MaxMemory+c.ClientMemory > s.limit/10*9 {
		log.Warn("maxmemory plus maxmemory-clients exceeds 90% of the container's memory limit; the process may be "+
			"OOM-killed",
			"maxmemory", c.MaxMemory, "maxmemory-clients", c.ClientMemory, "container", s.limit)
	}
}

// returnMemory returns memory to the system soon after a load that needed it, until ctx
// is cancelled. In an idle process Go's collector runs only every two minutes.
func returnMemory(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var r returner
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			if r.due(memoryUse()) {
				debug.FreeOSMemory()
				r.kept, _ = memoryUse()
			}
		}
	}
}

// returner decides when to return memory to the system.
type returner struct {
	kept      uint64 // bytes of memory after the last return, or less since
	allocated uint64 // bytes allocated up to the last second
}

// due reports whether memory is to be returned: the process has grown by a quarter and
// some MB since the last return, and hardly allocates any more.
func (r *returner) due(resident, allocated uint64) bool {
	const little = 8 << 20
	fresh := allocated - r.allocated
	r.allocated = allocated
	r.kept = min(r.kept, resident)
	return fresh < max(resident/32, 1<<20) && resident > r.kept+r.kept/4+little
}

// memoryUse returns how many bytes of memory Go's runtime has from the system, and how many
// bytes were allocated since the start. It does not stop the world.
func memoryUse() (resident, allocated uint64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64(), samples[2].Value.Uint64()
}
