package backend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet keeps go-redis from writing to standard error. go-redis also returns each failure as an
// error, which rlproxy logs once per change of state and not once per attempt.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
