package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/rlproxy/rlproxy/tests/testbed"
)

// lab is the servers that are measured.
type lab struct {
	*testbed.Testbed
	ctx context.Context

	node   *testbed.Server // the redis-server of the cases that need one
	proxy  *testbed.Server // rlproxy on that node
	memory *testbed.Server // rlproxy with the embedded engine

	cluster   []*testbed.Server // the masters of a Redis Cluster
	clustered *testbed.Server   // rlproxy on them

	shards []*testbed.Server // the redis-servers over which a key is split
	split  *testbed.Server   // rlproxy on them

	trio   []*testbed.Server // the redis-servers of which one is suspended
	onTrio *testbed.Server   // rlproxy on them, with the default configuration

	away []away // the nodes of the cases with advances, the nearest first

	fleet []*testbed.Server // further rlproxies on node, which are launched when they are first needed
}

// openLab starts the servers of all cases. Only those about advances are about rlproxies that decide hot keys themselves.
func openLab(ctx context.Context, binary string) (l *lab, err error) {
	bed, err := testbed.Open(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			bed.Close()
		}
	}()
	l = &lab{Testbed: bed, ctx: ctx}
	if l.node, err = l.Redis(nil); err != nil {
		return nil, err
	}
	web, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	if l.proxy, err = l.RLProxy("--advance", "no", "--backend", "redis://"+l.node.Address(), "--http-port", strconv.Itoa(web)); err != nil {
		return nil, err
	}
	l.proxy.HTTPPort = web
	if l.memory, err = l.RLProxy("--maxmemory", "8gb"); err != nil {
		return nil, err
	}
	return l, errors.Join(l.openCluster(), l.openSplit(), l.openTrio(), l.openFleet(), l.openAdvances())
}
