package resp

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/internal/episodes"
)

// closing is why the server closes clients of its own accord.
type closing struct {
	err   error
	count *atomic.Int64
	log   *episodes.Episode
}

// closings returns the closings that the log has.
func (s *Server) closings() (all []closing) {
	add := func(err error, count *atomic.Int64, began, ended string) {
		all = append(all, closing{err, count, episodes.New(s.log, s.clock, episodes.Trouble{
			Began: "closed a client " + began, Ended: "no longer closing clients " + ended, Calm: episodes.Every,
		})})
	}
	st := &s.stats
	add(errHTTP, &st.HTTP, "that sent HTTP (POST or Host:), possibly an attack through a browser", "that send HTTP")
	add(errQueryBuffer, &st.QueryLimit, "at the query buffer limit", "at the query buffer limit")
	add(errOutput, &st.OutputLimit, "at the output buffer limit", "at the output buffer limit")
	add(errMemory, &st.MemoryLimit, "at the memory limit of all clients", "at the memory limit of all clients")
	add(errSlow, &st.SlowReaders, "that does not read its replies", "that do not read their replies")
	return all
}

// crowded is the trouble that clients are refused at MaxClients.
var crowded = episodes.Trouble{
	Began: "refused a client because maxclients are connected", Ended: "no longer refusing clients at maxclients",
	Calm: episodes.Every,
}

// strange is the trouble that clients on other machines are refused by the protected mode.
var strange = episodes.Trouble{
	Began: "refused a client on another machine: protected-mode is on and no password is set",
	Ended: "no longer refusing clients on other machines", Calm: episodes.Every,
}

// connected notes that a client has connected: a minute after the last one was closed for a reason, or refused, that
// episode ends.
func (s *Server) connected() {
	s.crowded.End()
	s.strange.End()
	for i := range s.closed {
		s.closed[i].log.End()
	}
}

// account counts and logs the reason for which a session ended.
func (s *Session) account(err error) {
	for _, r := range s.srv.closed {
		if errors.Is(err, r.err) {
			r.count.Add(1)
			r.log.Note("times", 1, func() []any { return []any{"client", s.ID, "addr", s.Remote.String()} })
			return
		}
	}
	st := &s.srv.stats
	_, refused := errors.AsType[protocolError](err)
	switch {
	case refused:
		st.ProtocolErrors.Add(1)
		s.srv.log.Debug("protocol error from a client", "client", s.ID, "error", err)
	case s.killed.Load():
		st.Killed.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		st.Idle.Add(1)
	default:
		st.Left.Add(1)
	}
}
