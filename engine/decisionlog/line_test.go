package decisionlog

import (
	"os"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Each row is a decision and its line, without the time and the client.
func TestLinesSayWhatWasDecided(t *testing.T) {
	t.Parallel()
	two := slide("k")
	two.N, two.Windows[1], two.Window, two.Limit = 2, limit.Window{Limit: 900, Length: 60_000}, 1, 900
	two.Cost, two.Remaining, two.RetryAfter = 7, 3, 1234
	throttle := slide("k")
	throttle.Kind, throttle.Manner, throttle.Windows[0].Length = limit.GCRA, 2_000_000_000, 0
	remembered := slide("<k>&")
	remembered.Remembered = true
	trial := slide("k\xffs")
	trial.Shadow = true
	again := slide("k").allowed(2) // its id is known from a request with a limit of 3
	again.Again, again.Limit = true, 3
	checked, blocked := slide("api:k"), slide("api:k")
	checked.Policy = "api"
	blocked.Policy, blocked.Spec, blocked.Decision = "api", limit.Spec{Kind: limit.Slide, Cost: 1}, limit.Decision{RetryAfter: 1000, ResetAfter: 1000}
	denied := `"event":"denial","command":"rl.slide","result":"denied",`
	for want, row := range map[string]struct {
		asked
		Settings
	}{
		denied + `"key":"k","limit":5,"window":1000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379",`:                                                                   {slide("k"), Settings{}},
		denied + `"key":"k","limit":900,"window":60000,"used":897,"cost":7,"retry_after":1234,"node":"10.0.0.1:6379",`:                                                            {two, Settings{}},
		`"event":"denial","command":"cl.throttle","result":"denied","key":"k","limit":5,"window":10000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379",`:                {throttle, Settings{}},
		denied + `"key":"<k>&","limit":5,"window":1000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379","remembered":true,`:                                              {remembered, Settings{}},
		denied + `"key":"a\u0000\"\ufffd","key_base64":"YQAi/w==","limit":5,"window":1000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379",`:                             {slide("a\x00\"\xff"), Settings{}},
		`"event":"denial","command":"rl.slide","policy":"api","result":"denied","key":"api:k","limit":5,"window":1000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379",`: {checked, Settings{}},
		`"event":"denial","command":"rl.slide","policy":"api","result":"denied","key":"api:k","limit":0,"window":0,"used":0,"cost":1,"retry_after":1000,"node":"10.0.0.1:6379",`:  {blocked, Settings{}},
		`"event":"denial","command":"rl.slide","result":"denied","shadow":true,"key":"k","limit":5,"window":1000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379",`:      {trial, Settings{}},
		`"event":"fail","command":"rl.slide","result":"allowed","shadow":true,"key":"k","limit":5,"window":1000,"cost":1,"retry_after":0,"node":"10.0.0.1:6379","fail":"closed",`: {trial.by(engine.FailClosed), Settings{}},
		`"event":"fail","command":"rl.slide","result":"allowed","shadow":true,"key":"k","limit":5,"window":1000,"cost":1,"retry_after":0,"node":"10.0.0.1:6379","fail":"error",`:  {trial.by(engine.FailError), Settings{}},
		// printf %s tenant:42 | sha256sum
		denied + `"key_sha256":"4b5d4625d71bf87fe91c295af8dc728f12322e062fef76e3849661387d63ada1","limit":5,"window":1000,"used":5,"cost":1,"retry_after":40,"node":"10.0.0.1:6379",`:                              {slide("tenant:42"), Settings{Hash: true}},
		`"event":"fail","command":"rl.slide","result":"denied","key":"k","limit":5,"window":1000,"cost":1,"retry_after":70,"node":"10.0.0.1:6379","fail":"closed",`:                                                {slide("k").by(engine.FailClosed), Settings{}},
		`"event":"fail","command":"rl.slide","result":"allowed","key":"k","limit":5,"window":1000,"cost":1,"retry_after":0,"node":"10.0.0.1:6379","fail":"open",`:                                                  {slide("k").by(engine.FailOpen), Settings{}},
		`"event":"fail","command":"rl.slide","result":"error","key":"k","limit":5,"window":1000,"cost":1,"retry_after":0,"node":"10.0.0.1:6379","fail":"error","error":"UNAVAILABLE 10.0.0.1:6379: node is down",`: {slide("k").by(engine.FailError), Settings{}},
		`"event":"sample","command":"rl.slide","result":"allowed","key":"k","limit":5,"window":1000,"used":3,"cost":1,"retry_after":0,"node":"10.0.0.1:6379",`:                                                     {slide("k").allowed(2), Settings{Sample: 1}},
		`"event":"sample","command":"rl.slide","result":"allowed","key":"k","limit":3,"window":1000,"used":1,"cost":1,"retry_after":0,"node":"10.0.0.1:6379","repeated":true,`:                                     {again, Settings{Sample: 1}},
		`"event":"sample","command":"rl.slide","result":"error","key":"k","limit":5,"window":1000,"cost":1,"retry_after":0,"node":"10.0.0.1:6379","error":"ERR the stored record of 'k' is damaged",`:              {slide("k").failed(), Settings{Sample: 1}},
	} {
		b := start(t, row.Settings)
		b.show(row.asked)
		b.close()
		text, err := os.ReadFile(b.path)
		require.NoError(t, err)
		want = `{"time":"2026-11-22T05:17:03.123Z",` + want + `"client":"10.0.0.9:51234","client_name":"checkout"`
		if row.Sample > 0 {
			want += `,"one_of":1`
		}
		require.Equal(t, want+"}\n", string(text))
	}
}

// With decision-log-keys hash nothing in the file shows a key, not even an error's text.
func TestHashedKeysAreNowhere(t *testing.T) {
	t.Parallel()
	b := start(t, Settings{Hash: true, Sample: 1})
	b.show(slide("tenant:42"), slide("tenant:42"), slide("tenant:42").allowed(1), slide("tenant:42").failed(), slide("tenant:42").by(engine.FailError))
	b.close()
	text, err := os.ReadFile(b.path)
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(string(text), "\n"))
	require.NotContains(t, string(text), "tenant")
}
