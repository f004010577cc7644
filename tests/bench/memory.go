package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// kind is a kind of key of which the memory is measured.
type kind struct {
	title   string
	scripts []load // the ways to keep it in Redis; the smallest is shown
	proxied load
	times   int // how often each key is asked about
}

// size is a kind that has been measured, in bytes a key.
type size struct {
	kind
	script                   string  // the smallest; empty: there is none
	direct, onNode, embedded float64 // by that script, by rlproxy on a node, and by its embedded engine
}

func (k kind) name() string { return footprint + "/" + k.title }

func (s size) String() string {
	return fmt.Sprintf("%-58s %s %.0f bytes, rlproxy %.0f bytes, embedded %.0f bytes", s.name(), s.script, s.direct, s.onNode, s.embedded)
}

// kinds lists what rlproxy keeps of a key. Windows are long, so that nothing expires meanwhile.
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
		return []load{{target: l.redisTarget(), script: name, command: l.eval(name, manyKeys, args...)}}
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

// measure fills each store in turn, and empties it before and after.
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

// bytes returns by how much a field of INFO grows at a server for each key that is asked
// about so many times.
func (l load) bytes(ctx context.Context, at *server, field string, times int) (float64, error) {
	if err := l.empty(ctx); err != nil {
		return 0, err
	}
	before, err := at.memory(field)
	if err != nil {
		return 0, err
	}
	for range times {
		if err := l.fill(ctx); err != nil {
			return 0, err
		}
	}
	after, err := at.memory(field)
	if err != nil {
		return 0, err
	}
	return (after - before) / float64(l.keys), l.empty(ctx)
}

// memory returns a field of INFO that is in bytes.
func (s *server) memory(field string) (float64, error) {
	info, err := traffic.Ask(s.address(), "INFO")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("INFO has no field %s", field)
}
