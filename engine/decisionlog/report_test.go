package decisionlog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The log has a line at once when lines are dropped or writes fail, one a minute while that
// goes on, and none about what it has said.
func TestTheLogSaysOnceAMinuteWhatIsLost(t *testing.T) {
	t.Parallel()
	b := silent(t)
	p := newReporter(b.Recorder)
	lines := func() (n int) { return strings.Count(b.log.String(), "level=WARN") }
	second := func() {
		b.wait(time.Second)
		p.tick()
	}
	second()
	require.Zero(t, lines())
	b.dropped.Add(3)
	second()
	require.Equal(t, 1, lines())
	require.Contains(t, b.log.String(), `msg="the decision log is dropping lines or falling behind" why="the file cannot keep up with the log" lines_dropped=3`)
	full := &file{r: b.Recorder}
	for range 59 {
		b.dropped.Add(2)
		full.fail(errors.New("write /var/log/x: no space left on device"))
		second()
	}
	require.Equal(t, 1, lines())
	for range 100 {
		second()
	}
	require.Equal(t, 2, lines())
	require.Equal(t, 1, strings.Count(b.log.String(), `level=INFO msg="the decision log keeps up again" after=59s lines_dropped=121 failed_writes=59`))
	require.Contains(t, b.log.String(), `why="write /var/log/x: no space left on device"`)
	require.Contains(t, b.log.String(), ` lines_dropped=121 failed_writes=59`)
	b.wait(time.Hour)
	b.dropped.Add(1)
	second()
	require.Equal(t, 3, lines())
	require.Contains(t, b.log.String(), `why="the file cannot keep up with the log" lines_dropped=1`)
	second()
	b.wait(time.Hour)
	full.fail(errors.New("write /var/log/x: input/output error"))
	second()
	require.Equal(t, 4, lines())
	require.Contains(t, b.log.String(), `why="write /var/log/x: input/output error" failed_writes=1`)
}
