package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/stretchr/testify/require"
)

func TestTheLongestNetworkOfAnAddressWins(t *testing.T) {
	t.Parallel()
	p := parse(t, `
		policy api SLIDE 5 60
		policy-override api 10.* 1 60
		policy-override api 2001:* 1 60
		policy-override api 10.0.0.0/8 2 60
		policy-override api 10.1.0.0/16 3 60
		policy-override api 10.1.2.3 4 60
		policy-override api 10.1.2.4/32 5 60
		policy-override api 2001:db8::/32 6 60
		policy-override api 2001:db8:0:1::/64 7 60
		policy-override api 2001:db8::1 8 60
		policy-override api fe80::/10 9 60
		policy-override api ::/0 10 60
	`).Find([]byte("api"))
	for key, want := range map[string]string{
		"10.1.2.3":                "10.1.2.3",
		"10.1.2.4":                "10.1.2.4/32",
		"10.1.2.5":                "10.1.0.0/16",
		"10.2.0.0":                "10.0.0.0/8",
		"::ffff:10.1.2.5":         "10.1.0.0/16",
		"::FFFF:a01:205":          "10.1.0.0/16",
		"[::ffff:10.1.2.5]":       "10.1.0.0/16",
		"::ffff:10.1.2.3":         "10.1.0.0/16", // an exact key is compared as it is written
		"0:0:0:0:0:ffff:10.2.0.0": "10.0.0.0/8",
		"10.2.0.0:80":             "10.*", // a port is no part of an address
		"10.02.0.0":               "10.*",
		"10.2.0":                  "10.*",
		"10.2.0.0%eth0":           "10.*",
		"[10.2.0.0]":              "",
		"11.0.0.0":                "", // ::/0 has no addresses of IPv4
		"2001:db8::1":             "2001:db8::1",
		"2001:DB8::1":             "2001:db8::/32",
		"2001:0db8:0000:0001::5":  "2001:db8:0:1::/64",
		"2001:db8:0:1:0:0:0:5":    "2001:db8:0:1::/64",
		"[2001:db8:0:1::5]":       "2001:db8:0:1::/64",
		"[2001:db8::2]:443":       "",
		"2001:db9::":              "::/0",
		"fe80::1%eth0":            "fe80::/10",
		"[fe80::1%25eth0]":        "fe80::/10",
		"fe80::1%":                "",
		"::":                      "::/0",
		"1::2::3":                 "",
		"user:10.1.2.3":           "",
		"":                        "",
		"[":                       "",
		"[]":                      "",
	} {
		got := ""
		if o := p.Override([]byte(key)); o != nil {
			got = o.Pattern
		}
		require.Equal(t, want, got, key)
	}
}

// spelled returns one of the forms of an address.
func spelled(r *rand.Rand, a netip.Addr) string {
	text := a.String()
	switch r.IntN(5) {
	case 0:
		text = a.StringExpanded()
	case 1:
		if a.Is4() {
			text = "::ffff:" + text
		}
	case 2:
		text = netip.AddrFrom16(a.As16()).StringExpanded()
	}
	if strings.Contains(text, ":") && r.IntN(4) == 0 {
		text = strings.ToUpper(text)
	}
	if strings.Contains(text, ":") && r.IntN(4) == 0 {
		text += "%eth0"
	}
	if strings.Contains(text, ":") && r.IntN(4) == 0 {
		text = "[" + text + "]"
	}
	return text
}

// random returns an address of few bits that differ, so that networks nest.
func random(r *rand.Rand) netip.Addr {
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	for range r.IntN(4) {
		b[r.IntN(16)] ^= 1 << r.IntN(8)
	}
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

func TestTheNetworksFindWhatAScanFinds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(uint64(len(t.Name())), 3))
	found := 0
	for range 300 {
		all := map[netip.Prefix]bool{}
		for range r.IntN(60) {
			a := random(r)
			all[netip.PrefixFrom(a, r.IntN(a.BitLen()+1)).Masked()] = true
		}
		p := &Policy{Name: "api"}
		for prefix := range all {
			p.Overrides = append(p.Overrides, Override{Pattern: prefix.String(), Verdict: engine.Blocked})
		}
		p.seal()
		for range 100 {
			a := random(r)
			want := ""
			bits := -1
			for prefix := range all {
				if prefix.Contains(a) && prefix.Bits() > bits {
					want, bits = prefix.String(), prefix.Bits()
				}
			}
			got, key := "", spelled(r, a)
			if o := p.Override([]byte(key)); o != nil {
				got = o.Pattern
				found++
			}
			require.Equal(t, want, got, key)
		}
	}
	require.Greater(t, found, 5000)
}

