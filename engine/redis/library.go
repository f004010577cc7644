package redis

import (
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/wire"
)

// The library of package lua is loaded when a node turns out not to have it, and
// again whenever the node has lost it. Where FUNCTION is not allowed, the library runs
// as a script. A node that refuses both is still asked, but is sent the library at most
// once a second.

// loadEvery is the least time between a load that failed and the next one.
const loadEvery = time.Second

// needs is the beginning of the error of a node that cannot run the library.
const needs = "the node cannot run rlproxy's library, which requires Redis 7 or later and permission to use FCALL and FUNCTION LOAD, or EVALSHA and SCRIPT LOAD: "

// loadFailure is why the library could not be loaded or run.
type loadFailure struct {
	err   error
	until time.Duration // when it is tried again, by the engine's own clock
}

// cannotRun is the reply of a node that lacks what the library needs.
type cannotRun struct{ error }

func (c cannotRun) Error() string {
	why, _, _ := strings.Cut(c.error.Error(), ", with args beginning with") // the arguments are the library's text
	return needs + why
}

func (c cannotRun) Unwrap() error { return c.error }

// noteLoadFailure notes the error of a node that did not load the library or, if loading is
// false, did not run a function. If the node cannot run the library, it returns an error
// that lists what the library requires.
func (q *queue) noteLoadFailure(err error, loading bool) error {
	why := strings.ToLower(err.Error())
	refused := strings.HasPrefix(why, "noperm") && (strings.Contains(why, "'evalsha") || strings.Contains(why, "'script"))
	unknown := strings.HasPrefix(why, "err unknown command") || strings.HasPrefix(why, "err error compiling")
	switch {
	case refused || unknown || wire.UnknownFunction(err):
		err = cannotRun{err}
		q.scripted.Store(false) // functions are tried first when it is tried again
	case !loading:
		return err
	}
	if backend.IsReply(err) && !backend.Failed(err) {
		q.loadFailure.Store(&loadFailure{err, q.engine.elapsed() + loadEvery})
	}
	return err
}

// recentLoadFailure returns why the library could not be loaded within the last second, or nil.
func (q *queue) recentLoadFailure() error {
	if f := q.loadFailure.Load(); f != nil && q.engine.elapsed() < f.until {
		return f.err
	}
	return nil
}
