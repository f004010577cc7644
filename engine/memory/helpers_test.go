package memory

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

// setClock opens an embedded engine without a janitor whose clock the test sets.
func setClock(t testing.TB, cfg Config) (*Engine, *int64) {
	clock := new(int64)
	*clock = conformance.Base
	cfg.Now = conformance.At(func() int64 { return *clock })
	e := New(cfg)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e, clock
}
