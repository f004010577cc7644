package forward

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// errCrossSlot is the error of a command that has keys on several nodes and cannot be fanned out.
var errCrossSlot = errors.New("CROSSSLOT Keys in request don't hash to the same slot: " + useHashTag)

// useHashTag says how keys get to one node.
const useHashTag = "give them the same hash tag, as in {user1}:a and {user1}:b"

// route says on which nodes the keys of a command are.
type route struct {
	keys      int    // the number of keys
	node      int    // the node of the first key, as an index in the topology
	slot      uint16 // the slot of the first key; 0 without a cluster
	scattered bool   // the keys are on several nodes or in several slots
	reserved  []byte // the first key of rate limits that the command may write to; nil: none
}

func (r *route) add(v *lanes, key []byte, writes bool) {
	node, slot := v.LocateStored(key)
	if r.keys++; r.keys == 1 {
		r.node, r.slot = node, slot
	} else if node != r.node || slot != r.slot {
		r.scattered = true
	}
	if writes && reserved(key) {
		r.reserve(key)
	}
}

// reserve notes that the command may write to a key of rate limits, unless that is nil or another was noted.
func (r *route) reserve(key []byte) {
	if r.reserved == nil {
		r.reserved = key
	}
}

// addPatterns adds the keys that the patterns of a SORT stand for. It takes them for scattered if they do not have the
// same hash tag.
func (r *route) addPatterns(v *lanes, args [][]byte) {
	for i := 2; i+1 < len(args); i++ {
		switch strings.ToUpper(string(args[i][:min(len(args[i]), len("STORE")+1)])) {
		case "LIMIT":
			i += 2
		case "STORE":
			i++
		case "BY", "GET":
			i++
			before, _, isPattern := bytes.Cut(args[i], []byte("*"))
			_, tag, _ := bytes.Cut(before, []byte("{"))
			if isPattern && bytes.IndexByte(tag, '}') > 0 {
				r.add(v, args[i], false)
			} else if isPattern {
				r.scattered = true
			}
		}
	}
}

// refuses reports whether a command is not forwarded in any form.
func (f *Forwarder) refuses(row *commandRow) bool {
	return row.refusal != "" && (!row.admin || !f.live.Load().Admin)
}

// route returns the row of a command of p, nil if the nodes do not know it, and the route of its keys. If it returns an
// error, the error is the command's reply.
func (f *Forwarder) route(p *Pipeline, v *lanes, args [][]byte) (row *commandRow, r route, err error) {
	if row, err = f.find(p, args); err != nil {
		return nil, r, err
	}
	switch {
	case f.refuses(row):
		return row, r, errors.New(row.refusal)
	case !row.fits(len(args)):
		r.node = anyNode(v, p)
		return row, r, nil // any node replies with the error
	case row.form != nil:
		err = row.form(row, args)
	}
	if err != nil {
		return row, r, err
	}
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, ambiguous := s.Range(args)
		if ambiguous && s.Writes {
			r.reserve(reservedWord(args))
		}
		for k := first; ok && k <= last; k += s.Step {
			r.add(v, args[k], s.Writes)
		}
	}
	if row.askKeys {
		if err = f.askKeys(p, v, &r, args); err != nil {
			return row, r, err
		}
	}
	if row.is(readsPatterns) && len(v.Nodes) > 1 {
		r.addPatterns(v, args)
	}
	switch {
	case r.reserved != nil:
		return row, r, errReserved(r.reserved)
	case r.scattered && row.mergeKeys == mergeNone:
		return row, r, errCrossSlot
	case r.scattered && (len(args)-1)%row.specs[0].Step != 0:
		r.scattered = false // a key lacks its value: any node replies with the error
	case r.keys == 0 && row.wholeNode(args) && row.mergeNodes == mergeNone && !row.is(sameOnNodes) && len(v.Nodes) > 1:
		return row, r, errors.New("ERR '" + row.name +
			"' without keys is not forwarded: there are several nodes, and only a key would select one")
	}
	if r.keys == 0 {
		r.node = anyNode(v, p)
	}
	return row, r, nil
}

// askKeys asks a node for the keys of a command and whether it writes to them, and puts these keys in place of those in
// r.
func (f *Forwarder) askKeys(p *Pipeline, v *lanes, r *route, args [][]byte) error {
	query := append(make([]any, 0, len(args)+2), "command", "getkeysandflags")
	for _, a := range args {
		query = append(query, a)
	}
	reply, err := f.ask(p, query...)
	if err != nil {
		return err
	}
	if reply.err != nil { // the command is wrong: any node replies with the error
		r.reserve(reservedWord(args))
		return nil
	}
	*r = route{}
	for _, of := range reply.array {
		key, _ := of.([]any)
		if len(key) != 2 {
			continue
		}
		name, _ := key[0].(string)
		flags := setOf(key[1])
		r.add(v, []byte(name), flags["RW"] || flags["OW"] || flags["RM"])
	}
	return nil
}

// anyNode returns the index of a node for a command without keys: the first one that p need not give up on.
func anyNode(v *lanes, p *Pipeline) int {
	return max(0, slices.IndexFunc(v.Nodes, func(n *backend.Node) bool { return p.unable(n) == "" }))
}

// ReadsLimits reports whether a command of p may read the state of rate limits: it names one of their keys, or no key,
// so that it may read anything. Such a command must wait for the decisions before it, and the decisions after it must
// wait for the command.
func (f *Forwarder) ReadsLimits(p *Pipeline, args [][]byte) bool {
	row, err := f.find(p, args)
	if err != nil {
		return false
	}
	keys := 0
	for i := range row.specs {
		s := &row.specs[i]
		first, last, ok, _ := s.Range(args)
		for k := first; ok && k <= last; k += s.Step {
			if keys++; reserved(args[k]) {
				return true
			}
		}
	}
	return keys == 0
}

func unavailable(n *backend.Node, why string) error {
	return &engine.Unavailable{Node: n.Name(), Why: why}
}
