//go:build !unix

package machine

import "math"

// OpenFiles returns the number of files that this process may have open: there is no known limit.
func OpenFiles() int { return math.MaxInt32 }
