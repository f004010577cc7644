package traffic

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys are filled again if a node did not answer some of the requests, by a FAIL policy or by an error.
func TestFillWaitsForANodeThatIsBack(t *testing.T) {
	for _, away := range []string{"*5\r\n:0\r\n:9\r\n:-1\r\n:7\r\n:7\r\n", "-UNAVAILABLE 127.0.0.1:7: no answer in time\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		var asked atomic.Int64
		go func() { // until the listener is closed
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { // until Fill closes the connection
					defer func() { _ = c.Close() }()
					for r := bufio.NewReader(c); ; {
						if _, err := readReply(r); err != nil { // commands have the form of replies
							return
						}
						reply := ":1\r\n"
						if asked.Add(1) <= 3 {
							reply = away
						}
						_, _ = c.Write([]byte(reply))
					}
				}()
			}
		}()
		p := &Plan{Servers: []string{l.Addr().String()}, Commands: [][]string{{"INCR", "k:" + Variable}}, Keys: 100}
		require.NoError(t, p.Fill(context.Background()))
		require.EqualValues(t, 200, asked.Load(), "%q", away)
	}
}
