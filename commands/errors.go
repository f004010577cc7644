package commands

// Errors of the rate limit commands, as the contract words them.
const (
	errSyntax    = "ERR syntax error"
	errLimit     = "ERR limit must be an integer between 1 and 1000000000000"
	errWindow    = "ERR invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d"
	errDuplicate = "ERR duplicate window"
	errWindows   = "ERR too many windows: at most 8"
	errCost      = "ERR cost must be an integer between 0 and 1000000000000"
	errTooCostly = "ERR cost exceeds limit: the request can never be admitted"
	errShards    = "ERR shards must be an integer between 1 and 1024"
	errBuckets   = "ERR buckets must be an integer between 1 and 1000"
	errFine      = "ERR buckets must not exceed the window's milliseconds"
	errKey       = "ERR key must be 1 to 4096 bytes"
)

// Errors of CL.THROTTLE. The first three are redis-cell's; it has no word for
// numbers that it cannot multiply, and wraps around.
const (
	errCellUsage   = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	errCellInteger = "Cell error: Couldn't parse as integer: " // and the word
	errCellZero    = "Cell error: Zero rates are not supported"
	errCellRange   = "Cell error: Values are negative or too large"
)

// Errors that Redis has too, in its words.
const (
	errNotInteger   = "ERR value is not an integer or out of range"
	errNotPositive  = "ERR value is out of range, must be positive"
	errNoAuth       = "NOAUTH Authentication required."
	errNoAuthHello  = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errNoRun        = "NOPERM this user has no permissions to run the '" // and the command
	errNoKey        = "NOPERM this user has no permissions to access one of the keys used as arguments"
	errWrongPass    = "WRONGPASS invalid username-password pair or user is disabled."
	errAuthUnset    = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errNoProto      = "NOPROTO unsupported protocol version"
	errProtoInteger = "ERR Protocol version is not an integer or out of range"
	errDB           = "ERR DB index is out of range"
	errClusterOff   = "ERR This instance has cluster support disabled"

	errNested      = "ERR MULTI calls can not be nested"
	errWatch       = "ERR WATCH inside MULTI is not allowed"
	errNoMulti     = "ERR EXEC without MULTI"
	errNoDiscard   = "ERR DISCARD without MULTI"
	errExecRefused = "EXECABORT Transaction discarded because of: " // and the error
	errExecAbort   = "EXECABORT Transaction discarded because of previous errors."

	errClientName = "ERR Client names cannot contain spaces, newlines or special characters."
	errClientID   = "ERR Invalid client ID"
	errKillID     = "ERR client-id should be greater than 0"
	errNoClient   = "ERR No such client"

	errInvalidCommand = "ERR Invalid command specified"
	errNoKeys         = "ERR The command has no key arguments"
	errKeyArity       = "ERR Invalid number of arguments specified for command"
)

// Errors of bounds that Redis does not have.
const (
	errQueueFull = "ERR transaction queue is full"
	errChannels  = "ERR too many channels"
	errTracking  = "ERR only CLIENT TRACKING ON OPTIN and OFF are supported"
)
