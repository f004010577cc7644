package backend

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ownFunctions is the prefix of the names of the functions in rlproxy's library, of any version.
const ownFunctions = "rl_"

// isBusy reports whether err is the reply of a node that has been running one script or
// function for a long time, and refuses everything else until that ends.
func isBusy(err error) bool { return redis.HasErrorPrefix(err, "BUSY") }

// endBusyFunction ends the function that keeps the node busy if it is one of rlproxy's. Other functions
// and scripts are left to their owners. Redis refuses to end a function that has written.
func (n *Node) endBusyFunction(ctx context.Context) {
	stats, err := n.client.Do(ctx, "function", "stats").Slice() // running_script, its name and more, ...
	if err != nil || len(stats) < 2 {
		return
	}
	running, ok := stats[1].([]any)
	if !ok || len(running) < 2 {
		return
	}
	if name, ok := running[1].(string); ok && strings.HasPrefix(name, ownFunctions) {
		log := n.fleet.config.Logger
		if err := n.client.Do(ctx, "function", "kill").Err(); err != nil {
			log.Warn("cannot end the function that keeps the node busy", "node", n.name, "function", name, "why", err)
			return
		}
		log.Warn("ended the function that kept the node busy", "node", n.name, "function", name)
	}
}
