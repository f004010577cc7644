package traffic

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Wait asks n times, as one client that waits for each answer before it asks again. Its socket
// blocks, so that no event loop of ours stands between an answer and the clock. It asks the first
// of the servers with the first of the commands.
func (p *Plan) Wait(ctx context.Context, n int) (f Figures, err error) {
	c, err := Dial(p.Servers[0])
	if err != nil {
		return f, err
	}
	defer func() { _ = c.Close() }() // all replies are read
	socket, err := c.Conn.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return f, err
	}
	defer func() { _ = socket.Close() }() // likewise
	socket.Fd()                           // makes it block
	commands := make([][]byte, 1024)
	for i := range commands {
		commands[i] = Encode(nil, p.Commands[0], i*p.Keys/len(commands))
	}
	took := make([]time.Duration, n)
	reply := make([]byte, 4096)
	began := time.Now()
	for i := range took {
		if i%1024 == 0 && ctx.Err() != nil {
			return f, ctx.Err()
		}
		asked := time.Now()
		if _, err := socket.Write(commands[i%len(commands)]); err != nil {
			return f, err
		}
		// Both servers write a reply of this size at once, so one read has it whole.
		got, err := socket.Read(reply)
		if err != nil {
			return f, err
		}
		if reply[0] == '-' || reply[got-1] != '\n' {
			return f, fmt.Errorf("not a decision: %q", reply[:got])
		}
		took[i] = time.Since(asked)
	}
	f.Rate = float64(n) / time.Since(began).Seconds()
	f.times(took)
	return f, nil
}
