package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
)

// storedKey is the stored key of the record. No client's key has this stored key: there, %p is followed by digits.
const storedKey = "rl:{%policies}"

const (
	// storeFor is the time to live of the record. It is renewed while proxies run.
	storeFor = 366 * 24 * time.Hour
	// patience is the timeout of a round trip with the whole record. It is longer than the fleet's timeout, which is
	// for decisions.
	patience = 2 * time.Second
)

// node is a storage: a node.
type node struct{ registry.Registry }

func nodePlace(n *backend.Node) node {
	return node{registry.Registry{Node: n, Key: storedKey, Bytes: maxRecord, Limit: patience}}
}

// homeOf returns the node to which the record belongs.
func homeOf(top *backend.Topology) node {
	i, _ := top.LocateStored([]byte(storedKey))
	return nodePlace(top.Nodes[i])
}

func (n node) name() string { return n.Node.Name() }

func (n node) line(ctx context.Context) (string, error) {
	n.Limit = n.Node.Timeout()
	b, err := n.Read(ctx, maxLine)
	return firstLine(b), readError(err)
}

func (n node) load(ctx context.Context) ([]byte, error) {
	b, err := n.Read(ctx, n.Bytes+1)
	return b, readError(err)
}

func readError(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return damaged("it is not a string")
	}
	return err
}

func (n node) replace(ctx context.Context, was string, whole []byte) (bool, error) {
	done, err := n.Replace(ctx, was, whole, storeFor)
	if err != nil && !errors.As(err, new(registry.Unreachable)) && backend.MaybeApplied(err) {
		err = maybeApplied{err}
	}
	return done, err
}

// renew renews the time to live of the record if it still begins with this line.
func (n node) renew(ctx context.Context, line string) error {
	_, err := n.replace(ctx, line, nil)
	return err
}
