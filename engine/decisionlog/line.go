package decisionlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// event is why a line is written.
type event int

const (
	firstDenial event = iota // the first denial of a key in its window
	byFail                   // an answer by a FAIL policy
	sampled                  // one of the sample of other decisions
)

const events = int(sampled) + 1

func (e event) String() string { return [events]string{"denial", "fail", "sample"}[e] }

// Line is a line of the file: about a decision, or about lines that were left out. Times are in ms.
type Line struct {
	Time    string `json:"time"` // RFC 3339 in UTC, with ms
	Event   string `json:"event"`
	Command string `json:"command"`
	Policy  string `json:"policy,omitempty"` // the policy that gave the limits, if one did
	// allowed, denied or error; with shadow, denied says what would have been
	Result    string `json:"result"`
	Shadow    bool   `json:"shadow,omitempty"`     // the request was with SHADOW, so that the client was not denied
	Key       string `json:"key,omitempty"`        // not valid UTF-8 in each place is replaced by U+FFFD
	KeyBase64 string `json:"key_base64,omitempty"` // the key's bytes, if they are not valid UTF-8
	KeySHA256 string `json:"key_sha256,omitempty"` // in place of the key, in hex
	Limit     int64  `json:"limit"`                // that of the window that denied
	// its length; for CL.THROTTLE the time in which a full burst drains; 0 for RL.ACQUIRE
	Window int64 `json:"window"`
	// of the limit; nil if a FAIL policy answered, so that it is not known
	Used       *int64 `json:"used,omitempty"`
	Cost       int64  `json:"cost"`           // what was asked for
	RetryAfter int64  `json:"retry_after"`    // as the client was told
	Node       string `json:"node"`           // the key's node, its home if it is split
	Fail       string `json:"fail,omitempty"` // the FAIL policy that answered in place of the node
	// with Fail: what was wrong with the node, if that was known; not with hashed keys; of left_out: why
	Why        string `json:"why,omitempty"`
	Again      bool   `json:"repeated,omitempty"`   // the request's id was known, and its first answer was given again
	Remembered bool   `json:"remembered,omitempty"` // the node gave this denial a moment ago, and was not asked again
	Drawn      bool   `json:"drawn,omitempty"`      // admitted from an advance, without asking the node
	// as the client was told; not with hashed keys, because it may name the key
	Error      string `json:"error,omitempty"`
	Client     string `json:"client"`                // address
	ClientName string `json:"client_name,omitempty"` // by CLIENT SETNAME
	OneOf      int    `json:"one_of,omitempty"`      // how many decisions the sample stands for
	Count      int64  `json:"count,omitempty"`       // of left_out: how many lines
}

// leftOutLine returns a line about n lines that were left out: those of an event, or of all if it is "".
func (r *Recorder) leftOutLine(of string, n int64, why string) []byte {
	return encode(&struct {
		Time  string `json:"time"`
		Event string `json:"event"`
		Of    string `json:"of,omitempty"`
		Count int64  `json:"count"`
		Why   string `json:"why"`
	}{formatTime(r.config.Now()), "left_out", of, n, why})
}

// JSON returns the denial as a line of the file, without what the file alone has.
func (d *Denial) JSON() []byte {
	l := d.line(firstDenial)
	if l.Fail != "" {
		l.Event = byFail.String()
	}
	l.Result, l.Why = "denied", d.Why
	if d.Fail == engine.FailError {
		l.Result = "error"
	}
	l.name(d.Key)
	return encode(&l)
}

// line returns a line about a decision.
func (n *noting) line(e event, d *Denial, res *engine.Result) []byte {
	l := d.line(e)
	l.Result, l.Again, l.Remembered, l.Drawn = result(res), res.Again, res.Remembered, res.Drawn
	if e == sampled {
		l.OneOf = n.target.Sample
	}
	if n.target.Hash {
		sum := sha256.Sum256(d.Key)
		l.KeySHA256 = hex.EncodeToString(sum[:])
		return encode(&l)
	}
	l.name(d.Key)
	l.Why = d.Why
	if res.Err != nil {
		l.Error = res.Err.Error()
	}
	return encode(&l)
}

// line returns what a line has of d, without its result and its key.
func (d *Denial) line(e event) Line {
	l := Line{
		Time: formatTime(d.Time), Event: e.String(), Command: d.Command, Policy: d.Policy, Shadow: d.Shadow,
		Limit: d.Limit, Window: d.Window.Milliseconds(), Cost: d.Cost, RetryAfter: d.RetryAfter.Milliseconds(),
		Node: d.Node, Client: d.Client, ClientName: d.ClientName,
	}
	if d.Fail != engine.FailDefault {
		l.Fail = d.Fail.String()
	}
	if d.Used >= 0 {
		l.Used = &d.Used
	}
	return l
}

// name sets the key of a line.
func (l *Line) name(key []byte) {
	l.Key = string(key) // package json replaces what is not valid
	if !utf8.Valid(key) {
		l.KeyBase64 = base64.StdEncoding.EncodeToString(key)
	}
}

func result(res *engine.Result) string {
	switch {
	case res.Err != nil:
		return "error"
	case res.Allowed:
		return "allowed"
	}
	return "denied"
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the two kinds of lines have no field that could fail
	}
	return b.Bytes()
}

// command returns the name of a request's command as INFO commandstats shows it.
func command(req *engine.Request) string { return observe.CommandOf(req).String() }
