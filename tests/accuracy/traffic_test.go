package accuracy

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// day is what became of a day of requests.
type day struct {
	Requests   int
	Admitted   int
	Worst      float64 // the most of any client in a trailing window, over the limit
	False      int     // denied, and an exact log would have admitted
	FalseWider int     // denied, and an exact log of a window that is longer by one sub-window would have admitted
}

// request is one request of a client.
type request struct {
	at     int64 // ms of the day
	client int
}

// The shape of the day. Logs of web servers look so: a few clients send most of the requests (Zipf), sessions are of very
// different length (Pareto), pauses within a session are mostly short and sometimes long (log-normal), several requests come at
// once, and there is more of all of it in the afternoon than at night.
const (
	dayLength    = 24 * 3600 * 1000 // ms
	clients      = 200
	zipfExponent = 1.1
	sessionAlpha = 1.2 // of the Pareto distribution of requests in a session, from 3
	pauseMedian  = 250 // ms
	pauseSigma   = 1.6
	together     = 0.3 // of the requests come in the same ms as the one before
	sessionMost  = 2000
	nightShare   = 0.2 // of the busiest hour's sessions
)

// aDay returns the given number of requests, in order of time.
func aDay(rng *rand.Rand, n int) (out []request) {
	weights := make([]float64, clients)
	sum := 0.0
	for i := range weights {
		sum += math.Pow(float64(i+1), -zipfExponent)
		weights[i] = sum
	}
	for len(out) < n {
		at := rng.Int64N(dayLength)
		if busy := (1 - math.Cos(2*math.Pi*(float64(at)/dayLength-3.0/24))) / 2; rng.Float64() > nightShare+(1-nightShare)*busy {
			continue
		}
		client, _ := slices.BinarySearch(weights, rng.Float64()*sum)
		for range int(min(3*math.Pow(1-rng.Float64(), -1/sessionAlpha), sessionMost)) {
			out = append(out, request{at, client})
			if rng.Float64() > together {
				at += int64(pauseMedian * math.Exp(pauseSigma*rng.NormFloat64()))
			}
		}
	}
	out = out[:n]
	slices.SortStableFunc(out, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	return out
}

// perMinute is the limit of each client of the day.
var perMinute = rule{limit: 30, window: 60_000}

// day plays a day.
func (w *world) day(t testing.TB, rng *rand.Rand, n int) day {
	t.Helper()
	minute := *w
	minute.rule = perMinute
	return minute.play(t, aDay(rng, n))
}

// minutes plays ten minutes of a busy day within ten windows.
func (w *world) minutes(t testing.TB, rng *rand.Rand, n int) day {
	t.Helper()
	const minute, from, to = 60_000, 15 * 60, 15*60 + 10
	var piece []request
	for _, r := range aDay(rng, n) {
		if r.at >= from*minute && r.at < to*minute {
			piece = append(piece, request{(r.at - from*minute) * w.window / minute, r.client})
		}
	}
	return w.play(t, piece)
}

// play sends requests at their times.
func (w *world) play(t testing.TB, requests []request) (f day) {
	t.Helper()
	start := w.start()
	histories := make([]history, clients)
	for i := 0; i < len(requests); {
		r, together := requests[i], 0
		for ; i < len(requests) && requests[i] == r; i++ {
			together++
		}
		w.until(start + r.at)
		histories[r.client] = append(histories[r.client], w.send(t, fmt.Sprintf("client%d", r.client), w.rule, together)...)
	}
	f.Requests = len(requests)
	for _, h := range histories {
		f.Admitted += h.admitted()
		f.Worst = max(f.Worst, w.over(h))
		f.False += h.falseDenials(w.limit, w.window, w.tick)
		f.FalseWider += h.falseDenials(w.limit, w.window+w.window/max(w.buckets, 1), w.tick)
	}
	return f
}
