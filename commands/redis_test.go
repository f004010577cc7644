package commands

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
)

// dialogues are sent to a real redis-server, of the version RedisVersion begins
// with, and to a Handler, and must be answered with the same bytes. Each is one
// pipeline.
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
		SELECT 99
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
		CONFIG GET appendonl?`,
	"server": `
		CLUSTER
		CLUSTER SLOTS
		CLUSTER INFO
		INFO cluster
		INFO nothing
		TIME a
		ROLE a`,
}

func TestAnswersAreThoseOfRedis(t *testing.T) {
	server := redistest.Start(t)
	for name, text := range dialogues {
		for _, first := range []string{"PING", "HELLO 3"} {
			t.Run(name+"/"+first, func(t *testing.T) {
				compare(t, server.Addr, testConfig(newFakeEngine()), first+"\n"+text)
			})
		}
	}
}

func TestLoginIsThatOfRedis(t *testing.T) {
	server := redistest.Start(t)
	require.NoError(t, server.Client.ConfigSet(context.Background(), "requirepass", "secret").Err())
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("secret")
	for _, text := range []string{
		"PING\nECHO\nMULTI\nCLIENT ID\nCOMMAND\nHELLO\nHELLO 3\nHELLO 4\nRESET\nQUIT",
		"AUTH wrong\nAUTH default wrong\nAUTH nobody secret\nAUTH a b c\nPING",
		"HELLO 3 AUTH default wrong\nPING\nHELLO 3 AUTH default secret\nPING\nAUTH wrong\nPING\nRESET\nPING",
		"AUTH secret\nPING\nAUTH wrong\nPING\nHELLO 3\nHELLO 3 SETNAME a AUTH default wrong\nCLIENT GETNAME",
		"HELLO 3 SETNAME a\nAUTH secret\nCLIENT GETNAME\nHELLO 2 AUTH default secret SETNAME b\nCLIENT GETNAME",
	} {
		compare(t, server.Addr, cfg, text)
	}
}

// A line of CLIENT LIST has the fields that clients read, with Redis's values where
// a connection can know them.
func TestClientInfoIsThatOfRedis(t *testing.T) {
	server := redistest.Start(t)
	pipeline := dialogue(t, "HELLO 3\nCLIENT SETNAME me\nSUBSCRIBE a\nCLIENT TRACKING ON OPTIN\nCLIENT NO-EVICT ON\nCLIENT INFO")
	theirs := infoFields(strings.ReplaceAll(exchange(t, server.Addr, pipeline), "txt:", ""))
	h := New(testConfig(newFakeEngine()))
	ours := infoFields(strings.ReplaceAll(ask(h, open(h, 1), pipeline...), "txt:", ""))
	for name, value := range theirs { // redis-py 5 fails without a number for each of Redis's
		require.Contains(t, ours, name)
		if _, err := strconv.Atoi(value); err == nil {
			require.Regexp(t, `^-?\d+$`, ours[name], name)
		}
	}
	for _, name := range []string{"name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "redir", "resp"} {
		require.Equal(t, theirs[name], ours[name], name)
	}
}

func TestInfoIsThatOfRedis(t *testing.T) {
	server := redistest.Start(t)
	pipeline := dialogue(t, "INFO")
	theirs := infoFields(strings.ReplaceAll(exchange(t, server.Addr, pipeline), "txt:", ""))
	h := New(testConfig(newFakeEngine()))
	ours := infoFields(strings.ReplaceAll(ask(h, open(h, 1), pipeline...), "txt:", ""))
	for _, name := range []string{"redis_mode", "loading", "role", "connected_slaves", "cluster_enabled", "arch_bits"} {
		require.NotEmpty(t, ours[name], name)
		require.Equal(t, theirs[name], ours[name], name)
	}
	require.Len(t, ours["run_id"], len(theirs["run_id"]))
}

// infoFields finds the key=value and key:value pairs of a reply.
func infoFields(reply string) map[string]string {
	fields := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)(?:^|[ :])([a-z_-]+)(?:=|:)([^ \r\n]*)`).FindAllStringSubmatch(reply, -1) {
		fields[m[1]] = m[2]
	}
	return fields
}

// ids are the numbers of sessions in replies to HELLO, which differ.
var ids = regexp.MustCompile(`(\$2\r\nid\r\n:)\d+`)

// compare sends the same pipeline to both and compares all that comes back.
func compare(t *testing.T, addr string, cfg Config, text string) {
	t.Helper()
	pipeline := dialogue(t, text)
	theirs := exchange(t, addr, pipeline)
	h := New(cfg)
	ours := ask(h, open(h, 1), pipeline...)
	mask := func(s string) string {
		return strings.ReplaceAll(ids.ReplaceAllString(s, "${1}N"), "\r\n", "\n")
	}
	require.Equal(t, mask(theirs), mask(ours), text)
}

// dialogue reads one command a line.
func dialogue(t *testing.T, text string) (pipeline []resp.Command) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			pipeline = append(pipeline, split(t, line))
		}
	}
	return pipeline
}

// exchange sends a pipeline to a redis-server and returns what it answers until it
// closes the connection, which QUIT at the end makes it do.
func exchange(t *testing.T, addr string, pipeline []resp.Command) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	w := bufio.NewWriter(conn)
	var b []byte
	for _, args := range append(pipeline[:len(pipeline):len(pipeline)], words("QUIT")) {
		b = resp.AppendArray(b[:0], len(args))
		for _, a := range args {
			b = resp.AppendBulk(b, a)
		}
		_, err := w.Write(b)
		require.NoError(t, err)
	}
	require.NoError(t, w.Flush())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	text := string(answer)
	if string(pipeline[len(pipeline)-1][0]) != "QUIT" {
		text = strings.TrimSuffix(text, "+OK\r\n")
	}
	return text
}
