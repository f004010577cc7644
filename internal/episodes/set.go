package episodes

import (
	"log/slog"
	"sync"
	"time"
)

// maxSet bounds the episodes of an Episodes. Trouble beyond that is not logged.
const maxSet = 1000

// Episodes has an episode for each thing that is in trouble, by a key. It is safe for concurrent use.
type Episodes struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	open  map[string]*Episode // guarded by mu
	noted map[string]bool     // the keys of trouble since the last Round; guarded by mu
}

// NewEpisodes returns a set without episodes.
func NewEpisodes(log *slog.Logger, now func() time.Time) *Episodes {
	return &Episodes{log: log, now: now, open: make(map[string]*Episode), noted: make(map[string]bool)}
}

// Note notes trouble of one thing. about are attributes of all lines of its episode, and detail those of this line.
func (s *Episodes) Note(kind *Trouble, about []any, key string, detail ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = kind.Began + " " + key
	e := s.open[key]
	if e == nil {
		if len(s.open) >= maxSet {
			return
		}
		e = New(s.log, s.now, *kind, about...)
		s.open[key] = e
	}
	s.noted[key] = true
	e.Note("times", 1, func() []any { return detail })
}

// End ends the episode of one thing, if there is one.
func (s *Episodes) End(kind *Trouble, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(kind.Began + " " + key)
}

func (s *Episodes) end(key string) {
	if e := s.open[key]; e != nil {
		if e.End(); !e.Open.Load() {
			delete(s.open, key)
		}
	}
}

// Round ends the episodes of all things about which there was no Note since the last Round.
func (s *Episodes) Round() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.open {
		if !s.noted[key] {
			s.end(key)
		}
	}
	clear(s.noted)
}
