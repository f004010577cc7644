package web

import (
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
)

const (
	// maxStreams is the most streams at the same time. It is less than MaxConnections, to leave
	// connections for everything else.
	maxStreams = 16
	// eventTime is how long a watcher may take to read an event.
	eventTime = 10 * time.Second
)

// streams has the open streams.
type streams struct {
	mu   sync.Mutex
	open map[*stream]struct{} // guarded by mu
}

// stream is one watcher.
type stream struct {
	*visitor               // the watcher; once the stream is open, only the sampler changes it
	local    bool          // the watcher is on this machine
	next     chan []byte   // the newest event, until the watcher takes it
	over     chan struct{} // closed when the watcher may no longer watch
}

// add opens a stream. It returns nil if there are too many.
func (o *streams) add(who *visitor, local bool) *stream {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) >= maxStreams {
		return nil
	}
	t := &stream{visitor: who, local: local, next: make(chan []byte, 1), over: make(chan struct{})}
	o.open[t] = struct{}{}
	return t
}

// remove ends a stream, and reports whether it was open.
func (o *streams) remove(t *stream) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, open := o.open[t]
	delete(o.open, t)
	return open
}

func (o *streams) all() []*stream {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]*stream, 0, len(o.open))
	for t := range o.open {
		all = append(all, t)
	}
	return all
}

// stream answers with the history, and then with a snapshot each second.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	t := s.streams.add(visitorOf(r), onLoopback(connOf(r).RemoteAddr()))
	if t == nil {
		w.Header().Set("Retry-After", "5")
		fail(w, r, http.StatusServiceUnavailable, "too many streams are open")
		return
	}
	defer s.streams.remove(t)
	past, err := json.Marshal(struct {
		Points []point            `json:"points"`
		Trails map[string][]tally `json:"trails"` // of the busiest keys, by id
	}{append([]point{}, s.history.all()...), s.trailsFor(t.user)})
	if err != nil {
		panic(err) // plain numbers
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	connection := http.NewResponseController(w)
	for event := appendEvent(nil, "history", past); ; {
		if connection.SetWriteDeadline(time.Now().Add(s.eventTime)) != nil {
			return
		}
		if _, err := w.Write(event); err != nil || connection.Flush() != nil {
			return // the watcher is gone, or does not read
		}
		select {
		case event = <-t.next:
		case <-t.over:
			return
		case <-r.Context().Done():
			return
		case <-s.ending.Done():
			return
		}
	}
}

// trailsFor returns the trails of the keys that a page shows to a user.
func (s *Server) trailsFor(u *acl.User) map[string][]tally {
	all := make(map[string][]tally)
	keys := s.cfg.Observer.HotKeys(math.MaxInt)
	for _, k := range shownKeys(keys, u) {
		key, _ := ids.DecodeString(k.ID) // it is one of ours
		all[k.ID] = s.trails.of(key)
	}
	return all
}

// appendEvent appends an event. The data is in one line.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata: "...)
	return append(append(dst, data...), "\n\n"...)
}

// publish sends a snapshot with a point to all watchers. It never waits for them: if a watcher has
// not taken an event yet, the new one replaces it.
func (s *Server) publish(p point) {
	all := s.streams.all()
	if len(all) == 0 {
		return
	}
	rules, scene := s.rules.Load(), s.scene(p)
	for _, t := range all {
		if !t.renew(rules) {
			if s.streams.remove(t) {
				close(t.over)
			}
			continue
		}
		data, err := json.Marshal(scene.seenBy(t.user, rules))
		if err != nil {
			panic(err) // no number is infinite
		}
		t.offer(appendEvent(nil, "snapshot", data))
	}
}

// offer replaces the event that the watcher has not taken yet, if there is one.
func (t *stream) offer(event []byte) {
	select {
	case <-t.next:
	default:
	}
	t.next <- event // there is room: only the sampler sends
}

// renew applies changed rules, and reports whether the watcher may continue to watch.
func (t *stream) renew(rules *Access) bool {
	if rules == t.rules {
		return true
	}
	u := rules.ACL.Anonymous()
	if !t.anonymous {
		u = rules.ACL.Renew(t.user)
	}
	if u == nil || !u.MayRun("rl.hotkeys") || rules.Protected && !t.local {
		return false
	}
	t.visitor = &visitor{&identity{u, t.anonymous}, rules}
	return true
}
