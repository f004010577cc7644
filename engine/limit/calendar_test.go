package limit

import (
	"archive/zip"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dated returns the calendar window of a zone at a moment.
func dated(t testing.TB, word, zone string, at time.Time) (w Window, from, to time.Time) {
	t.Helper()
	length, ok := CalendarLength([]byte(word))
	require.True(t, ok, word)
	number, ok := ZoneNumber([]byte(zone))
	require.True(t, ok, zone)
	s := Spec{Kind: Fixed, N: 1, Windows: [MaxWindows]Window{{Limit: 1, Length: length}}}
	require.True(t, s.InZone(number))
	s.Date(at.UnixMilli())
	begin, end := fixedSpan(s.Windows[0].Length, at.UnixMilli())
	period, of := s.Windows[0].Calendar()
	require.Equal(t, word+zone, period+of)
	return s.Windows[0], time.UnixMilli(begin).UTC(), time.UnixMilli(end).UTC()
}

func TestCalendarWindowsEndWhereTheCalendarSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ about, word, zone, at, from, to string }{
		{"a day of UTC", "day", "UTC", "2026-11-27T12:00:00Z", "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"},
		{"23 hours", "day", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"25 hours", "day", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"a week from Monday", "week", "UTC", "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"a leap day", "month", "UTC", "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"the end of a year", "year", "Asia/Tokyo", "2026-12-31T15:00:00Z", "2026-12-31T15:00:00Z", "2027-12-31T15:00:00Z"},
		{"after 2^31 seconds", "day", "America/New_York", "2038-01-19T12:00:00Z", "2038-01-19T05:00:00Z", "2038-01-20T05:00:00Z"},
		{"2100 is no leap year", "year", "Europe/Paris", "2100-02-28T12:00:00Z", "2099-12-31T23:00:00Z", "2100-12-31T23:00:00Z"},
		{"before a day that was left out", "day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"after a day that was left out", "day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"a week without that day", "week", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z"},
		{"no midnight", "day", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"no midnight, in the day before", "day", "Asia/Beirut", "2024-03-30T12:00:00Z", "2024-03-29T22:00:00Z", "2024-03-30T22:00:00Z"},
		{"midnight twice", "day", "America/Havana", "2026-11-01T04:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"the same midnight again", "day", "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"back to the day before", "day", "America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		{"half an hour", "day", "Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{"a zone that steps back in a leap year", "year", "Asia/Almaty", "2024-06-01T00:00:00Z", "2023-12-31T18:00:00Z", "2024-12-31T19:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		require.NoError(t, err)
		w, from, to := dated(t, c.word, c.zone, at)
		require.Equal(t, c.from+" "+c.to, from.Format(time.RFC3339)+" "+to.Format(time.RFC3339), c.about)
		require.Equal(t, to.Sub(from).Milliseconds(), w.Ms(), c.about)
		parameter, window := w.NodeName(1)
		param, length, ok := FromNode(Fixed, parameter, window)
		require.True(t, ok, c.about)
		require.Equal(t, []int64{1, w.Length}, []int64{param, length}, "as a node names it: %s", c.about)
	}
}

// date counts days, weeks, months or years, so that a later one has a larger number.
func date(word string, at time.Time) int {
	y, m, d := at.Date()
	days := int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86_400)
	return map[string]int{"day": days, "week": (days + 3) / 7, "month": 12*y + int(m), "year": y}[word]
}

// A window has the moments from the first one on that has its date or a later one, to the first one that has a later date.
func TestCalendarWindowsAreThoseOfAModel(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	first, last := time.Date(1973, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	names := ZoneNames()
	for range 2000 {
		zone := names[r.IntN(len(names))]
		at, err := time.LoadLocation(zone)
		require.NoError(t, err)
		moment := time.Unix(first+r.Int64N(last-first), 0).In(at)
		if _, end := moment.ZoneBounds(); !end.IsZero() && r.IntN(2) == 0 { // near where the zone changes
			moment = end.Add(time.Duration(r.IntN(4*3600)-2*3600) * time.Second).In(at)
		}
		word := periods[r.IntN(len(periods))]
		_, from, to := dated(t, word, zone, moment)
		about := func() string { return word + " of " + zone + " at " + moment.String() }
		require.False(t, moment.Before(from), about)
		require.True(t, moment.Before(to), about)
		number := date(word, to.Add(-time.Second).In(at))
		for reached := moment; reached.Before(to); reached = reached.Add(to.Sub(moment)/7 + time.Second) {
			number = max(number, date(word, reached.In(at)))
		}
		for _, edge := range []time.Time{from, to} {
			// No moment before the edge has its date or a later one.
			reached := date(word, edge.In(at))
			for back := time.Second; back < 50*time.Hour; back += time.Hour {
				require.Less(t, date(word, edge.Add(-back).In(at)), reached, about)
			}
		}
		require.Less(t, number, date(word, to.In(at)), about)
		require.Equal(t, 0, from.Second()+to.Second(), about)
		_, next, _ := dated(t, word, zone, to)
		require.Equal(t, to, next, "windows adjoin: %s", about())
		_, _, before := dated(t, word, zone, from.Add(-time.Millisecond))
		require.Equal(t, from, before, "windows adjoin: %s", about())
	}
}

// The names of all zones of Go's database have a number, so that each of them may be asked for.
func TestAllZonesHaveANumber(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, archive.Close()) }()
	for _, f := range archive.File {
		if name := f.Name; name[0] >= 'A' && name[0] <= 'Z' && !strings.HasSuffix(name, "/") && name != "Factory" {
			_, ok := ZoneNumber([]byte(name))
			require.True(t, ok, "add %s at the end of zones.txt", name)
		}
	}
	require.LessOrEqual(t, len(ZoneNames()), 1024, "a zone's number has 10 bits")
	for _, name := range []string{"", "Local", "utc", "Factory", "../UTC", "/etc/localtime", "right/UTC", "Europe/Berlin\x00"} {
		_, ok := ZoneNumber([]byte(name))
		require.False(t, ok, name)
	}
	require.Equal(t, "UTC", ZoneNames()[0])
}

func FuzzStatesOfNodes(f *testing.F) {
	f.Add(int64(1), int64(60_000))
	f.Add(int64(1)<<38|29_000_000, int64(86_400_000))
	f.Fuzz(func(t *testing.T, parameter, window int64) {
		param, length, ok := FromNode(Fixed, parameter, window)
		if !ok {
			return
		}
		again, ms := Window{Length: length}.NodeName(param)
		require.Equal(t, []int64{parameter, window}, []int64{again, ms})
		require.LessOrEqual(t, (Window{Length: length}).Ms(), int64(MaxWindow+2*86_400_000))
		s := Spec{Kind: Fixed, N: 1, Param: 1, Windows: [MaxWindows]Window{{Limit: 1, Length: length}}}
		var st State
		st.Init(&s, s.Windows[0])
		_ = st.Read(Window{Length: length}.EndsAt(0), &s)
	})
}
