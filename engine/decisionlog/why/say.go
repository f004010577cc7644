package why

import (
	"fmt"
	"strings"
	"time"
)

// embedded stands in place of a node if the state is in the proxy.
const embedded = "embedded"

// sentence says what a line means, for whoever was denied.
func (a *answer) sentence(zone *time.Location) string {
	var b strings.Builder
	fmt.Fprintf(&b, "At %s, %s %s", a.at.In(zone).Format(form), a.name(), a.cause())
	if back := time.Duration(a.RetryAfter) * time.Millisecond; back > 0 && !a.Shadow {
		fmt.Fprintf(&b, " It was told to try again after %s, at %s.", brief(back),
			a.at.Add(back).In(zone).Format("15:04:05.000"))
	}
	fmt.Fprintf(&b, " It was %s", strings.ToUpper(a.Command))
	if a.Client != "" {
		fmt.Fprintf(&b, " from %s", a.Client)
	}
	if a.ClientName != "" {
		fmt.Fprintf(&b, " (%s)", a.ClientName)
	}
	if a.Node == embedded {
		b.WriteString(", decided in the proxy's own memory.")
	} else {
		fmt.Fprintf(&b, ", about a key of the node %s.", a.Node)
	}
	if until := a.until(); a.Window > 0 && until.After(a.at) {
		fmt.Fprintf(&b, " Further denials until %s have no line of their own.", until.In(zone).Format("15:04:05.000"))
	}
	return b.String()
}

// name returns the key, as far as it is known.
func (a *answer) name() string {
	if a.KeySHA256 != "" {
		return "the key with the hash " + a.KeySHA256[:min(8, len(a.KeySHA256))]
	}
	return a.Key
}

// cause returns what denied.
func (a *answer) cause() string {
	wrong := " Its proxy's log says what was wrong."
	if a.Why != "" {
		wrong = " What was wrong with the node: " + strings.TrimSuffix(a.Why, ".") + "."
	}
	unable := "its node could not decide"
	if a.Node == embedded {
		unable = "the proxy had no memory left"
	}
	switch {
	case a.Fail == "local":
		return "was denied because its limit was used up: " + a.limit() + ", as FAIL LOCAL had counted in the proxy, " +
			"because " + unable + "." + wrong
	case a.Fail != "":
		text := "was denied because " + unable + " (FAIL " + strings.ToUpper(a.Fail) + "), and not because of its " +
			"limit."
		if a.Error != "" {
			return text + " The error was " + a.Error + "."
		}
		return text + wrong
	case a.Result == "error":
		return strings.TrimSuffix("got an error in place of a decision: "+a.Error, ": ") + "."
	case a.Limit == 0 && a.Policy != "" && a.Window == 0:
		return "was denied because an override of the policy " + a.Policy + " blocks it."
	}
	text := "was denied because its limit was used up: "
	if a.Shadow {
		text = "would have been denied, but was not, because SHADOW only counts: "
	}
	text += a.limit()
	if a.Used != nil {
		text += fmt.Sprintf(", of which %d were used", *a.Used)
	}
	return text + fmt.Sprintf(", and it asked for %d.", a.Cost)
}

// limit returns the limit that denied.
func (a *answer) limit() string {
	text := fmt.Sprintf("%d", a.Limit)
	switch {
	case a.Window > 0:
		text += " per " + brief(time.Duration(a.Window)*time.Millisecond)
	case a.Command == "rl.acquire":
		text += " at the same time"
	}
	if a.Policy != "" {
		text += " by the policy " + a.Policy
	}
	return text
}

// brief returns a duration without units that are 0: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
