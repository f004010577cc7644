package resp

import (
	"log/slog"
	"time"
)

// Config bounds what clients may do. In fields whose comment names a default, zero
// means that default; in the others it means none.
type Config struct {
	// MaxClients is the most connections at a time; one more is told so and
	// closed. Default 10000. Each takes a file descriptor: raise ulimit -n with it.
	// A silent connection costs about 6 KB, half a command 16 KiB more; TLS adds to it.
	MaxClients int
	// Timeout closes a connection that sent nothing for so long. None suits
	// clients with pools; some minutes suit clients that forget connections.
	Timeout time.Duration
	// TCPKeepAlive is the time between probes of a silent TCP peer. 5 minutes
	// notices dead peers in time; without it their connections stay.
	TCPKeepAlive time.Duration
	// HandshakeTimeout bounds a TLS handshake. Default 10 s.
	HandshakeTimeout time.Duration
	// WriteTimeout closes a client that takes no byte of its replies for so long.
	// Default 30 s. It acts somewhere between half of it and the whole.
	WriteTimeout time.Duration

	// MaxArgs is the most arguments of one command. Default 1024*1024, as in
	// Redis. Each costs 24 bytes beside its own.
	MaxArgs int
	// ProtoMaxBulkLen is the most bytes of one argument. Default 64 MiB; Redis has
	// 512, which only those need who pass such values on to their nodes.
	ProtoMaxBulkLen int
	// QueryBufferLimit is the most bytes of one command that has not arrived whole;
	// past it the connection is closed without a word. Default 128 MiB. Memory is
	// taken as bytes arrive, never for what a client announces.
	QueryBufferLimit int
	// OutputBufferLimit is the most bytes of replies that may wait for one client,
	// which are those to 1024 commands at most; past it the connection is closed.
	// Default 256 MiB.
	OutputBufferLimit int
	// ClientMemory is the most bytes that all connections together hold beyond the
	// small buffers of each; the connection that asks for more is closed. Default
	// 1 GiB. This is what bounds a crowd that sends halves of large commands.
	ClientMemory int64

	// ProtectedMode refuses TCP clients that are not on the loopback interface. Set
	// it where no password is asked for.
	ProtectedMode bool

	// Logger gets what an operator should know. Default slog.Default().
	Logger *slog.Logger
}

// orDefault returns v, or def when v is zero.
func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// withDefaults returns c with every default filled in.
func (c Config) withDefaults() Config {
	c.MaxClients = orDefault(c.MaxClients, 10_000)
	c.HandshakeTimeout = orDefault(c.HandshakeTimeout, 10*time.Second)
	c.WriteTimeout = orDefault(c.WriteTimeout, 30*time.Second)
	c.MaxArgs = orDefault(c.MaxArgs, 1024*1024)
	c.ProtoMaxBulkLen = orDefault(c.ProtoMaxBulkLen, 64<<20)
	c.QueryBufferLimit = orDefault(c.QueryBufferLimit, 128<<20)
	c.OutputBufferLimit = orDefault(c.OutputBufferLimit, 256<<20)
	c.ClientMemory = orDefault(c.ClientMemory, 1<<30)
	c.Logger = orDefault(c.Logger, slog.Default())
	return c
}
