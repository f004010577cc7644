package peers

import "time"

// Worst returns the most that was certainly admitted within a window's length: of the
// answers that were received within it, those that were asked after its beginning. Each
// answer is to a request of the given cost, and they are in the order of asking.
func Worst(answers []Answer, cost int64, window time.Duration) (worst int64) {
	sum, first := int64(0), 0
	for i, a := range answers {
		if !a.Allowed || a.Err != nil {
			continue
		}
		for sum += cost; first <= i && a.Received.Sub(answers[first].Sent) >= window; first++ {
			if answers[first].Allowed && answers[first].Err == nil {
				sum -= cost
			}
		}
		worst = max(worst, sum)
	}
	return worst
}
