// Package stats counts commands and errors, and keeps the slow log: it has what INFO shows in commandstats,
// latencystats and errorstats, and the commands SLOWLOG and LATENCY.
//
// What is counted goes by the names of the command table, by the names that nodes have in their COMMAND, and by the
// first words of errors. The number of each is bounded, so nothing here grows with what clients type.
//
// Reading order: stats.go (this file), info.go (INFO), slowlog.go (the log), slowlogcmd.go and latency.go (the
// commands).
package stats

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/internal/histogram"
	"github.com/rlproxy/rlproxy/internal/named"
)

const (
	// maxCommands is the most names of commands. A Redis 7 has fewer than 400.
	maxCommands = 1024
	// maxErrors is the most first words of errors that are counted separately, as in Redis.
	maxErrors = 128
	// maxCode is the most bytes that Redis searches for the end of the first word.
	maxCode = 31
)

// overflow counts the errors for whose first words there is no room. It is Redis's name.
const overflow = "ERRORSTATS_OVERFLOW"

// Stats is what one handler has counted. It is safe for concurrent use.
type Stats struct {
	Slow SlowLog

	commands named.Map[CommandStats]
	errors   named.Map[atomic.Int64] // how often, by the first word
}

// New returns empty statistics.
func New() *Stats {
	s := new(Stats)
	for _, code := range []string{
		"ERR", "UNAVAILABLE", "NOAUTH", "NOPERM", "WRONGPASS", "NOPROTO", "EXECABORT", "CROSSSLOT", overflow,
	} {
		s.errors.Add(code, maxErrors) // others cannot take their place
	}
	return s
}

// Command returns what is counted of a command. Its name must be of a bounded set: of the
// command table, or of a node's. It returns nil for an empty name, and if there are too many.
func (s *Stats) Command(name string) *CommandStats {
	if name == "" {
		return nil
	}
	return s.commands.Add(name, maxCommands)
}

// Error counts an error reply, given from behind its minus sign. Its first word must end
// within 31 bytes, else it counts as ERR, as in Redis.
func (s *Stats) Error(reply []byte) {
	end := bytes.IndexByte(reply[:min(len(reply), maxCode)], ' ')
	if end < 0 {
		reply, end = []byte("ERR"), len("ERR")
	}
	n := s.errors.Get(reply[:end])
	if n == nil {
		if n = s.errors.Add(string(reply[:end]), maxErrors); n == nil {
			n = s.errors.Get([]byte(overflow))
		}
	}
	n.Add(1)
}

// Errors returns how many error replies were counted.
func (s *Stats) Errors() (n int64) {
	for _, count := range s.errors.All() {
		n += count.Load()
	}
	return n
}

// Reset forgets what was counted, but not the slow log.
func (s *Stats) Reset() {
	for _, c := range s.commands.All() {
		c.counts.Store(nil)
	}
	for _, count := range s.errors.All() {
		count.Store(0)
	}
}

// CommandStats is what is counted of one command. A nil CommandStats counts nothing.
type CommandStats struct {
	counts atomic.Pointer[counts] // nil until the command is used
}

// counts is what was counted since the last reset.
type counts struct {
	took     histogram.H  // of all calls
	failed   atomic.Int64 // calls with an error as their reply
	rejected atomic.Int64 // commands that were refused before they ran
}

// Add counts n calls that took that long each. Of these, failed had an error as their reply.
func (c *CommandStats) Add(took time.Duration, n, failed int64) {
	if c == nil || n == 0 {
		return
	}
	now := c.current()
	now.took.Add(took, n)
	if failed > 0 {
		now.failed.Add(failed)
	}
}

// Reject counts a command that was refused before it ran: its arity was wrong, or the user may not run it.
func (c *CommandStats) Reject() {
	if c != nil {
		c.current().rejected.Add(1)
	}
}

// current returns the counts, and makes them at the first use.
func (c *CommandStats) current() *counts {
	for {
		if now := c.counts.Load(); now != nil {
			return now
		}
		c.counts.CompareAndSwap(nil, new(counts))
	}
}