func TestIPv6AddressesCountByTheirNetwork(t *testing.T) {
	t.Parallel()
	p := parse(t, `
		policy api SLIDE 5 60 IPV6 64
		policy-override api 2001:db8:0:1::/64 7 60
	`).Find([]byte("api"))
	for key, want := range map[string]string{
		"2001:db8:0:1::5":         "api:2001:db8:0:1::/64 7",
		"2001:DB8:0:1:ffff::9%en": "api:2001:db8:0:1::/64 7",
		"[2001:db8:0:2::]":        "api:2001:db8:0:2::/64 5",
		"::ffff:1.2.3.4":          "api:1.2.3.4 5",
		"1.2.3.4":                 "api:1.2.3.4 5",
		"user:7":                  "api:user:7 5",
		strings.Repeat("a", 100):  "api:" + strings.Repeat("a", 100) + " 5",
	} {
		var r engine.Request
		require.Empty(t, p.Fill(&r, new(engine.Pipeline), []byte(key)))
		require.Equal(t, want, fmt.Sprint(string(r.Key), " ", r.Windows[0].Limit), key)
	}
	require.Equal(t, "policy api SLIDE 5 1m\n", parse(t, "policy api SLIDE 5 60").Text())
	require.Equal(t, "policy api SLIDE 5 1m IPV6 56 ORDER 2,1\n", parse(t, "policy api SLIDE 5 60 ORDER 2,1 ipv6 56").Text())
	for line, want := range map[string]string{
		"IPV6 0":          "IPV6 must be an integer between 1 and 128; it was '0'",
		"IPV6 129":        "IPV6 must be an integer between 1 and 128; it was '129'",
		"IPV6 /64":        "IPV6 must be an integer between 1 and 128; it was '/64'",
		"IPV6":            "syntax error: option IPV6 has no value",
		"IPV6 64 IPV6 64": "syntax error: unknown option 'IPV6'; expected SHARDS, FAIL, SHADOW or another limit",
	} {
		_, err := Parse("policy api SLIDE 5 60 " + line)
		require.EqualError(t, err, "line 1: "+want)
	}
}

// tenThousand returns a policy with 10,000 networks, half of them of IPv6, and addresses in them.
func tenThousand() (p *Policy, keys [][]byte) {
	r := rand.New(rand.NewPCG(1, 4))
	all := map[string]bool{}
	for len(all) < 10_000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		a, least := netip.AddrFrom16(b), 24
		if len(all)%2 == 0 {
			a, least = netip.AddrFrom4([4]byte(b[:4])), 8
		}
		prefix := netip.PrefixFrom(a, least+r.IntN(a.BitLen()-least)).Masked()
		all[prefix.String()] = true
		keys = append(keys, []byte(a.String()))
	}
	p = &Policy{Name: "api"}
	for pattern := range all {
		p.Overrides = append(p.Overrides, Override{Pattern: pattern, Verdict: engine.Blocked})
	}
	p.seal()
	return p, keys
}

func TestNetworksAreFoundWithoutAllocation(t *testing.T) {
	p, keys := tenThousand()
	p.IPv6 = 64
	keys = append(keys, []byte("fe80::1%eth0"), []byte("[2001:DB8::7]"), []byte("user:7"))
	i := 0
	var pipe engine.Pipeline
	pipe.Room(64)
	require.Zero(t, testing.AllocsPerRun(2*len(keys), func() {
		var r engine.Request
		pipe.Reset()
		if p.Override(keys[i%len(keys)]) == nil && i%len(keys) < len(keys)-3 || p.Fill(&r, &pipe, keys[i%len(keys)]) != "" {
			panic("an address in a network has no override")
		}
		i++
	}))
}

func BenchmarkOverrideOf10000Networks(b *testing.B) {
	p, keys := tenThousand()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if p.Override(keys[i%len(keys)]) == nil {
			b.Fatal("an address in a network has no override")
		}
		i++
	}
}

func FuzzAddresses(f *testing.F) {
	for _, key := range []string{"10.0.0.1", "::ffff:10.0.0.1", "[2001:db8::1]", "fe80::1%eth0", "1:2:3:4:5:6:7:8", "::%", "[::1", "a:b"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		a, ok := address(key)
		inner := string(key)
		if strings.HasPrefix(inner, "[") && strings.HasSuffix(inner, "]") && len(inner) > 1 {
			inner = inner[1 : len(inner)-1]
		}
		want, err := netip.ParseAddr(inner)
		if ok {
			require.NoError(t, err, inner)
			require.Equal(t, want.WithZone("").Unmap(), a)
		} else if err == nil && len(key) <= 64 {
			require.True(t, want.Is4() && len(inner) < len(key), "an address was not found in %q", key)
		}
		x := newIndex([]Override{{Pattern: "::/0"}})
		require.Equal(t, ok && !a.Is4(), x.find(key) == 0)
		_, written, is := parseNetwork(key)
		if is {
			_, again, is := parseNetwork([]byte(written))
			require.True(t, is)
			require.Equal(t, written, again)
		}
	})
}

func BenchmarkAddress(b *testing.B) {
	_, keys := tenThousand()
	i := 0
	for b.Loop() {
		_, _ = address(keys[i%len(keys)])
		i++
	}
}
