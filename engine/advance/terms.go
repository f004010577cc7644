package advance

import "time"

const (
	// Reserve is the part of a limit, 1/Reserve, that the home keeps: it advances nothing if less would be left.
	Reserve = 16
	// Usual is for how many ms units are advanced, unless a directive says otherwise.
	Usual = 250
	// Trips is for how many round trips to the node units are advanced at least.
	Trips = 8

	shortest = 100 // ms; shorter ones would take more than 20 calls a second
	longest  = 2000
	most     = 64
	least    = 4
	grids    = 16 // an account has at most about as many draws
	parts    = 8  // an advance takes at most this part of the shortest window
)

// Span returns the ms for which units are advanced, given how many are usual, the shortest window in ms, and the time
// of a round trip to the node. It is 0 if windows are too short for that.
func Span(usual, window int64, roundTrip time.Duration) int64 {
	span := max(min(usual, window/parts), Trips*int64((roundTrip+time.Millisecond-1)/time.Millisecond))
	if span < shortest || span > min(longest, window/parts) {
		return 0
	}
	return span
}

// Pays returns for how many requests units must be asked for in a period, for an advance to pay: for as many as cost
// the node what the calls about it do, or for half of those that one who waits for each answer can make.
func Pays(period int64, roundTrip time.Duration) int64 {
	return max(least, min(most, period*int64(time.Millisecond)/max(2*int64(roundTrip), 1)))
}

// demand measures how many units requests ask for, whoever decides them.
type demand struct {
	period time.Duration // the number of the current period since any moment
	now    int64         // units in the current period
	peak   int64         // of the units in the periods before, which fade, the most
}

const (
	// period is the time in which demand counts.
	period = 50 * time.Millisecond
	// Units count an eighth less in each period. So a key whose requests come in bursts does not ask for an advance at
	// each of these, and one that was hot asks for none after some seconds.
	fading = 8
	faded  = 200 // periods after which no units count
)

// add counts units.
func (d *demand) add(now Instant, units int64) {
	d.move(now)
	d.now += units
}

func (d *demand) move(now Instant) {
	at := now.Monotonic / period
	d.period = max(d.period, at-faded)
	for ; d.period < at; d.period++ {
		d.peak = max(d.now, d.peak-(d.peak+fading-1)/fading)
		d.now = 0
	}
}

// in returns how many units requests will ask for in a time, if they go on as they do when there are most.
func (d *demand) in(now Instant, span time.Duration) int64 {
	d.move(now)
	return int64(float64(max(d.now, d.peak)) * float64(span) / float64(period))
}
