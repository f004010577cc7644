package commands

import (
	"time"

	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/stats"
)

// A pipeline is measured once: each of its commands that an engine or a node answers took as long as all of them, since
// that is how long its client waited. A command that runs in the session is measured alone.

// streak counts equal commands of a pipeline together.
type streak struct {
	took time.Duration // of the pipeline

	command       *stats.CommandStats
	calls, failed int64
}

// add adds a call. It is inlined.
func (s *streak) add(command *stats.CommandStats) {
	if command != s.command {
		s.next(command)
	}
	s.calls++
}

// next counts the calls so far, and begins with those of another command.
//
//go:noinline
func (s *streak) next(command *stats.CommandStats) {
	s.command.Add(s.took, s.calls, s.failed)
	s.command, s.calls, s.failed = command, 0, 0
}

// Error replies with an error, and counts it. It shadows the method of reply.Writer.
func (c *client) Error(msg string) {
	mark := len(c.s.Out)
	c.Writer.Error(msg)
	c.h.stats.Error(c.s.Out[mark+1:])
	c.failed = true
}

// countRun counts a command that ran in the session. Commands of a login, which may contain a
// password, are not in the slow log. Nor is EXEC, as in Redis: the commands that it ran are.
func (c *client) countRun(r *row, args [][]byte, took time.Duration) {
	failed := int64(0)
	if c.failed {
		failed = 1
	}
	c.failed = false
	r.counts.Add(took, 1, failed)
	if c.h.stats.Slow.Slow(took) && !r.early && !r.Has("skip_slowlog") {
		c.logSlow(took, stats.Words(r.Name, args, 0))
	}
}

// logPipeline adds an entry to the slow log for a pipeline that took that long to answer: its
// first command, and the number of the others.
func (c *client) logPipeline(took time.Duration) {
	var first *pendingCommand
	of, n, forwarded := "", 0, c.forward.Results
	for i := range c.pending {
		e := &c.pending[i]
		if e.err != "" || e.row.run != nil {
			continue
		}
		name := e.row.Name
		if e.row == &forwardRow {
			name, forwarded = forwarded[0].Name, forwarded[1:]
		}
		if n++; first == nil && name != "" { // who knows where an unknown command has passwords?
			first, of = e, name
		}
	}
	if first != nil {
		c.logSlow(took, stats.Words(of, first.args, n-1))
	}
}

func (c *client) logSlow(took time.Duration, words []string) {
	c.h.stats.Slow.Add(stats.SlowCommand{
		At: c.h.cfg.Now(), Took: took, Args: words, Addr: clients.Addr(c.s.Remote), Name: c.own.Name,
	})
}
