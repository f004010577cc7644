package peers

import (
	"cmp"
	"context"
	"syscall"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// Redis is a server of its own, Redis or Valkey, which keeps nothing on disk.
type Redis struct {
	Addr string // host:port
	p    *process
}

// StartRedis runs the server on which a peer keeps its state, on a free port. The context ends it,
// and so does Stop.
func StartRedis(ctx context.Context, peer string) (*Redis, error) {
	k, err := find(peer)
	if err != nil {
		return nil, err
	}
	program := cmp.Or(k.store, "redis-server")
	command := func(port, _ string) (argv, environment []string) {
		return []string{program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"}, nil
	}
	p, address, err := startServer(ctx, command, "")
	if err != nil {
		if p != nil {
			p.stop()
		}
		return nil, err
	}
	return &Redis{address, p}, nil
}

// Flush forgets everything.
func (r *Redis) Flush() error {
	_, err := traffic.Ask(r.Addr, "FLUSHALL", "SYNC")
	return err
}

// Hang suspends the process: connections stay open, and nothing is answered.
func (r *Redis) Hang() error { return r.p.cmd.Process.Signal(syscall.SIGSTOP) }

// Kill ends the process at once, as a crash does: connections are refused.
func (r *Redis) Kill() error {
	err := r.p.cmd.Process.Kill()
	<-r.p.ended
	return err
}

// Stop ends the process.
func (r *Redis) Stop() {
	_ = r.p.cmd.Process.Signal(syscall.SIGCONT) // it may hang, or have ended
	r.p.stop()
}
