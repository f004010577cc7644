package backend

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The client notices that a node has closed an idle connection before it uses the connection,
// with TLS and without. So no request is lost on it.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	s, addr, files := startTLS(t)
	for _, url := range []string{s.URL(), "rediss://" + addr} {
		s.Do("FLUSHALL")
		f := openTest(t, Config{Backends: []string{url}, Timeout: 2 * time.Second, TLS: files})
		for i := range 20 {
			n, err := count(t, f)
			require.NoError(t, err)
			require.EqualValues(t, i+1, n, url)
			s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
}

// go-redis alone would stop dialing for up to a second after some failed dials.
func TestANodeThatIsBackIsReachedAtOnce(t *testing.T) {
	s := redistest.Start(t)
	f := openTest(t, Config{Backends: []string{s.URL()}, Timeout: 5 * time.Second})
	n := f.Topology().Nodes[0]
	s.Kill()
	for range 4 * poolSize {
		err := n.Client().Ping(t.Context()).Err()
		require.True(t, NeverConnected(err), "%v", err)
		require.False(t, MaybeApplied(err))
		require.Equal(t, "connection failed: connection refused", Reason(err))
	}
	s.Run()
	require.NoError(t, n.Client().Ping(t.Context()).Err())
}

// A node refuses a client with an error, and hangs up. The client has sent nothing but a greeting, with a
// password or without, so nothing may have been applied. The error says why the node refused it.
func TestANodeThatRefusesAClientHasAppliedNothing(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "proxy", "on", ">secret", "allkeys", "+@all")
	s.Do("CONFIG", "SET", "maxclients", "1")
	for _, url := range []string{s.URL(), "redis://proxy:secret@" + s.Addr} {
		for _, protocol := range []int{2, 3} {
			o := openTest(t, Config{Backends: []string{url}}).Topology().Nodes[0].Options(new(Connections))
			o.Protocol = protocol
			client := redis.NewClient(o)
			err := client.Ping(t.Context()).Err()
			require.Equal(t, "connection failed: ERR max number of clients reached", Reason(err))
			require.True(t, Failed(err))
			require.False(t, MaybeApplied(err))
			require.NoError(t, client.Close())
		}
	}
}

// A subscription waits for messages without a deadline. It can be closed even if the node hangs
// during the greeting, before its first reply or after it.
func TestASubscriptionCanBeClosedWhileTheNodeHangs(t *testing.T) {
	s := redistest.Start(t)
	f := openTest(t, Config{Backends: []string{s.URL()}, Timeout: 50 * time.Millisecond})
	s.Pause()
	client := f.Topology().Nodes[0].Subscriber()
	sub := client.Subscribe(t.Context(), "channel")
	_, err := sub.Receive(t.Context())
	require.True(t, TimedOut(err), "%v", err)
	s.Resume()
	require.Eventually(t, func() bool {
		_, err := sub.Receive(t.Context())
		return err == nil
	}, 10*time.Second, time.Millisecond)
	heard := make(chan any, 1)
	go func() { // until a message
		m, err := sub.Receive(t.Context())
		heard <- [2]any{m, err}
	}()
	require.Never(t, func() bool { return len(heard) > 0 }, 200*time.Millisecond, 10*time.Millisecond, "a silent subscription has not failed")
	s.Do("PUBLISH", "channel", "x")
	require.Nil(t, (<-heard).([2]any)[1])
	require.NoError(t, sub.Close())
	require.NoError(t, client.Close())

	half, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = half.Close() }) // it ends the goroutine
	go func() {
		for {
			conn, err := half.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("+OK\r\n")) // one reply, and then nothing; the test ends the connection
		}
	}()
	f = openTest(t, Config{Backends: []string{"redis://" + half.Addr().String()}, Timeout: 50 * time.Millisecond})
	client = f.Topology().Nodes[0].Subscriber()
	closed := make(chan error, 1)
	go func() { // until Close returns
		closed <- client.Subscribe(context.Background(), "channel").Close()
	}()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the subscription is not closed")
	}
	require.NoError(t, client.Close())
}

// A changed timeout applies to the next probe and the next dial.
func TestChangedTimeoutAppliesToTheNextProbe(t *testing.T) {
	s := redistest.Start(t)
	f := openTest(t, Config{Backends: []string{s.URL()}, Timeout: time.Hour})
	n := f.Topology().Nodes[0]
	require.NoError(t, n.probe(t.Context()))
	s.Pause()
	f.SetTimeout(100 * time.Millisecond)
	began := time.Now()
	require.True(t, TimedOut(n.probe(t.Context())))
	require.Less(t, time.Since(began), 10*time.Second)
	s.Resume()
	f.SetTimeout(time.Hour)
	require.NoError(t, n.probe(t.Context()))
}

// A node that does not permit CLIENT SETNAME is used all the same.
func TestConnectionsNeedNoName(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "default", "-client|setname")
	f := openTest(t, Config{Backends: []string{s.URL()}})
	require.NoError(t, f.Topology().Nodes[0].Client().Ping(t.Context()).Err())
}
