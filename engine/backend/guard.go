package backend

import (
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/rlproxy/rlproxy/engine"
)

// ErrPanicked is the error for a round that a panic ended.
var ErrPanicked = errors.New("internal error: see the log")

// Guard runs one round of a goroutine's work. A panic ends the round but not the process:
// Guard logs it with its stack and returns false. doing names the work in the log.
func Guard(log *slog.Logger, doing string, round func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("internal error", "doing", doing, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	round()
	return true
}

// GuardAnswers is Guard for a round that sets the results of a pipeline. After a panic, it is unknown which requests
// were applied, so all of them get an error.
func GuardAnswers(log *slog.Logger, doing string, p *engine.Pipeline, round func()) {
	if Guard(log, doing, round) {
		return
	}
	for i := range p.Results {
		err := &engine.Unavailable{Node: "rlproxy", Why: ErrPanicked.Error(), MaybeApplied: true}
		p.Results[i] = engine.Result{Err: err}
	}
}
