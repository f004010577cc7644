// Package resets listens for resets that other proxies make, for recalls of advances, and for releases of leases that
// clients wait for: the library publishes the key of each on its node.
package resets

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/shard"
)

// Channel is the channel on which the library publishes the stored key of each reset, and Recalls that of each key
// whose advances a home recalls. A key of which a lease was released that others wait for is on Recalls, too, after the
// word freed, so that the user as whom rlproxy logs in to nodes needs no permission for another channel.
const (
	Channel = "rl:reset"
	Recalls = "rl:recall"
)

// Effects are what messages cause. The functions are set before the first Listener is opened.
type Effects struct {
	Forget    func(key []byte) // called for each reset
	ForgetAll func()           // called when messages may have been lost
	Recall    func(key []byte) // called for each recall of advances

	freed atomic.Pointer[func(key []byte)] // see engine.Freer; nil before OnFreed
}

// OnFreed implements engine.Freer.
func (e *Effects) OnFreed(freed func(key []byte)) { e.freed.Store(&freed) }

func (e *Effects) free(key []byte) {
	if freed := e.freed.Load(); freed != nil {
		(*freed)(key)
	}
}

// A Listener has a proxy forget remembered denials, and what FAIL LOCAL counted, when another
// proxy resets their key. Messages may be lost: a remembered denial expires within a
// second anyway, and FAIL LOCAL then denies more than it has to, never less.
type Listener struct {
	*Effects
	client  *redis.Client // of sub alone
	sub     *redis.PubSub
	refused *episodes.Episode // while the node refuses SUBSCRIBE
	stop    chan struct{}
	done    sync.WaitGroup
}

// resubscribe is the wait between attempts to listen to a node that cannot be reached.
const resubscribe = 200 * time.Millisecond

// Open listens on the node until Close.
func (l *Listener) Open(n *backend.Node, e *Effects, log *slog.Logger) {
	l.Effects = e
	l.client = n.Subscriber()
	l.sub = l.client.Subscribe(context.Background()) // without a channel, it does not connect
	l.refused = episodes.New(log, time.Now, refusesSubscribe, "node", n.Name())
	l.stop = make(chan struct{})
	l.done.Go(func() { l.run(n.Name(), log) }) // until Close
}

func (l *Listener) run(node string, log *slog.Logger) {
	subscribed := false
	for {
		var err error
		ok := backend.Guard(log, "listening for resets on "+node, func() {
			if !subscribed {
				_ = l.sub.Subscribe(context.Background(), Channel, Recalls) // if it fails, receive tries again
				subscribed = true
			}
			err = l.receive()
		})
		if ok && l.heard(err) {
			continue
		}
		select {
		case <-l.stop:
			return
		case <-time.After(resubscribe):
		}
	}
}

// heard notes what became of waiting for a message. It reports whether there was one.
func (l *Listener) heard(err error) bool {
	if err == nil {
		l.refused.End()
	} else if backend.IsReply(err) {
		l.refused.Note("times", 1, func() []any { return []any{"why", err} })
	}
	return err == nil
}

var refusesSubscribe = episodes.Trouble{
	Began: "node refused SUBSCRIBE: resets made through other proxies take up to 1 s to reach this one",
	Ended: "node accepts SUBSCRIBE again",
}

// receive waits for a message and acts on it. go-redis connects again by itself.
func (l *Listener) receive() error {
	message, err := l.next()
	switch m := message.(type) {
	case *redis.Message:
		name, freed := strings.CutPrefix(m.Payload, "freed ")
		key, _, ok := shard.ParseStoredKey(nil, []byte(name))
		switch {
		case !ok:
		case freed:
			l.free(key)
		case m.Channel == Recalls:
			l.Recall(key)
		default:
			l.Forget(key)
			l.free(key)
		}
	case *redis.Subscription:
		l.ForgetAll()
		l.free(nil)
	}
	return err
}

// next waits for a message. go-redis panics at a push that is not of the form of one.
func (l *Listener) next() (message any, err error) {
	defer func() {
		if recover() != nil {
			err = backend.ErrMalformed
		}
	}()
	return l.sub.Receive(context.Background())
}

// Close ends listening.
func (l *Listener) Close() {
	close(l.stop)
	_ = l.sub.Close() // ends Receive
	_ = l.client.Close()
	l.done.Wait()
}
