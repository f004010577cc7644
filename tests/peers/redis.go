package peers

import (
	"context"
	"syscall"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// Redis is a redis-server of its own, which keeps nothing on disk.
type Redis struct {
	Addr string // host:port
	p    *process
}

// StartRedis runs a redis-server on a free port. The context ends it, and so does Stop.
func StartRedis(ctx context.Context) (*Redis, error) {
	command := func(port, _ string) (argv, environment []string) {
		return []string{"redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"}, nil
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
