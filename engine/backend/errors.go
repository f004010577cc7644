package backend

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/replyscan"
)

// unable lists the error codes of a node that replies but cannot serve any request: it is loading, or a replica, or
// busy with a script, or refuses the login. The node counts as failed until it answers a probe. All other error replies
// (out of memory, no permission, too few replicas) are about the request.
var unable = []string{"LOADING", "READONLY", "MASTERDOWN", "BUSY", "NOAUTH", "WRONGPASS"}

// demoted lists the error codes of a node that may no longer be the master at its address.
var demoted = []string{"LOADING", "READONLY", "MASTERDOWN"}

// cutOff lists the error codes of a node that may be cut off from its cluster or its replicas.
var cutOff = []string{"CLUSTERDOWN", "NOREPLICAS"}

// ErrMalformed is the error for a reply that cannot be parsed or is inconsistent.
var ErrMalformed = replyscan.ErrMalformed

// hasCode reports whether err is an error reply with one of the codes.
func hasCode(err error, codes []string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return redis.HasErrorPrefix(err, code) })
}

// Demoted reports whether err is the reply of a node that may no longer be the master at its address, such as a
// replica. Its connections should be dropped, so that the next one resolves the address again.
func Demoted(err error) bool { return hasCode(err, demoted) }

// CutOff reports whether err is the reply of a node that may be cut off from its cluster or its replicas.
// One of these may have become the master, while this node and the sentinels on its side do not know.
func CutOff(err error) bool { return hasCode(err, cutOff) }

// refusesWrites lists the error codes of a master that refuses all calls that may write: it cannot save its data, or it
// lacks replicas.
var refusesWrites = []string{"MISCONF", "NOREPLICAS"}

// RefusesWrites reports whether err is the reply of a master that runs only what does not write.
func RefusesWrites(err error) bool { return hasCode(err, refusesWrites) }

// Failed reports whether err is a failure of the node, rather than of the request.
func Failed(err error) bool {
	return err != nil && (!IsReply(err) || hasCode(err, unable))
}

// IsReply reports whether the node itself replied with the error.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// MaybeApplied reports whether a command that failed with err may have been applied. It was
// not applied if the node refused it, or if there was no connection to send it on: either none
// could be opened, or none was free by the deadline. In the latter case go-redis returns
// the context's error. Once it has a connection, it returns the socket's error.
func MaybeApplied(err error) bool {
	if NeverConnected(err) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return !IsReply(err) && !errors.As(err, new(unspoken))
}

// TimedOut reports whether err means that the node did not reply in time.
func TimedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// NeverConnected reports whether err means that no connection could be opened.
func NeverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// NoAnswer is what Reason returns if a node did not reply in time.
const NoAnswer = "no answer in time"

// Reason describes err in a few words, without addresses, for logs and UNAVAILABLE errors.
func Reason(err error) string {
	switch {
	case IsReply(err) || errors.Is(err, ErrPanicked) || errors.Is(err, ErrMalformed):
		return err.Error()
	case TimedOut(err):
		return NoAnswer
	}
	return "connection failed: " + rootCause(err)
}

// rootCause returns the text of the innermost error that err wraps.
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

// Reply is an error reply of a node, without the leading "-", for packages that parse replies themselves.
type Reply string

func (r Reply) Error() string { return string(r) }

// RedisError makes a Reply a redis.Error, for IsReply and Demoted.
func (Reply) RedisError() {}
