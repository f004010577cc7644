package engine

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet keeps go-redis from writing to standard error: what it would say comes back
// as an error too, and is logged once a change of state, not once an attempt.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
