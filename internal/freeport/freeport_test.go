package freeport

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingListensOnAPortThatWasTaken(t *testing.T) {
	t.Parallel()
	for range 100 {
		port, err := Take()
		require.NoError(t, err)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// Four processes take so many ports together that two would have one in common if each chose alone.
func TestProcessesTakeDifferentPorts(t *testing.T) {
	t.Parallel()
	const processes, ports = 4, 250
	if os.Getenv("TAKE_PORTS") != "" {
		for range ports {
			port, err := Take()
			require.NoError(t, err)
			_, _ = os.Stdout.WriteString("port " + strconv.Itoa(port) + "\n")
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other processes have taken theirs
		return
	}
	owners := map[string]int{}
	for p := range processes {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestProcessesTakeDifferentPorts$") // #nosec G204 -- this test
		cmd.Env = append(os.Environ(), "TAKE_PORTS=1")
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = stdin.Close()
			_ = cmd.Wait()
		})
		var text strings.Builder
		for buf := make([]byte, 4096); strings.Count(text.String(), "\n") < ports; {
			n, err := out.Read(buf)
			require.NoError(t, err)
			text.Write(buf[:n])
		}
		for line := range strings.Lines(text.String()) {
			owner, again := owners[line]
			require.False(t, again, "processes %d and %d have %s", owner, p, line)
			owners[line] = p
		}
	}
	require.Len(t, owners, processes*ports)
}
