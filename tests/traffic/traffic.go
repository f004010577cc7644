// Package traffic asks servers that speak RESP2 as applications do, and measures: what
// redis-benchmark cannot do. Its clients ask about skewed keys, with several commands, over several
// servers; one waits for each answer without an event loop; an open loop asks at a fixed rate.
package traffic

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Plan is who asks what.
type Plan struct {
	Servers  []string   // host:port, over which connections are spread in turn
	Commands [][]string // asked in turn, with Variable where a key's number stands
	Keys     int        // how many keys Variable makes
	Skew     Zipf       // which keys are asked about how often; nil: all of them equally
	Clients  int        // connections
	Depth    int        // commands that Ask sends together on a connection

	// Near makes Pace measure only the requests that are sent so shortly before or after the first that is denied.
	// 0: it measures all.
	Near time.Duration
}

// Figures is what was measured.
type Figures struct {
	Rate                float64 // answers per second
	P50, P99, P999, Max float64 // latency, us; Ask does not measure it
	Late                float64 // p99 of the time by which Pace sent too late, us
	Failed              float64 // percent of the answers that a FAIL policy gave, as Pace counts them
}

// times fills in the latencies.
func (f *Figures) times(took []time.Duration) {
	slices.Sort(took)
	f.P50, f.P99, f.P999, f.Max = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999), quantile(took, 1)
}

// quantile returns what the share q of sorted durations do not exceed, in us.
func quantile(sorted []time.Duration, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(sorted)))) // of the one that is the last of the share, from 1
	return float64(sorted[max(rank, 1)-1].Nanoseconds()) / 1e3
}

// dial opens the plan's connections.
func (p *Plan) dial() ([]*Conn, error) {
	conns := make([]*Conn, 0, p.Clients)
	for i := range p.Clients {
		c, err := Dial(p.Servers[i%len(p.Servers)])
		if err == nil {
			err = c.SetDeadline(time.Now().Add(2 * time.Minute))
			conns = append(conns, c)
		}
		if err != nil {
			hangUp(conns)
			return nil, err
		}
	}
	return conns, nil
}

// stream makes the requests of a plan, one after the other.
type stream struct {
	commands []template
	key      func() int
	made     int
}

func (p *Plan) stream(seed uint64) *stream {
	s := new(stream)
	for _, words := range p.Commands {
		s.commands = append(s.commands, newTemplate(words))
	}
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- a load's choices
	s.key = func() int { return random.IntN(p.Keys) }
	if p.Skew != nil {
		s.key = func() int { return p.Skew.rank(random.Float64()) }
	}
	return s
}

// next appends the next request.
func (s *stream) next(dst []byte) []byte {
	command := s.commands[s.made%len(s.commands)]
	s.made++
	return command.append(dst, s.key())
}
