//go:build !race

package proxytest

// Race tells whether the tests have the race detector.
const Race = false
