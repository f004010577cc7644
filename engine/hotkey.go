package engine

// HotKey is what RL.HOTKEYS tells of one key.
type HotKey struct {
	Key      []byte
	Rate     int64 // decisions per second, admitted and denied
	Admitted int64 // decisions since the key was last among the busiest
	Denied   int64
	Parts    int // sub-shards; 1: not split
}
