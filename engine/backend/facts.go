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
}

// memoryNearlyFull is trouble that the facts of a node show.
var memoryNearlyFull = episodes.Trouble{
	Began: "the node's memory is nearly full", Ended: "the node's memory is no longer nearly full",
	Calm: episodes.Every,
}

// Facts returns what the node said of itself last, or nil if it has said nothing yet.
func (n *Node) Facts() *engine.NodeFacts {
	if f := n.facts.Load(); f != nil {
		return &f.NodeFacts
	}
	return nil
}

// examine asks the node for its facts and logs what an operator should know of them. A node that refuses to say them,
// because its user may not run INFO, has none.
func (n *Node) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.fleet.Timeout())
	defer cancel()
	text, err := n.client.Info(ctx, "server", "memory", "persistence", "keyspace").Result()
	if err != nil {
		return
	}
	now, was := parseFacts(text), n.facts.Load()
	n.facts.Store(now)
	n.compare(was, now)
}

// compare logs what has changed since the facts were was, which is nil the first time.
func (n *Node) compare(was, now *facts) {
	log := n.fleet.config.Logger.With("node", n.name)
	if was == nil {
		was = &facts{run: now.run}
	}
	if now.run != was.run && now.Keys < was.Keys/2 && now.loaded < was.Keys/2 {
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
	if now.NearlyFull() {
		n.full.Note("", 0, func() []any {
			return []any{"used", now.Memory, "maxmemory", now.MaxMemory, "maxmemory-policy", now.Policy}
		})
	} else {
		n.full.End()
	}
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
