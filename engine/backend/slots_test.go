package backend

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

func TestFullAddressFillsInAMissingHost(t *testing.T) {
	for _, row := range [][3]string{
		{"h:1", "a:2", "h:1"}, {":1", "a:2", "a:1"}, {"?:1", "a:2", "a:1"}, {"nonsense", "a:2", "nonsense"}, {":1", "nonsense", ":1"},
		{":1", "[::1]:2", "[::1]:1"}, {"::1:7000", "a:2", "[::1]:7000"}, {"[::1]:7000", "a:2", "[::1]:7000"},
		{"2001:db8::7000:7000", "a:2", "[2001:db8::7000]:7000"}, {"", "a:2", ""}, {":", "a:2", "a:"},
	} {
		require.Equal(t, row[2], fullAddress(row[0], row[1]), row)
	}
}

// described describes a node as a reply to CLUSTER SLOTS does.
func described(host, port any, more ...any) []any { return append([]any{host, port, "id"}, more...) }

func TestTheMasterOfARangeIsItsFirstNode(t *testing.T) {
	for want, node := range map[string]any{
		"h:1":        described("h", int64(1)),
		"h:2":        described("h", int64(2), []any{}),
		"h:3":        described("h", int64(3), []any{"ip", "10.0.0.1"}, "a field of a later version"),
		"[::1]:4":    described("::1", int64(4), []any{}),
		"a:5":        described(nil, int64(5), []any{"ip", "10.0.0.1"}),
		"a:6":        described("", int64(6), []any{"ip", "10.0.0.1"}),
		"10.0.0.1:7": described("?", int64(7), []any{"ip", "10.0.0.1"}),
		"10.0.0.1:8": described("?", int64(8), []any{"shard", "x", "ip", "10.0.0.1"}),
		"[::1]:9":    described("?", int64(9), []any{"availability-zone", "x", "ip", "::1"}),
		"a:10":       described("?", int64(10)),
		"a:11":       described("?", int64(11), []any{"ip"}),
		"a:12":       described("?", int64(12), []any{"ip", nil}),
		"a:13":       []any{"?", int64(13)},
	} {
		ranges, err := parseSlots([]any{[]any{int64(3), int64(9), node, described("replica", int64(99))}}, "a:2")
		require.NoError(t, err)
		require.Equal(t, []slotRange{{3, 9, want}}, ranges)
	}
	for _, none := range []any{nil, "h", []any{}, []any{"h"}, described("h", "1"), described("h", int64(0)), described("h", int64(65536)), described("h", nil)} {
		ranges, err := parseSlots([]any{[]any{int64(3), int64(9), none}}, "a:2")
		require.NoError(t, err)
		require.Equal(t, []slotRange{{3, 9, ""}}, ranges, "%v", none)
	}
}

func TestMalformedRangesOfSlotsAreAnError(t *testing.T) {
	for _, wrong := range []any{nil, "text", int64(1), []any{}, []any{int64(1)}, []any{"0", "1"}, []any{int64(1), nil}, map[any]any{}} {
		_, err := parseSlots([]any{[]any{int64(3), int64(9)}, wrong}, "a:2")
		require.ErrorIs(t, err, ErrMalformed, "%v", wrong)
	}
	ranges, err := parseSlots(nil, "a:2")
	require.NoError(t, err)
	require.Empty(t, ranges)
}

// Whatever names nodes have for each other, a proxy finds them, and knows those that a redirect names.
func TestFleetFindsTheNodesOfAClusterByAnyNames(t *testing.T) {
	named := redistest.Arguments
	for name, row := range map[string]struct {
		options []redistest.Option
		host    string // of the nodes
		moved   string // the host in a redirect
	}{
		"an address":         {nil, "127.0.0.1", "127.0.0.1"},
		"no endpoint":        {[]redistest.Option{named("--cluster-preferred-endpoint-type", "unknown-endpoint")}, "127.0.0.1", ""},
		"no hostname":        {[]redistest.Option{named("--cluster-preferred-endpoint-type", "hostname")}, "127.0.0.1", "?"},
		"a hostname":         {[]redistest.Option{named("--cluster-preferred-endpoint-type", "hostname", "--cluster-announce-hostname", "localhost")}, "localhost", "localhost"},
		"an address of IPv6": {[]redistest.Option{named("--bind", "127.0.0.1", "::1", "--cluster-announce-ip", "::1")}, "[::1]", "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, 3, nil, row.options...)
			f := openTest(t, Config{Backends: []string{c.URL()}, Timeout: 5 * time.Second})
			require.Eventually(t, func() bool { return len(f.Topology().Nodes) == 3 }, 20*time.Second, time.Millisecond)
			top := f.Topology()
			for i, n := range c.Nodes {
				port := n.Addr[len("127.0.0.1"):]
				require.Equal(t, row.host+port, top.Nodes[i].Name())
				require.NoError(t, top.Nodes[i].Client().Ping(t.Context()).Err())
				require.Eventually(t, func() bool { // the other node may have heard of its own slots only
					_, err := c.Nodes[(i+1)%3].Ask("GET", []string{"b", "c", "a"}[i])
					return err != nil && strings.Contains(err.Error(), " "+row.moved+port)
				}, 20*time.Second, time.Millisecond)
				require.Same(t, top.Nodes[i], redirected(f, top.Nodes[(i+1)%3], row.moved+port))
			}
		})
	}
}
