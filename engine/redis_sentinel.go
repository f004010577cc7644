package engine

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// master asks the sentinels of b, one after the other, where the master is.
func (f *finder) master(ctx context.Context, b *backend) (string, error) {
	for i := range b.seeds {
		seed := b.seeds[(f.turn+i)%len(b.seeds)]
		addr, err := f.askSentinel(ctx, b, seed)
		if err == nil {
			f.turn = (f.turn + i) % len(b.seeds)
			return addr, nil
		}
	}
	return "", errNobodyKnows
}

func (f *finder) askSentinel(ctx context.Context, b *backend, seed string) (string, error) {
	ctx, cancel := f.within(ctx)
	defer cancel()
	cmd := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", b.master)
	if err := f.client(b, seed).Process(ctx, cmd); err != nil {
		return "", err
	}
	if len(cmd.Val()) != 2 {
		return "", errNobodyKnows
	}
	return net.JoinHostPort(cmd.Val()[0], cmd.Val()[1]), nil
}
