package tests

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// documentedUsers returns the rules of all users that a document describes: for each, the
// rest of a line that begins with user, after blanks or # signs.
func documentedUsers(t *testing.T, path string) (users []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^[# ]+user ([a-z]+ (?:on|off)\b.*)$`).FindAllStringSubmatch(string(b), -1) {
		users = append(users, m[1])
	}
	return users
}

// backendKind is one kind of backend, running.
type backendKind struct {
	nodes     []*redistest.Server // masters and replicas
	sentinels []*redistest.Server
	urls      []string
}

// backendKinds starts backends of each kind.
var backendKinds = map[string]func(t *testing.T) backendKind{
	"single": func(t *testing.T) backendKind {
		n := redistest.Start(t)
		return backendKind{nodes: []*redistest.Server{n}, urls: []string{n.URL()}}
	},
	"list": func(t *testing.T) (k backendKind) {
		for range 3 {
			n := redistest.Start(t)
			k.nodes, k.urls = append(k.nodes, n), append(k.urls, n.URL())
		}
		return k
	},
	"cluster": func(t *testing.T) backendKind {
		c := redistest.StartCluster(t, 3, nil)
		return backendKind{nodes: c.Nodes, urls: []string{c.URL()}}
	},
	"sentinel": func(t *testing.T) backendKind {
		g := redistest.StartGuarded(t)
		return backendKind{nodes: []*redistest.Server{g.Master, g.Replica}, sentinels: g.Sentinels, urls: []string{g.URL()}}
	},
}

// eachBackend runs a test with each kind of backend.
func eachBackend(t *testing.T, test func(t *testing.T, k backendKind)) {
	for kind, start := range backendKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// ready waits until the proxy knows its nodes, and returns a connection to it.
func (p *proxy) ready(t *testing.T) *conn {
	t.Helper()
	c := dial(t, p.addr)
	c.settle(t, "first")
	return c
}

// settle waits until a request about a key is decided.
func (c *conn) settle(t *testing.T, key string) {
	t.Helper()
	eventually(t, "the nodes", func() bool {
		_, err := toDecision(c.do(t, "RL.SLIDE", key, 10, 60, "COST", 0))
		return err == nil
	})
}

// as creates or changes a user on all nodes, clears their logs of refusals, and returns
// the arguments with which a proxy connects as that user.
func (k *backendKind) as(t *testing.T, rules string) (args []string) {
	t.Helper()
	name, _, _ := strings.Cut(rules, " ")
	for _, n := range k.nodes {
		n.Do(append([]any{"ACL", "SETUSER", name, "reset"}, words(rules)[1:]...)...)
		n.Do("ACL", "LOG", "RESET")
	}
	args = []string{"--backend-timeout", "10000", "--passthrough-timeout", "10000", "--fail-policy", "error"}
	for _, url := range k.urls {
		args = append(args, "--backend", strings.Replace(url, "://", "://"+name+":password@", 1))
	}
	return args
}

// refused returns the commands, keys and channels that a server has refused to users since
// as was called.
func (k *backendKind) refused(t *testing.T, server *redistest.Server) (words []string) {
	t.Helper()
	log, err := server.Client.ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	for _, entry := range log {
		words = append(words, entry.Object)
	}
	return words
}

// doOnMasters sends a command to each master.
func (k *backendKind) doOnMasters(command ...any) {
	for _, n := range k.nodes {
		if strings.Contains(n.Do("INFO", "replication"), "role:master") {
			n.Do(command...)
		}
	}
}

// useAll does everything that needs rights on the nodes: each command, ids and holds, a split
// key, a reset that another proxy is told about, the same again after the nodes have lost the
// library, and a policy that another proxy gets.
func (k *backendKind) useAll(t *testing.T, c, other *conn, flush ...any) {
	t.Helper()
	for round := range 2 {
		for i := range 5 {
			key := fmt.Sprint("k", i)
			for _, command := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED"} {
				require.EqualValues(t, 9, c.decide(t, command+" "+key+" 10 60").remaining)
			}
			require.Len(t, c.do(t, "RL.INSPECT", key), 3)
			require.Equal(t, int64(1), c.do(t, "RL.RESET", key))
		}
		require.Equal(t, int64(0), c.do(t, words("CL.THROTTLE t 10 1 60")...).([]any)[0])
		c.useIDs(t)
		for i := range 20 {
			require.Equal(t, i < 10, c.decide(t, "RL.SLIDE split 10 60 SHARDS 3").allowed == 1, "request %d", i)
		}
		require.Equal(t, int64(0), other.decide(t, "RL.SLIDE split 10 60").allowed)
		require.Equal(t, int64(2), c.do(t, "RL.RESET", "split", "t"))
		eventually(t, "the other proxy to hear of the reset", func() bool {
			return other.decide(t, "RL.SLIDE split 10 60 COST 0").allowed == 1
		})
		if round == 0 {
			k.doOnMasters(flush...)
		}
	}
	c.setPolicy(t, "api SLIDE 10 60")
	other.awaitLimit(t, "api", 10)
	eventually(t, "the proxies to see each other's keys", func() bool {
		_, proxies := c.fleetKeys(t)
		return proxies == 2
	})
}

