package backend

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/stretchr/testify/require"
)

// patient is a health whose probes fail until well is set.
type patient struct {
	healthCheck
	well   atomic.Bool
	probes atomic.Int64 // probes sent
	heard  []Health     // the arguments of the calls of recovered
	log    bytes.Buffer
}

func openPatient() *patient {
	p := &patient{}
	p.name = "10.0.0.1:6379"
	p.config = &Config{Timeout: time.Second, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&p.log, nil))}
	p.probe = func(context.Context) error {
		p.probes.Add(1)
		if p.well.Load() {
			return nil
		}
		return errors.New("refused")
	}
	p.record = func(err error) { p.fail(err) }
	p.recovered = func(was Health) { p.heard = append(p.heard, was) }
	p.examine = func(_ context.Context, up func(...any)) { up() }
	p.report = func() []any { return []any{"closed", 3} }
	p.down = episodes.New(p.config.Logger, p.config.Now, down, "node", p.name)
	p.open()
	return p
}

// holdProbes makes probes wait until release is called, so that a test can look at a node
// before the first of them ends.
func (p *patient) holdProbes() (release func()) {
	probe, held := p.probe, make(chan struct{})
	p.probe = func(ctx context.Context) error {
		<-held
		return probe(ctx)
	}
	return func() { close(held) }
}

// Failures of requests and of probes count alike. Probes become less frequent, down to two a
// second.
func TestTwoFailuresInARowTakeANodeDownUntilAProbeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		release := p.holdProbes()
		require.Equal(t, Up, p.state())
		require.True(t, p.fail(errors.New("refused")))
		require.Equal(t, Suspect, p.state())
		release()
		synctest.Wait() // the first probe comes at once
		require.Equal(t, Down, p.state())
		require.Equal(t, "connection failed: refused", p.reason())
		require.False(t, p.fail(errors.New("refused")), "the node is down already")
		p.succeed()
		require.Equal(t, Down, p.state(), "a reply does not bring the node up")
		require.LessOrEqual(t, p.untilProbe(), probeMin.Milliseconds())

		time.Sleep(20 * time.Second)
		before := p.probes.Load()
		time.Sleep(20 * time.Second)
		require.Equal(t, int64(40), p.probes.Load()-before)
		require.Positive(t, p.untilProbe())

		p.well.Store(true)
		time.Sleep(probeMax)
		synctest.Wait()
		require.Equal(t, Up, p.state())
		require.Equal(t, []Health{Down}, p.heard)
		require.Equal(t, int64(2), p.failed.Load())
		require.Contains(t, p.log.String(), `msg="node is down" node=10.0.0.1:6379 why="connection failed: refused"`)
		require.Contains(t, p.log.String(), `msg="node is up" node=10.0.0.1:6379 after=40.25s closed=3`)
	})
}

// Connections of a node that has become a replica are dropped. The errors of requests on these do not hide why.
func TestReasonIsNotThatConnectionsWereDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		defer p.holdProbes()()
		p.fail(Reply("READONLY You can't write"))
		p.fail(&net.OpError{Op: "read", Err: net.ErrClosed})
		require.Equal(t, Down, p.state())
		require.Equal(t, "READONLY You can't write", p.reason())
		require.Contains(t, p.log.String(), `msg="node is down" node=10.0.0.1:6379 why="READONLY You can't write"`)
		p.fail(errors.New("another"))
		require.Equal(t, "connection failed: another", p.reason())
		synctest.Wait() // the prober waits for its probe
		p.probed()
		p.fail(&net.OpError{Op: "read", Err: net.ErrClosed})
		require.Equal(t, "connection failed: use of closed network connection", p.reason(), "the node was up since that failure")
	})
}

// A node that answers probes but fails every request does not fill the log. Once it has been up for a while, the first probe
// comes at once again.
func TestANodeThatFailsAgainAtOnceIsProbedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.well.Store(true)
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
			p.fail(errors.New("cut"))
			p.fail(errors.New("cut"))
			synctest.Wait()
		}
		time.Sleep(probeMax + steadyAfter)
		synctest.Wait()
		require.LessOrEqual(t, strings.Count(p.log.String(), "node is down"), 25, "twice a second, and at first more often")
		require.GreaterOrEqual(t, strings.Count(p.log.String(), "node is up"), 20)

		require.Equal(t, Up, p.state())
		release := p.holdProbes()
		p.fail(errors.New("cut"))
		p.fail(errors.New("cut"))
		require.Equal(t, Down, p.state())
		release()
		synctest.Wait()
		require.Equal(t, Up, p.state())
	})
}

