package backend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet keeps go-redis from writing to standard error. It also returns what it would
// write as an error, which is logged once per change of state, not once per attempt.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
