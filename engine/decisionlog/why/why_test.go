package why

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// now is when the tests ask.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const (
	early = `{"time":"2026-11-22T02:00:00.000Z","event":"denial","command":"rl.slide","result":"denied","key":"tenant:42","limit":100,` +
		`"window":3600000,"used":100,"cost":1,"retry_after":41873,"node":"10.0.0.7:6379","client":"10.0.3.9:51234","client_name":"checkout"}` + "\n"
	byPolicy = `{"time":"2026-11-22T05:17:03.123Z","event":"denial","command":"rl.fixed","policy":"api","result":"denied","key":"api:42","limit":5,` +
		`"window":60000,"used":5,"cost":2,"retry_after":0,"node":"embedded","client":"unix"}` + "\n"
	failed = `{"time":"2026-11-22T05:18:00.000Z","event":"fail","command":"rl.slide","result":"denied","key":"tenant:42","limit":100,` +
		`"window":60000,"cost":1,"retry_after":50,"node":"10.0.0.7:6379","fail":"closed","client":"10.0.3.9:51234"}` + "\n"
	admitted = `{"time":"2026-11-22T05:18:00.000Z","event":"fail","command":"rl.slide","result":"allowed","key":"tenant:42","limit":100,` +
		`"window":60000,"cost":1,"retry_after":0,"node":"10.0.0.7:6379","fail":"open","client":"10.0.3.9:51234"}` + "\n"
	leftOut = `{"time":"2026-11-22T05:20:30.000Z","event":"left_out","of":"fail","count":712,"why":"more than 100 lines in a second"}` + "\n"
)

// zipped compresses a text.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// ask runs the command beside files.
func ask(t *testing.T, files map[string]string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(args, now, func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, errors.New("open " + name + ": no such file")
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestAnswersStandForTheirWindow(t *testing.T) {
	files := map[string]string{"log": byPolicy + failed + admitted, "log.1.gz": zipped(t, early)}
	const denied = "At 2026-11-22 03:00:00.000 CET, tenant:42 was denied because its limit was used up: 100 per 1h, of which 100 were used, " +
		"and it asked for 1. It was told to try again after 41.873s, at 03:00:41.873. It was RL.SLIDE from 10.0.3.9:51234 (checkout), " +
		"about a key of the node 10.0.0.7:6379. Further denials until 04:00:00.000 have no line of their own.\n"
	const fail = "At 2026-11-22 06:18:00.000 CET, tenant:42 was denied because its node could not decide (FAIL CLOSED), and not because of its limit. " +
		"Its proxy's log says what was wrong. It was told to try again after 50ms, at 06:18:00.050. It was RL.SLIDE from 10.0.3.9:51234, " +
		"about a key of the node 10.0.0.7:6379.\n"
	const policy = "At 2026-11-22 06:17:03.123 CET, api:42 was denied because its limit was used up: 5 per 1m by the policy api, of which 5 were used, " +
		"and it asked for 2. It was RL.FIXED from unix, decided in the proxy's own memory. Further denials until 06:18:03.123 have no line of their own.\n"
	for args, want := range map[string]string{
		"tenant:42 log log.1.gz":                               denied + fail,
		"tenant:42 --at 03:12 log.1.gz log":                    denied,
		"tenant:42 --at 03:59:59 log.1.gz":                     denied,
		"tenant:42 --at 2026-11-22T02:12:00Z log.1.gz":         denied,
		"--at 06:18 tenant:42 log":                             fail,
		"42 log":                                               policy,
		"api:42 log":                                           policy,
		"*42 log log.1.gz":                                     denied + policy + fail,
		"api:* --at 06:17 log":                                 policy,
		"tenant:42 --at 2026-11-22T06:18:00 log log.1.gz":      fail,
		"tenant:42 --at 2026-11-22T06:18 log.1.gz log --json ": "",
	} {
		code, out, errs := ask(t, files, append(strings.Fields(args), "--zone", "Europe/Berlin")...)
		require.Zero(t, code, "%s: %s", args, errs)
		if want != "" {
			require.Equal(t, want, out, args)
		} else {
			require.JSONEq(t, `{"answer":"`+strings.TrimSpace(fail)+`","file":"log","line":`+failed+`}`, out)
		}
	}
}

func TestNoAnswerSaysWhatTheLogHas(t *testing.T) {
	files := map[string]string{"log": early + failed + leftOut + "half a line", "empty": ""}
	for args, want := range map[string]string{
		"tenant:42 empty": "No denial of tenant:42 is in the log, which has no lines.\n",
		"tenant:4 log": "No denial of tenant:4 is in the log, which has lines from 2026-11-22 02:00:00.000 UTC to 2026-11-22 05:20:30.000 UTC.\n" +
			"712 lines were left out at that time. One of them may have been about this key.\n1 lines are not those of a decision log.\n",
		"tenant:42 --at 05:20 log": "No denial of tenant:42 at 2026-11-22 05:20:00.000 UTC is in the log, which has lines from 2026-11-22 02:00:00.000 UTC " +
			"to 2026-11-22 05:20:30.000 UTC.\nThe nearest one: At 2026-11-22 05:18:00.000 UTC, tenant:42 was denied because its node could not decide",
	} {
		code, out, errs := ask(t, files, append(strings.Fields(args), "--zone", "UTC")...)
		require.Equal(t, 1, code)
		require.Empty(t, out)
		require.True(t, strings.HasPrefix(errs, want), "%s: %s", args, errs)
	}
	for args, want := range map[string]string{
		"tenant:42":                    "rlproxy why: " + errUsage.Error() + "\n",
		"tenant:42 none":               "rlproxy why: open none: no such file\n",
		"tenant:42 --at noon log":      "rlproxy why: --at \"noon\" is no time such as 03:12 or \"2026-11-22 03:12:30\"\n",
		"tenant:42 --zone Moon log":    "rlproxy why: unknown time zone Moon\n",
		"tenant:42 --when 03:12 empty": "rlproxy why: flag provided but not defined: -when\n",
	} {
		code, out, errs := ask(t, files, strings.Fields(args)...)
		require.Equal(t, 2, code)
		require.Empty(t, out)
		require.Equal(t, want, errs)
	}
	code, out, _ := ask(t, nil, "--help")
	require.Zero(t, code)
	require.Equal(t, usage, out)
}

func TestOnlyTheNewestAnswersAreShown(t *testing.T) {
	code, out, errs := ask(t, map[string]string{"log": strings.Repeat(failed, 5*most) + byPolicy}, "*42", "log")
	require.Zero(t, code)
	require.Equal(t, most, strings.Count(out, "\n"))
	require.NotContains(t, out, "api:42")
	require.Equal(t, "401 earlier denials are not shown: say --at\n", errs)
}

// A time without a date is the latest one: that of today, or of yesterday.
func TestTimesWithoutDateAreTheLatest(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	at := time.Date(2026, 11, 22, 3, 0, 0, 0, zone)
	for text, want := range map[string]string{
		"03:00": "2026-11-22T03:00:00-05:00", "03:01": "2026-11-21T03:01:00-05:00", "23:59:30": "2026-11-21T23:59:30-05:00",
		"2026-07-01 03:12": "2026-07-01T03:12:00-04:00",
	} {
		got, err := moment(text, at)
		require.NoError(t, err)
		require.Equal(t, want, got.from.Format(time.RFC3339), text)
	}
}
