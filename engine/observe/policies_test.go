package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// by returns how many decisions of RL.SLIDE had an outcome, by policy, without policies that
// had none.
func (o *Observer) by(outcome Outcome) map[string]int64 {
	all := map[string]int64{}
	for policy, c := range o.Counts() {
		if n := c.Of(Slide, outcome); n > 0 {
			all[policy] = n
		}
	}
	return all
}

func TestDecisionsAreCountedByPolicy(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	p := decided(allowed, allowed, allowed, denied, denied, allowed, policy(engine.FailOpen), allowed)
	for i, name := range []string{"", "api", "api", "api", "login", "", "login", "login"} {
		p.Requests[i].Policy = name
	}
	p.Requests[7].Op = engine.OpReset
	o.Observe(p, time.Now(), time.Millisecond, Sender{})
	require.Equal(t, map[string]int64{"": 2, "api": 2}, o.by(Allowed))
	require.Equal(t, map[string]int64{"api": 1, "login": 1}, o.by(Denied))
	require.Equal(t, map[string]int64{"login": 1}, o.by(FailOpen))
	require.EqualValues(t, 7, o.Durations(Slide).Snapshot().Count)

	p = decided(denied, denied)
	p.Requests[0].Policy, p.Requests[1].Policy = "api", "api"
	p.Requests[1].Kind = limit.Fixed // it was set anew between two requests
	o.Observe(p, time.Now(), time.Millisecond, Sender{})
	require.Equal(t, map[string]int64{"api": 2, "login": 1}, o.by(Denied))
	require.EqualValues(t, 1, o.policies.of("api").Of(Fixed, Denied))
}

// Policies beyond the bound are counted together. Those before have their own counts still.
func TestCountsOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	ask := func(name string) {
		p := decided(allowed)
		p.Requests[0].Policy = name
		o.Observe(p, time.Now(), time.Millisecond, Sender{})
	}
	want := map[string]int64{OtherPolicies: 20}
	for i := range maxPolicies + 10 {
		name := fmt.Sprint("policy", i)
		if ask(name); i < maxPolicies {
			want[name] = 1
		}
	}
	for i := maxPolicies - 10; i < maxPolicies+10; i++ {
		name := fmt.Sprint("policy", i)
		if ask(name); i < maxPolicies {
			want[name]++
		}
	}
	require.Equal(t, want, o.by(Allowed))
}

// Goroutines that ask about the same new policies at the same time lose no count.
func TestPoliciesAreCountedByManyAtATime(t *testing.T) {
	t.Parallel()
	const askers, names = 8, 500
	o := New(Config{})
	var wg sync.WaitGroup
	start := make(chan bool)
	for range askers {
		wg.Go(func() {
			<-start
			for i := range names {
				o.policies.of(fmt.Sprint(i)).n[Slide][Allowed].Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	want := map[string]int64{}
	for i := range names {
		want[fmt.Sprint(i)] = askers
	}
	require.Equal(t, want, o.by(Allowed))
	require.Len(t, maps.Collect(o.Counts()), names+2)
}

// A name may be a part of a text with all policies, which must not be kept for it.
func TestCountsKeepNoTextOfAnother(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	name := strings.Fields("policy api SLIDE 100 60")[1]
	o.policies.of(name)
	names := slices.Collect(maps.Keys(maps.Collect(o.Counts())))
	require.Contains(t, names, name)
	require.NotSame(t, unsafe.StringData(name), unsafe.StringData(names[slices.Index(names, name)]))
}
