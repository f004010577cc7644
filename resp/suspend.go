package resp

import (
	"sync"

	"github.com/rlproxy/rlproxy/internal/sockio"
)

// A suspended session waits for its handler, for seconds or hours: nothing is read from its client, and it has neither
// a goroutine nor buffers, unless commands that have arrived already have to wait in them. The event loop watches only
// whether the client goes away. The session continues on a goroutine of its own.

// Suspend is called by the handler in Serve or Finish: the session answers no further command until Resume is called.
// Then it answers the last commands of the pipeline, of which so many are left; in Finish there are none. Replies that
// were appended before are sent at once.
func (s *Session) Suspend(left int) {
	s.suspended = true
	if s.srv != nil && left > 0 {
		ws := s.in.ws
		ws.cmds, s.in.again = ws.cmds[len(ws.cmds)-left:], true
	}
}

// Resume has the handler's Resume called for a suspended session. It may be called on any goroutine, once for each
// Suspend, and even before that. It does not block.
func (s *Session) Resume() {
	s.resumed.Store(true)
	if s.srv != nil {
		s.rouse()
		s.srv.resumes.notify()
	}
}

// Gone reports whether the client has closed the connection, or was killed. It may be called on any goroutine.
func (s *Session) Gone() bool {
	return s.killed.Load() || s.raw != nil && sockio.HungUp(s.raw)
}

// awaitResume returns nil once the handler has resumed the session; errParked if the event loop watches the session in
// the meantime; errGone if the client went away.
func (s *Session) awaitResume() error {
	if err := s.flush(); err != nil {
		return err
	}
	for !s.resumed.Load() && !s.srv.draining.Load() && !s.Gone() {
		if s.hold() {
			return errParked
		}
	}
	if s.Gone() {
		return errGone
	}
	s.suspended = false
	s.resumed.Store(false)
	s.in.wake()
	s.prepare()
	s.srv.starter.Resume(s)
	return s.failed
}

// hold has the event loop watch the session. If it returns true, another goroutine may be serving the session already.
// Where there is no event loop, the goroutine waits, and hold returns false when there may be something to do.
func (s *Session) hold() bool {
	s.rest()
	if s.in.start == s.in.end && !s.in.again {
		s.in.release()
	}
	s.in.show()
	if s.events != nil && s.events.add(s, held) {
		s.reconsiderHeld()
		return true
	}
	s.srv.resumes.wait(func() bool { return s.resumed.Load() || s.srv.draining.Load() || s.killed.Load() })
	return false
}

// reconsiderHeld rouses a session for which something has happened that was missed because it was not held yet.
func (s *Session) reconsiderHeld() {
	if s.resumed.Load() || s.srv.draining.Load() || s.Gone() {
		s.rouse()
	}
}

// resumes lets goroutines wait where there is no event loop.
type resumes struct {
	mu   sync.Mutex
	cond *sync.Cond
}

// wait returns when ready returns true, which is asked at each notify.
func (r *resumes) wait(ready func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !ready() {
		r.cond.Wait()
	}
}

func (r *resumes) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cond.Broadcast()
}
