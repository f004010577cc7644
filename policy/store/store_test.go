package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/policy"
)

// proxy is the store of a proxy that syncs when the test calls sync.
type proxy struct {
	*Store
	log proxytest.LockedBuffer
}

// start returns a proxy with these backends. It has not looked at the record yet.
func start(t testing.TB, urls ...string) *proxy {
	t.Helper()
	p := new(proxy)
	fleet := openFleet(t, urls...)
	p.Store = newStore(fleet, "", new(policy.Catalog), slog.New(slog.NewTextHandler(&p.log, nil)))
	p.await(homeOf(fleet.Topology()), "")
	return p
}

func (p *proxy) sync() { p.round(context.Background()) }

// set sets a policy by the words of RL.POLICY SET, and returns the error reply.
func (p *proxy) set(words string) string {
	_, msg := p.Change(func(s *policy.Set) (*policy.Set, string) { return s.WithPolicy(fields(words)) })
	return msg
}

func fields(line string) (words [][]byte) {
	for _, w := range strings.Fields(line) {
		words = append(words, []byte(w))
	}
	return words
}

// inEffect returns the version and the lines of the policies in effect.
func (p *proxy) inEffect() string {
	_, version := p.book.Stored()
	return fmt.Sprint(version, " ", strings.ReplaceAll(p.book.InEffect().Text(), "\n", ";"))
}

// store stores a record on a node.
func store(s *redistest.Server, version int64, text string) {
	_, whole := record{version, text}.encode()
	s.Do("SET", storedKey, whole)
}

// stored returns the version and the lines that are stored on a node.
func stored(t testing.TB, s *redistest.Server) string {
	t.Helper()
	b := s.Do("GET", storedKey)
	if b == "" {
		return ""
	}
	r, _, err := decode([]byte(b))
	require.NoError(t, err)
	return fmt.Sprint(r.version, " ", strings.ReplaceAll(r.text, "\n", ";"))
}

const (
	apiLine   = "policy api SLIDE 100 1m\n"
	loginLine = "policy login FIXED 5 1m\n"
)

func TestChangeIsInEffectAfterTheNextLookOfOthers(t *testing.T) {
	s := redistest.Start(t)
	a, b := start(t, s.URL()), start(t, s.URL())
	require.NotNil(t, a.book.WhyUnknown())
	a.sync()
	b.sync()
	require.Nil(t, a.book.WhyUnknown())
	require.Equal(t, "0 ", a.inEffect())
	require.Zero(t, s.Do("DBSIZE")[0]-'0', "looking for a record stores nothing")

	require.Empty(t, a.set("api SLIDE 100 1m"))
	require.Equal(t, "1 policy api SLIDE 100 1m;", a.inEffect())
	require.Equal(t, a.inEffect(), stored(t, s))
	require.Equal(t, "0 ", b.inEffect())
	b.sync()
	require.Equal(t, a.inEffect(), b.inEffect())
	require.Contains(t, b.log.String(), "loaded the stored policies")

	require.Empty(t, b.set("login FIXED 5 1m"))
	require.Empty(t, a.set("api SLIDE 200 1m"), "a change begins with a sync")
	require.Equal(t, "3 policy api SLIDE 200 1m;policy login FIXED 5 1m;", a.inEffect())
	require.Equal(t, a.inEffect(), stored(t, s))
}

// The rounds of a proxy renew the time to live of the record, once an hour.
func TestRoundsRenewTheRecordOnceAnHour(t *testing.T) {
	s := redistest.Start(t)
	p, now := start(t, s.URL()), time.Now()
	p.now = func() time.Time { return now }
	require.Empty(t, p.set("api SLIDE 100 1m"))
	for _, c := range []struct {
		after   time.Duration
		renewed bool
	}{{0, true}, {renewEvery - 1, false}, {1, true}, {renewEvery - 1, false}} {
		now = now.Add(c.after)
		s.Do("PEXPIRE", storedKey, time.Hour.Milliseconds())
		p.sync()
		require.Equal(t, c.renewed, s.Client.PTTL(t.Context(), storedKey).Val() > time.Hour)
	}
}

