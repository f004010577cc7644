package commands

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
)

// The files contain commands and their replies, for people to read:
//
//	# a comment
//	! password secret      a new handler with this setting, and a new session
//	> PING                 a command; consecutive ones are one pipeline
//	  +PONG                the reply, one line for each line of RESP
//	= 2 requests           one call of the engine, with so many requests
//	= closed               the session ends
func TestConversationsAreAnsweredAsRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := converse(t, string(want))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
				return
			}
			require.Equal(t, string(want), got, "if these replies are right, run go generate ./commands")
		})
	}
}

// converse returns text with every recorded reply replaced by the actual one.
func converse(t *testing.T, text string) string {
	var out bytes.Buffer
	e := newFakeEngine()
	h := New(testConfig(e))
	s := open(h, 1)
	var pipeline []resp.Command
	send := func() {
		if len(pipeline) == 0 {
			return
		}
		e.calls = nil
		answer := ask(h, s, pipeline...)
		pipeline = nil
		for _, n := range e.calls {
			fmt.Fprintf(&out, "= %d requests\n", n)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(answer, "\r\n"), "\r\n") {
			if answer != "" {
				out.WriteString("  " + visible(line) + "\n")
			}
		}
		if s.Closing() {
			out.WriteString("= closed\n")
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "> ") {
			send()
		}
		switch {
		case strings.HasPrefix(line, "> "):
			pipeline = append(pipeline, proxytest.Words(t, line[2:]))
		case strings.HasPrefix(line, "! "):
			e = newFakeEngine()
			cfg := testConfig(e)
			word, value, _ := strings.Cut(line[2:], " ")
			switch word {
			case "password":
				cfg.ACL = requiring(value)
			case "passthrough":
				cfg.Forward = new(fakeForward)
			case "queue":
				n, err := strconv.Atoi(value)
				require.NoError(t, err)
				cfg.MaxQueue = n
			case "new":
			default:
				t.Fatalf("unknown setting %q", line)
			}
			h = New(cfg)
			s = open(h, 1)
		case strings.HasPrefix(line, "  "), strings.HasPrefix(line, "= "):
			continue // replaced by send
		}
		out.WriteString(line + "\n")
	}
	send()
	return out.String()
}

// visible escapes what is not printable as Go does.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString("\\n\n    ")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return strings.TrimSuffix(b.String(), "\n    ")
}

