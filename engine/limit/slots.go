package limit

// The slots of RL.ACQUIRE: at most limit units are held at once. Nothing is ever charged, so there is no State.
// Package hold keeps the held units and knows how many there are, when there is room and when the last of them ends.

// Concurrency is the kind of the leases of RL.ACQUIRE.
const Concurrency Kind = 8

func init() {
	register(Concurrency, algorithm{name: "RL.ACQUIRE", peek: 1})
}
