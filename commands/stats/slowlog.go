package stats

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what an entry of the slow log repeats of a command, as in Redis.
const (
	maxArgs = 32  // words
	maxWord = 128 // bytes of a word
)

// SlowLog keeps the newest commands that took long. The zero value keeps none.
type SlowLog struct {
	slower atomic.Int64 // the least time that is logged, in ns; negative: nothing is logged
	most   atomic.Int64 // entries that are kept

	mu  sync.Mutex
	all []SlowCommand // the newest last; guarded by mu
	id  int64         // of the next entry; guarded by mu
}

// SlowCommand is one entry of the slow log.
type SlowCommand struct {
	ID   int64 // from 0; never reused
	At   time.Time
	Took time.Duration
	Args []string // as Words returns them
	Addr string   // the client's address
	Name string   // the client's name; may be empty
}

// Configure sets the least time that is logged, nothing if it is negative, and the number of
// entries that are kept. It drops the oldest entries if there are more.
func (l *SlowLog) Configure(slower time.Duration, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slower.Store(int64(slower))
	l.most.Store(int64(most))
	l.drop()
}

// drop drops the oldest entries if there are too many. The caller holds mu.
func (l *SlowLog) drop() { l.all = l.all[max(len(l.all)-int(l.most.Load()), 0):] }

// Slow reports whether a command that took that long is to be logged.
func (l *SlowLog) Slow(took time.Duration) bool {
	slower := l.slower.Load()
	return int64(took) >= slower && slower >= 0 && l.most.Load() > 0
}

// Add adds an entry. It sets the entry's ID.
func (l *SlowLog) Add(e SlowCommand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.id
	l.id++
	l.all = append(l.all, e)
	l.drop()
}

// Newest returns the n newest entries, the newest first; all if n is negative.
func (l *SlowLog) Newest(n int64) []SlowCommand {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := int64(len(l.all)); n < 0 || n > all {
		n = all
	}
	newest := slices.Clone(l.all[len(l.all)-int(n):])
	slices.Reverse(newest)
	return newest
}

// Len returns the number of entries.
func (l *SlowLog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// Reset drops all entries.
func (l *SlowLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

// secrets says from which word on the slow log hides the words of a command, since they may
// be passwords. HELLO and AUTH are not logged at all.
var secrets = map[string]int{"acl|setuser": 2, "config|set": 3, "migrate": 6}

// Words returns a command as the slow log shows it: without passwords, cut to 32 words of 128
// bytes, and followed by the number of the other commands in its pipeline, if there are any.
func Words(name string, args [][]byte, others int) []string {
	hidden, ok := secrets[name]
	if !ok {
		hidden = len(args)
	}
	var words []string
	for i, a := range args {
		if i == maxArgs-1 && len(args) > maxArgs {
			words = append(words, fmt.Sprintf("... (%d more arguments)", len(args)-i))
			break
		}
		switch {
		case i >= hidden:
			words = append(words, "(redacted)")
		case len(a) > maxWord:
			words = append(words, fmt.Sprintf("%s... (%d more bytes)", a[:maxWord], len(a)-maxWord))
		default:
			words = append(words, string(a))
		}
	}
	if others > 0 {
		words = append(words, fmt.Sprintf("... (%d more commands in the pipeline)", others))
	}
	return words
}
