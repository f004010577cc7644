package backend

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

const (
	// factsEvery is the time between two requests for the facts of a node.
	factsEvery = 10 * time.Second
	// unsaved is how long a node has been up with changes that it has not saved, if it is said to save nothing. By
	// default, Redis saves a single change after an hour.
	unsaved = 2 * time.Hour
)

// facts are what a node says of itself.
type facts struct {
	engine.NodeFacts
	run    string // identifies the process: a restart changes it
	loaded int64  // keys that the process read from a file when it started, also those that had expired
	clock  time.Time
}

// memoryNearlyFull is trouble that the facts of a node show.
var memoryNearlyFull = episodes.Trouble{
	Began: "the node's memory is nearly full", Ended: "the node's memory is no longer nearly full",
	Calm: episodes.Every,
}

// clocksDiffer is trouble that the facts of a node show.
var clocksDiffer = episodes.Trouble{
	Began: "the clocks of the node and of this machine differ: limits hold by the node's",
	Ended: "the clocks of the node and of this machine agree again",
}

const (
	// maxOffset is how far the clocks of a node and of this machine may be apart, unless windows are short.
	maxOffset = time.Second
	// minOffset is how far they may be apart however short windows are: clocks agree no better without effort.
	minOffset = 10 * time.Millisecond
)

// Facts returns what the node said of itself last, or nil if it has said nothing yet.
func (n *Node) Facts() *engine.NodeFacts {
	if f := n.facts.Load(); f != nil {
		return &f.NodeFacts
	}
	return nil
}

// examine asks the node for its facts and logs what an operator should know of them. Before that, it calls up with what
// has become of the node since it was last asked. A node that refuses to say its facts, because its user may not run
// INFO, has none.
func (n *Node) examine(ctx context.Context, up func(about ...any)) {
	ctx, cancel := context.WithTimeout(ctx, n.fleet.Timeout())
	defer cancel()
	asked := time.Now()
	text, err := n.client.Info(ctx, "server", "memory", "persistence", "keyspace").Result()
	if err != nil {
		up()
		return
	}
	now, was := parseFacts(text), n.facts.Load()
	now.compareClocks(asked, time.Since(asked), n.fleet.shortest())
	if was != nil {
		now.LostKeys = was.LostKeys + now.lost(was)
	}
	n.facts.Store(now)
	up(now.since(was)...)
	n.compare(was, now)
}

// since returns attributes that compare the node with what it was, which may be nil.
func (f *facts) since(was *facts) []any {
	if was == nil {
		return []any{"keys", f.Keys}
	}
	process := "another"
	if f.run == was.run {
		process = "the same"
	}
	return []any{"process", process, "keys", f.Keys, "keys_before", was.Keys}
}

// lost returns 1 if the node has come back without the keys that it had, else 0.
func (f *facts) lost(was *facts) int64 {
	if f.run != was.run && f.Keys < was.Keys/2 && f.loaded < was.Keys/2 {
		return 1
	}
	return 0
}

// compare logs what has changed since the facts were was, which is nil the first time.
func (n *Node) compare(was, now *facts) {
	log := n.fleet.config.Logger.With("node", n.name)
	if was == nil {
		was = &facts{run: now.run}
	}
	if now.LostKeys > was.LostKeys {
		log.Warn("the node has come back without its keys: what it had counted is lost, so these limits begin at 0",
			"keys", now.Keys, "before", was.Keys)
	}
	if now.Evicts && !was.Evicts {
		log.Warn("the node may evict keys, and with them what was counted: set its maxmemory-policy to noeviction",
			"maxmemory", now.MaxMemory, "maxmemory-policy", now.Policy)
	}
	if now.Saves == "no" && was.Saves != "no" {
		log.Info("the node saves nothing: after a restart its limits begin at 0", "for", unsaved)
	}
	if now.ClockOff {
		n.clock.Note("", 0, func() []any { return []any{"offset", now.Offset.Round(time.Millisecond)} })
	} else {
		n.clock.End()
	}
	if now.NearlyFull() {
		n.full.Note("", 0, func() []any {
			return []any{"used", now.Memory, "maxmemory", now.MaxMemory, "maxmemory-policy", now.Policy}
		})
	} else {
		n.full.End()
	}
}

// compareClocks compares the node's clock with this machine's. The node read its clock at some time after asked, within
// took. shortest is the shortest window that was asked for lately, a hundredth of which the clocks may be apart.
func (f *facts) compareClocks(asked time.Time, took, shortest time.Duration) {
	if f.clock.IsZero() {
		return
	}
	f.Latency, f.Offset = took, f.clock.Sub(asked.Add(took/2))
	f.ClockOff = f.Offset.Abs()-took/2 > min(max(shortest/100, minOffset), maxOffset)
}

// parseFacts returns the facts in the text of INFO. What is missing is 0 or empty.
func parseFacts(text string) *facts {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	f := &facts{run: fields["run_id"]}
	if micros := number("server_time_usec"); micros > 0 {
		f.clock = time.UnixMicro(micros)
	}
	f.loaded = number("rdb_last_load_keys_loaded") + number("rdb_last_load_keys_expired")
	f.Memory, f.MaxMemory, f.Policy = number("used_memory"), number("maxmemory"), fields["maxmemory_policy"]
	f.Evicts = f.MaxMemory > 0 && f.Policy != "noeviction"
	switch {
	case fields["aof_enabled"] == "1":
		f.Saves = "aof"
	case number("rdb_saves") > 0 || f.loaded > 0:
		f.Saves = "rdb"
	case number("rdb_changes_since_last_save") > 0 && number("uptime_in_seconds") > int64(unsaved.Seconds()):
		f.Saves = "no"
	}
	for name, value := range fields { // db0:keys=1,expires=0,...
		if db, found := strings.CutPrefix(name, "db"); found && db != "" {
			first, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
			keys, _ := strconv.ParseInt(first, 10, 64)
			f.Keys += keys
		}
	}
	return f
}
