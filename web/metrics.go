package web

import (
	"net/http"

	"github.com/rlproxy/rlproxy/web/metrics"
)

// metrics returns the handler of /metrics. Only users who may read all keys with RL.HOTKEYS see keys.
func (s *Server) metrics() http.Handler {
	return metrics.New(s.cfg.Metrics).Handler(func(r *http.Request) bool {
		return visitorOf(r).user.MayReadAll("rl.hotkeys")
	}, s.log)
}
