package store

import (
	"context"
	"errors"

	"github.com/rlproxy/rlproxy/policy"
)

// Change applies change to the stored policies, stores the result and puts it into effect. It returns the new version,
// or an error reply: that of change, or that the result could not be stored. change returns the set that it is given if
// nothing is to be changed.
//
// Change waits for the record's node, up to some seconds if it does not answer.
func (s *Store) Change(change func(*policy.Set) (next *policy.Set, msg string)) (version int64, msg string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background()
	home, line, err := s.sync(ctx)
	s.record(home, err)
	if err != nil {
		return 0, refusal(home, err)
	}
	set, version := s.book.Stored()
	if version == 0 && len(s.unheard) > 0 {
		return 0, "UNAVAILABLE " + s.unheard[0].Name() + ": the node may have stored policies, but has not answered yet"
	}
	next, msg := change(set)
	if msg != "" || next == set {
		return version, msg
	}
	version++
	known, whole := record{version, next.Text()}.encode()
	done, err := home.replace(ctx, line, whole)
	switch {
	case err != nil:
		return 0, refusal(home, err)
	case !done:
		return 0, errRaced
	}
	s.known = known
	s.book.Store(next, version)
	if _, lost := home.(*inProcess); lost && version == 1 {
		s.log.Warn("policies set by RL.POLICY will be lost at exit: no policy-file is configured")
	}
	return version, ""
}

const errRaced = "ERR the policies were changed concurrently; this command changed nothing, check them and try again"

// refusal returns the error reply to a change that could not be stored in p.
func refusal(p storage, err error) string {
	after := "; nothing was changed"
	if errors.As(err, new(maybeApplied)) {
		after = "; the change may have been stored"
	}
	n, remote := p.(node)
	switch {
	case errors.As(err, new(damage)) && remote:
		return "ERR the stored policies cannot be used: " + storedKey + " on " + n.name() + ": " + err.Error() + after +
			"; delete the key to let proxies store the policies in effect again"
	case errors.As(err, new(damage)):
		return "ERR the stored policies cannot be used: " + p.name() + ": " + err.Error() + after
	case errors.Is(err, errChanging):
		return errRaced
	case remote:
		return "UNAVAILABLE " + n.name() + ": " + reason(err) + after
	}
	return "ERR the policies cannot be stored: " + err.Error() + after
}
