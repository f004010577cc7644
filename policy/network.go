package policy

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"unsafe"
)

// Overrides for networks, and keys that are addresses. An address is one however it is written: IPv6 compressed or not,
// in any case, in brackets, with a zone, which does not matter; or IPv4 in IPv6 form, as ::ffff:10.0.0.1. A port is
// not part of an address.

// network is a pattern that is a network, or an address.
type network struct {
	high, low uint64 // the address; that of IPv4 in IPv6 form
	bits      int    // of the prefix; those of IPv4 count from mapped on
}

// mapped is the number of bits before an IPv4 address in IPv6 form.
const mapped = 96

// networkOf returns a network.
func networkOf(p netip.Prefix) network {
	b := p.Addr().As16()
	n := network{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), p.Bits()}
	if p.Addr().Is4() {
		n.bits += mapped
	}
	return n
}

func (n network) compare(o network) int {
	return cmp.Or(cmp.Compare(n.high, o.high), cmp.Compare(n.low, o.low), n.bits-o.bits)
}

func (n network) length() int { return n.bits }

func (n network) common(o network) int {
	if n.high != o.high {
		return bits.LeadingZeros64(n.high ^ o.high)
	}
	return 64 + bits.LeadingZeros64(n.low^o.low)
}

// findNetwork returns the override of the longest network that a network or an address is in, or -1.
func (x *index) findNetwork(of netip.Prefix) int32 {
	i := x.networks.find(networkOf(of))
	if i < 0 || of.Addr().Is4() && x.networks[i].pattern.bits < mapped { // a network of IPv6 has no addresses of IPv4
		return -1
	}
	return x.networks[i].override
}

// address returns the address that a key is, without a zone; one of IPv4 in IPv6 form as IPv4.
func address(key []byte) (a netip.Addr, ok bool) {
	const longest = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]") + 1 + 64 // with a zone
	if len(key) > 1 && len(key) <= longest && key[0] == '[' && key[len(key)-1] == ']' {
		key = key[1 : len(key)-1]
		ok = true // it must be IPv6
	}
	digits := 0
	for digits < len(key) && isAddress[key[digits]] {
		digits++
	}
	if digits < 2 || digits > len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") ||
		digits < len(key) && (key[digits] != '%' || digits+1 == len(key) || len(key) > longest) {
		return a, false
	}
	// The string is valid while key is, and nothing keeps it: it has no zone.
	a, err := netip.ParseAddr(unsafe.String(&key[0], digits)) // #nosec G103 -- so that no lookup allocates
	if err != nil || a.Is4() && (ok || digits < len(key)) {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// isAddress has the bytes of addresses.
var isAddress = func() (is [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF:.") {
		is[c] = true
	}
	return is
}()

// parseNetwork returns the network that a pattern is, and how it is to be written.
func parseNetwork(pattern []byte) (p netip.Prefix, written string, ok bool) {
	p, err := netip.ParsePrefix(string(pattern))
	if err != nil {
		return p, "", false
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-mapped)
	}
	p = p.Masked()
	return p, p.String(), true
}

// IsNetwork reports whether a pattern is a network.
func IsNetwork(pattern []byte) bool {
	_, _, is := parseNetwork(pattern)
	return is
}

// counted returns the key that counts for another one if IPv6 addresses count by networks of so many bits: for such an
// address its network, for one of IPv4 that as it is usually written, and otherwise the key itself. It may append to
// dst.
func counted(dst, key []byte, ipv6 int) []byte {
	switch a, ok := address(key); {
	case !ok:
		return key
	case a.Is4():
		return a.AppendTo(dst)
	default:
		return netip.PrefixFrom(a, ipv6).Masked().AppendTo(dst)
	}
}
