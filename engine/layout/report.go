package layout

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

// survey is the result of a round. It is immutable.
type survey struct {
	finding
	mode      Mode                   // the mode during the round
	clustered bool                   // the nodes are a Redis Cluster
	own       list                   // this proxy's layout
	at        time.Time              // when the round was made
	nodes     map[*backend.Node]seen // what is known of each node's record
}

// seen is what is known of a node's record.
type seen struct {
	contents *contents // the record when it was last read; nil if it never was
	err      error     // the error of the latest attempt to read it; nil if that succeeded
}

// journal logs what rounds find.
type journal struct {
	about    *episodes.Episodes
	conflict *episodes.Episode // of all other layouts
	at       time.Time         // of the survey that is logged
}

// The kinds of trouble.
var (
	differs = &episodes.Trouble{Began: "another proxy has a different list of backends"}
	renamed = &episodes.Trouble{Began: "another proxy has the same list of backends but reaches different servers"}
	twice   = &episodes.Trouble{
		Began: "two backends are the same server: list it only once",
		Ended: "two backends are no longer the same server",
	}
	refuses = &episodes.Trouble{
		Began: "cannot compare the lists of backends", Ended: "the lists of backends can be compared again",
	}
)

func newReport(log *slog.Logger) *journal {
	r := new(journal)
	now := func() time.Time { return r.at }
	r.about = episodes.NewEpisodes(log, now)
	r.conflict = episodes.New(log, now, episodes.Trouble{Ended: "all proxies have the same list of backends again"})
	return r
}

// log writes the findings of v to the log. The end of trouble is logged in the first round that finds none.
func (r *journal) log(v *survey) {
	r.at = v.at
	if v.conflict != nil {
		r.conflict.Note("", 0, func() []any { return nil })
		for _, o := range v.conflict.others {
			kind := differs
			if o.renamed {
				kind = renamed
			}
			r.about.Note(kind, nil, o.list.text(), "proxies", some(slices.Sorted(maps.Keys(o.proxies))),
				"their_list", some(o.list), "own_list", some(v.own),
				"keys_elsewhere", fmt.Sprintf("%d%%", v.conflict.share(o)), "layout-guard", v.mode)
		}
	}
	for _, pair := range v.twice {
		a, b := v.own[pair[0]], v.own[pair[1]]
		r.about.Note(twice, []any{"backend", a, "other", b}, a+" "+b)
	}
	for n, s := range v.nodes {
		if backend.IsReply(s.err) {
			r.about.Note(refuses, []any{"node", n.Name()}, n.Name(), "why", s.err)
		}
	}
	r.about.Round()
	switch {
	case v.mode == Off:
		r.conflict.Take() // nothing is compared any more
	case v.conflict == nil:
		r.conflict.End()
	}
}

// some joins words for a log line. Of many it lists only the first 20.
func some(words []string) string {
	const most = 20
	if more := len(words) - most; more > 0 {
		return strings.Join(words[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(words, ", ")
}

// Stats returns what INFO and metrics show of the guard.
func (g *Guard) Stats() []engine.Stat {
	v := g.latest.Load()
	if v == nil {
		v = new(survey)
	}
	state := "agreed"
	switch {
	case v.clustered:
		state = "cluster"
	case v.mode == Off:
		state = "unguarded"
	case v.conflict != nil:
		state = "conflict"
	case !slices.ContainsFunc(slices.Collect(maps.Values(v.nodes)), func(s seen) bool { return s.contents != nil }):
		state = "unknown"
	}
	conflict := int64(0)
	if v.conflict != nil {
		conflict = 1
	}
	return []engine.Stat{
		{Name: "layout_guard", Text: v.mode.String()},
		{Name: "layout", Text: state, Value: conflict, Metric: "layout_conflict",
			Help: "1 while another proxy places keys on other nodes, else 0."},
		{Name: "layouts_of_others", Value: int64(len(v.others)), Metric: "layouts_of_others",
			Help: "Other lists of backends that proxies of the same nodes have."},
		{Name: "layout_servers_named_twice", Value: int64(len(v.twice)), Metric: "layout_servers_named_twice",
			Help: "Pairs of backends that are the same server."},
		{Name: "layout_answers", Value: g.Answers.Load(), Metric: "layout_answers_total",
			Help: "Answers by FAIL policy about keys that proxies place on different nodes."},
	}
}

// Describe adds to d the layouts in the record of a node.
func (g *Guard) Describe(n *backend.Node, d *engine.NodeInfo) {
	v := g.latest.Load()
	if v == nil {
		return
	}
	r := v.nodes[n].contents
	if r == nil {
		return
	}
	own, now := v.own.text(), time.Now()
	for i := range r.listings {
		if proxies := r.listings[i].live(now); len(proxies) > 0 {
			names := r.listings[i].list
			d.Layouts = append(d.Layouts, engine.Layout{
				Own: names.text() == own, Names: names, Proxies: slices.Sorted(maps.Keys(proxies)),
			})
		}
	}
}
