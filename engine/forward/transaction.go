package forward

import (
	"errors"

	"github.com/rlproxy/rlproxy/engine/backend"
)

// Transaction is the forwarded commands between MULTI and EXEC. All of them must go to one
// node, since no order holds between nodes.
type Transaction struct {
	node *backend.Node // nil before the first command with a key
}

// errSeveralNodes is the error of a command that would take a transaction to another node.
var errSeveralNodes = errors.New("CROSSSLOT the keys of a transaction must be on one node: " +
	"give them the same hash tag, as in {user1}:a and {user1}:b")

// Join returns the error with which a command of p is refused before it is sent to its
// node, or is refused in the transaction. Otherwise it adds the command to the transaction.
func (f *Forwarder) Join(p *Pipeline, t *Transaction, args [][]byte) error {
	v := f.view()
	row, r, err := f.route(p, v, args)
	switch {
	case err != nil:
		return err
	case r.scattered, row.toAll(v, r):
		return errSeveralNodes
	case r.keys == 0:
		return nil
	case t.node == nil:
		t.node = v.Nodes[r.node]
	case t.node != v.Nodes[r.node]:
		return errSeveralNodes
	}
	return nil
}
