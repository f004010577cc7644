package engine

// waiter is replaced when the Redis engine is written.
type waiter struct{}
