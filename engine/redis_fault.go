package engine

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// unfit are the errors of a node that answers, but cannot decide for anybody: it is
// loading, or a replica, or at work on somebody's script, or does not let us in. It
// counts as failed, and is asked again when a probe is not refused. What else a node
// answers (out of memory, no permission, no replicas) is about the request.
var unfit = []string{"LOADING", "READONLY", "MASTERDOWN", "BUSY", "NOAUTH", "WRONGPASS"}

// strayed are those of a node that is no longer what its name stands for: its
// connections are dropped, so that the next one asks the name again.
var strayed = []string{"LOADING", "READONLY", "MASTERDOWN"}

// hasCode tells whether err is a reply that begins with one of the codes.
func hasCode(err error, codes []string) bool {
	for _, code := range codes {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// failed tells whether err means that the node is not well.
func failed(err error) bool {
	return err != nil && (!isReply(err) || hasCode(err, unfit))
}

// isReply tells whether the node itself answered with the error.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// mayHaveRun tells whether a command that failed so may have run all the same. It has
// not if there was no connection to send it on: none could be opened, or not by the
// deadline, which go-redis tells as the context's; past that a deadline is a socket's.
func mayHaveRun(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return !isReply(err) && !errors.As(err, new(unspoken))
}

// why says in a few words what went wrong, without addresses.
func why(err error) string {
	switch {
	case isReply(err):
		return err.Error()
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return "no answer in time"
	}
	return "connection failed: " + rootCause(err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func rootCause(err error) string {
	if u := (unspoken{}); errors.As(err, &u) {
		err = u.error
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

func noScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }
