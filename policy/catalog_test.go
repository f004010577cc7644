package policy

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
)

func TestPoliciesOfTheConfigurationTakePrecedenceOverStoredOnes(t *testing.T) {
	b := new(Catalog)
	require.Nil(t, b.Find([]byte("api")))
	require.Empty(t, b.InEffect().All())
	stored, version := b.Stored()
	require.Equal(t, []any{0, int64(0)}, []any{len(stored.All()), version})
	b.Store(parse(t, "policy api SLIDE 1 60\npolicy-override api k BLOCKED\npolicy web SLIDE 2 60"), 7)
	b.Configure(parse(t, "policy api FIXED 3 60\npolicy mail SLIDE 4 60"))
	say := func() (all []string) {
		for _, p := range b.InEffect().All() {
			all = append(all, fmt.Sprint(p.Name, p.Limits[0].Limit, len(p.Overrides), p.Configured, p.Version))
		}
		return all
	}
	require.Equal(t, []string{"api3 0 true 0", "mail4 0 true 0", "web2 0 false 7"}, say())
	require.NotNil(t, b.Configured([]byte("api")))
	require.Nil(t, b.Configured([]byte("web")))
	require.Nil(t, b.Configured([]byte("none")))
	stored, version = b.Stored()
	require.Equal(t, []any{2, int64(7)}, []any{len(stored.All()), version}, "a policy without effect stays stored")

	b.Configure(parse(t, "policy mail SLIDE 4 60"))
	require.Equal(t, []string{"api1 1 false 7", "mail4 0 true 0", "web2 0 false 7"}, say())
	b.Store(parse(t, "policy web SLIDE 5 60"), 8)
	require.Equal(t, []string{"mail4 0 true 0", "web5 0 false 8"}, say())
}

func TestStoredPoliciesAreUnknownUntilTheyAreStored(t *testing.T) {
	b := new(Catalog)
	require.Nil(t, b.WhyUnknown())
	b.SetUnknown(&engine.Unavailable{Node: "h:1"})
	b.Configure(parse(t, "policy api SLIDE 1 60"))
	require.Equal(t, "h:1", b.WhyUnknown().Node)
	b.Store(new(Set), 0)
	require.Nil(t, b.WhyUnknown())
}

// The overrides of other sets with the same patterns go on with the counts of those in effect, wherever they come from.
func TestCountsStayWhenPoliciesAreReplaced(t *testing.T) {
	b := new(Catalog)
	const text = "policy api SLIDE 1 60\npolicy-override api k* 11 60\npolicy-override api %s BLOCKED\npolicy web SLIDE 2 60\npolicy-override web k* 3 60"
	count := func(name, key string) int64 {
		var pipe engine.Pipeline
		r := pipe.Add()
		require.Empty(t, b.Find([]byte(name)).Fill(r, &pipe, []byte(key)))
		return r.Override.Decisions.Add(1)
	}
	b.Store(parse(t, fmt.Sprintf(text, "x")), 1)
	require.Equal(t, []int64{1, 2, 1, 1}, []int64{count("api", "k1"), count("api", "k2"), count("api", "x"), count("web", "k1")})
	b.Store(parse(t, fmt.Sprintf(text, "y")), 2)
	require.Equal(t, []int64{3, 1}, []int64{count("api", "k"), count("api", "y")})
	b.Configure(parse(t, fmt.Sprintf(text, "x")))
	require.Equal(t, []int64{4, 1}, []int64{count("api", "k"), count("api", "x")}, "x was not in effect before")
	b.Configure(new(Set))
	require.EqualValues(t, 5, count("api", "k"))
	stored, _ := b.Stored()
	next, msg := stored.WithOverride([][]byte{[]byte("api"), []byte("k*"), []byte("UNLIMITED")})
	require.Empty(t, msg)
	b.Store(next, 3)
	require.EqualValues(t, 6, count("api", "k"))
	require.EqualValues(t, 2, count("web", "k"))
}

// While policies change, each request has the limits of either the old or the new ones.
func TestPoliciesChangeWhileTheyAreUsed(t *testing.T) {
	b := new(Catalog)
	one, two := parse(t, "policy api SLIDE 1 60 1 1h\npolicy-override api k* 11 60 11 1h"), parse(t, "policy api SLIDE 2 60 2 1h\npolicy-override api k* 22 60 22 1h")
	b.Configure(one)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			var pipe engine.Pipeline
			for {
				select {
				case <-done:
					return
				default:
				}
				pipe.Reset()
				for _, key := range []string{"k1", "x"} {
					r := pipe.Add()
					if msg := b.Find([]byte("api")).Fill(r, &pipe, []byte(key)); msg != "" || r.Windows[0].Limit != r.Windows[1].Limit || (key == "k1") != (r.Windows[0].Limit > 10) {
						panic(fmt.Sprint(msg, r.Limits()))
					}
				}
			}
		})
	}
	for range 2000 {
		b.Configure(two)
		b.Configure(one)
	}
	close(done)
	readers.Wait()
}
