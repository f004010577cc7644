// Package library knows of a node whether it has the library of package lua, and how it is loaded there: when the node
// turns out not to have it, and again whenever the node has lost it. Where FUNCTION is not allowed, it runs as a
// script. A node that refuses both is still asked, but is sent the library at most once a second.
package library

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/lua"
)

// Loader is what is known of the library on one node. Its zero value is ready. Times are those of the user's clock.
type Loader struct {
	// Scripted is whether the library runs as a script, because the node refuses functions. Only Loader writes it.
	Scripted atomic.Bool

	// failure is the last time that the node failed to load or run the library; nil if it never did.
	failure atomic.Pointer[loadFailure]
}

// loadFailure is why the library could not be loaded or run.
type loadFailure struct {
	err   error
	until time.Duration // when it is tried again
}

// loadEvery is the least time between a load that failed and the next one.
const loadEvery = time.Second

// Tries is how often a batch is sent to a node that does not have the library: as it is, after loading functions, after
// loading a script, and once more if the node has just lost it.
const Tries = 4

// needs is the beginning of the error of a node that cannot run the library.
const needs = "the node cannot run rlproxy's library, which requires Redis 7 or later and permission to use " +
	"FCALL and FUNCTION LOAD, or EVALSHA and SCRIPT LOAD: "

// cannotRun is the reply of a node that lacks what the library needs.
type cannotRun struct{ error }

func (c cannotRun) Error() string {
	why, _, _ := strings.Cut(c.error.Error(), ", with args beginning with") // the arguments are the library's text
	return needs + why
}

func (c cannotRun) Unwrap() error { return c.error }

// Load returns the words of the command that loads the library.
func (l *Loader) Load() []any {
	if l.Scripted.Load() {
		return []any{"script", "load", lua.Script.Source}
	}
	return []any{"function", "load", lua.Library.Source}
}

// NoteLoad notes that the command of Load failed. It returns nil if the library is there, or is to be loaded in another
// way.
func (l *Loader) NoteLoad(err error, now time.Duration) error {
	switch {
	case alreadyLoaded(err):
		return nil
	case refusesFunctions(err):
		l.Scripted.Store(true)
		return nil
	}
	return l.note(err, true, now)
}

// NoteMissing notes that a function has not run, with an error that is Missing.
func (l *Loader) NoteMissing(err error) {
	if refusesFunctions(err) {
		l.Scripted.Store(true)
	} else if strings.HasPrefix(err.Error(), "NOSCRIPT") {
		l.Scripted.Store(false) // a node that has lost the script may accept functions by now
	}
}

// NoteCall notes that a function has failed with the error reply err. It returns the error, and says what the library
// requires if the node cannot run it.
func (l *Loader) NoteCall(err error, now time.Duration) error { return l.note(err, false, now) }

func (l *Loader) note(err error, loading bool, now time.Duration) error {
	why := strings.ToLower(err.Error())
	refused := strings.HasPrefix(why, "noperm") &&
		(strings.Contains(why, "'evalsha") || strings.Contains(why, "'script"))
	unknown := strings.HasPrefix(why, "err unknown command") || strings.HasPrefix(why, "err error compiling")
	switch {
	case refused || unknown || Missing(err):
		err = cannotRun{err}
		l.Scripted.Store(false) // functions are tried first when it is tried again
	case !loading:
		return err
	}
	if backend.IsReply(err) && !backend.Failed(err) {
		l.failure.Store(&loadFailure{err, now + loadEvery})
	}
	return err
}

// RecentFailure returns why the library could not be loaded within the last second, or nil.
func (l *Loader) RecentFailure(now time.Duration) error {
	if f := l.failure.Load(); f != nil && now < f.until {
		return f.err
	}
	return nil
}

// Missing reports whether a node has not run a function because it does not know it: it was not loaded, or the node
// refuses functions.
func Missing(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOSCRIPT") ||
		strings.HasPrefix(err.Error(), "ERR Function not found") || refusesFunctions(err))
}

// refusesFunctions reports whether a node does not let rlproxy use functions: it is older than Redis 7, FUNCTION or
// FCALL is renamed there, or the user lacks the permission.
func refusesFunctions(err error) bool {
	why := strings.ToLower(err.Error())
	return (strings.HasPrefix(why, "noperm") || strings.HasPrefix(why, "err unknown command")) &&
		(strings.Contains(why, "'fcall'") || strings.Contains(why, "'function") || strings.Contains(why, "`fcall`"))
}

// alreadyLoaded reports whether another proxy was faster to load the library.
func alreadyLoaded(err error) bool {
	return strings.HasPrefix(err.Error(), "ERR Library") && strings.HasSuffix(err.Error(), "already exists")
}
