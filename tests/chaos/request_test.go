package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

const (
	backendTimeout     = 300 * time.Millisecond
	passthroughTimeout = 600 * time.Millisecond
)

// outcome is how a request was answered.
type outcome int

const (
	answered outcome = iota // the node's reply, or rlproxy's own where no node is needed
	byFail                  // a reply by OPEN, CLOSED or LOCAL
	refused                 // an error that names the unavailable node
	wrong                   // a reply that must not occur
)

// request is one command, with a function that judges its reply.
type request struct {
	words   []any
	timeout time.Duration
	judge   func(reply any, sent, read time.Time) outcome
}

// author generates the requests of one client.
type author struct {
	rng      *rand.Rand
	id       int
	accounts []*account
	made     int64
	values   [20]int64 // the newest value written to each of the client's own keys
}

// pipeline generates the requests of one pipeline. rlproxy itself answers the last one,
// whose reply is wrong if there was a reply too many or too few before.
func (a *author) pipeline() []request {
	var all []request
	for range 1 + a.rng.IntN(7) {
		switch n := a.rng.IntN(10); {
		case n < 5:
			all = append(all, a.limited(a.accounts[a.rng.IntN(len(a.accounts))]))
		case n < 8:
			all = append(all, a.unique())
		default:
			all = append(all, a.stored())
		}
	}
	return append(all, a.echo())
}

// number returns a number that is unique in the run.
func (a *author) number() int64 {
	a.made++
	return int64(a.id)*1_000_000 + a.made
}

// echo returns a request whose reply is its argument.
func (a *author) echo() request {
	word := fmt.Sprint("echo-", a.number())
	return request{words: []any{"PING", word}, judge: func(reply any, _, _ time.Time) outcome {
		if reply != word {
			return wrong
		}
		return answered
	}}
}

// limited returns a request for a key whose limit is checked.
func (a *author) limited(to *account) request {
	cost := 1 + a.rng.Int64N(to.maxCost)
	words := append([]any{to.command, to.key, to.limit, fmt.Sprint(to.window.Milliseconds(), "ms"), "COST", cost, "FAIL", "ERROR"}, to.options...)
	if a.rng.IntN(4) == 0 {
		words = append(words, "ID", a.number())
	}
	return request{words, backendTimeout, func(reply any, sent, read time.Time) outcome {
		if unavailable(reply) {
			return refused
		}
		d, err := proxytest.ToDecision(reply)
		if err != nil || d[1] != to.limit || d[2] < 0 || d[2] > to.limit-cost*d[0] {
			return wrong
		}
		if d[0] == 1 {
			to.admit(sent, read, cost)
		}
		return answered
	}}
}

// unique returns a request with a key and a limit that no other request has. The reply shows
// which request it answers, and that the request was charged once.
func (a *author) unique() request {
	limit := 1_000_000 + a.number()
	policy := []string{"OPEN", "CLOSED", "LOCAL", "ERROR"}[a.rng.IntN(4)]
	command := []string{"RL.SLIDE", "RL.COUNTER"}[a.rng.IntN(2)]
	words := []any{command, fmt.Sprint("unique:", limit), limit, "1s", "FAIL", policy}
	return request{words, backendTimeout, func(reply any, _, _ time.Time) outcome {
		if policy == "ERROR" && unavailable(reply) {
			return refused
		}
		d, err := proxytest.ToDecision(reply)
		switch {
		case err != nil || d[1] != limit:
			return wrong
		case d[2] == limit-1 && d[0] == 1:
			return answered
		case d[2] == -1 && policy != "ERROR" && d[0] == map[string]int64{"OPEN": 1, "CLOSED": 0, "LOCAL": 1}[policy]:
			return byFail
		}
		return wrong
	}}
}

// stored returns a request that writes or reads an ordinary key, which only this client
// uses. A value that is read was written to that key by this client; a failover may have
// lost the newest one.
func (a *author) stored() request {
	n := a.rng.IntN(len(a.values))
	key := fmt.Sprintf("own:%d:%d", a.id, n)
	if a.rng.IntN(2) == 0 {
		a.values[n]++
		return request{[]any{"SET", key, fmt.Sprint(key, "#", a.values[n])}, passthroughTimeout, func(reply any, _, _ time.Time) outcome {
			return either(reply, reply == proxytest.Status("OK"))
		}}
	}
	return request{[]any{"GET", key}, passthroughTimeout, func(reply any, _, _ time.Time) outcome {
		text, isText := reply.(string)
		value, own := strings.CutPrefix(text, key+"#")
		number, err := strconv.ParseInt(value, 10, 64)
		return either(reply, reply == nil || isText && own && err == nil && number <= a.values[n])
	}}
}

// either accepts a correct reply, or an error that says that the node is unavailable. Errors of
// ordinary commands are the node's own.
func either(reply any, right bool) outcome {
	switch {
	case right:
		return answered
	case unavailable(reply):
		return refused
	}
	if text, isError := reply.(proxytest.ErrReply); isError {
		for _, code := range []string{"CLUSTERDOWN ", "MASTERDOWN ", "READONLY ", "LOADING "} {
			if strings.HasPrefix(string(text), code) {
				return refused
			}
		}
	}
	return wrong
}

// unavailable reports whether rlproxy replied that the node is unavailable.
func unavailable(reply any) bool {
	text, isError := reply.(proxytest.ErrReply)
	return isError && strings.HasPrefix(string(text), "UNAVAILABLE ")
}
