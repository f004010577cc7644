package hotkeys

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// Bounds of a record. They are checked when a record is read, because others may write to the node.
const (
	maxKeys   = 100      // keys
	maxRecord = 16 << 10 // bytes
	maxCount  = 1 << 50  // of every number, so that no sum over all proxies overflows
)

// version is the version of the format of records. Records of other versions are ignored. A field appended to a key's
// array does not need a new version, as older proxies ignore it.
const version = 1

// record is what one proxy publishes on a node.
type record struct {
	Version int   `json:"v"`
	Seq     int64 `json:"seq"` // Number of the proxy's records so far. Of two records the higher one is the newer.
	Keys    []key `json:"keys"`
}

// key is a busy key in a record. Its JSON is an array of its fields, in their order.
type key observe.HotKey

// leastFields is the number of fields that proxies have published since the first version.
const leastFields = 9

func (k *key) fields() []any {
	return []any{&k.Key, &k.Rate, &k.DeniedRate, &k.Admitted, &k.Denied, &k.ByFail, &k.Limit, &k.Remaining,
		&k.Shards, &k.ShadowDenied, &k.Lapsed, &k.Overrun, &k.Drawn, &k.Refused, &k.Decisions}
}

// counts returns the numbers that maxCount bounds.
func (k *key) counts() []*int64 {
	return []*int64{&k.Decisions, &k.Admitted, &k.Denied, &k.ByFail, &k.ShadowDenied, &k.Lapsed, &k.Overrun, &k.Drawn,
		&k.Refused, &k.Limit}
}

// MarshalJSON implements json.Marshaler.
func (k key) MarshalJSON() ([]byte, error) {
	k.Rate, k.DeniedRate = math.Round(k.Rate*100)/100, math.Round(k.DeniedRate*100)/100
	for _, n := range k.counts() {
		*n = min(*n, maxCount)
	}
	return json.Marshal(k.fields())
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *key) UnmarshalJSON(b []byte) error {
	fields := k.fields()
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	if len(fields) < leastFields {
		return errors.New("a key has too few fields")
	}
	k.Decisions = cmp.Or(k.Decisions, k.Admitted+k.Denied+k.ByFail) // an older proxy does not publish it
	return nil
}

// valid reports whether a proxy can have published k.
func (k *key) valid() bool {
	count := func(n int64) bool { return 0 <= n && n <= maxCount }
	rate := func(r float64) bool { return 0 <= r && r <= maxCount }
	for _, n := range k.counts() {
		if !count(*n) {
			return false
		}
	}
	return 0 < len(k.Key) && len(k.Key) <= engine.MaxKey && rate(k.Rate) && rate(k.DeniedRate) &&
		count(k.Remaining+1) &&
		0 < k.Shards && k.Shards <= engine.MaxShards
}

// encode returns a record of those keys that are to be published, as many as it has room for.
func encode(keys []observe.HotKey, seq int64) []byte {
	r := record{Version: version, Seq: seq, Keys: []key{}}
	left := maxRecord - 64 // the rest of a record takes less
	for _, k := range pick(keys) {
		b, err := json.Marshal(key(k))
		if err != nil {
			panic("a busy key has no JSON: " + err.Error())
		}
		if len(b)+1 <= left {
			left -= len(b) + 1
			r.Keys = append(r.Keys, key(k))
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic("a record has no JSON: " + err.Error())
	}
	return b
}

// pick returns at most maxKeys of the keys, which are sorted by rate: half of them because they are the busiest, and
// the others because they are denied most often.
func pick(keys []observe.HotKey) []observe.HotKey {
	if len(keys) <= maxKeys {
		return keys
	}
	keys = slices.Clone(keys)
	observe.Sort(keys[maxKeys/2:], observe.ByDenied)
	return keys[:maxKeys]
}

// decode returns the record that b holds, without keys that no proxy can have published.
func decode(b []byte) (r record, err error) {
	if len(b) > maxRecord {
		return r, fmt.Errorf("it is longer than %d bytes", maxRecord)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	switch {
	case r.Version != version:
		return r, fmt.Errorf("it is of version %d, and this proxy knows version %d", r.Version, version)
	case len(r.Keys) > maxKeys:
		return r, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	r.Keys = slices.DeleteFunc(r.Keys, func(k key) bool { return !k.valid() })
	return r, nil
}
