package main

import (
	"context"
	"testing"

	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

func TestANodeThatStandsStillGoesOn(t *testing.T) {
	l := &lab{ctx: t.Context(), folder: t.TempDir(), shas: map[string]string{}}
	defer l.close()
	node, err := l.redis(nil)
	require.NoError(t, err)
	side := load{target: target{fronts: []*server{node}, nodes: []*server{node}}, command: []string{"INCR", manyKeys}, keys: 10, clients: 4, depth: 1,
		send: paced, rate: 1000, stopped: node}
	var s sample
	require.NoError(t, side.drive(context.Background(), 400, &s))
	require.Greater(t, s.P99, 150_000.0, "us: the node stands still for 200 ms")
	_, err = traffic.Ask(node.address(), "PING")
	require.NoError(t, err)
}
