package forward

import (
	"errors"

	"github.com/rlproxy/rlproxy/engine/backend"
)

// Transaction is the forwarded commands between MULTI and EXEC. All of them must go to one node, since no order holds
// between nodes.
type Transaction struct {
	node *backend.Node // nil before the first command with a key
}

// errSeveralNodes is the error of a command that would take a transaction to another node.
var errSeveralNodes = errors.New("CROSSSLOT the keys of a transaction must be on one node: " + useHashTag)

// Join adds a command of p to the transaction. It returns an error, and does not add the command, if the command would
// not be sent to a node, has a wrong number of arguments, or would go to another node than the others.
func (f *Forwarder) Join(p *Pipeline, t *Transaction, args [][]byte) error {
	v := f.lanes()
	row, r, err := f.route(p, v, args)
	switch {
	case err != nil:
		return err
	case row.noMulti:
		return errors.New("ERR Command not allowed inside a transaction")
	case !row.fits(len(args)): // as in Redis, the transaction is discarded
		return row.arityError()
	case row.toAll(v, r):
		return errors.New("ERR '" + row.name +
			"' is not forwarded in a transaction: it goes to all nodes, and a transaction to one")
	case r.scattered:
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
