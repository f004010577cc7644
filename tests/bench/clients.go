package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// ask has clients do what redis-benchmark's do: each sends a pipeline and waits for its
// answers. They ask about skewed keys, with several commands and over several fronts,
// which redis-benchmark does not.
func (l load) ask(ctx context.Context, n int, s *sample) error {
	conns, err := l.dial(l.clients)
	if err != nil {
		return err
	}
	defer hangUp(conns)
	began := time.Now()
	err = each(len(conns), func(i int) error {
		asks := l.stream(uint64(i))
		var out []byte
		for left := n*(i+1)/len(conns) - n*i/len(conns); left > 0 && ctx.Err() == nil; left -= l.depth {
			out = out[:0]
			depth := min(l.depth, left)
			for range depth {
				out = asks.next(out)
			}
			if _, err := conns[i].Write(out); err != nil {
				return err
			}
			for range depth {
				if _, err := skipReply(conns[i].r); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
	s.rate = float64(n) / time.Since(began).Seconds()
	return err
}

// stream makes the requests of a load, one after the other.
type stream struct {
	commands []template
	key      func() int
	made     int
}

func (l load) stream(seed uint64) *stream {
	s := new(stream)
	for _, words := range append([][]string{l.command}, l.also...) {
		s.commands = append(s.commands, newTemplate(words))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	s.key = func() int { return random.IntN(l.keys) }
	if l.skew != nil {
		s.key = func() int { return l.skew.rank(random.Float64()) }
	}
	return s
}

// next appends the next request.
func (s *stream) next(dst []byte) []byte {
	command := s.commands[s.made%len(s.commands)]
	s.made++
	return command.append(dst, s.key())
}
