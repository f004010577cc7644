package acl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRulesAreShownInTheirShortestForm(t *testing.T) {
	for rules, want := range map[string]string{
		"":                             "&* -@all",
		"allkeys allcommands":          "~* &* +@all",
		"+get +@all":                   "&* +@all",
		"+get nocommands +set":         "&* -@all +set",
		"~a resetkeys %R~b %rw~c":      "%R~b ~c &* -@all",
		"%W~a ~*":                      "~* &* -@all",
		"+GET +Client|Id &news -@FAST": "&* -@all +get +client|id -@fast",
	} {
		require.Equal(t, want, selector(t, rules).String(), rules)
	}
}

func TestNamesOfCommandsAreRefusedOnlyIfNoNodeCanKnowThem(t *testing.T) {
	for name, want := range map[string]bool{
		"rl.slide": true, "rl.slid": false, "client|id": true, "client|what": false, "what": true, "what|that": true,
		"": false, "a(": false, "@read": true, "@what": false, "@all": true, "é": false,
	} {
		var s Selector
		require.Equal(t, want, s.addCommand(known, true, name) == nil, name)
	}
}
