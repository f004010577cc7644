package tests

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roamer is a client that sends each request to one of several proxies. When a connection breaks, it opens a new one
// for the next request. It must be used by one goroutine at a time.
type roamer struct {
	rng   *rand.Rand
	addrs func() []string // of the proxies that there are now
	conns map[string]*conn
}

func newRoamer(seed uint64, addrs func() []string) *roamer {
	return &roamer{rng: rand.New(rand.NewPCG(seed, 7)), addrs: addrs, conns: make(map[string]*conn)}
}

// errNotSent is the error of exchange if the proxy cannot be reached, so that nothing was sent.
var errNotSent = errors.New("no connection to the proxy")

// exchange sends commands to any of the proxies. If it returns an error, it also returns the replies that arrived
// before it.
func (r *roamer) exchange(commands ...[]any) ([]any, error) {
	all := r.addrs()
	addr := all[r.rng.IntN(len(all))]
	c := r.conns[addr]
	if c == nil {
		var err error
		if c, err = connect(addr); err != nil {
			time.Sleep(time.Millisecond) // another proxy takes its place soon
			return nil, errNotSent
		}
		r.conns[addr] = c
	}
	replies, err := c.Exchange(commands...)
	if err != nil {
		_ = c.Close()
		delete(r.conns, addr)
	}
	return replies, err
}

func (r *roamer) close() {
	for _, c := range r.conns {
		_ = c.Close()
	}
}

// addrs returns the addresses of the current proxies.
func (f *fleet) addrs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]string, len(f.proxies))
	for i, p := range f.proxies {
		all[i] = p.addr
	}
	return all
}

// inspected is one state as RL.INSPECT shows it.
type inspected map[string]any

func (s inspected) integer(t *testing.T, field string) int64 {
	t.Helper()
	n, ok := s[field].(int64)
	require.True(t, ok, "%s of %v", field, s)
	return n
}

// toStates reads the reply of RL.INSPECT.
func toStates(t *testing.T, reply any) (states []inspected) {
	t.Helper()
	all, ok := reply.([]any)
	require.True(t, ok, "%v", reply)
	for _, one := range all {
		fields, s := one.([]any), inspected{}
		for i := 0; i+1 < len(fields); i += 2 {
			s[fields[i].(string)] = fields[i+1]
		}
		states = append(states, s)
	}
	return states
}

// usage returns the units of a key that RL.INSPECT shows as charged and as held, over all its states.
func (c *conn) usage(t *testing.T, key string) (used, held int64) {
	t.Helper()
	for _, s := range toStates(t, c.do(t, "RL.INSPECT", key)) {
		used, held = used+s.integer(t, "used"), held+s.integer(t, "held")
	}
	return used, held
}
