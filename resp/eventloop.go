package resp

import (
	"runtime"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/internal/epoll"
	"github.com/rlproxy/rlproxy/internal/sockio"
)

// A new session runs in its own goroutine, which handles everything. When many clients are active and each waits for
// its reply, waking a goroutine per request costs more than serving the request. Sessions whose pipelines the handler
// can answer asynchronously (see Starter) therefore give up their goroutine and park in an event loop. One goroutine
// reads for all parked sessions and starts their pipelines; the goroutine that delivers the last result writes the
// replies. Anything unusual (a partial command, a client that does not read, a drain, the end of the connection) moves
// the session back to its own goroutine.

// The places a session can be served from. The goroutine that moves it out of parked, by
// compare-and-swap, serves it next.
const (
	own       = iota // by a goroutine of its own
	parked           // by nobody; the event loop is notified when the connection becomes readable
	held             // by nobody; as parked, but only a hangup matters: it is suspended, see suspend.go
	started          // by the handler, which will call Finish
	restarted        // as started, and there is something to read again
)

const (
	// A session's turn is quiet if the server has served at most quietPipelines pipelines, its own
	// included, since the session's previous turn.
	quietPipelines = 2
	// After quietTurns quiet turns in a row a session keeps its own goroutine, which has lower
	// latency when few clients are active.
	quietTurns = 8
	// maxStarted is the longest pipeline, in commands, that an event loop starts; its other sessions
	// have to wait for it.
	maxStarted = 8
	// loopCores is the number of cores per event loop.
	loopCores = 4
)

// eventLoop waits for the clients of parked sessions.
type eventLoop struct {
	srv     *Server
	timeout time.Duration // Config.Timeout
	created time.Time
	begin   sync.Once
	done    chan struct{} // closed by close
	end     sync.Once
	running sync.WaitGroup // counts run and expire

	mu sync.Mutex
	// the connections of parked sessions, by session ID; nil if epoll is not available; guarded by mu
	set      *epoll.Poller
	sessions map[int64]*Session // the sessions in set; guarded by mu
}

// newEventLoops returns the event loops of a server. Each starts when it is first needed.
func newEventLoops(srv *Server) []*eventLoop {
	loops := make([]*eventLoop, (runtime.GOMAXPROCS(0)+loopCores-1)/loopCores)
	for i := range loops {
		loops[i] = &eventLoop{srv: srv, timeout: srv.cfg.Timeout, created: time.Now(), done: make(chan struct{}),
			sessions: map[int64]*Session{}}
	}
	return loops
}

func (l *eventLoop) open() {
	set, err := epoll.New()
	if err != nil {
		return // sessions keep their goroutines
	}
	l.mu.Lock()
	l.set = set
	l.mu.Unlock()
	l.running.Go(func() { l.run(set) }) // until close
	if l.timeout > 0 {
		l.running.Go(l.expire) // until close
	}
}

// close ends the loop. No session is parked any more.
func (l *eventLoop) close() {
	l.begin.Do(func() {}) // it cannot start after this
	l.end.Do(func() { close(l.done) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set != nil {
		_ = l.set.Close() // fails if it is closed already
	}
}

// add parks a session until its client sends something, or holds it. It returns false if the session could not be added
// and the caller must go on serving it.
func (l *eventLoop) add(s *Session, stage int32) bool {
	l.begin.Do(l.open)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == nil {
		return false
	}
	l.sessions[s.ID] = s // before there are events
	s.parkedAt.Store(int64(l.elapsed()))
	s.stage.Store(stage)
	if l.set.Add(s.raw, s.ID) != nil {
		delete(l.sessions, s.ID)
		return !s.stage.CompareAndSwap(stage, own)
	}
	return true
}

// elapsed returns the time since the loop was created, on a monotonic clock.
func (l *eventLoop) elapsed() time.Duration { return time.Since(l.created) }

func (l *eventLoop) remove(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.ID)
	_ = l.set.Remove(s.raw) // fails if the connection is closed
}

func (l *eventLoop) run(set *epoll.Poller) {
	type readable struct {
		*Session
		closed bool
	}
	var events []epoll.Event
	var sessions []readable
	for {
		var err error
		if events, err = set.Wait(events[:0]); err != nil {
			return // the set is closed: no other error can end a wait for an open one
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
		l.flush()
		clear(sessions)
		sessions = sessions[:0]
		runtime.Gosched() // lets what was started run first, while more arrives
	}
}

// flush calls the handler's Flush. A panic ends neither the loop nor the process.
func (l *eventLoop) flush() {
	defer func() {
		if p := recover(); p != nil {
			l.srv.panicked(p, "panic while sending requests of clients")
		}
	}()
	l.srv.starter.Flush()
}

// expire ends sessions whose clients have been silent for longer than the timeout.
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
			if l.elapsed()-time.Duration(s.parkedAt.Load()) >= l.timeout && s.stage.CompareAndSwap(parked, own) {
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

// park hands the session to its event loop if the session is eligible. If it returns true, another
// goroutine may be serving the session already.
func (s *Session) park() bool {
	if !s.light || s.quiet >= quietTurns || s.in.start != s.in.end || s.srv.draining.Load() {
		return false
	}
	s.rest()
	s.in.release()
	if !s.events.add(s, parked) {
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

// rouse moves a parked or held session to a goroutine of its own. It may be called from any goroutine, for any session.
func (s *Session) rouse() {
	if s.stage.CompareAndSwap(parked, own) || s.stage.CompareAndSwap(held, own) {
		s.detach()
	}
}

// detach moves the session to a goroutine of its own. Nobody else is serving it.
func (s *Session) detach() {
	s.events.remove(s)
	s.light = false // it reads before it parks again
	s.stage.Store(own)
	go s.run() // until it ends or parks again
}

// readable starts to serve what has arrived. With closed, no more will arrive.
func (s *Session) readable(closed bool) {
	for {
		switch s.stage.Load() {
		case parked:
			if !s.stage.CompareAndSwap(parked, started) {
				continue // roused
			}
			s.guard(func() {
				if closed || s.quiet >= quietTurns || !s.start() {
					s.detach()
				}
			})
			return
		case held:
			if closed {
				s.rouse()
			}
			return
		case started:
			if s.stage.CompareAndSwap(started, restarted) {
				return
			}
		default: // own: its goroutine also reads. restarted: the session is read again anyway
			return
		}
	}
}

// start reads, and lets the handler start what has arrived. It returns false if that needs a
// goroutine. If it returns true, another goroutine may be serving the session already.
func (s *Session) start() bool {
	n, all := s.in.countRead()
	if n > 0 {
		s.countRead(n)
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

// Finish continues a session whose pipeline was started. The handler arranges for it to be called
// once all results are available.
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

// wait parks a served session again, or holds it. It returns false if there is something to read.
func (s *Session) wait() bool {
	s.rest()
	s.in.release()
	if s.suspended {
		s.stage.Store(held) // what there is to read waits
		s.reconsiderHeld()
		return true
	}
	s.parkedAt.Store(int64(s.events.elapsed()))
	if !s.stage.CompareAndSwap(started, parked) {
		return false
	}
	s.reconsider()
	return true
}

// flushNow writes as much of Out as it can without blocking, and reports whether all of it was written.
func (s *Session) flushNow() bool {
	if len(s.Out) > joinOut {
		return false
	}
	n, err := sockio.WriteNow(s.writer, s.Out)
	s.srv.stats.BytesOut.Add(int64(n))
	s.Out = s.Out[:copy(s.Out, s.Out[n:])]
	return err == nil && len(s.Out) == 0
}
