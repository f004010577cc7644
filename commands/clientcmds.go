package commands

import "strings"

func runClientGetName(c *client, _ [][]byte) {
	if c.own.name == "" {
		c.null()
		return
	}
	c.text(c.own.name)
}

func runClientInfo(c *client, _ [][]byte) {
	c.publish()
	c.verbatim(string(c.line(nil, c.h.cfg.Now())))
}

func runClientReply(c *client, args [][]byte) {
	switch {
	case fold(args[2], "ON"):
		c.off, c.skip = false, false
		c.ok()
	case fold(args[2], "OFF"):
		c.off = true
	case fold(args[2], "SKIP"):
		c.skipNext = !c.off
	default:
		c.fail(errSyntax)
	}
}

func runClientSetInfo(c *client, args [][]byte) {
	value := &c.own.lib
	switch {
	case strings.EqualFold(string(args[2]), "lib-name"):
	case strings.EqualFold(string(args[2]), "lib-ver"):
		value = &c.own.libVer
	default:
		c.fail("ERR Unrecognized option '" + string(cString(args[2], quoted)) + "'")
		return
	}
	if !printable(args[3]) {
		c.fail("ERR " + string(args[2]) + " cannot contain spaces, newlines or special characters.")
		return
	}
	*value = string(args[3])
	c.ok()
}

// setName names the session, or answers why not.
func (c *client) setName(name []byte) bool {
	if !printable(name) {
		c.fail(errClientName)
		return false
	}
	c.own.name = string(name)
	return true
}

// printable tells whether b can stand in a line of CLIENT LIST.
func printable(b []byte) bool {
	for _, ch := range b {
		if ch < '!' || ch > '~' {
			return false
		}
	}
	return true
}

// toggle sets v by the word ON or OFF and answers.
func (c *client) toggle(v *bool, word []byte) {
	switch {
	case fold(word, "ON"):
		*v = true
	case fold(word, "OFF"):
		*v = false
	default:
		c.fail(errSyntax)
		return
	}
	c.ok()
}

// runClientTracking grants the one mode that promises nothing: with OPTIN, keys
// are tracked only after CLIENT CACHING YES, which is refused.
func runClientTracking(c *client, args [][]byte) {
	on := fold(args[2], "ON")
	switch {
	case !on && !fold(args[2], "OFF"):
		c.fail(errSyntax)
	case on && (len(args) != 4 || !fold(args[3], "OPTIN")):
		c.fail(errTracking)
	default:
		c.own.tracked = on
		c.ok()
	}
}
