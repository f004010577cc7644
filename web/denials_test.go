package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
)

// Users get the newest denials of their keys as lines of the decision log, the oldest first.
func TestNewestDenialsAreLinesOfTheDecisionLog(t *testing.T) {
	rules := Access{ACL: users(t, "default off", "boss on >b ~* +@all", "shop on >s ~shop:* +rl.hotkeys", "poor on >p ~* +ping")}
	s := start(t, rules, NoNodes, nil)
	at := time.UnixMilli(1_700_000_000_123)
	s.deny(
		decisionlog.Group{Keys: []decisionlog.Denial{{Time: at.Add(time.Second), Command: "rl.slide", Key: []byte("\xff"), Limit: 9, Window: time.Second, Used: -1, Cost: 2, Node: "a:1",
			Fail: engine.FailClosed, Client: "192.0.2.1:5"}}},
		decisionlog.Group{Keys: []decisionlog.Denial{{Time: at, Command: "rl.fixed", Policy: "shop", Key: []byte("shop:7"), Limit: 5, Window: time.Minute, Used: 5, Cost: 1,
			RetryAfter: 1500 * time.Millisecond, Node: "a:1", Client: "192.0.2.1:5", ClientName: "checkout"}}},
	)
	const own = `{"time":"2023-11-14T22:13:20.123Z","event":"denial","command":"rl.fixed","policy":"shop","result":"denied","key":"shop:7","limit":5,` +
		`"window":60000,"used":5,"cost":1,"retry_after":1500,"node":"a:1","client":"192.0.2.1:5","client_name":"checkout"}` + "\n"
	const other = `{"time":"2023-11-14T22:13:21.123Z","event":"fail","command":"rl.slide","result":"denied","key":"` + "\ufffd" + `","key_base64":"/w==",` +
		`"limit":9,"window":1000,"cost":2,"retry_after":0,"node":"a:1","fail":"closed","client":"192.0.2.1:5"}` + "\n"
	for user, want := range map[string]string{
		"boss:b": own + other,
		"shop:s": strings.Replace(own, `"client":"192.0.2.1:5","client_name":"checkout"`, `"client":""`, 1),
	} {
		code, text := s.get(t, "/denials", user)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, strings.ReplaceAll(want, "\ufffd", `\ufffd`), text, user)
	}
	code, _ := s.get(t, "/denials", "poor:p")
	require.Equal(t, http.StatusForbidden, code)
	code, _ = s.get(t, "/denials", "")
	require.Equal(t, http.StatusUnauthorized, code)
}
