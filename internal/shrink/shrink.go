// Package shrink frees the memory of maps that have become small: a Go map does not shrink.
package shrink

import "maps"

// Map returns m, or a copy of it if m has few of the entries that it once had. most is the most
// entries that m has had; the caller raises it.
func Map[K comparable, V any](m map[K]V, most *int) map[K]V {
	if len(m) >= *most/4 || *most <= 64 {
		return m
	}
	*most = len(m)
	small := make(map[K]V, len(m))
	maps.Copy(small, m)
	return small
}
