package proc

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A child's time counts while it runs, which its parent's own does not show.
func TestCPUCountsChildrenThatRun(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sh -c 'while :; do :; done' & wait")
	cmd.WaitDelay = time.Second
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		used, err := CPU(cmd.Process.Pid)
		return err == nil && used >= 50*time.Millisecond
	}, 20*time.Second, 10*time.Millisecond)
	children, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
	require.NoError(t, err)
	require.NoError(t, exec.Command("kill", "-9", string(children[:len(children)-1])).Run())
	require.NoError(t, cmd.Wait())
	_, err = CPU(cmd.Process.Pid)
	require.Error(t, err, "it has ended")
}
