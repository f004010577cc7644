package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlproxy/rlproxy/engine/backend"
)

// storedKey is the stored key of the record. No client's key has this stored key: there, %p is
// followed by digits.
const storedKey = "rl:{%policies}"

//go:embed replace.lua
var script string

const (
	// storeFor is the time to live of the record. It is renewed while proxies run.
	storeFor = 366 * 24 * time.Hour
	// patience is the timeout of a round trip with the whole record. It is longer than the
	// fleet's timeout, which is for decisions.
	patience = 2 * time.Second
)

// node is a place: a node.
type node struct{ *backend.Node }

// homeOf returns the node to which the record belongs.
func homeOf(top *backend.Topology) node {
	i, _ := top.LocateStored([]byte(storedKey))
	return node{top.Nodes[i]}
}

// client returns the node's client, or an error if the node is down.
func (n node) client() (*redis.Client, error) {
	if n.Client() == nil || n.Down() {
		return nil, unreachable(n.Reason())
	}
	return n.Client(), nil
}

// unreachable is the error of a node that was not asked because it is down.
type unreachable string

func (u unreachable) Error() string { return string(u) }

func (n node) name() string { return n.Name() }

func (n node) line(ctx context.Context) (string, error) {
	c, err := n.client()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout())
	defer cancel()
	b, err := c.GetRange(ctx, storedKey, 0, maxLine-1).Bytes()
	return firstLine(b), readError(err)
}

func (n node) load(ctx context.Context) ([]byte, error) {
	c, err := n.client()
	if err != nil {
		return nil, err
	}
	b, err := c.WithTimeout(patience).GetRange(ctx, storedKey, 0, maxRecord).Bytes()
	return b, readError(err)
}

// readError converts an error of reading the record.
func readError(err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return damaged("it is not a string")
	}
	return err
}

func (n node) replace(ctx context.Context, was string, whole []byte) (bool, error) {
	c, err := n.client()
	if err != nil {
		return false, err
	}
	cmd := redis.NewIntCmd(ctx, "eval", script, 1, storedKey, was, whole, storeFor.Milliseconds())
	if err = c.WithTimeout(patience).Process(ctx, cmd); err != nil && backend.MaybeApplied(err) {
		err = maybeApplied{err}
	}
	return cmd.Val() == 1, err
}

// renew renews the time to live of the record if it still begins with this line.
func (n node) renew(ctx context.Context, line string) error {
	_, err := n.replace(ctx, line, nil)
	return err
}
