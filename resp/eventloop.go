package resp

import (
	"runtime"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/internal/epoll"
	"github.com/rlproxy/rlproxy/internal/sockio"
)

// A session begins with a goroutine of its own, which can do everything. While many clients ask
// and wait, waking a goroutine for each request costs more than the request. So a session whose
// pipelines the handler can start, and finish later, leaves its goroutine then and waits in an
// event loop: one goroutine reads what has arrived for all such sessions and starts it, and
// whoever has the results writes the replies. Whatever is not ordinary, such as a partial command, a client that
// does not read, a drain or the end, has the session go on in a goroutine of its own.

// Where a session is served. Who changes the place from parked serves the session next.
const (
	own       = iota // by a goroutine of its own
	parked           // by nobody: the event loop hears when there is something to read
	started          // by the handler, which will call Finish
	restarted        // as started, and there is something to read again
)

const (
	// quietPipelines is how many pipelines of all sessions, its own included, are served from one turn of a
	// session to its next while it is hardly in quietPipelines.
	quietPipelines = 2
	// quietTurns is how many quiet turns in a row let a session have a goroutine: who is alone is
	// answered sooner by one.
	quietTurns = 8
	// maxStarted is the most commands of a pipeline that an event loop starts: others' wait for it.
	maxStarted = 8
	// loopCores is how many cores there are for each event loop.
	loopCores = 4
)

// eventLoop waits for the clients of parked sessions.
type eventLoop struct {
	starter Starter
	timeout time.Duration // Config.Timeout
	created time.Time
	begin   sync.Once
	done    chan struct{} // closed by close
	end     sync.Once

	mu       sync.Mutex
	set      *epoll.Set         // of the sessions' connections, by ID; nil: cannot be had; guarded by mu
	sessions map[int64]*Session // those in set; guarded by mu
}

// newEventLoops returns the event loops of a server. They begin when they are needed.
func newEventLoops(starter Starter, timeout time.Duration) []*eventLoop {
	loops := make([]*eventLoop, (runtime.GOMAXPROCS(0)+loopCores-1)/loopCores)
	for i := range loops {
		loops[i] = &eventLoop{starter: starter, timeout: timeout, created: time.Now(), done: make(chan struct{}), sessions: map[int64]*Session{}}
	}
	return loops
}

// open begins the loop.
func (l *eventLoop) open() {
	set, err := epoll.New()
	if err != nil {
		return // sessions keep their goroutines
	}
	l.mu.Lock()
	l.set = set
	l.mu.Unlock()
	go l.run(set) // until close
	if l.timeout > 0 {
		go l.expire() // until close
	}
}

// close ends the loop. No session is parked any more.
func (l *eventLoop) close() {
	l.begin.Do(func() {}) // it does not begin any more
	l.end.Do(func() { close(l.done) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set != nil {
		_ = l.set.Close() // fails if it is closed already
	}
}

// add parks a session and begins to wait for its client. It returns false if that cannot be, and
// nobody else has roused the session meanwhile.
func (l *eventLoop) add(s *Session) bool {
	l.begin.Do(l.open)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == nil {
		return false
	}
	l.sessions[s.ID] = s // before there are events
	s.parkedAt.Store(int64(l.elapsed()))
	s.place.Store(parked)
	if l.set.Add(s.in.raw, s.ID) != nil {
		delete(l.sessions, s.ID)
		return !s.place.CompareAndSwap(parked, own)
	}
	return true
}

// elapsed returns the loop's own clock, which no change of the machine's clock moves.
func (l *eventLoop) elapsed() time.Duration { return time.Since(l.created) }

// remove ends what add began.
func (l *eventLoop) remove(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.ID)
	_ = l.set.Remove(s.in.raw) // fails if the connection is closed
}

// run serves the sessions.
func (l *eventLoop) run(set *epoll.Set) {
	type readable struct {
		*Session
		closed bool
	}
	var events []epoll.Event
	var sessions []readable
	for {
		var err error
		if events, err = set.Wait(events[:0]); err != nil {
			return // closed
		}
		l.mu.Lock()
		for _, e := range events {
			if s := l.sessions[e.ID]; s != nil {
				sessions = append(sessions, readable{s, e.Closed})
			}
		}
		l.mu.Unlock()
		for _, s := range sessions {
			s.readable(s.closed)
		}
		l.starter.Flush()
		clear(sessions)
		sessions = sessions[:0]
		runtime.Gosched() // what was started comes first, and more arrives meanwhile
	}
}

// expire ends sessions whose clients are silent for too long.
func (l *eventLoop) expire() {
	ticks := time.NewTicker(max(l.timeout/10, time.Millisecond))
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-l.done:
			return
		}
		var silent []*Session
		l.mu.Lock()
		for _, s := range l.sessions {
			if l.elapsed()-time.Duration(s.parkedAt.Load()) >= l.timeout && s.place.CompareAndSwap(parked, own) {
				silent = append(silent, s)
			}
		}
		l.mu.Unlock()
		for _, s := range silent {
			s.expired = true
			s.detach()
		}
	}
}

