package wire

import (
	"reflect"
	"strings"
	"sync"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/tinylib/msgp/msgp"
)

// A rare message is a Go struct here and a map with names on the wire, in MessagePack. The tag of a field has its name,
// after which a ? says that a zero value is left out, and for integers their type, which bounds them. Fields are bool,
// string, integers, lease.State, messages, and slices of these. lua/messages.lua has the same names and types.

// bounds has the least and the most value of an integer by its type.
var bounds = map[string][2]int64{
	"count":  {0, 1<<32 - 1},
	"clock":  {0, maxClock},
	"kind":   {0, 255},
	"ms":     {0, maxDelay},
	"number": {0, 1 << 53},
	"shard":  {1, 999_999_999}, // in a cluster, more than the number of shards, because it is chosen for its slot
	"units":  {0, maxUnits},
}

// field is a field of a message.
type field struct {
	name     string
	optional bool     // a zero value is left out
	bounds   [2]int64 // of an integer, or of each in a slice
}

var fields sync.Map // the []field of a struct, by reflect.Type

// fieldsOf returns the fields of a message of type t, by the index of the field in the struct.
func fieldsOf(t reflect.Type) []field {
	if known, ok := fields.Load(t); ok {
		return known.([]field)
	}
	all := make([]field, t.NumField())
	for i := range all {
		name, of, _ := strings.Cut(t.Field(i).Tag.Get("msg"), ",")
		all[i].name, all[i].optional = strings.CutSuffix(name, "?")
		all[i].bounds = bounds[of]
	}
	fields.Store(t, all)
	return all
}

var stateType = reflect.TypeFor[lease.StateName]()

// Args returns the arguments of a function that takes a rare message, given by its pointer.
func Args(message any) [][]byte { return [][]byte{Pack(message)} }

// Pack packs a rare message, given by its pointer.
func Pack(message any) []byte { return appendValue(nil, reflect.ValueOf(message)) }

func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		return msgp.AppendBool(b, v.Bool())
	case reflect.String:
		return msgp.AppendString(b, v.String())
	case reflect.Int, reflect.Int64:
		return msgp.AppendInt64(b, v.Int())
	case reflect.Uint8:
		return msgp.AppendUint64(b, v.Uint())
	case reflect.Slice:
		b = msgp.AppendArrayHeader(b, uint32(v.Len())) // #nosec G115 -- nothing here has so many elements
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
		return b
	case reflect.Pointer:
		return appendValue(b, v.Elem())
	}
	if v.Type() == stateType {
		return msgp.AppendStringFromBytes(b, appendState(nil, v.Interface().(lease.StateName)))
	}
	all, sent := fieldsOf(v.Type()), uint32(0)
	for i, f := range all {
		if !f.optional || !v.Field(i).IsZero() {
			sent++
		}
	}
	b = msgp.AppendMapHeader(b, sent)
	for i, f := range all {
		if !f.optional || !v.Field(i).IsZero() {
			b = appendValue(msgp.AppendString(b, f.name), v.Field(i))
		}
	}
	return b
}

// Unpack unpacks a rare message into a zero struct, given by its pointer. It returns an error unless the text is
// exactly such a message: each field is there once, nothing else is, and all integers are within their bounds. What it
// allocates is bounded by a multiple of the text's length.
func Unpack(text string, message any) error {
	u := unpacker{rest: []byte(text)}
	u.value(reflect.ValueOf(message).Elem(), [2]int64{})
	if u.err == nil && len(u.rest) > 0 {
		u.err = errMalformed
	}
	return u.err
}

// unpacker takes values off the front of a text, until the first error.
type unpacker struct {
	rest []byte
	err  error
}

// took notes what a function of msgp returned beside a value.
func (u *unpacker) took(rest []byte, err error) bool {
	if u.rest = rest; err != nil {
		u.err = errMalformed
	}
	return u.err == nil
}

// value unpacks a value. Integers must be within bounds.
func (u *unpacker) value(v reflect.Value, bounds [2]int64) {
	if v.Type() == stateType {
		u.state(v)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		is, rest, err := msgp.ReadBoolBytes(u.rest)
		if u.took(rest, err) {
			v.SetBool(is)
		}
	case reflect.String:
		text, rest, err := msgp.ReadStringBytes(u.rest)
		if u.took(rest, err) {
			v.SetString(text)
		}
	case reflect.Slice:
		n, rest, err := msgp.ReadArrayHeaderBytes(u.rest)
		u.took(rest, err)
		for ; n > 0 && u.err == nil; n-- {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			u.value(v.Index(v.Len()-1), bounds)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		u.value(v.Elem(), bounds)
	case reflect.Struct:
		u.fields(v)
	default:
		u.integer(v, bounds)
	}
}

func (u *unpacker) integer(v reflect.Value, bounds [2]int64) {
	n, rest, err := msgp.ReadInt64Bytes(u.rest)
	if !u.took(rest, err) {
		return
	}
	switch {
	case n < bounds[0] || n > bounds[1]:
		u.err = errInconsistent
	case v.CanInt():
		v.SetInt(n)
	default:
		v.SetUint(uint64(n)) // #nosec G115 -- within bounds
	}
}

func (u *unpacker) state(v reflect.Value) {
	text, rest, err := msgp.ReadStringBytes(u.rest)
	if !u.took(rest, err) {
		return
	}
	r := reader{s: text}
	state := r.state()
	if u.err = r.end(); u.err == nil {
		v.Set(reflect.ValueOf(state))
	}
}

// fields unpacks the fields of a message.
func (u *unpacker) fields(v reflect.Value) {
	all := fieldsOf(v.Type())
	n, rest, err := msgp.ReadMapHeaderBytes(u.rest)
	u.took(rest, err)
	found := uint64(0) // a bit for each field
	for ; n > 0 && u.err == nil; n-- {
		name, rest, err := msgp.ReadMapKeyZC(u.rest)
		u.took(rest, err)
		at := 0
		for at < len(all) && all[at].name != string(name) {
			at++
		}
		if u.err != nil || at == len(all) || found&(1<<at) != 0 {
			u.err = errMalformed
			return
		}
		found |= 1 << at
		u.value(v.Field(at), all[at].bounds)
	}
	for i, f := range all {
		if u.err == nil && !f.optional && found&(1<<i) == 0 {
			u.err = errMalformed
		}
	}
}