// useIDs does everything that stores ids and holds: in new records, in records that have some,
// for one key, for several, and for a split one.
func (c *conn) useIDs(t *testing.T) {
	t.Helper()
	keys := []string{"h0", "h1", "h2", "h3", "split"}
	for _, key := range keys {
		shards := map[string]string{"split": " SHARDS 3"}[key]
		for range 2 {
			require.EqualValues(t, 9, c.decide(t, "RL.SLIDE "+key+" 10 60"+shards+" ONCE id").remaining)
			require.EqualValues(t, 6, c.decide(t, "RL.RESERVE "+key+" 10 60 COST 3 ID id").remaining)
		}
		require.Equal(t, []any{int64(1), int64(1), int64(2)}, c.do(t, "RL.SETTLE", key, "id", 1))
		require.EqualValues(t, 1, c.decide(t, "RL.ACQUIRE "+key+" 2 ID id").remaining)
		require.EqualValues(t, 0, c.decide(t, "RL.ACQUIRE "+key+" 2 ID another").remaining)
		require.Equal(t, int64(1), c.do(t, "RL.RENEW", key, "id"))
		require.Equal(t, int64(1), c.do(t, "RL.RELEASE", key, "another"))
	}
	for _, remaining := range []int64{7, 6} {
		for _, reply := range c.do(t, words("RL.SLIDE h0 10 60 AND h1 10 60 AND h2 10 60 AND h3 10 60")...).([]any) {
			require.Equal(t, remaining, reply.([]any)[2])
		}
	}
	require.Equal(t, int64(len(keys)), c.do(t, "RL.RESET", keys[0], keys[1], keys[2], keys[3], keys[4]))
}

// TestDocumentedNodeUsersSuffice gives proxies each user that redis.conf describes, on each
// kind of backend. The nodes refuse nothing.
func TestDocumentedNodeUsersSuffice(t *testing.T) {
	t.Parallel()
	users := documentedUsers(t, "../redis.conf")
	require.Len(t, users, 2)
	decisions, everything := users[0], users[1]
	scripts := strings.NewReplacer("+fcall", "+evalsha", "+function|load", "+script|load").Replace(decisions)
	eachBackend(t, func(t *testing.T, k backendKind) {
		for rules, flush := range map[string]string{decisions: "FUNCTION FLUSH", everything: "FUNCTION FLUSH", scripts: "SCRIPT FLUSH"} {
			args := k.as(t, rules)
			p, other := startProxy(t, args...), startProxy(t, args...)
			c, d := p.ready(t), other.ready(t)
			k.useAll(t, c, d, words(flush)...)
			if rules == everything {
				require.Equal(t, status("OK"), c.do(t, "SET", "app:1", "x"))
				require.Equal(t, "x", c.do(t, "GET", "app:1"))
				require.Equal(t, []any{}, c.do(t, "SORT", "app:list"))
			}
			for _, n := range k.nodes {
				for _, word := range k.refused(t, n) {
					require.Equal(t, scripts, rules, "a node refused %s to %s", word, rules)
					require.Contains(t, []string{"fcall", "function|load"}, word)
				}
			}
			require.NotContains(t, fmt.Sprint(c.do(t, "RL.SCAN", 0)), "UNAVAILABLE")
			require.NotContains(t, p.Output.String(), "NOPERM")
			for _, command := range []string{"'FLUSHALL'", "'SWAPDB',0,1"} {
				require.Regexp(t, "can't run this command|no permissions", c.do(t, "EVAL", "return redis.call("+command+")", 1, "app:1"), command)
			}
			require.Contains(t, c.do(t, "GET", "other:1"), "NOPERM")
			p.stop(t)
			require.Equal(t, rules != everything, strings.Contains(p.Output.String(),
				`msg="cannot forward commands yet: no node answers COMMAND" error="UNAVAILABLE `), p.Output)
			other.stop(t)
		}
	})
}

