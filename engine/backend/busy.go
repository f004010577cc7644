package backend

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ownFunctions is how the functions of rlproxy's library are named, of any version.
const ownFunctions = "rl_"

// isBusy reports whether err is the reply of a node that has been running one script or
// function for long, and refuses everything else until that ends.
func isBusy(err error) bool { return redis.HasErrorPrefix(err, "BUSY") }

// free ends the function that keeps the node busy if it is one of rlproxy's. What others
// run is theirs to end. Redis refuses to end a function that has written.
func (n *Node) free(ctx context.Context) {
	stats, err := n.client.Do(ctx, "function", "stats").Slice() // running_script, its name and more, ...
	if err != nil || len(stats) < 2 {
		return
	}
	running, ok := stats[1].([]any)
	if !ok || len(running) < 2 {
		return
	}
	if name, ok := running[1].(string); ok && strings.HasPrefix(name, ownFunctions) {
		err := n.client.Do(ctx, "function", "kill").Err()
		n.fleet.config.Logger.Warn("ended a function that kept the node busy", "node", n.name, "function", name, "error", err)
	}
}
