package resp

import "sync/atomic"

// Stats holds the counters of a server. Read them with Load.
type Stats struct {
	Accepted       atomic.Int64 // connections that became sessions
	Current        atomic.Int64 // open sessions
	RejectedMax    atomic.Int64 // connections refused at MaxClients
	RejectedMode   atomic.Int64 // connections refused by protected mode
	HandshakeFails atomic.Int64 // TLS handshakes that failed or took too long

	Pipelines atomic.Int64 // pipelines passed to the handler
	Commands  atomic.Int64 // commands passed to the handler
	BytesIn   atomic.Int64 // bytes read from clients, after decryption
	BytesOut  atomic.Int64 // bytes written to clients, before encryption

	ProtocolErrors atomic.Int64 // connections closed for bytes that are no command
	HTTP           atomic.Int64 // connections closed for HTTP
	QueryLimit     atomic.Int64 // connections closed at QueryBufferLimit
	OutputLimit    atomic.Int64 // connections closed at OutputBufferLimit
	MemoryLimit    atomic.Int64 // connections closed at the limit of Memory
	SlowReaders    atomic.Int64 // connections closed at WriteTimeout
	Idle           atomic.Int64 // connections closed at Timeout
	Killed         atomic.Int64 // connections closed by Kill
	Panics         atomic.Int64 // connections closed because the handler panicked
	Left           atomic.Int64 // connections that ended otherwise: by the client, by QUIT or in a drain
}
