package web

import (
	"net/http"
	"slices"

	"github.com/rlproxy/rlproxy/engine/decisionlog"
)

// recent answers with the newest denials of keys that the user may read, in the form of the decision log.
func (s *Server) recent(w http.ResponseWriter, r *http.Request) {
	u := visitorOf(r).user
	all, clients := u.MayReadAll("rl.hotkeys"), u.MayRun("client|list")
	var denials []decisionlog.Denial
	for _, group := range s.cfg.Denials() {
		for _, d := range group.Keys {
			if all || u.MayUse("rl.hotkeys", d.Key, true, false) {
				denials = append(denials, d)
			}
		}
	}
	slices.SortStableFunc(denials, func(a, b decisionlog.Denial) int { return a.Time.Compare(b.Time) })
	w.Header().Set("Content-Type", "application/x-ndjson")
	for i := range denials {
		d := &denials[i]
		if !clients {
			d.Client, d.ClientName = "", ""
		}
		if _, err := w.Write(d.JSON()); err != nil {
			return // the client has left
		}
	}
}
