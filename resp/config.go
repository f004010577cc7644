package resp

import (
	"cmp"
	"log/slog"
	"time"
)

// Config bounds what clients may do. Zero means the default in fields whose comment
// names one, and no limit in the others.
type Config struct {
	// MaxClients is the most connections at a time; a further one gets an error and is
	// closed. Default 10000. Each takes a file descriptor: raise ulimit -n with it.
	// A silent connection takes 7 KB, with TLS 25 KB; half a command takes 16 KiB more.
	MaxClients int
	// Timeout closes connections that have been silent for this long. Zero suits clients
	// with pools; some minutes suit clients that leak connections.
	Timeout time.Duration
	// TCPKeepAlive is the time of silence after which a TCP peer is probed. Five minutes
	// find dead peers in time; with zero their connections stay open.
	TCPKeepAlive time.Duration
	// HandshakeTimeout bounds a TLS handshake. Default 10 s.
	HandshakeTimeout time.Duration
	// WriteTimeout closes a client that has not read any of its replies for this long. Default
	// 30 s. It may act after half of that.
	WriteTimeout time.Duration

	// MaxArgs is the most arguments of one command. Default 1024*1024, as in Redis before 7.0.
	// Each costs 24 bytes in addition to its own.
	MaxArgs int
	// ProtoMaxBulkLen is the most bytes of one argument. Default 64 MiB. Redis allows
	// 512 MiB, which is needed only to forward such values to nodes.
	ProtoMaxBulkLen int
	// QueryBufferLimit is the most bytes of one command that has not arrived completely;
	// beyond it the connection is closed without a reply. Default 128 MiB. Memory grows
	// with the bytes that arrive, not with the length that a client announces.
	QueryBufferLimit int
	// OutputBufferLimit is the most bytes of replies that may wait for one client; beyond it the connection is closed.
	// At most the replies to 1024 commands wait. Default 256 MiB.
	OutputBufferLimit int
	// Memory bounds the bytes that all connections together hold beyond the small buffers
	// of each; the connection that asks for more is closed. Default NewMemory(1 GiB). It
	// bounds many clients that each stop in the middle of a large command.
	Memory *Budget

	// ProtectedMode refuses TCP clients that are not on the loopback interface. Set it where clients need no password.
	ProtectedMode bool

	// Logger receives messages for operators. Default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxClients = cmp.Or(c.MaxClients, 10_000)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.MaxArgs = cmp.Or(c.MaxArgs, 1024*1024)
	c.ProtoMaxBulkLen = cmp.Or(c.ProtoMaxBulkLen, 64<<20)
	c.QueryBufferLimit = cmp.Or(c.QueryBufferLimit, 128<<20)
	c.OutputBufferLimit = cmp.Or(c.OutputBufferLimit, 256<<20)
	if c.Memory == nil {
		c.Memory = NewBudget(1 << 30)
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}
