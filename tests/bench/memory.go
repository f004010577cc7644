package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rlproxy/rlproxy/tests/testbed"
)

// kind is a kind of key whose memory is measured.
type kind struct {
	title   string
	scripts []load // the loads of Redis, one for each script; the smallest result is shown
	proxied load   // the load of rlproxy
	times   int    // the number of requests for each key
}

// size is the result for a kind.
type size struct {
	kind
	script                   string  // the script that takes the least memory; empty: none
	direct, onNode, embedded float64 // bytes per key with that script, with rlproxy on a node, and with its embedded engine
}

func (k kind) name() string { return footprint + "/" + k.title }

func (s size) String() string {
	return fmt.Sprintf("%-58s %s %.0f bytes, rlproxy %.0f bytes, embedded %.0f bytes", s.name(), s.script, s.direct, s.onNode, s.embedded)
}

// kinds returns all kinds. Their windows are so long that nothing expires while they are measured.
func kinds(l *lab, o options) (all []kind) {
	const day = 86_400_000 // ms
	keys := o.most / 10
	add := func(title string, scripts []load, times int, command ...string) {
		proxied := load{target: l.proxyTarget(), command: command, keys: keys / times}
		for i := range scripts {
			scripts[i].keys = keys / times
		}
		all = append(all, kind{title, scripts, proxied, times})
	}
	script := func(name string, args ...string) []load {
		return []load{{target: l.redisTarget(), script: name, command: l.Eval(name, manyKeys, args...)}}
	}
	for _, q := range algorithms {
		ask := asked{q, manyKeys, 100, day}
		direct := func() []load { return ask.directs(l, load{target: l.redisTarget()}) }
		add(q.command, direct(), 1, ask.proxied()...)
		if q.command == "RL.SLIDE" {
			add("RL.SLIDE, 100 admissions", direct(), 100, ask.proxied()...)
			add("RL.SLIDE, two windows", script("lists", "100", strconv.Itoa(day), "1000", strconv.Itoa(2*day)), 1,
				append(ask.proxied(), "1000", "2d")...)
		}
	}
	add("RL.FIXED", script("fixed", "100", strconv.Itoa(day)), 1, "RL.FIXED", manyKeys, "100", "1d")
	add("CL.THROTTLE", script("gcra", "99", "100", "86400"), 1, "CL.THROTTLE", manyKeys, "99", "100", "86400")
	add("RL.SLIDE with ONCE, one id", nil, 1, "RL.SLIDE", manyKeys, "100", "1d", "ONCE", "id")
	add("RL.RESERVE, one reservation", nil, 1, "RL.RESERVE", manyKeys, "100", "1d", "COST", "1", "ID", "id", "TTL", "1h")
	add("RL.ACQUIRE, one lease", nil, 1, "RL.ACQUIRE", manyKeys, "100", "ID", "id", "TTL", "1h")
	return all
}

// measure fills each store in turn. It empties the store before and after.
func (k kind) measure(ctx context.Context, l *lab) (size, error) {
	s := size{kind: k}
	for _, way := range k.scripts {
		bytes, err := way.bytes(ctx, l.node, "used_memory", k.times)
		if err != nil {
			return s, err
		}
		if s.script == "" || bytes < s.direct {
			s.script, s.direct = way.script, bytes
		}
	}
	var err error
	if s.onNode, err = k.proxied.bytes(ctx, l.node, "used_memory", k.times); err != nil {
		return s, err
	}
	k.proxied.target = l.memoryTarget()
	s.embedded, err = k.proxied.bytes(ctx, l.memory, "memory", k.times)
	return s, err
}

// bytes returns by how many bytes per key a field of INFO grows when each key gets that many
// requests.
func (l load) bytes(ctx context.Context, at *testbed.Server, field string, times int) (float64, error) {
	if err := l.empty(ctx); err != nil {
		return 0, err
	}
	before, err := at.Memory(field)
	if err != nil {
		return 0, err
	}
	for range times {
		if err := l.fill(ctx); err != nil {
			return 0, err
		}
	}
	after, err := at.Memory(field)
	if err != nil {
		return 0, err
	}
	return (after - before) / float64(l.keys), l.empty(ctx)
}