// A change that is refused, or that changes nothing, is not stored.
func TestWhatChangesNothingIsNotStored(t *testing.T) {
	s := redistest.Start(t)
	p := start(t, s.URL())
	require.Empty(t, p.set("api SLIDE 100 1m"))
	for _, refusal := range []string{"", "ERR no"} {
		version, msg := p.Change(func(set *policy.Set) (*policy.Set, string) {
			if refusal == "" {
				return set, ""
			}
			return new(policy.Set), refusal
		})
		require.EqualValues(t, 1, version)
		require.Equal(t, refusal, msg)
		require.Equal(t, "1 policy api SLIDE 100 1m;", stored(t, s))
		require.Equal(t, stored(t, s), p.inEffect())
	}
}

func TestLookReadsTheTextOnlyWhenItHasChanged(t *testing.T) {
	s := redistest.Start(t)
	p := start(t, s.URL())
	store(s, 5, apiLine)
	p.sync()
	require.Equal(t, "5 policy api SLIDE 100 1m;", p.inEffect())
	reads := func() (n int) {
		for line := range strings.Lines(s.Do("INFO", "commandstats")) {
			_, _ = fmt.Sscanf(line, "cmdstat_getrange:calls=%d", &n)
		}
		return n
	}
	before, current := reads(), p.book.InEffect()
	for range 10 {
		p.sync()
	}
	require.Equal(t, before+10, reads())
	require.Same(t, current, p.book.InEffect())
}

func TestNodeThatLostThePoliciesGetsThemBack(t *testing.T) {
	s := redistest.Start(t)
	a, b := start(t, s.URL()), start(t, s.URL())
	a.sync()
	for _, words := range []string{"api SLIDE 100 1m", "api SLIDE 90 1m", "api SLIDE 80 1m"} {
		require.Empty(t, a.set(words))
	}
	b.sync()
	want := a.inEffect()
	for what, lose := range map[string]func(){
		"a node that lost everything":  func() { s.Do("FLUSHALL") },
		"a node with an older version": func() { store(s, 2, loginLine) },
		"a node that restarted empty": func() {
			s.Kill()
			s.Run()
		},
	} {
		lose()
		proxytest.Eventually(t, what, func() bool { // a connection may be lost at first
			b.sync()
			return stored(t, s) == want
		})
		a.sync()
		require.Equal(t, want, a.inEffect(), what)
		require.Equal(t, want, b.inEffect(), what)
	}
	require.Equal(t, 1, strings.Count(b.log.String(), "stored the ones in effect again"), "once a minute, since a node may evict them again and again")

	s.Do("FLUSHALL")
	require.Empty(t, a.set("login FIXED 5 1m"), "a change after the record was lost")
	require.Equal(t, "4 policy api SLIDE 80 1m;policy login FIXED 5 1m;", stored(t, s))
}

func TestStoredPoliciesOfTheSameVersionWin(t *testing.T) {
	s := redistest.Start(t)
	a := start(t, s.URL())
	a.sync()
	require.Empty(t, a.set("api SLIDE 100 1m"))
	store(s, 1, loginLine)
	a.sync()
	require.Equal(t, "1 policy login FIXED 5 1m;", a.inEffect())
	require.Equal(t, a.inEffect(), stored(t, s))
}

