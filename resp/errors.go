package resp

import "errors"

// protocolError is the reply to a client before its connection is closed, without the
// leading - and the line end. The texts are Redis's, byte for byte.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// The replies to bytes that are not a command.
const (
	errCount          protocolError = "ERR Protocol error: invalid multibulk length"
	errUntrustedCount protocolError = "ERR Protocol error: unauthenticated multibulk length"
	errBigCount       protocolError = "ERR Protocol error: too big mbulk count string"
	errBulk           protocolError = "ERR Protocol error: invalid bulk length"
	errUntrustedBulk  protocolError = "ERR Protocol error: unauthenticated bulk length"
	errBigBulk        protocolError = "ERR Protocol error: too big bulk count string"
	errBigInline      protocolError = "ERR Protocol error: too big inline request"
	errQuotes         protocolError = "ERR Protocol error: unbalanced quotes in request"
)

func errNoDollar(got byte) protocolError {
	return protocolError("ERR Protocol error: expected '$', got '" + string([]byte{got}) + "'")
}

// The replies to a connection that is refused. The advice at the end of msgProtected is
// not Redis's, which names commands that rlproxy does not have.
const (
	msgMaxClients = "ERR max number of clients reached"
	msgProtected  = "DENIED Redis is running in protected mode because protected mode is enabled and no password" +
		" is set for the default user. In this mode connections are only accepted from the loopback interface." +
		" To accept others, set a password with requirepass, or start rlproxy with --protected-mode no where" +
		" no stranger can reach its port."
)

// The reasons to close a connection without a reply, apart from network errors.
var (
	errHTTP        = errors.New("resp: HTTP request on the Redis port")
	errQueryBuffer = errors.New("resp: command larger than the query buffer limit")
	errOutput      = errors.New("resp: replies larger than the output buffer limit")
	errSlow        = errors.New("resp: client does not read its replies")
	errDrained     = errors.New("resp: server is shutting down")
	errMemory      = errors.New("resp: memory limit of all clients reached")
	errGone        = errors.New("resp: the client went away while its session was suspended")
	errParked      = errors.New("resp: the session has left its goroutine") // no reason: it goes on
)
