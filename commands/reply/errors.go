package reply

// Beginnings of the errors of the rate limit commands. Clients may match on them, so they
// must not change. What was given follows them.
const (
	ErrSyntax    = "ERR syntax error"
	ErrLimit     = "ERR limit must be an integer between 1 and 1000000000000"
	ErrWindow    = "ERR invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d"
	ErrDuplicate = "ERR duplicate window"
	ErrWindows   = "ERR too many windows: at most 8"
	ErrCost      = "ERR cost must be an integer between 0 and 1000000000000"
	ErrTooCostly = "ERR cost exceeds limit: the request can never be admitted"
	ErrShards    = "ERR shards must be an integer between 1 and 1024"
	ErrBuckets   = "ERR buckets must be an integer between 1 and 1000"
	ErrFine      = "ERR buckets must not exceed the window's milliseconds"
	ErrKey       = "ERR key must be 1 to 4096 bytes"
	ErrSameKey   = "ERR duplicate key"
	ErrKeys      = "ERR too many keys: at most 8"
	ErrHoldID    = "ERR id must be 1 to 64 bytes"
	ErrTTL       = "ERR ttl must be between 1ms and the longest window"
	ErrHeld      = "ERR RL.HOLD takes policies of SLIDE, COUNTER and FIXED"
	ErrSlotsTTL  = "ERR ttl must be between 1ms and 366d"
	ErrConnTTL   = "ERR ttl must be at least 1s with CONN"
	ErrResetGlob = "ERR no key had state, and RL.RESET takes keys, not patterns"
	ErrSlots     = "ERR slots must be an integer between 1 and 1000000000000"
	ErrBlock     = "ERR block must be an integer between 1 and 3600000"
	ErrBlockAnd  = "ERR BLOCK and AND exclude each other"
	ErrWaiting   = "ERR too many clients wait"
	ErrConnSlots = "ERR too many leases tied to this connection: at most 16384"
)

// Errors that Redis has too, with its texts.
const (
	ErrNotInteger  = "ERR value is not an integer or out of range"
	ErrNotPositive = "ERR value is out of range, must be positive"
	ErrNoAuth      = "NOAUTH Authentication required."
	ErrNoAuthHello = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH " +
		"<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the " +
		"same time"
	ErrNoRun     = "NOPERM this user has no permissions to run the '" // followed by the command
	ErrNoKey     = "NOPERM this user has no permissions to access one of the keys used as arguments"
	ErrWrongPass = "WRONGPASS invalid username-password pair or user is disabled."
	ErrAuthUnset = "ERR AUTH <password> called without any password configured for the default user. Are you sure " +
		"your configuration is correct?"
	ErrNoProto      = "NOPROTO unsupported protocol version"
	ErrProtoInteger = "ERR Protocol version is not an integer or out of range"
	ErrDB           = "ERR DB index is out of range: there is only database 0"
	ErrNodeDB       = ErrDB + ". Another database of the nodes belongs in the backend's URL, as in redis://host:6379/1"
	ErrClusterOff   = "ERR This instance has cluster support disabled"

	ErrNested      = "ERR MULTI calls can not be nested"
	ErrWatch       = "ERR WATCH inside MULTI is not allowed"
	ErrNoMulti     = "ERR EXEC without MULTI"
	ErrNoDiscard   = "ERR DISCARD without MULTI"
	ErrExecRefused = "EXECABORT Transaction discarded because of: " // followed by the error
	ErrExecAbort   = "EXECABORT Transaction discarded because of previous errors."

	ErrClientName = "ERR Client names cannot contain spaces, newlines or special characters."
	ErrClientID   = "ERR Invalid client ID"
	ErrKillID     = "ERR client-id should be greater than 0"
	ErrUnblocked  = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
	ErrNoClient   = "ERR No such client"

	ErrInvalidCommand = "ERR Invalid command specified"
	ErrNoKeys         = "ERR The command has no key arguments"
	ErrKeyArity       = "ERR Invalid number of arguments specified for command"
)

// Errors that Redis does not have.
const (
	ErrQueueFull = "ERR transaction queue is full: at most 131072 commands and 32 MB, within maxmemory-clients for " +
		"all clients together"
	ErrNoMemory = "ERR no room for the reply: maxmemory-clients is reached"
	ErrNoRoom   = "ERR no room for a request that waits: maxmemory-clients is reached"
	ErrChannels = "ERR too many channels: at most 1024 with 64 kB of names, within maxmemory-clients for all " +
		"clients together"
	// followed by the command
	ErrNotAll  = "NOPERM this user has no permissions to access all keys, as needed by the '"
	ErrNoWatch = "ERR WATCH is not supported with passthrough: clients share the connections to nodes, so no key " +
		"can be watched. Use a script to check and set"
	ErrNoChannel = "ERR SUBSCRIBE is not supported with passthrough: clients share the connections to nodes, so no " +
		"message can be delivered"
	ErrTracking = "ERR only CLIENT TRACKING ON OPTIN and OFF are supported"
)
