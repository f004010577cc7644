package memory

import (
	"strconv"

	"github.com/rlproxy/rlproxy/engine"
)

// Scan implements engine.KeyLister. A cursor is the number of the next stripe. The keys of a stripe are visited under
// its lock.
func (e *Engine) Scan(cursor string, visits int, found func(name []byte)) (next string, err error) {
	i, err := strconv.ParseUint(cursor, 10, 32)
	if err != nil || i >= Stripes {
		return "", engine.ErrCursor
	}
	clock := e.clock()
	for ; visits > 0 && i < Stripes; i++ {
		h := &e.stripes[i]
		h.mu.Lock()
		names := make([]string, 0, len(h.keys))
		for name, k := range h.keys {
			if visits--; h.end(k) >= clock {
				names = append(names, name)
			}
		}
		h.mu.Unlock()
		for _, name := range names {
			found([]byte(name))
		}
	}
	return strconv.FormatUint(i%Stripes, 10), nil
}
