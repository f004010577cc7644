package engine

import (
	"crypto/rand"
	"crypto/sha256"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Digest identifies the id that a client gives a request: the first 16 bytes of the id's SHA-256, with the top 4 bits
// cleared. Collisions are infeasible to find.
type Digest [16]byte

// keptBits are the bits of a digest's first byte that are not cleared: nodes keep ids in 4,096 buckets, which the first
// 2 bytes name.
const keptBits = 0xf

// DigestOf returns the digest of an id.
func DigestOf(id []byte) (d Digest) {
	sum := sha256.Sum256(id)
	copy(d[:], sum[:])
	d[0] &= keptBits
	return d
}

// RandomDigest returns a digest that no other request has.
func RandomDigest() (d Digest) {
	_, _ = rand.Read(d[:]) // it never fails
	d[0] &= keptBits
	return d
}

// Hold is the part of a request with an id that its Spec does not have. A key decides each id once:
// a retry gets the first answer again.
//
// An OpDecide with Once charges at once (ONCE). Without it, the request's cost is held and not yet
// charged (RL.RESERVE, RL.ACQUIRE, and multi-key requests about several nodes): OpSettle ends the
// hold, or else it lapses. A request with cost 0 only peeks, as usual, and holds nothing.
type Hold struct {
	ID   Digest
	Once bool

	// TTL is the ms after which a hold lapses unless it is settled or renewed. It is rounded up, see
	// hold.Deadline. With Once it is 0: the id is remembered for the longest window.
	TTL int64

	// Release reports whether a hold that lapses is forgotten. Otherwise it is charged at the ms at which it lapses.
	Release bool

	// MultiKey says that the hold is part of a multi-key request. FAIL LOCAL decides all keys of such a request
	// together, and none for its hold alone.
	MultiKey bool
}

// Settlement is the answer to OpSettle.
type Settlement struct {
	Settled  bool  // this request or an earlier equal one ended the hold
	Again    bool  // an earlier equal request ended it, and this one charged nothing
	Charged  int64 // units
	Returned int64 // units held that were not charged
	Overrun  int64 // units charged beyond those held; they may be above the limit
}

// Bounds of the ids of one key. A request that exceeds one gets an error, and charges and holds nothing.
const (
	MaxID        = 64    // bytes of a client's id
	MaxIDs       = 65536 // remembered ids of requests with ONCE, and of reservations
	MaxHolds     = 16384 // outstanding reservations in each of the key's windows
	MaxSlotHolds = 65536 // outstanding leases of RL.ACQUIRE
)

// MaxCount returns the most units that one window counts. Only settles above what was held can come near it.
func MaxCount(k limit.Kind) int64 {
	if k == limit.Counter {
		return 1<<40 - 1 // the largest value of a stored counter, of 5 bytes
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