func TestMalformedRecordChangesNothing(t *testing.T) {
	s := redistest.Start(t)
	a, fresh := start(t, s.URL()), start(t, s.URL())
	a.sync()
	require.Empty(t, a.set("api SLIDE 100 1m"))
	want := a.inEffect()
	_, bad := record{9, apiLine + "policy login FIXED 5\n"}.encode()
	_, whole := record{9, loginLine}.encode()
	for damaged, why := range map[string]string{
		"hello": "it begins with 'hello' instead of the first line of stored policies",
		strings.Replace(string(whole), "policies 1", "policies 2", 1): "it has format 2, but this version of rlproxy knows only format 1",
		string(whole[:len(whole)-3]):                                  "its text does not match the checksum in its first line",
		string(bad):                                                   "after its first line, line 2: ",
	} {
		s.Do("SET", storedKey, damaged)
		for _, p := range []*proxy{a, fresh} {
			p.sync()
			require.Contains(t, p.log.String(), "cannot use the stored policies; keeping the ones in effect")
			msg := p.set("api SLIDE 1 1m")
			require.Contains(t, msg, "ERR the stored policies cannot be used: rl:{%policies} on "+s.Addr+": "+why)
			require.Contains(t, msg, "nothing was changed")
			require.NotContains(t, msg, "\n")
			require.NotNil(t, p.report.damaged.Load())
		}
		require.Equal(t, want, a.inEffect())
		require.Equal(t, damaged, s.Do("GET", storedKey), "it is not overwritten")
		require.Contains(t, fresh.book.WhyUnknown().Error(), "UNAVAILABLE "+s.Addr+": policies have not been read yet: "+why)
		require.NotEmpty(t, fresh.Waiting())
	}
	s.Do("DEL", storedKey)
	a.sync()
	require.Equal(t, want, stored(t, s))
	fresh.sync()
	require.Equal(t, want, fresh.inEffect())
	require.Empty(t, fresh.Waiting())
	for _, p := range []*proxy{a, fresh} {
		require.Contains(t, p.log.String(), "the stored policies can be read again")
		require.Nil(t, p.report.damaged.Load())
	}
}

// Each time that the record becomes malformed is logged, however soon after the last time.
func TestEveryDamageIsLogged(t *testing.T) {
	s := redistest.Start(t)
	p := start(t, s.URL())
	for n := 1; n <= 2; n++ {
		s.Do("SET", storedKey, "junk")
		p.sync()
		p.sync()
		require.Equal(t, n, strings.Count(p.log.String(), unusable.Began))
		s.Do("DEL", storedKey)
		p.sync()
		require.Equal(t, n, strings.Count(p.log.String(), "can be read again"))
	}
}

// homeAndOther returns which of two nodes is the record's place, and the other one.
func homeAndOther(t testing.TB, a, b *redistest.Server) (home, other *redistest.Server) {
	t.Helper()
	if homeOf(openFleet(t, a.URL(), b.URL()).Topology()).name() == a.Addr {
		return a, b
	}
	return b, a
}

func TestPoliciesMoveWhenTheListOfNodesHasChanged(t *testing.T) {
	home, other := homeAndOther(t, redistest.Start(t), redistest.Start(t))
	old := start(t, other.URL())
	old.sync()
	require.Empty(t, old.set("api SLIDE 100 1m"))
	require.Empty(t, old.set("api SLIDE 90 1m"))

	store(home, 1, loginLine) // stored with an even older list
	p := start(t, home.URL(), other.URL())
	p.sync()
	require.Equal(t, "2 policy api SLIDE 90 1m;", p.inEffect())
	require.Equal(t, p.inEffect(), stored(t, home))

	require.Empty(t, old.set("api SLIDE 80 1m"), "a change by a proxy that still has the old list")
	for range elsewhereEvery {
		p.sync()
	}
	require.Equal(t, "3 policy api SLIDE 80 1m;", p.inEffect())
	require.Equal(t, p.inEffect(), stored(t, home))

	other.Do("SET", storedKey, "what is this")
	require.Empty(t, p.set("api SLIDE 70 1m"))
	for range elsewhereEvery {
		p.sync()
	}
	require.Equal(t, "4 policy api SLIDE 70 1m;", stored(t, home))
	require.Contains(t, p.log.String(), "ignoring an invalid policy record on another node")
	require.Empty(t, p.Waiting())
}

// The policies are on a node to which they no longer belong, and which does not answer.
func TestFirstPolicyWaitsForNodesThatMayHaveSome(t *testing.T) {
	home, other := homeAndOther(t, redistest.Start(t), redistest.Start(t))
	store(other, 7, apiLine)
	other.Pause()
	p := start(t, home.URL(), other.URL())
	p.sync()
	require.Nil(t, p.book.WhyUnknown(), "the node to which they belong has none")
	require.Equal(t, "UNAVAILABLE "+other.Addr+": the node may have stored policies, but has not answered yet", p.set("login FIXED 5 1m"))
	other.Resume()
	proxytest.Eventually(t, "the node to answer", func() bool {
		p.sync()
		return p.inEffect() == "7 policy api SLIDE 100 1m;"
	})
	require.Empty(t, p.set("login FIXED 5 1m"))
	require.Equal(t, "8 policy api SLIDE 100 1m;policy login FIXED 5 1m;", stored(t, home))
}

