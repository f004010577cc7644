package backend

import "errors"

// ErrorKind is a kind of error of a call, for metrics.
type ErrorKind uint8

// The kinds.
const (
	KindTimeout    ErrorKind = iota // no reply in time
	KindConnection                  // there was no connection, or it was lost
	KindMalformed                   // the reply is malformed
	KindLoading                     // the node is loading its data
	KindReplica                     // the node is a replica
	KindBusy                        // the node is busy with a script
	KindPermission                  // the node refuses the login, or the user may not make the call
	KindMemory                      // the node has no memory left
	KindKey                         // the error is about one key of the call; KindOf never returns it
	KindOther                       // any other error reply
)

// Kinds is the number of kinds.
const Kinds = int(KindOther) + 1

// String returns the kind's name in metrics.
func (k ErrorKind) String() string {
	return [Kinds]string{"timeout", "connection", "malformed", "loading", "replica", "busy", "permission", "memory",
		"key", "other"}[k]
}

// How a node begins the error of a function that lacks a right: Redis 7.0, and later versions.
const (
	noRight    = "The user executing the script can't "
	aclFailure = "ACL failure in script: "
)

// KindOf returns the kind of err, the error of a call.
func KindOf(err error) ErrorKind {
	switch {
	case !IsReply(err) && errors.Is(err, ErrMalformed):
		return KindMalformed
	case !IsReply(err) && TimedOut(err):
		return KindTimeout
	case !IsReply(err):
		return KindConnection
	case hasCode(err, []string{"LOADING"}):
		return KindLoading
	case hasCode(err, []string{"READONLY", "MASTERDOWN"}):
		return KindReplica
	case hasCode(err, []string{"BUSY"}):
		return KindBusy
	case hasCode(err, []string{"NOAUTH", "WRONGPASS", "NOPERM", noRight, aclFailure}):
		return KindPermission
	case hasCode(err, []string{"OOM"}):
		return KindMemory
	}
	return KindOther
}