// TestMissingRightsAreLogged removes, from the user that redis.conf describes, the rights
// without which a proxy works less well, or not at all, and from the user of sentinels its
// only right.
func TestMissingRightsAreLogged(t *testing.T) {
	t.Parallel()
	user := documentedUsers(t, "../redis.conf")[0]
	for right, want := range map[string]string{
		"+cluster|slots": `msg="topology unknown" why="no sentinel or cluster node answered as it should; one said: NOPERM .* has no permissions to run the 'cluster\|slots' command"`,
		"+subscribe":     `node refused SUBSCRIBE: [^"]*" node=\S+ why="NOPERM .* has no permissions to run the 'subscribe' command"`,
		"&rl:reset":      `node refused SUBSCRIBE: [^"]*" node=\S+ why="NOPERM .*to access (one of the channels|a channel)`,
		"&rl:recall":     `node refused SUBSCRIBE: [^"]*" node=\S+ why="NOPERM .*to access (one of the channels|a channel)`,
		"+time":          `msg="FAIL policies are answering in place of the node" node=\S+ why="ERR (The user executing the script can't run this command|ACL failure in script: User rlproxy has no permissions to run)`,
		"+fcall":         `msg="FAIL policies are answering in place of the node" node=\S+ why="the node cannot run rlproxy's library, .*NOPERM .* has no permissions to run the 'evalsha' command`,
		"+set":           `msg="FAIL policies are answering in place of the node" node=\S+ why="ERR (The user executing the script can't run this command|ACL failure in script: User rlproxy has no permissions to run)`,
	} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			kind := "single"
			if right == "+cluster|slots" {
				kind = "cluster"
			}
			k := backendKinds[kind](t)
			rules := strings.Replace(user, " "+right+" ", " ", 1)
			require.NotEqual(t, user, rules)
			p := startProxy(t, k.as(t, rules)...)
			c := dial(t, p.addr)
			said := regexp.MustCompile(want)
			eventually(t, want, func() bool {
				c.do(t, words("RL.SLIDE k 10 60")...)
				return said.MatchString(p.Output.String())
			})
			p.stop(t)
		})
	}
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		k := backendKinds["sentinel"](t)
		for _, s := range k.sentinels {
			s.Do(words("ACL SETUSER watcher on >password -@all +client|setname")...)
		}
		p := startProxy(t, "--backend", k.urls[0]+"?sentinel_username=watcher&sentinel_password=password")
		eventually(t, "the log", func() bool {
			return regexp.MustCompile(`one said: NOPERM .* has no permissions to run the 'sentinel\|get-master-addr-by-name' command`).MatchString(p.Output.String())
		})
		p.stop(t)
		p = startProxy(t, "--backend", strings.Replace(k.urls[0], redistest.SentinelName, "limit", 1))
		eventually(t, "the log", func() bool {
			return strings.Contains(p.Output.String(), "one said: there is no master named limit")
		})
		p.stop(t)
	})
}

// TestDocumentedSentinelUserSuffices logs in to sentinels as the user that
// docs/operations.md describes.
func TestDocumentedSentinelUserSuffices(t *testing.T) {
	t.Parallel()
	k := backendKinds["sentinel"](t)
	users := documentedUsers(t, "../docs/operations.md")
	i := slices.IndexFunc(users, func(u string) bool { return strings.Contains(u, "+sentinel|") })
	require.GreaterOrEqual(t, i, 0)
	name, _, _ := strings.Cut(users[i], " ")
	for _, s := range k.sentinels {
		s.Do(words("ACL SETUSER " + users[i])...)
	}
	p := startProxy(t, "--backend-timeout", "10000", "--fail-policy", "error", "--backend", k.urls[0]+"?sentinel_username="+name+"&sentinel_password=password")
	require.EqualValues(t, 9, p.ready(t).decide(t, "RL.SLIDE k 10 60").remaining)
	for _, s := range k.sentinels {
		require.Empty(t, k.refused(t, s))
	}
	p.stop(t)
}

