package ratelimit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Headers returns the names and values of the headers by which an HTTP server tells its client of a decision by a
// policy: RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11, and Retry-After of a denial.
// requests are those that were decided together, of which deciding has the decision.
func Headers(requests []engine.Request, deciding *engine.Request, d *limit.Decision) (all [][2]string) {
	var items []string
	for i := range requests {
		if r := &requests[i]; !r.Shadow || deciding.Shadow { // beside others, a key with SHADOW denies nothing
			for window := range r.Limits() {
				if next := policyItem(r, window); !slices.Contains(items, next) { // several keys may have one policy
					items = append(items, next)
				}
			}
		}
	}
	if len(items) > 0 {
		all = append(all, [2]string{"RateLimit-Policy", strings.Join(items, ", ")})
	}
	wait := strconv.FormatInt((d.RetryAfter+999)/1000, 10)
	if d.Remaining >= 0 && d.Window < deciding.N { // otherwise a FAIL policy has answered, or there is no limit
		rate := item(deciding, d.Window) + ";r=" + strconv.FormatInt(d.Remaining, 10)
		if !d.Allowed {
			rate += ";t=" + wait
		}
		all = append(all, [2]string{"RateLimit", rate})
	}
	if !d.Allowed {
		all = append(all, [2]string{"Retry-After", wait})
	}
	return all
}

// item returns the name of a window in the headers: that of the policy; of one with several windows, followed by the
// window.
func item(r *engine.Request, window int) string {
	name := r.Policy
	if r.N > 1 {
		name += ":" + WindowWord(r.Windows[window].Length)
	}
	return `"` + name + `"` // it has no character that must be escaped
}

// policyItem returns what RateLimit-Policy says of a window. A bucket has none, and w is in seconds: of a calendar
// window, those of the present one.
func policyItem(r *engine.Request, window int) string {
	w := r.Windows[window]
	of := item(r, window) + ";q=" + strconv.FormatInt(w.Limit, 10)
	if r.Kind != limit.Bucket && w.Ms()%1000 == 0 {
		of += ";w=" + strconv.FormatInt(w.Ms()/1000, 10)
	}
	return of
}
