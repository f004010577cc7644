package engine

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/shard"
)

// resetChannel is where the script that resets a key says so, with the stored key.
const resetChannel = "rl:reset"

// resetListener forgets remembered denials when another proxy resets their key. It
// is an improvement only: a denial that no message recalls ends within a second.
type resetListener struct {
	sub  *redis.PubSub
	stop chan struct{}
	done sync.WaitGroup
}

// open listens on the node until close.
func (l *resetListener) open(client redis.UniversalClient, d *denials) {
	l.sub = client.Subscribe(context.Background(), resetChannel)
	l.stop = make(chan struct{})
	l.done.Add(1)
	go l.run(d) // until close
}

func (l *resetListener) run(d *denials) {
	defer l.done.Done()
	for {
		message, err := l.sub.Receive(context.Background()) // connects again by itself
		switch m := message.(type) {
		case *redis.Message:
			if key, _, ok := shard.ParseStoredKey(nil, []byte(m.Payload)); ok {
				d.forget(key)
			}
		case *redis.Subscription:
			d.forgetAll() // what was said before is lost
		}
		if err == nil {
			continue
		}
		select {
		case <-l.stop:
			return
		case <-time.After(resubscribe):
		}
	}
}

// resubscribe is the wait between attempts to listen to a node that cannot be reached.
const resubscribe = 200 * time.Millisecond

func (l *resetListener) close() {
	close(l.stop)
	_ = l.sub.Close() // ends Receive
	l.done.Wait()
}