// Two proxies change the policies as fast as they can. Each change adds a policy, so that a lost change would be
// noticed.
func TestOneOfTwoConcurrentChangesFails(t *testing.T) {
	const changes = 300
	s := redistest.Start(t)
	var mu sync.Mutex
	versions, lost := make(map[int64]string), 0
	var all sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		p := start(t, s.URL())
		p.sync()
		all.Go(func() {
			for i := range changes {
				words := fmt.Sprintf("%s%d SLIDE 100 1m", name, i)
				version, msg := p.Change(func(s *policy.Set) (*policy.Set, string) { return s.WithPolicy(fields(words)) })
				mu.Lock()
				if msg == "" {
					versions[version] += words
				} else {
					lost++
					if msg != errRaced {
						t.Errorf("%s", msg)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Len(t, versions, 2*changes-lost)
	require.Positive(t, lost, "some changes were concurrent")
	t.Logf("%d changes, %d lost the race and got an error", len(versions), lost)
	p := start(t, s.URL())
	p.sync()
	for v := range int64(len(versions)) {
		name, _, _ := strings.Cut(versions[v+1], " ")
		require.NotNil(t, p.book.Find([]byte(name)), "version %d: %s", v+1, versions[v+1])
	}
	require.Len(t, p.book.InEffect().All(), len(versions))
	_, version := p.book.Stored()
	require.Equal(t, int64(len(versions)), version)
}

func TestChangeWithoutAnAnswerMayHaveBeenStored(t *testing.T) {
	s := redistest.Start(t)
	p := start(t, s.URL())
	p.sync()
	require.Empty(t, p.set("api SLIDE 100 1m"))
	_, msg := p.Change(func(set *policy.Set) (*policy.Set, string) {
		s.Pause() // between the sync and the change
		return set.WithPolicy(fields("api SLIDE 50 1m"))
	})
	require.Equal(t, "UNAVAILABLE "+s.Addr+": no answer in time; the change may have been stored", msg)
	require.Equal(t, "1 policy api SLIDE 100 1m;", p.inEffect())
	require.Regexp(t, "^UNAVAILABLE "+s.Addr+": .*; nothing was changed$", p.set("api SLIDE 20 1m"))
	require.Equal(t, "1 policy api SLIDE 100 1m;", p.inEffect(), "while the node is away, the policies seen last stay in effect")
	s.Resume()
	proxytest.Eventually(t, "the change to be known", func() bool {
		p.sync()
		return p.inEffect() == "2 policy api SLIDE 50 1m;"
	})
}

func TestNodeThatIsNotAskedIsNoFailedSync(t *testing.T) {
	s := redistest.Start(t)
	p := start(t, s.URL())
	s.Kill()
	p.sync()
	require.EqualValues(t, 1, p.report.failed.Load())
	p.fleet.Check()
	proxytest.Eventually(t, "the node to be down", func() bool { return homeOf(p.fleet.Topology()).Node.Down() })
	p.sync()
	require.EqualValues(t, 1, p.report.failed.Load())
	require.Contains(t, p.book.WhyUnknown().Why, "policies have not been read yet: ")
}

func TestPoliciesOfAClusterAreWhereTheirSlotIs(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	a, b := start(t, c.URL()), start(t, c.URL())
	proxytest.Eventually(t, "the cluster to be known", func() bool {
		a.sync()
		b.sync()
		return a.book.WhyUnknown() == nil && b.book.WhyUnknown() == nil
	})
	require.Empty(t, a.set("api SLIDE 100 1m"))
	slot := 0
	_, err := fmt.Sscan(c.Nodes[0].Do("CLUSTER", "KEYSLOT", storedKey), &slot)
	require.NoError(t, err)
	from := c.Master(slot)
	c.Move(slot, from, (from+1)%3, func() {
		a.sync() // the slot is moving
		b.sync()
	})
	proxytest.Eventually(t, "a change after the move", func() bool { return a.set("api SLIDE 90 1m") == "" })
	proxytest.Eventually(t, "the change to be known to the other proxy", func() bool { // the first sync may still ask the former node
		b.sync()
		return b.inEffect() == a.inEffect()
	})
	require.Equal(t, "2 policy api SLIDE 90 1m;", a.inEffect())
	require.NotContains(t, a.log.String()+b.log.String(), "stored the ones in effect again")
}

func TestPoliciesOfThisProcessAreInItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies")
	open := func() (*proxy, error) {
		p := new(proxy)
		s, err := Open(nil, path, new(policy.Catalog), slog.New(slog.NewTextHandler(&p.log, nil)))
		p.Store = s
		return p, err
	}
	p, err := open()
	require.NoError(t, err)
	require.Nil(t, p.book.WhyUnknown())
	require.Empty(t, p.set("api SLIDE 100 1m"))
	require.Empty(t, p.set("login FIXED 5 1m"))
	p.Close()
	p, err = open()
	require.NoError(t, err)
	want := "2 policy api SLIDE 100 1m;policy login FIXED 5 1m;"
	require.Equal(t, want, p.inEffect())

	require.NoError(t, os.Remove(path))
	require.Empty(t, p.set("api SLIDE 90 1m"), "a missing file is written again")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	r, _, err := decode(b)
	require.NoError(t, err)
	require.Equal(t, record{3, "policy api SLIDE 90 1m\n" + loginLine}, r)

	require.NoError(t, os.WriteFile(path, []byte("junk"), 0o600))
	require.Equal(t, "ERR the stored policies cannot be used: "+path+": it begins with 'junk' instead of the first line of stored policies; nothing was changed", p.set("api SLIDE 80 1m"))
	require.Equal(t, "3 policy api SLIDE 90 1m;policy login FIXED 5 1m;", p.inEffect())
	_, err = open()
	require.EqualError(t, err, "policy-file "+path+": it begins with 'junk' instead of the first line of stored policies")
	_, bad := record{4, apiLine + apiLine}.encode()
	require.NoError(t, os.WriteFile(path, bad, 0o600))
	_, err = open()
	require.ErrorContains(t, err, "policy-file "+path+": after its first line, line 2: ")
}

func TestPoliciesWithoutAFileAreKeptInMemory(t *testing.T) {
	p := new(proxy)
	s, err := Open(nil, "", new(policy.Catalog), slog.New(slog.NewTextHandler(&p.log, nil)))
	require.NoError(t, err)
	p.Store = s
	require.Empty(t, p.set("api SLIDE 100 1m"))
	require.Contains(t, p.log.String(), "no policy-file is configured")
	require.Empty(t, p.set("login FIXED 5 1m"))
	require.Equal(t, "2 policy api SLIDE 100 1m;policy login FIXED 5 1m;", p.inEffect())
	p.Close()
}

func TestAThousandPoliciesWithTenThousandOverridesAreKept(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "policy p%04d SLIDE 100 1m\n", i)
		for j := range 10 {
			fmt.Fprintf(&text, "policy-override p%04d tenant:%d 1000 60\n", i, j)
		}
	}
	s := redistest.Start(t)
	store(s, 1, text.String())
	a, b := start(t, s.URL()), start(t, s.URL())
	began := time.Now()
	a.sync()
	took := time.Since(began)
	require.Equal(t, 10_000, a.book.InEffect().Overrides())
	began = time.Now()
	require.Empty(t, a.set("p0500 SLIDE 50 1m"))
	t.Logf("%d bytes: read in %v, changed in %v", text.Len(), took, time.Since(began))
	b.sync()
	require.Equal(t, a.book.InEffect().Text(), b.book.InEffect().Text())
	require.Equal(t, int64(50), b.book.Find([]byte("p0500")).Limits[0].Limit)
	require.Equal(t, 10_000, b.book.InEffect().Overrides())
}
