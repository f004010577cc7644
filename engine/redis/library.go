package redis

import (
	"strings"
)

// The library of package lua is loaded when a node turns out not to have it, and
// again whenever it has lost it. Where FUNCTION is not allowed, its text runs as a
// script.

// unknownFunction reports whether a node has not run a function because it does not
// know it: it was not loaded, or the node refuses functions.
func unknownFunction(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOSCRIPT") ||
		strings.HasPrefix(err.Error(), "ERR Function not found") || refusesFunctions(err))
}

// refusesFunctions reports whether a node does not let rlproxy have functions:
// FUNCTION or FCALL is renamed there, or the user lacks the permission.
func refusesFunctions(err error) bool {
	if err == nil {
		return false
	}
	why := strings.ToLower(err.Error())
	return (strings.HasPrefix(why, "noperm") || strings.HasPrefix(why, "err unknown command")) &&
		(strings.Contains(why, "'fcall'") || strings.Contains(why, "'function"))
}

// alreadyLoaded reports whether another proxy was faster to load the library.
func alreadyLoaded(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "ERR Library") && strings.HasSuffix(err.Error(), "already exists")
}