// dialogues are pipelines to which a redis-server of RedisVersion and a Handler must reply
// with the same bytes.
var dialogues = map[string]string{
	"connection": `
		PING
		PING hello
		PING a b
		ECHO hello
		ECHO
		ROLE
		SELECT 0
		SELECT x
		SELECT 99999999999999999999
		RESET
		RESET a`,
	"hello": `
		HELLO 1
		HELLO 4
		HELLO x
		HELLO 99999999999999999999
		HELLO 3 FOO
		HELLO 3 AUTH a
		HELLO 3 AUTH a b
		HELLO 3 SETNAME
		HELLO 3 SETNAME "a b"
		PING
		HELLO 2 AUTH default x SETNAME me
		CLIENT GETNAME
		HELLO 3
		CLIENT GETNAME
		RESET
		CLIENT GETNAME
		HELLO`,
	"auth": `
		AUTH a
		AUTH a b
		AUTH default b
		AUTH a b c
		AUTH`,
	"client": `
		CLIENT
		CLIENT WHAT
		CLIENT GETNAME
		CLIENT GETNAME a
		CLIENT SETNAME
		CLIENT SETNAME "a b"
		CLIENT SETNAME "\xff"
		CLIENT SETNAME me
		CLIENT GETNAME
		CLIENT SETNAME ""
		CLIENT GETNAME
		CLIENT NO-EVICT on
		CLIENT NO-EVICT x
		CLIENT TRACKING MAYBE
		CLIENT TRACKING OFF
		CLIENT MAINT_NOTIFICATIONS ON`,
	"client list": `
		CLIENT LIST ID 999
		CLIENT LIST ID x
		CLIENT LIST TYPE master
		CLIENT LIST TYPE nobody
		CLIENT LIST WHAT
		CLIENT LIST ID`,
	"client kill": `
		CLIENT KILL 1.1.1.1:1
		CLIENT KILL ID 999
		CLIENT KILL ID 0
		CLIENT KILL ID x
		CLIENT KILL ID
		CLIENT KILL WHAT 1
		CLIENT KILL ID 999 ADDR
		CLIENT KILL ID 999 SKIPME maybe
		CLIENT KILL ID 999 SKIPME no
		CLIENT KILL TYPE nobody
		CLIENT KILL ADDR 1.1.1.1:1 LADDR 1.1.1.1:2
		CLIENT KILL USER default ID 999`,
	"client reply": `
		CLIENT REPLY MAYBE
		CLIENT REPLY SKIP
		PING
		PING
		CLIENT REPLY SKIP
		WHAT
		PING
		CLIENT REPLY OFF
		PING
		ECHO
		CLIENT REPLY SKIP
		PING
		SUBSCRIBE a
		UNSUBSCRIBE a
		CLIENT REPLY ON
		PING`,
	"transaction": `
		EXEC
		EXEC a
		DISCARD
		MULTI
		MULTI
		WATCH a
		PING
		ECHO a
		ECHO
		EXEC
		MULTI
		PING
		CLIENT GETNAME
		UNWATCH
		EXEC
		MULTI
		WHAT
		PING
		EXEC
		MULTI
		CLIENT WHAT
		EXEC
		MULTI a
		MULTI
		EXEC a
		EXEC
		MULTI
		DISCARD
		MULTI
		EXEC
		MULTI
		RESET
		EXEC
		WATCH a b
		WATCH
		UNWATCH
		MULTI
		HELLO 3
		SUBSCRIBE a
		EXEC
		MULTI
		PING`,
	"subscribe": `
		SUBSCRIBE
		SUBSCRIBE a b a
		PING
		PING hello
		WHAT
		ECHO
		UNSUBSCRIBE a
		UNSUBSCRIBE z
		UNSUBSCRIBE
		UNSUBSCRIBE
		PING
		SUBSCRIBE a
		RESET
		PING`,
	"subscribed": `
		SUBSCRIBE a
		ECHO a
		CLIENT SETNAME x
		MULTI
		QUIT`,
	"unknown": `
		WHAT
		what a b
		WHAT "a b" "c\r\nd" "\x00e" "f\x00g" "\xff\x01"
		"wh\x00at" a
		"" a
		WHAT a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z
		` + strings.Repeat("n", 200) + " " + strings.Repeat("a", 100) + " " + strings.Repeat("b", 100) + ` c
		WHAT ` + strings.Repeat("a", 125) + ` b c
		WHAT ` + strings.Repeat("a", 124) + ` b c
		CLIENT ` + strings.Repeat("n", 200) + `
		CLIENT "a\r\nb"`,
	"command": `
		COMMAND WHAT
		COMMAND INFO what
		COMMAND INFO ping echo hello auth select time role quit reset info
		COMMAND INFO multi exec discard watch unwatch subscribe unsubscribe
		COMMAND INFO client|id client|kill client|reply config|get command|count command|getkeys
		COMMAND DOCS what
		COMMAND LIST WHAT
		COMMAND LIST FILTERBY
		COMMAND LIST FILTERBY PATTERN
		COMMAND LIST FILTERBY MODULE x
		COMMAND LIST FILTERBY ACLCAT what
		COMMAND LIST FILTERBY PATTERN m?lti
		COMMAND LIST FILTERBY PATTERN client|setn*
		COMMAND GETKEYS
		COMMAND GETKEYS ping
		COMMAND GETKEYS what a
		COMMAND GETKEYS ping a
		COMMAND GETKEYS watch a b c
		COMMAND GETKEYS client getname
		COMMAND COUNT a`,
	"config": `
		CONFIG
		CONFIG WHAT
		CONFIG GET
		CONFIG GET save
		CONFIG GET SAVE
		CONFIG GET nothing
		CONFIG GET SaV[d-f]
		CONFIG GET s[a-b]ve
		CONFIG GET SAVE save
		CONFIG GET save SAVE
		CONFIG GET sav? SAVE
		CONFIG GET SAVE sav?
		CONFIG GET appendonl?`,
	"statistics": `
		COMMAND INFO slowlog|get slowlog|len slowlog|reset slowlog|help config|resetstat
		COMMAND INFO latency|help latency|histogram
		SLOWLOG
		SLOWLOG WHAT
		SLOWLOG RESET
		SLOWLOG GET x
		SLOWLOG GET -2
		SLOWLOG GET 1 2
		SLOWLOG LEN 1
		LATENCY
		LATENCY WHAT
		LATENCY HISTOGRAM what
		CONFIG RESETSTAT
		CONFIG RESETSTAT a`,
	"server": `
		CLUSTER
		CLUSTER SLOTS
		CLUSTER INFO
		INFO cluster
		INFO nothing
		TIME a
		ROLE a`,
}

func TestRepliesAreThoseOfRedis(t *testing.T) {
	server := redistest.Start(t)
	for name, text := range dialogues {
		for _, first := range []string{"PING", "HELLO 3"} {
			t.Run(name+"/"+first, func(t *testing.T) {
				compare(t, server.Addr, testConfig(newFakeEngine()), first+"\n"+text)
			})
		}
	}
}
