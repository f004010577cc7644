package store

import (
	"errors"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

// outcome holds the outcome of the syncs.
type outcome struct {
	synced  atomic.Int64           // when the latest successful sync was, in Unix ms; 0: there was none
	failed  atomic.Int64           // number of syncs that failed
	damaged atomic.Pointer[string] // why the record is malformed; nil if it is valid, or if there is none

}

// The kinds of trouble. The first two end when the stored policies are read, and the others when that happens without
// them for a minute.
var (
	unusable = &episodes.Trouble{
		Began: "cannot use the stored policies; keeping the ones in effect",
		Ended: "the stored policies can be read again",
	}
	refuses = &episodes.Trouble{
		Began: "a node refuses to read or write the stored policies",
		Ended: "a node reads and writes the stored policies again", Calm: episodes.Every,
	}
	restored = &episodes.Trouble{
		Began: "the stored policies were missing or out of date; stored the ones in effect again",
		Ended: "the stored policies stay as they are again", Calm: episodes.Every,
	}
	misplaced = &episodes.Trouble{
		Began: "ignoring an invalid policy record on another node",
		Ended: "no other node has an invalid policy record any more",
		Calm:  episodes.Every,
	}
)

// record records the outcome of a sync with the record in home, and logs it. A node that does not answer is logged by
// package backend. The caller holds mu.
func (s *Store) record(home storage, err error) {
	if err == nil {
		s.report.synced.Store(s.now().UnixMilli())
		s.report.damaged.Store(nil)
		s.trouble.End(unusable, "")
		s.trouble.Round()
		return
	}
	if !errors.As(err, new(registry.Unreachable)) { // else nothing was attempted
		s.report.failed.Add(1)
	}
	why := err.Error()
	switch {
	case errors.As(err, new(damage)):
		s.report.damaged.Store(&why)
		s.trouble.Note(unusable, where(home), "", "why", why)
	case registry.Refused(s.fleet, err):
		s.trouble.Note(refuses, []any{"node", home.name()}, home.name(), "why", why)
	}
	if s.book.WhyUnknown() != nil {
		s.await(home, ": "+reason(err))
	}
}

// where describes a storage for the log.
func where(p storage) []any {
	if _, ok := p.(node); ok {
		return []any{"node", p.name(), "key", storedKey}
	}
	return []any{"file", p.name()}
}

// await records that the stored policies are unknown. why is "", or begins with a colon.
func (s *Store) await(home storage, why string) {
	s.book.SetUnknown(&engine.Unavailable{Node: home.name(), Why: "policies have not been read yet" + why})
}

// reason describes the error of a storage in a few words.
func reason(err error) string {
	if errors.As(err, new(damage)) || errors.As(err, new(registry.Unreachable)) || errors.Is(err, errChanging) {
		return err.Error()
	}
	return backend.Reason(err)
}

// Waiting returns why this process is not ready: the stored policies are unknown although their node is up. If it is
// ready, Waiting returns "".
func (s *Store) Waiting() string {
	unread := s.book.WhyUnknown()
	if unread == nil || s.fleet == nil || homeOf(s.fleet.Topology()).Node.Down() {
		return ""
	}
	return unread.Node + ": " + unread.Why
}

// Stats returns what INFO and metrics show of the policies.
func (s *Store) Stats() []engine.Stat {
	set := s.book.InEffect()
	_, version := s.book.Stored()
	configured := int64(0)
	for _, p := range set.All() {
		if p.Configured {
			configured++
		}
	}
	stats := []engine.Stat{
		{Name: "policies", Value: int64(len(set.All())), Metric: "policies", Help: "Named policies in effect."},
		{Name: "policies_configured", Value: configured, Metric: "policies_configured",
			Help: "Named policies in effect that come from the configuration."},
		{Name: "policy_overrides", Value: int64(set.Overrides()), Metric: "policy_overrides",
			Help: "Overrides of the named policies in effect."},
		{Name: "policies_version", Value: version, Metric: "policies_version",
			Help: "Version of the stored policies: the number of changes by RL.POLICY."},
	}
	if s.fleet == nil {
		return stats
	}
	ago := int64(-1)
	if at := s.report.synced.Load(); at != 0 {
		ago = max(0, s.now().UnixMilli()-at)
	}
	damaged, why := int64(0), "no"
	if w := s.report.damaged.Load(); w != nil {
		damaged, why = 1, *w
	}
	return append(stats,
		engine.Stat{Name: "policies_last_sync_ms", Value: ago},
		engine.Stat{Name: "policies_sync_errors", Value: s.report.failed.Load(), Metric: "policy_sync_errors_total",
			Help: "Attempts to read and renew the stored policies that failed. There are none while their node " +
				"is down."},
		engine.Stat{Name: "policies_damaged", Text: why, Value: damaged, Metric: "policies_damaged",
			Help: "1 while the stored policies are damaged or of a newer version, and this proxy keeps those in " +
				"effect, else 0."},
	)
}
