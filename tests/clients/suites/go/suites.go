// Package suites requires the modules whose own tests run against rlproxy.
package suites

import _ "github.com/ulule/limiter/v3/drivers/store/redis"
