package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// RL.FIXED, one counter per fixed window.
func init() {
	register(limit.Fixed, algorithm{
		options: newOption("TZ", setZone),
		args: []table.Arg{{Name: "zone", Type: "string", Token: "TZ", Optional: true,
			About: "the time zone of windows that are `day`, `week`, `month` or `year`, by its name in the IANA " +
				"database, such as Europe/Berlin; default UTC"}},
		optionWords: func(_, _ int64, ws []limit.Window) []string {
			for _, w := range ws {
				if period, zone := w.Calendar(); period != "" && zone != "UTC" {
					return []string{"TZ", zone}
				}
			}
			return nil
		},
		command: func(*grammar) table.Command {
			return table.Command{
				Name:       "rl.fixed",
				Complexity: "O(W) with W the number of windows",
				Summary:    "Admits at most the limit in each fixed window, so up to twice the limit around a boundary",
				Replies: asSlide + " A window may also be a `day`, a `week` (from Monday), a `month` or a `year` of " +
					"a [calendar](limits.md#calendar-windows), by the clock of the key's node.",
				Examples: []table.Example{
					{Line: "RL.FIXED user:42 100 1h",
						Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) " +
							"1835000"},
					{Line: "RL.FIXED user:42 10 1m 1000 day TZ Europe/Berlin",
						Reply: "1) (integer) 1\n2) (integer) 10\n3) (integer) 9\n4) (integer) 0\n5) (integer) " +
							"35000"},
				},
			}
		},
	})
}

const (
	errZone   = "ERR TZ must be a time zone of the IANA database, such as Europe/Berlin"
	errNoZone = "ERR TZ needs a window that is a day, a week, a month or a year"
)

// setZone parses TZ.
func setZone(r *engine.Request, value []byte) string {
	number, ok := limit.ZoneNumber(value)
	if !ok {
		return wrong(errZone, value) + "; the nearest is " + table.NearestWord(limit.ZoneNames(), string(value))
	}
	if !r.InZone(number) {
		return wrong(errNoZone, value)
	}
	return ""
}
