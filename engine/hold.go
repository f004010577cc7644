package engine

import (
	"crypto/sha256"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Digest stands for the id that a client gives a request: the first 16 bytes of its SHA-256, less the first 4 bits. It has
// the same size for every id, and nobody finds two ids with one digest.
type Digest [16]byte

// DigestOf returns the digest of an id.
func DigestOf(id []byte) (d Digest) {
	sum := sha256.Sum256(id)
	copy(d[:], sum[:])
	d[0] &= 0xf // nodes keep ids in 4,096 buckets, which the first 2 bytes name
	return d
}

// Hold is what a request with an id of its own asks beside its Spec. The same id of the same key is
// asked about once: asked again, it answers as it did the first time.
//
// An OpDecide with Once charges at once (ONCE). Without it, the request's cost is held and not yet
// charged (RL.RESERVE, RL.ACQUIRE, and questions about keys of several nodes): OpSettle ends the
// hold, or else it lapses. A request without cost asks as ever, and holds nothing.
type Hold struct {
	ID   Digest
	Once bool

	// TTL is the ms after which a hold lapses that was not settled, or renewed, at the latest. It
	// is rounded up, see package hold. With Once it is 0: the id is remembered for the longest window.
	TTL int64

	// Release says that a hold that lapses is forgotten. Else it is charged at the ms at which it lapses.
	Release bool
}

// Settlement is the answer to OpSettle.
type Settlement struct {
	Settled  bool  // this request or an earlier equal one ended the hold
	Again    bool  // an earlier equal request ended it, and this one charged nothing
	Charged  int64 // units
	Returned int64 // units held that were not charged
	Overrun  int64 // units charged beyond those held; they may be above the limit
}

// Bounds of what is remembered of the ids of one key. A request past one charges and holds nothing.
const (
	MaxID        = 64    // bytes of a client's id
	MaxIDs       = 65536 // of requests with ONCE
	MaxHolds     = 16384 // reservations that are out, for each of the key's windows
	MaxSlotHolds = 65536 // leases that are out (RL.ACQUIRE)
)

// MaxCount returns the most units that one window counts. Only settles above what was held can come near it.
func MaxCount(k limit.Kind) int64 {
	if k == limit.Counter {
		return 1<<40 - 1 // what a stored counter can say
	}
	return 1 << 45
}

// The errors of requests past these bounds.
const (
	ErrIDs       = idError("ERR too many ids for this key")
	ErrHolds     = idError("ERR too many reservations for this key")
	ErrSlotHolds = idError("ERR too many leases for this key")
	ErrOverrun   = idError("ERR cost exceeds what this key can count") // of a settle: see MaxCount
)

// idError is an error whose text is the client's reply.
type idError string

func (e idError) Error() string { return string(e) }
