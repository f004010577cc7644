package wire

import "strings"

// UnknownFunction reports whether a node has not run a function because it does not
// know it: it was not loaded, or the node refuses functions.
func UnknownFunction(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOSCRIPT") ||
		strings.HasPrefix(err.Error(), "ERR Function not found") || RefusesFunctions(err))
}

// RefusesFunctions reports whether a node does not let rlproxy use functions:
// it is older than Redis 7, FUNCTION or FCALL is renamed there, or the user lacks the
// permission.
func RefusesFunctions(err error) bool {
	if err == nil {
		return false
	}
	why := strings.ToLower(err.Error())
	return (strings.HasPrefix(why, "noperm") || strings.HasPrefix(why, "err unknown command")) &&
		(strings.Contains(why, "'fcall'") || strings.Contains(why, "'function") || strings.Contains(why, "`fcall`"))
}

// AlreadyLoaded reports whether another proxy was faster to load the library.
func AlreadyLoaded(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "ERR Library") && strings.HasSuffix(err.Error(), "already exists")
}
