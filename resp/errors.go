package resp

import "errors"

// protocolError is what a client is told before its connection is closed: the
// whole error reply without - and line end, byte for byte as Redis words it.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// What Redis answers to bytes that are no command.
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

// What Redis answers to a connection that it does not take. The advice of the
// second is ours: Redis's own names commands that rlproxy does not have.
const (
	msgMaxClients = "ERR max number of clients reached"
	msgProtected  = "DENIED Redis is running in protected mode because protected mode is enabled and no password" +
		" is set for the default user. In this mode connections are only accepted from the loopback interface." +
		" To accept others, set a password with requirepass, or start rlproxy with --protected-mode no where" +
		" no stranger can reach its port."
)

// Why the server closes a connection without a word, beside what the network says.
var (
	errHTTP        = errors.New("resp: HTTP spoken to a Redis port")
	errQueryBuffer = errors.New("resp: command larger than the query buffer limit")
	errOutput      = errors.New("resp: replies larger than the output buffer limit")
	errSlow        = errors.New("resp: client does not read its replies")
	errDrained     = errors.New("resp: the server drains")
	errMemory      = errors.New("resp: client buffers at their common limit")
)