// A client is told to come back when the node will be probed, even if that is later than usual because the node keeps failing.
func TestAFailureDoesNotAnnounceAnEarlierProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.well.Store(true)
		for range 10 {
			p.fail(errors.New("cut"))
			p.fail(errors.New("cut"))
			time.Sleep(probeMax)
			synctest.Wait()
		}
		require.Equal(t, Up, p.state())
		p.fail(errors.New("cut"))
		synctest.Wait()
		p.fail(errors.New("cut"))
		synctest.Wait()
		require.Equal(t, Down, p.state())
		before, wait := p.probes.Load(), time.Duration(p.untilProbe())*time.Millisecond
		require.Greater(t, wait, probeMin)
		time.Sleep(wait - time.Millisecond)
		synctest.Wait()
		require.Equal(t, before, p.probes.Load())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, before+1, p.probes.Load())
	})
}

// When the machine's clock is stepped back, clients are not told to come back as much later.
func TestAClockThatStepsBackDoesNotDelayClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.well.Store(true)
		p.fail(errors.New("cut"))
		synctest.Wait()
		require.Equal(t, Up, p.state())
		p.config.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		require.LessOrEqual(t, p.untilProbe(), probeMax.Milliseconds())
	})
}

// The log has one line a minute about a node that stays down.
func TestTheLogRemindsOfANodeThatStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.fail(errors.New("refused"))
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, 3, strings.Count(p.log.String(), `msg="node is still down" node=10.0.0.1:6379 since=2000-01-01T00:0`), p.log.String())
		require.Contains(t, p.log.String(), "closed=3")
	})
}

// A probe may succeed while another goroutine takes the node down. Each line that the node is down has its end.
func TestTheLogEndsWithTheStateOfTheNode(t *testing.T) {
	h := healthCheck{config: &Config{Logger: slog.New(slog.DiscardHandler), Now: time.Now}, trouble: make(chan struct{}, 1)}
	h.recovered, h.report = func(Health) {}, func() []any { return nil }
	h.down = episodes.New(h.config.Logger, h.config.Now, down)
	for range 300 {
		var all sync.WaitGroup
		all.Go(func() {
			h.fail(errors.New("refused"))
			h.fail(errors.New("refused"))
		})
		all.Go(func() {
			h.probed()
			h.up()
		})
		all.Wait()
		require.Equal(t, h.state() == Down, h.down.Open.Load())
	}
}

// A check shows that an idle node is away, and the probes after it show that the node is back.
func TestACheckShowsThatAnIdleNodeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.well.Store(true)
		p.check()
		synctest.Wait()
		require.Equal(t, int64(1), p.probes.Load())
		require.Equal(t, Up, p.state())
		require.Empty(t, p.heard, "nothing has changed")
		p.well.Store(false)
		p.check()
		time.Sleep(probeMin)
		synctest.Wait()
		require.Equal(t, Down, p.state())
		p.well.Store(true)
		time.Sleep(probeMax)
		synctest.Wait()
		require.Equal(t, Up, p.state())
		(&healthCheck{}).check() // an absent node, which has no prober
	})
}

func TestAnyReplyBringsASuspectNodeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.well.Store(true)
		release := p.holdProbes()
		p.fail(errors.New("refused"))
		p.succeed()
		require.Equal(t, Up, p.state())
		require.Equal(t, []Health{Suspect}, p.heard)
		release()
		synctest.Wait()
		require.Equal(t, int64(1), p.probes.Load())
		require.Equal(t, []Health{Suspect}, p.heard, "recovered is called once")
		require.Empty(t, p.log.String())
	})
}

// A node may be slow for the requests of one caller. Requests that were not answered in time do not take it down, unless a probe fails too.
func TestLateAnswersTakeNoNodeDownThatAnswersProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		release := p.holdProbes()
		p.well.Store(true)
		for range 10 {
			require.True(t, p.late(context.DeadlineExceeded))
			require.Equal(t, Suspect, p.state())
		}
		require.Equal(t, NoAnswer, p.reason())
		require.Equal(t, int64(10), p.failed.Load())
		release()
		synctest.Wait()
		require.Equal(t, Up, p.state())
		require.Equal(t, []Health{Suspect}, p.heard)

		p.well.Store(false)
		require.True(t, p.late(context.DeadlineExceeded))
		synctest.Wait() // the first probe comes at once
		require.Equal(t, Down, p.state())
		require.False(t, p.late(context.DeadlineExceeded), "the node is down already")
		require.Contains(t, p.log.String(), `msg="node is down"`)
	})
}

// A node that answers probes and no request is down after a second, and one that answers some requests is not.
func TestANodeThatAnswersOnlyProbesIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPatient()
		defer p.close()
		p.well.Store(true)
		late := func(times int) {
			for range times {
				p.late(context.DeadlineExceeded)
				synctest.Wait()
				time.Sleep(lateTime / 4)
			}
		}
		late(4)
		require.Equal(t, Up, p.state())
		p.succeed()
		late(4)
		require.NotContains(t, p.log.String(), "node is down")
		release := p.holdProbes()
		defer release()
		late(2)
		require.Equal(t, Down, p.state())
	})
}
