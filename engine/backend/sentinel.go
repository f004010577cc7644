package backend

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// master asks the sentinels of b in turn for the address of the master, until one answers.
func (w *watcher) master(ctx context.Context, b *backend) (addr string, err error) {
	var failures []error
	for i := range b.seeds {
		seed := b.seeds[(w.turn+i)%len(b.seeds)]
		if addr, err = w.askSentinel(ctx, b, seed); err == nil {
			w.turn = (w.turn + i) % len(b.seeds)
			return addr, nil
		}
		failures = append(failures, err)
	}
	return "", noAnswer(failures)
}

func (w *watcher) askSentinel(ctx context.Context, b *backend, seed string) (string, error) {
	ctx, cancel := w.within(ctx)
	defer cancel()
	cmd := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", b.master)
	err := w.client(b, seed).Process(ctx, cmd)
	if errors.Is(err, redis.Nil) {
		return "", Reply("there is no master named " + b.master)
	}
	if err != nil {
		return "", err
	}
	if v := cmd.Val(); len(v) == 2 && v[0] != "" && v[1] != "" {
		return net.JoinHostPort(v[0], v[1]), nil
	}
	return "", errNoAnswer
}
