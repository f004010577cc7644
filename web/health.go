package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Ready selects which nodes must answer for the process to be ready, as the directive ready-nodes does.
type Ready string

// The choices.
const (
	NoNodes  Ready = "none" // ready whatever the state of the nodes
	AnyNode  Ready = "any"  // ready if at least one node is up
	AllNodes Ready = "all"  // ready if all nodes are up
)

// health answers /healthz: whether the process works, that is, whether the sampler, which calls the other parts once a
// second, does not hang. A node that is away is no reason to restart the process.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.hangs() {
		http.Error(w, "unhealthy: no internal check has completed for 10 s", http.StatusServiceUnavailable)
		return
	}
	writeLine(w, "ok")
}

// ready answers /readyz: whether clients should use this process. Users who may see the nodes get the reasons why not.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	why := s.missing()
	if len(why) == 0 {
		writeLine(w, "ok")
		return
	}
	if !visitorOf(r).user.MayRun("rl.nodes") {
		why = []string{"not ready"}
	}
	http.Error(w, strings.Join(why, "\n"), http.StatusServiceUnavailable)
}

// missing returns the reasons why the process is not ready. There are none if it is ready.
func (s *Server) missing() (why []string) {
	if s.draining.Load() {
		return []string{"the process is stopping"}
	}
	if s.cfg.Ready == NoNodes {
		return nil
	}
	nodes := s.cfg.Engine.Nodes()
	if len(nodes) == 0 {
		return []string{"no node is known yet"}
	}
	for i := range nodes {
		if n := &nodes[i]; n.State != "up" && n.State != "suspect" { // a suspect node still gets requests
			why = append(why, fmt.Sprintf("%s: %s, %s", n.Name, n.State, n.Why))
		}
	}
	if s.cfg.Ready == AnyNode && len(why) < len(nodes) {
		why = nil
	}
	if s.cfg.Waiting == nil {
		return why
	}
	if waiting := s.cfg.Waiting(); waiting != "" {
		why = append(why, waiting)
	}
	return why
}

func writeLine(w http.ResponseWriter, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, line+"\n") // the client may be gone
}