// canStart reports whether the event loop can start a pipeline.
func (s *Session) canStart(pipeline []Command) bool {
	return len(pipeline) <= maxStarted && s.srv.starter.CanStart(s, pipeline)
}

// park leaves the session to its event loop, if it is there for sessions like this one. If it returns
// true, somebody else may be serving the session already.
func (s *Session) park() bool {
	if s.events == nil || !s.light || s.quiet >= quietTurns || s.in.start != s.in.end || s.srv.draining.Load() {
		return false
	}
	s.rest()
	s.in.release()
	if !s.events.add(s) {
		return false
	}
	s.reconsider()
	return true
}

// reconsider rouses a session that a drain or Kill has missed because it was not parked yet.
func (s *Session) reconsider() {
	if s.srv.draining.Load() || s.killed.Load() {
		s.rouse()
	}
}

// rouse has a parked session go on in a goroutine of its own. It may be called from any
// goroutine, for any session.
func (s *Session) rouse() {
	if s.place.CompareAndSwap(parked, own) {
		s.detach()
	}
}

// detach has the session go on in a goroutine of its own. Nobody else is serving it.
func (s *Session) detach() {
	s.events.remove(s)
	s.light = false // it reads before it parks again
	s.place.Store(own)
	go s.run() // until it ends or parks again
}

// readable begins to serve what has arrived. closed says that no more will.
func (s *Session) readable(closed bool) {
	for {
		switch s.place.Load() {
		case parked:
			if !s.place.CompareAndSwap(parked, started) {
				continue // roused
			}
			s.guard(func() {
				if closed || s.quiet >= quietTurns || !s.start() {
					s.detach()
				}
			})
			return
		case started:
			if s.place.CompareAndSwap(started, restarted) {
				return
			}
		default: // whoever serves it reads, too
			return
		}
	}
}

// start reads, and has the handler start what has arrived. It returns false if that needs a
// goroutine. If it returns true, somebody else may be serving the session already.
func (s *Session) start() bool {
	n, all := s.in.arrived()
	if n > 0 {
		s.arrived(n)
	}
	if !all {
		return false
	}
	if n == 0 {
		return s.wait()
	}
	pipeline, err := s.in.slice(s.Trusted)
	if err != nil || len(pipeline) == 0 || s.in.start != s.in.end || !s.canStart(pipeline) {
		s.in.again = true
		return false
	}
	s.begin(pipeline)
	s.srv.starter.Start(s, pipeline)
	return true
}

// Finish goes on with a session whose pipeline was started. The handler has it called once the results are there.
func (s *Session) Finish() {
	s.guard(func() {
		s.srv.starter.Finish(s)
		if s.closing || s.failed != nil || !s.flushNow() || !s.wait() {
			s.detach()
		}
	})
}

// guard calls do, which serves the session. A panic ends the session.
func (s *Session) guard(do func()) {
	ok := false
	defer func() {
		if !ok {
			s.events.remove(s)
			go s.leave() // ends when the handler has closed the session
		}
	}()
	defer s.recovered()
	do()
	ok = true
}

// wait parks a session again that has been served. It returns false if there is something to read.
func (s *Session) wait() bool {
	s.rest()
	s.in.release()
	s.parkedAt.Store(int64(s.events.elapsed()))
	if !s.place.CompareAndSwap(started, parked) {
		return false
	}
	s.reconsider()
	return true
}

// flushNow writes Out as far as that is possible without waiting, and reports whether it is empty.
func (s *Session) flushNow() bool {
	if len(s.Out) > joinOut {
		return false
	}
	n, err := sockio.WriteNow(s.writer, s.Out)
	s.srv.stats.BytesOut.Add(int64(n))
	s.Out = s.Out[:copy(s.Out, s.Out[n:])]
	return err == nil && len(s.Out) == 0
}
