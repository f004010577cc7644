package library

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The errors are those of Redis 6, 7 and 8 and of Valkey.
func TestErrorsAboutTheLibrary(t *testing.T) {
	for text, is := range map[string]struct{ unknown, refused, loaded bool }{
		"ERR Function not found":                                                          {unknown: true},
		"NOSCRIPT No matching script. Please use EVAL.":                                   {unknown: true},
		"ERR Library 'rlproxy_1' already exists":                                          {loaded: true},
		"ERR Library 'rlproxy_1' could not be compiled":                                   {},
		"ERR unknown command 'GET', with args beginning ":                                 {},
		"OOM command not allowed when used memory > 'maxmemory'.":                         {},
		"ERR unknown command `fcall`, with args beginning with: `rl_decide_1`, ":          {unknown: true, refused: true},
		"ERR unknown command 'FCALL', with args beginning with: 'rl_decide_1' ":           {unknown: true, refused: true},
		"NOPERM this user has no permissions to run the 'function|load' command":          {unknown: true, refused: true},
		"NOPERM User limits has no permissions to run the 'fcall' command":                {unknown: true, refused: true},
		"NOPERM this user has no permissions to access one of the keys used as arguments": {},
		"NOPERM this user has no permissions to run the 'get' command":                    {},
	} {
		err := errors.New(text)
		require.Equal(t, is.unknown, Missing(err), text)
		require.Equal(t, is.refused, refusesFunctions(err), text)
		require.Equal(t, is.loaded, alreadyLoaded(err), text)
	}
	require.False(t, Missing(nil), "no error")
}
