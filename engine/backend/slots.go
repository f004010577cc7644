package backend

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// slotRange is a range of slots that one master serves.
type slotRange struct {
	start, end int
	master     string // its address; "" if the reply has none
}

// askSlots asks a cluster node, whose address is asked, which master serves which slots.
func (w *watcher) askSlots(ctx context.Context, client *redis.Client, asked string) ([]slotRange, error) {
	ctx, cancel := w.within(ctx)
	defer cancel()
	// CLUSTER SHARDS does not say which master serves a slot during a failover. go-redis's own command
	// fails if a host is null.
	cmd := redis.NewSliceCmd(ctx, "cluster", "slots")
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return parseSlots(cmd.Val(), asked)
}

// parseSlots parses the reply of the node at the address asked to CLUSTER SLOTS.
func parseSlots(reply []any, asked string) ([]slotRange, error) {
	ranges := make([]slotRange, len(reply))
	for i := range reply {
		// Start, end, and the nodes: the master first.
		fields, ok := reply[i].([]any)
		if !ok || len(fields) < 2 {
			return nil, fmt.Errorf("%w to CLUSTER SLOTS", ErrMalformed)
		}
		start, startOK := fields[0].(int64)
		end, endOK := fields[1].(int64)
		if !startOK || !endOK {
			return nil, fmt.Errorf("%w to CLUSTER SLOTS", ErrMalformed)
		}
		ranges[i] = slotRange{start: int(start), end: int(end)}
		if len(fields) > 2 {
			ranges[i].master = masterAddress(fields[2], asked)
		}
	}
	return ranges, nil
}

// masterAddress returns the address of a node in a reply to CLUSTER SLOTS: its host, port and ID, and
// since Redis 7 further names of its host. It returns "" if there is none.
func masterAddress(node any, asked string) string {
	fields, _ := node.([]any)
	if len(fields) < 2 {
		return ""
	}
	host, _ := fields[0].(string) // null with cluster-preferred-endpoint-type unknown-endpoint
	port, _ := fields[1].(int64)
	if port < 1 || port > 65535 {
		return ""
	}
	if host == noHostname && len(fields) > 3 {
		host = ipOf(fields[3])
	}
	return fullAddress(net.JoinHostPort(host, strconv.FormatInt(port, 10)), asked)
}

// noHostname is the host of a node that has no hostname, with cluster-preferred-endpoint-type hostname.
const noHostname = "?"

// ipOf returns the IP address among the other names of a node, each followed by a host, or "".
func ipOf(names any) string {
	list, _ := names.([]any)
	for pair := range slices.Chunk(list, 2) {
		if len(pair) == 2 && pair[0] == "ip" {
			host, _ := pair[1].(string)
			return host
		}
	}
	return ""
}

// fullAddress returns addr in the form of net.JoinHostPort. In MOVED and ASK, an IPv6 address has no brackets. If addr
// has no host, fullAddress inserts the host of asked, the node that named addr: this is what Redis means by a missing
// host.
func fullAddress(addr, asked string) string {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return addr
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	if host == "" || host == noHostname {
		var err error
		if host, _, err = net.SplitHostPort(asked); err != nil {
			return addr
		}
	}
	return net.JoinHostPort(host, port)
}
