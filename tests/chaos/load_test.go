package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

const clientsPerProxy = 10

// pace returns the time between a client's pipelines. With the race detector everything
// takes some ten times as long, and other tests run at the same time.
func pace() time.Duration {
	if proxytest.Race {
		return 120 * time.Millisecond
	}
	return 40 * time.Millisecond
}

// A pipeline is late if it is answered more than lateness after its deadline. An overloaded
// machine makes some pipelines late, in bad cases by seconds. One in a hundred may be late,
// and none by more than tooLate.
const (
	lateness = time.Second
	tooLate  = 5 * time.Second
)

// load is many clients that send pipelines while faults happen.
type load struct {
	tally *tally
	stop  chan struct{}
	once  sync.Once
	done  sync.WaitGroup
}

// startLoad starts clients of all proxies, which run until finish.
func startLoad(seed uint64, proxies []*member, accounts []*account, tally *tally) *load {
	l := &load{tally: tally, stop: make(chan struct{})}
	for i, m := range proxies {
		for j := range clientsPerProxy {
			id := 1 + i*clientsPerProxy + j
			a := &author{rng: rand.New(rand.NewPCG(seed, uint64(id))), id: id, accounts: accounts}
			l.done.Add(1)
			go l.client(m, a) // ends with finish
		}
	}
	return l
}

// finish ends the clients and waits for them. It may be called twice.
func (l *load) finish() {
	l.once.Do(func() { close(l.stop) })
	l.done.Wait()
}

func (l *load) client(m *member, a *author) {
	defer l.done.Done()
	tick := time.NewTicker(pace())
	defer tick.Stop()
	var c *proxytest.Conn
	var life int64 // the proxy's lives when the client connected
	for {
		select {
		case <-l.stop:
			if c != nil {
				_ = c.Close()
			}
			return
		case <-tick.C:
		}
		if c == nil {
			life = m.lives.Load()
			nc, err := net.Dial("tcp", m.addr)
			if err != nil {
				continue // the proxy is being started again; otherwise healing would fail
			}
			c = proxytest.NewConn(nc)
		}
		if err := l.round(c, a.pipeline()); err != nil {
			if life%2 == 0 && m.lives.Load() == life {
				l.tally.fault("%s: %v, although the proxy was not killed", m.addr, err)
			}
			_ = c.Close()
			c = nil
		}
	}
}

// round sends one pipeline and judges the replies. It returns an error if not all arrived.
func (l *load) round(c *proxytest.Conn, all []request) error {
	commands := make([][]any, len(all))
	timeout := time.Duration(0)
	for i := range all {
		commands[i] = all[i].words
		timeout = max(timeout, all[i].timeout)
	}
	sent := time.Now()
	replies, err := c.Exchange(commands...)
	read := time.Now()
	var counts [wrong + 1]int64
	for i, reply := range replies {
		o := all[i].judge(reply, sent, read)
		counts[o]++
		if o == wrong {
			l.tally.fault("%v was answered %v", all[i].words, reply)
		}
	}
	took := read.Sub(sent)
	l.tally.add(int64(len(all)), counts, took, timeout)
	if err != nil {
		return fmt.Errorf("%d of %d replies: %w", len(replies), len(all), err)
	}
	if took > timeout+tooLate {
		l.tally.fault("%d replies took %v, with a timeout of %v", len(all), took, timeout)
	}
	return nil
}
