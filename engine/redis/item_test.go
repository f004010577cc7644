package redis

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// What replicas must have is what a node has written for an item.
func TestWhatANodeHasWrittenForAnItem(t *testing.T) {
	charged, asked := charge("a", 5), charge("a", 5)
	asked.Cost = 0
	admitted, denied := engine.Result{Decision: limit.Decision{Allowed: true}}, engine.Result{}
	multi := func(res engine.Result, requests ...engine.Request) *multiKey {
		return &multiKey{requests: requests, results: []engine.Result{res, res}}
	}
	for name, c := range map[string]struct {
		task task
		req  engine.Request
		res  engine.Result
		open bool
		want bool
	}{
		"admitted":                         {task: entry{}, req: charged, res: admitted, want: true},
		"denied":                           {task: entry{}, req: charged, res: denied},
		"at no cost":                       {task: entry{}, req: asked, res: admitted},
		"reset":                            {task: entry{}, res: engine.Result{Reset: true}, want: true},
		"answered by a FAIL policy":        {task: entry{}, req: charged, res: engine.Result{Decision: admitted.Decision, Fail: engine.FailOpen}},
		"left to package split":            {task: entry{}, req: charged, res: admitted, open: true},
		"settled":                          {task: withID{}, res: engine.Result{Settled: engine.Settlement{Settled: true}}, want: true},
		"sent on":                          {task: sentOn{}},
		"a call of package split":          {task: &splitCall{}, want: true},
		"two keys":                         {task: multi(admitted, charged, charged), req: charged, res: admitted, want: true},
		"two keys, the first at no cost":   {task: multi(admitted, asked, charged), req: asked, res: admitted, want: true},
		"two keys, both at no cost":        {task: multi(admitted, asked, asked), req: asked, res: admitted},
		"two keys, of which one is denied": {task: multi(denied, charged, charged), req: charged, res: denied},
	} {
		it := item{task: c.task, req: &c.req, res: &c.res, open: c.open}
		require.Equal(t, c.want, it.task.wrote(&it), name)
	}
}
