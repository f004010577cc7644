package redis

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/shard"
)

// resetChannel is the channel on which the library publishes the stored key of each reset.
const resetChannel = "rl:reset"

// resetListener forgets remembered denials, and what FAIL LOCAL counted, when another
// proxy resets their key. Messages may be lost: a remembered denial expires within a
// second anyway, and FAIL LOCAL then denies more than it has to, never less.
type resetListener struct {
	client *redis.Client // of sub alone
	sub    *redis.PubSub
	stop   chan struct{}
	done   sync.WaitGroup
}

// resubscribe is the wait between attempts to listen to a node that cannot be reached.
const resubscribe = 200 * time.Millisecond

// open listens on the node until close.
func (l *resetListener) open(n *backend.Node, known *denials.Memory, local *reconciler, log *slog.Logger) {
	l.client = n.Subscriber()
	l.sub = l.client.Subscribe(context.Background()) // without a channel, it does not connect
	l.stop = make(chan struct{})
	l.done.Add(1)
	go l.run(n.Name(), known, local, log) // until close
}

func (l *resetListener) run(node string, known *denials.Memory, local *reconciler, log *slog.Logger) {
	defer l.done.Done()
	subscribed, refused := false, false
	for {
		var err error
		ok := backend.Guard(log, "listening for resets on "+node, func() {
			if !subscribed {
				_ = l.sub.Subscribe(context.Background(), resetChannel) // if it fails, receive tries again
				subscribed = true
			}
			err = l.receive(known, local)
		})
		if ok && err == nil {
			refused = false
			continue
		}
		if backend.IsReply(err) && !refused {
			refused = true
			log.Warn("node refused SUBSCRIBE: resets made through other proxies take up to 1 s to reach this one", "node", node, "why", err)
		}
		select {
		case <-l.stop:
			return
		case <-time.After(resubscribe):
		}
	}
}

// receive waits for a message and acts on it. go-redis connects again by itself.
func (l *resetListener) receive(known *denials.Memory, local *reconciler) error {
	message, err := l.next()
	switch m := message.(type) {
	case *redis.Message:
		if key, _, ok := shard.ParseStoredKey(nil, []byte(m.Payload)); ok {
			known.Forget(key)
			local.forget(key)
		}
	case *redis.Subscription:
		known.ForgetAll() // messages may have been lost
	}
	return err
}

// next waits for a message. go-redis panics at a push that is not of the form of one.
func (l *resetListener) next() (message any, err error) {
	defer func() {
		if recover() != nil {
			err = backend.ErrMalformed
		}
	}()
	return l.sub.Receive(context.Background())
}

func (l *resetListener) close() {
	close(l.stop)
	_ = l.sub.Close() // ends Receive
	_ = l.client.Close()
	l.done.Wait()
}