// TestDocumentedUsersOfTheProxy sets up the users that each document describes for clients
// of the proxy, in front of each kind of backend. Each user can do what the document says.
func TestDocumentedUsersOfTheProxy(t *testing.T) {
	t.Parallel()
	documents := map[string][]string{}
	paths, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	for _, path := range slices.Concat(paths, more, []string{"../rlproxy.conf"}) {
		users := slices.DeleteFunc(documentedUsers(t, path), func(u string) bool { return strings.HasPrefix(u, "rlproxy ") })
		if len(users) > 0 {
			documents[path] = users
		}
	}
	require.Contains(t, documents, "../rlproxy.conf")
	require.Contains(t, documents, "../docs/operations.md")
	require.Contains(t, documents, "../docs/policies.md")
	hash := sha256.Sum256([]byte("another"))
	eachBackend(t, func(t *testing.T, k backendKind) {
		for path, users := range documents {
			conf := strings.ReplaceAll("user "+strings.Join(users, "\nuser ")+"\n", "<sha256 of another>", hex.EncodeToString(hash[:]))
			args := append(k.as(t, "rlproxy on >password ~* &* +@all"), "--include", write(t, "rlproxy.conf", conf))
			p := startProxy(t, args...)
			require.Equal(t, errAuth, dial(t, p.addr).do(t, "PING"), "%s: the default user is off", path)
			for _, rules := range users {
				name, rest, _ := strings.Cut(rules, " ")
				c := dial(t, p.addr)
				switch name {
				case "default":
					require.Equal(t, "off", rest)
				case "shop":
					password := regexp.MustCompile(`>(\S+)`).FindStringSubmatch(rest)[1]
					require.Equal(t, status("OK"), c.do(t, "AUTH", name, password))
					c.settle(t, "shop:first")
					require.EqualValues(t, 4, c.decide(t, "RL.SLIDE shop:1 5 60").remaining)
					require.Equal(t, errNoKey, c.do(t, "RL.SLIDE", "mail:1", 5, 60))
					require.Equal(t, errNoRun("rl.reset"), c.do(t, "RL.RESET", "shop:1"))
					require.Equal(t, errNoRun("get"), c.do(t, "GET", "shop:1"))
					require.Equal(t, status("PONG"), c.do(t, "PING"))
				case "boss":
					require.Equal(t, status("OK"), c.do(t, "AUTH", name, "another"))
					require.Equal(t, int64(1), c.do(t, "RL.RESET", "shop:1"))
					require.Nil(t, c.do(t, "GET", "shop:1"))
				case "probe": // for /readyz, which every user gets
					require.Equal(t, status("OK"), c.do(t, "AUTH", name, "password"))
					require.Equal(t, errNoRun("ping"), c.do(t, "PING"))
				case "operator":
					require.Equal(t, status("OK"), c.do(t, "AUTH", name, "another-secret"))
					eventually(t, "policies", func() bool {
						_, failed := c.do(t, "RL.POLICY", "SET", "api", "SLIDE", 5, 60).(errReply)
						return !failed
					})
					require.Equal(t, []any{}, c.do(t, "RL.INSPECT", "api:tenant:42"))
					require.Len(t, c.do(t, "RL.POLICY", "LIST"), 1)
					require.Empty(t, c.do(t, "RL.HOTKEYS", "BY", "DENIED"))
					require.Equal(t, errNoRun("rl.check"), c.do(t, "RL.CHECK", "api", "tenant:42"))
				case "gateway":
					require.Equal(t, status("OK"), c.do(t, "AUTH", name, "secret"))
					require.NotContains(t, c.do(t, "RL.CHECK", "login", "10.0.0.1"), "NOPERM")
					require.Equal(t, errNoKey, c.do(t, "RL.CHECK", "other", "10.0.0.1"))
					require.Equal(t, errNoRun("rl.reset"), c.do(t, "RL.RESET", "login:10.0.0.1"))
				case "tenant": // after the operator
					require.Equal(t, status("OK"), c.do(t, "AUTH", name, "secret"))
					require.EqualValues(t, 4, c.decide(t, "RL.CHECK api tenant:42").remaining)
					require.Equal(t, errNoKey, c.do(t, "RL.CHECK", "api", "tenant:43"))
					require.Equal(t, errNoRun("rl.slide"), c.do(t, "RL.SLIDE", "api:tenant:42", 500, 60))
					require.Equal(t, errNoRun("rl.policy|list"), c.do(t, "RL.POLICY", "LIST"))
					require.Equal(t, errNoRun("rl.policy|set"), c.do(t, "RL.POLICY", "SET", "api", "SLIDE", 500, 60))
					require.Equal(t, status("PONG"), c.do(t, "PING"))
				default:
					require.Fail(t, "a user without a test", "%s: %s", path, rules)
				}
			}
			k.doOnMasters("FLUSHALL")
			p.stop(t)
		}
	})
}
