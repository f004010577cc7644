//go:build race

package proxytest

// Race reports whether the tests run under the race detector.
const Race = true
